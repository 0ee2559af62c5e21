/*
 * json.h - values of JSON, as text (RFC 8259).
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdio.h>

/* A string, quoted. Characters of UTF-8 are as they are; any other byte counts as Latin-1, so
 * the result is always valid. Errors show in ferror(f). */
void json_string(const char *s, FILE *f);

/* A member behind others: a comma, the name, a colon, the string s. */
void json_member(const char *name, const char *s, FILE *f);

/* A number with nine digits; null where it is not finite, as JSON has no such number. */
void json_real(double v, FILE *f);

/* A document while it is written, in pieces. */
struct json {
	FILE *f;
	bool behind; /* something in the list or object that is open: the next gets a comma */
};

/*
 * json_put - write a piece of a document.
 *
 *	fmt	JSON with printf's conversions for values, names without quotes, blanks between members and
 *		none of the commas: "{rank:%u name:%s steps:["
 *
 * %s: a string, quoted, or null for NULL; before a colon, a name. %hhu: true or false. %x: a string of digits,
 * as numbers of JavaScript have too few. %g, %e, %f: null where it is not finite. %d and %u, with l or z: as
 * they are.
 * A newline ends the document. Checked by: tests/unit/base/t_json.c
 */
void json_put(struct json *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
