/*
 * token.h - the words of preprocessed C++ source: only what a rewriter needs, so all punctuation is
 * single characters, except those that would confuse the matching of <> (-> <= >= :: ...).
 */
#ifndef NVCC_TOKEN_H
#define NVCC_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

enum token_kind {
	TOKEN_WORD,   /* identifier or keyword */
	TOKEN_NUMBER, /* as the preprocessor sees it */
	TOKEN_STRING, /* string or character, with its prefix and suffix */
	TOKEN_PUNCT,
	TOKEN_BLANK, /* blanks and ends of lines */
	TOKEN_LINE,  /* a line that begins with #, without its end */
	TOKEN_END,   /* the last token */
};

struct token {
	enum token_kind kind;
	const char *text; /* borrowed from the source */
	size_t len;
	unsigned line; /* of the user's file, by the line markers */
	unsigned file; /* index into tokens.file */
};

struct token_file {
	char *name;
	bool system; /* found in a system's folder */
};

struct tokens {
	struct token *v;
	size_t n, room;
	struct token_file *file;
	size_t nfiles;
};

/*
 * tokens_read - split a source, as `g++ -E` writes it.
 *
 *	name	of the source, until a line marker names another
 *	t	[out] borrows the text; released by tokens_fini in any case
 *
 * RC_BADDATA: a string or comment is not closed. Checked by: tests/unit/nvcc/t_nvcc.c
 */
enum rc tokens_read(const char *text, size_t nbytes, const char *name, struct tokens *t,
		    struct err *err);
void tokens_fini(struct tokens *t);

bool token_is(const struct token *t, const char *text);

/* Return true if the token is significant: not a blank or a line marker. */
bool token_counts(const struct token *t);

/* The next or previous significant token. next: the end's index at the end. prev: SIZE_MAX at the
 * beginning. */
size_t token_next(const struct tokens *t, size_t i);
size_t token_prev(const struct tokens *t, size_t i);

/* For an opening ( [ {: the index of its closing bracket, or of the end. For a closing one: the
 * index of its opening bracket, or SIZE_MAX. */
size_t token_close(const struct tokens *t, size_t i);
size_t token_open(const struct tokens *t, size_t i);

/* As token_close, for < and > of template arguments: brackets ( [ { are skipped. ; and { at the
 * same level end the search without success. */
size_t token_close_angle(const struct tokens *t, size_t i);
size_t token_open_angle(const struct tokens *t, size_t i);

#endif
