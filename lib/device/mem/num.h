/*
 * num.h - one element as text, in any type and locale.
 */
#ifndef MEM_NUM_H
#define MEM_NUM_H

#include <stddef.h>

#include "gpusim.h"

#define NUM_MAX_CHARS 32 /* the longest formatted element */

enum num_status {
	NUM_OK,
	NUM_SYNTAX, /* not a number of this type */
	NUM_RANGE,  /* a number outside of the type's range */
	NUM_NOMEM,
};

/*
 * num_parse - parse text[0..len) as an element.
 *
 *	out	[out] one element, at any alignment; untouched on failure
 *
 * Integers: an optional sign and decimal digits. Floats: the syntax of strtod in the C locale
 * (decimal, hexadecimal, inf, nan), rounded once to nearest even; one that rounds to infinity
 * without saying inf is NUM_RANGE. The whole text must be the number, without blanks. No terminator is read.
 */
enum num_status num_parse(enum gpusim_dtype t, const char *text, size_t len, void *out);

/*
 * num_format - the shortest decimal that num_parse reads back as the same element.
 *
 *	src	one element, at any alignment
 *	dst	room for NUM_MAX_CHARS; not terminated
 *
 * Returns the length. Integral floats below 1e15 look like integers; other magnitudes from 1e-5 to
 * 1e15 have a point, and the rest an exponent. "nan", "inf", "-inf", "-0". 0: not a type.
 */
size_t num_format(enum gpusim_dtype t, const void *src, char *dst);

/* The type's range, for messages: "0 to 255", "at most 65504". Static storage. */
const char *num_range(enum gpusim_dtype t);

#endif
