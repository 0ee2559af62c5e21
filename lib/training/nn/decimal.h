/*
 * decimal.h - a decimal number in a text without a terminator, in any locale.
 */
#ifndef NN_DECIMAL_H
#define NN_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum decimal {
	DECIMAL_OK,
	DECIMAL_SYNTAX,	    /* not a decimal number */
	DECIMAL_NOT_FINITE, /* nan, inf or infinity, in any case, with or without a sign */
	DECIMAL_RANGE,	    /* rounds to infinity */
};

/*
 * decimal_f32 - the f32 nearest to text[0..len), ties to even.
 *
 *	out	[out] untouched unless DECIMAL_OK; too small a number becomes 0
 *
 * A number is an optional sign, digits with or without a point, and an optional exponent. The whole
 * text must be the number.
 */
enum decimal decimal_f32(const char *text, size_t len, float *out);

#define DECIMAL_WHOLE_MAX INT64_C(1000000000000000000)

/* The whole number in text[0..len), also as "3." or "3.00"; false if it is not a whole number, or
 * its magnitude is at least DECIMAL_WHOLE_MAX. */
bool decimal_whole(const char *text, size_t len, int64_t *out);

#endif
