/*
 * config_impl.h - the table of options, and a configuration that is being put together.
 */
#ifndef TRAIN_CONFIG_IMPL_H
#define TRAIN_CONFIG_IMPL_H

#include <stddef.h>

#include "base/buf.h"
#include "train/config.h"

#define CONFIG_MAX_OPTIONS 80

/* Who gave an option. A later one wins over an earlier one. */
enum {
	CONFIG_FROM_DEFAULT = 0,
	CONFIG_FROM_FILES = 1, /* the first, the next is one more */
	CONFIG_FROM_FLAGS = INT32_MAX,
};

struct config_from {
	int rank;
	int line;	  /* of a file, from 1 */
	const char *file; /* its name; the caller's */
};

/* Layers as systems of students have them. */
struct config_neurons {
	uint32_t input, output, nhidden, hidden[NET_MAX_SIZES]; /* 0: not given */
};

struct config_draft {
	struct train_config c;
	struct config_from from[CONFIG_MAX_OPTIONS]; /* by row of the table */
	struct config_neurons neurons;
	bool needs_momentum; /* the optimizer's name says so */
	struct buf unknown;  /* sentences of names in files that are no options, one a line */
};

/* A word and the value it stands for; the first of those of a value is its name. */
struct config_word {
	const char *word;
	int value;
};

/* A row of the table. */
struct config_option {
	const char *name;
	const char
	    *arg; /* what its value is called in -h; NULL: none, and true or false in files */
	const char *const *also; /* other names in files; NULL ends them, or there are none */
	const char *help;	 /* NULL: for files alone */
	/* NULL: for flags alone */
	enum rc (*parse)(const struct config_option *o, const char *text, struct config_draft *d,
			 struct err *err);
	/* Append its value, or nothing if there is none. False: out of memory. */
	bool (*print)(const struct config_option *o, const struct train_config *c, struct buf *out);
	size_t at;			 /* of its field in struct train_config */
	double lo, hi;			 /* of a number */
	const struct config_word *words; /* of one that takes a word; a word of NULL ends them */
	/* Whether it says anything; NULL: always. Else `needs` tells what it takes, which depends on
	 * the option `on`. */
	bool (*applies)(const struct train_config *c);
	const char *needs, *on;
};

extern const struct config_option config_options[];
extern const unsigned config_noptions;

/* The row of an option's name, which must be one. */
unsigned config_row(const char *name);

/* The row that a key of a file means, without regard to case, '-' and '_'; config_noptions: none. */
unsigned config_row_of_key(const char *key);

/* The name in files that a mistyped key may stand for; NULL: none is near. Static. */
const char *config_nearest(const char *key);

/* Set a row's value. Errors begin with who gave it and `name`. */
enum rc config_set(struct config_draft *d, unsigned row, const char *name, const char *text,
		   const struct config_from *from, struct err *err);

/* Put "FILE:LINE: name: " or "--name: " before *err. Returns err->rc. */
enum rc config_blame(const struct config_from *from, const char *name, struct err *err);

/* Keep a copy of a string as long as the configuration. NULL: out of memory. */
const char *config_keep(struct train_config *c, const char *text);

/* Whole numbers from lo to hi, separated by commas. RC_INVAL. */
enum rc config_numbers(const char *text, uint32_t lo, uint32_t hi, uint32_t max, uint32_t *out,
		       uint32_t *n, struct err *err);

/* Add a file's text. rank: CONFIG_FROM_FILES and more. */
enum rc config_file_text(struct config_draft *d, const char *text, const char *name, int rank,
			 struct err *err);

/* All is given: what follows from it, and whether it fits together. */
enum rc config_check(struct config_draft *d, struct err *err);

#endif
