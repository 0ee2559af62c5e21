/*
 * json.h - values of JSON, as text (RFC 8259).
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdio.h>

/* A string, quoted. Characters of UTF-8 are as they are; any other byte counts as Latin-1, so
 * the result is always valid. Errors show in ferror(f). */
void json_string(const char *s, FILE *f);

/* A member behind others: a comma, the name, a colon, the string s. */
void json_member(const char *name, const char *s, FILE *f);

/* A number with nine digits; null where it is not finite, as JSON has no such number. */
void json_real(double v, FILE *f);

#endif
