/*
 * option.h - the options of a program in one table. Flags, configuration files, variables of the
 * environment, -h, --help-options, --print-config and the flags of child processes come from it.
 *
 * option_rows.h has the words of a table. lib/base/README.md gives the reasons.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/rc.h"

#define OPTION_MAX_ROWS	 160
#define OPTION_MAX_WORDS 32   /* that one row takes */
#define OPTION_MAX_LINE	 4096 /* bytes of a line of a file, without blanks around it */

struct option_row;
struct option_set;

/*
 * A type of values.
 *
 *	parse	set the row's field in *target. text lives as long as the set. Errors: RC_INVAL, RC_NOMEM
 *	print	append the value as parse takes it; nothing: no value. NULL: it is never printed
 */
struct option_kind {
	const char *type; /* for --help-options */
	enum rc (*parse)(const struct option_row *o, const char *text, void *target,
			 struct err *err);
	void (*print)(const struct option_row *o, const void *target, struct buf *out);
};

/* A word and the value it stands for; the first of those of a value is its name. NULL ends a list. */
struct option_word {
	const char *word;
	int value;
};

/* A request to print something, instead of the program's work. */
enum option_ask {
	OPTION_RUN, /* nothing else */
	OPTION_HELP,
	OPTION_VERSION,
	OPTION_LIST,  /* --help-options */
	OPTION_PRINT, /* --print-config */
	OPTION_FILE,  /* of a row alone: its value is the path of a configuration file */
};

struct option_row {
	const char *name; /* NULL: only a letter or a variable */
	const char *arg;  /* the value's name in -h. "[...]": optional. NULL: a flag */
	const char *help; /* NULL: not on the command line, only in files or the environment */
	const struct option_kind *kind; /* NULL: a request (enum option_ask) */
	size_t at;			/* of its field in the target */
	double lo, hi;			/* of a number */
	const struct option_word *words;
	const char *(*names)(
	    unsigned value); /* instead of words: of 0 to hi - 1; hi 0: until NULL */
	char letter;	     /* 0: none */
	bool flag_only;	     /* not in files */
	bool unprinted;	     /* a part of another option, which is printed */
	bool number_follows; /* of one that may be missing: the next word, if it is a number */
	enum option_ask ask;
	const char *dflt;	 /* as it would be typed; NULL: the target's */
	const char *dflt_note;	 /* for -h: explains or replaces the default */
	const char *env;	 /* a variable with the default */
	const char *was;	 /* its name in the version before, which still works */
	const char *key;	 /* the program's name for it if two share one; NULL: its name */
	const char *const *also; /* other names in files; NULL ends them, or there are none */
	/* The option has a meaning here; NULL: always. If not, `needs` is the message, and `on` the
	 * option that decides. */
	bool (*applies)(const void *target);
	const char *needs, *on;
};

/* The source of an option's value. A later source overrides an earlier one. */
enum {
	OPTION_FROM_DEFAULT,
	OPTION_FROM_ENV,
	OPTION_FROM_FILES, /* the first; the next is one more */
	OPTION_FROM_FLAGS = INT32_MAX,
};

struct option_from {
	int rank;
	int line;	  /* of a file, from 1 */
	const char *file; /* its name; borrowed */
};

struct option_text;

/* A program's table, and the given options. The caller fills the first part; option_fini releases. */
struct option_set {
	const char *usage; /* behind "usage: "; its first word is the program's name */
	const struct option_row *rows;
	unsigned n;
	void *target; /* with the rows' fields */
	bool stops;   /* options end at the first operand */
	bool strict;  /* an unknown name in a file is an error */
	/* A line of a section of a file. *mine: not an option. NULL: sections are ignored. */
	enum rc (*in_section)(void *target, const char *section, const char *key, const char *value,
			      bool *mine, struct err *err);
	/* A file has been read. rank: of its options. NULL: nothing to do. */
	enum rc (*file_read)(struct option_set *s, const char *name, int rank, struct err *err);

	struct option_from from[OPTION_MAX_ROWS]; /* by row */
	struct buf unknown; /* messages about unknown names in files, one a line */
	struct option_text *texts;
	char **operands; /* of argv; nothing else follows */
	int noperands;
};

/*
 * option_parse - defaults, then files, then flags, wherever they stand in argv. A variable of the
 * environment is read for an option that neither gave.
 *
 *	ask	[out] the request. With -h, -V and --help-options nothing else is read
 *
 * Errors: RC_INVAL "--option: reason", "VARIABLE: reason" or "FILE:LINE: option: reason"; RC_FAILED a file
 * that cannot be read; RC_NOMEM. Checked by: tests/unit/base/t_option.c, t_config.c
 */
enum rc option_parse(struct option_set *s, int argc, char **argv, enum option_ask *ask,
		     struct err *err);

/* Set the defaults; at the end, read the variables of options that were not given. */
enum rc option_begin(struct option_set *s, struct err *err);
enum rc option_environment(struct option_set *s, struct err *err);

/* Add a file, or its text. rank: OPTION_FROM_FILES and more. */
enum rc option_file(struct option_set *s, const char *path, int rank, struct err *err);
enum rc option_file_text(struct option_set *s, const char *text, const char *name, int rank,
			 struct err *err);

/* Fail on unknown names in files, if strict; else they are in s->unknown. */
enum rc option_file_check(struct option_set *s, struct err *err);

/* Refuse a given option without a meaning here, unless the option it depends on was given later. */
enum rc option_check_applies(const struct option_set *s, struct err *err);

void option_fini(struct option_set *s);

/* The row of a key or name (of a letter, "n"); n: none. */
unsigned option_row(const struct option_set *s, const char *name);

/* The source of its value; the name must be in the table. */
const struct option_from *option_from(const struct option_set *s, const char *name);

/* Set a row's value. Errors begin with the source and `name`. */
enum rc option_set_row(struct option_set *s, unsigned row, const char *name, const char *text,
		       const struct option_from *from, struct err *err);

/* Put "FILE:LINE: name: ", "--name: " or "VARIABLE: " before *err. Returns err->rc. */
enum rc option_err_at(const struct option_from *from, const char *name, struct err *err);

/* Copy a string that lives until the texts are freed. NULL: out of memory. */
const char *option_copy(struct option_text **texts, const char *text);
void option_texts_free(struct option_text *texts);

/* ---- text about options (option_text.c) */

/* The word i of a row that takes words, or NULL behind the last; with its value. */
const char *option_word(const struct option_row *o, unsigned i, int *value);

/* Its words, one for each value; how many. */
unsigned option_names(const struct option_row *o, const char *name[OPTION_MAX_WORDS]);

/* "--name" or "-n". */
const char *option_spelled(const struct option_row *o, char out[48]);

/* Append the text of -h. */
void option_usage(const struct option_set *s, struct buf *out);

/* Append the rows of -h alone. */
void option_help(const struct option_row *rows, unsigned n, struct buf *out);

/*
 * Append the text of --help-options: a line per option, columns between tabs, "-" for an empty one: name,
 * letter, argument, type, values ("1..64", "a|b"), default, variable, whether it stands in files ("file",
 * "file only" or "-"), former name, help.
 */
void option_list(const struct option_set *s, struct buf *out);

/* Append the options in force as a file that gives the same again. RC_INVAL: a value that no line can
 * hold. */
enum rc option_print(const struct option_set *s, struct buf *out, struct err *err);

/* The same as flags, "--lr=0.1", but for the options named in `except` (NULL: none; else NULL ends it). The
 * list ends with NULL; option_args_free. RC_NOMEM. */
enum rc option_args(const struct option_set *s, const char *const *except, char ***out,
		    struct err *err);
void option_args_free(char **args);

/* Print the requested text (not OPTION_RUN), and end with success. RC_FAILED: standard output
 * fails. */
enum rc option_answer(const struct option_set *s, enum option_ask ask, struct err *err);

/* Print a text and end with success. RC_FAILED: standard output fails. */
enum rc option_say(const char *text, struct err *err);

/* ---- types (option_kinds.c); the field's type behind each */

extern const struct option_kind option_bool, /* bool */
    option_count,			     /* unsigned; one more each time */
    option_u32, option_u64, /* uint32_t, uint64_t; not printed below lo. hi 0: any */
    option_double,	    /* double */
    option_size,	    /* uint64_t, bytes */
    option_bytes,	    /* the same, 1 at least */
    option_rate,	    /* uint64_t, bits a second */
    option_ns,		    /* uint64_t, nanoseconds */
    option_ms,		    /* uint32_t, milliseconds, 1 at least */
    option_fd,		    /* int, open */
    option_string,	    /* const char *, not empty */
    option_any_string,	    /* the same, or empty */
    option_chars,	    /* char[hi] */
    option_word_kind;	    /* an enum */

/* Append a number with as few digits as give the same again. */
void option_add_double(struct buf *out, double v);

static inline void *
option_field(const struct option_row *o, void *target)
{
	return (char *)target + o->at;
}

static inline const void *
option_value(const struct option_row *o, const void *target)
{
	return (const char *)target + o->at;
}

#endif
