/*
 * options.h - nvcc's options.
 */
#ifndef NVCC_OPTIONS_H
#define NVCC_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/rc.h"

/* A list of words that ends with NULL, for a command line. */

/* Initialise with {0}; words_fini releases. v is NULL while n is 0. */
struct words {
	char **v;
	size_t n;
};

/* Append a copy of the formatted word; of each word, until NULL; of all words of a list. */
void words_addf(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void words_add_these(struct words *w, const char *const *word);
void words_add_all(struct words *w, const struct words *more);
#define words_add(w, ...) words_add_these(w, (const char *const[]){__VA_ARGS__, NULL})

/* Append the parts of text between commas and blanks; a backslash keeps the next character, quotes all between them. */
void words_add_parts(struct words *w, const char *text);

void words_fini(struct words *w);

enum nvcc_phase {
	NVCC_LINK,
	NVCC_COMPILE,	 /* -c, -dc, -dw */
	NVCC_PREPROCESS, /* -E */
	NVCC_DEPENDS,	 /* -M, -MM */
	NVCC_DEVICE_LINK,
	NVCC_ARCHIVE, /* -lib */
};

struct nvcc {
	enum nvcc_phase phase;
	bool version, help;
	bool verbose; /* print the commands */
	bool dry;     /* do not run them */
	bool shared;
	bool no_cudart;
	bool optimised, debug; /* -O was given; -G was given */
	bool pass_unknown;     /* unknown options go to the host compiler */
	bool per_thread;       /* --default-stream per-thread */
	bool lambdas;	       /* --extended-lambda */
	bool relocatable;      /* -rdc=true, -dc */
	const char *out, *ccbin, *language, *std, *odir;
	const char *depends;	  /* "-MD", "-MMD", "-M", "-MM"; NULL: none */
	const char *depends_file; /* -MF */
	bool depends_phony;	  /* -MP */
	struct words targets;	  /* -MT */
	struct words pre;	  /* for the preprocessor */
	struct words host;	  /* for each step of the host compiler */
	struct words link;	  /* options and inputs of the linker, in order */
	struct words inputs;	  /* all arguments that are not options */
	struct words read;	  /* words of response files; other lists borrow them */
};

/*
 * nvcc_options - read the command line. n is released by nvcc_fini in any case; strings are
 * borrowed from argv.
 *
 * RC_INVAL: with a message. Checked by: tests/unit/nvcc/t_nvcc_options.c
 */
enum rc nvcc_options(struct nvcc *n, int argc, char **argv, struct err *err);
void nvcc_fini(struct nvcc *n);

void nvcc_help(FILE *to);

#endif
