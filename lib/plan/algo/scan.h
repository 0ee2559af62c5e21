/*
 * scan.h - words, numbers, expressions and variables of the text form, line by line. Only for text.c.
 *
 * A line is scanned again each time it runs, and each byte is counted: the work is bounded by SCAN_MAX_WORK
 * for any loops. Functions that return bool return false on error, with the message, file and line in the
 * scan's err.
 */
#ifndef ALGO_SCAN_H
#define ALGO_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "base/rc.h"

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

#endif
