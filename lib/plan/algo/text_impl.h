/*
 * text_impl.h - what the reader of the text form (text.c) uses.
 */
#ifndef ALGO_TEXT_IMPL_H
#define ALGO_TEXT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "base/rc.h"

/*
 * Words, numbers, expressions and variables of the text form, line by line.
 *
 * A line is scanned again each time it runs, and each byte is counted: the work is bounded by SCAN_MAX_WORK
 * for any loops. Functions that return bool return false on error, with the message, file and line in the
 * scan's err.
 */

#define SCAN_MAX_WORK	   (1u << 26) /* bytes scanned */
#define SCAN_MAX_VARIABLES 64u
#define SCAN_MAX_NAME	   32u /* with the NUL */
#define SCAN_MAX_DEPTH	   64u /* of parentheses */
#define SCAN_MAX_VALUE	   (INT64_C(1) << 53)

enum token { TOKEN_END, TOKEN_NUMBER, TOKEN_WORD, TOKEN_SYMBOL };

/* Symbols of two characters as one number. */
#define SYMBOL(a, b) ((a) | (b) << 8)

struct variable {
	char name[SCAN_MAX_NAME];
	int64_t value;
	uint32_t line;
};

struct scan {
	const char *name; /* of the file */
	const char *text, *end;
	const char *at; /* after the token */
	uint32_t line;
	enum token token;
	const char *word; /* the token's first byte */
	size_t len;
	int64_t number;
	int symbol;
	struct variable variable[SCAN_MAX_VARIABLES];
	unsigned nvariables, depth;
	uint64_t work;
	struct algo_budget *budget; /* or NULL */
	struct err err;
};

/* Always false; the first error stays. */
bool scan_fail(struct scan *s, enum rc rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Count bytes; false past SCAN_MAX_WORK, or the budget. */
bool scan_work(struct scan *s, uint64_t n);

/* Go to a line: its first token is the scan's token. */
bool scan_line(struct scan *s, const char *at, uint32_t line);
bool scan_next(struct scan *s);

bool scan_is(const struct scan *s, const char *word);

/* Skip the token if it is this one: *found. */
bool scan_take(struct scan *s, const char *word, bool *found);
bool scan_take_symbol(struct scan *s, int symbol, bool *found);

/* The token must be this one; skip it. */
bool scan_expect(struct scan *s, const char *word);
bool scan_expect_symbol(struct scan *s, int symbol);
bool scan_expect_end(struct scan *s);

/* From the token to the line's end, without comment and blanks; the scan is at the end. */
bool scan_rest(struct scan *s, const char **at, size_t *len);

/*
 * scan_expr - whole numbers, variables, ( ), unary -, and, from the lowest precedence: == != < <= > >= (1
 * or 0), | ^, &, << >>, + -, * / %.
 *
 * / rounds down, and the result of % has the sign of the divisor: -1 % 8 is 7.
 */
bool scan_expr(struct scan *s, int64_t *out);

/* As scan_expr, with lo <= *out <= hi; what: its name in messages. */
bool scan_u32(struct scan *s, const char *what, uint32_t lo, uint32_t hi, uint32_t *out);

/* Define a new variable, which the token names; restoring nvariables removes it. */
bool scan_define(struct scan *s, struct variable **out);

/*
 * Make an algorithm from ordered transfers, as if each were done before the next. Pure.
 *
 * Thread blocks and dependencies are derived. A rank has one block for each peer and channel, and one for
 * local steps; a step waits for earlier conflicting steps of other blocks on its chunks. All edges, also
 * those of full connections, lead from earlier transfers to later ones: such an algorithm has no race and
 * no deadlock, for any number of slots.
 */

#define TRANSFERS_MAX_CHUNKS  (1u << 22) /* of all used buffers */
#define TRANSFERS_MAX_TOUCHES (1u << 23) /* chunks read and written by all steps */

struct algo_place {
	uint32_t rank;
	uint8_t buf; /* enum algo_buf */
	uint32_t at;
};

enum transfer_kind {
	TRANSFER_COPY,	 /* to = from */
	TRANSFER_REDUCE, /* to = to + from */
	TRANSFER_SUM	 /* to = with + from; with is at to's rank, from at another */
};

struct transfer {
	enum transfer_kind kind;
	struct algo_place from, with, to;
	uint32_t count, channel, line;
};

struct transfers;

/* For an algorithm whose head and chunks of input and output are set. It borrows a. NULL: out of memory. */
struct transfers *transfers_new(struct algo *a);

/*
 * transfers_add - append the steps of one transfer to the algorithm.
 *
 * A rank's chunks of scratch grow with their use, to `scratch` at most. RC_BADDATA, without a line: ranks,
 * buffers and channels that do not exist, local copies to overlapping places. RC_NOMEM.
 */
enum rc transfers_add(struct transfers *t, const struct transfer *x, uint32_t scratch,
		      struct err *err);

/* NULL is legal; the algorithm stays. */
void transfers_free(struct transfers *t);

#endif
