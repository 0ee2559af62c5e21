/*
 * Design notes. A decimal m * 10^e with m < 2^53 and |e| <= 22 is one correctly rounded
 * multiplication or division of two exact doubles. Everything else goes to strtod. A type narrower
 * than f64 must not be rounded twice, so the narrow result is made from a double *rounded to odd*:
 * truncated, with its last bit set if the truncation was inexact. Rounding such a double again is as good
 * as rounding the exact value.
 *
 * Source: Clinger, PLDI 1990, doi:10.1145/93542.93557; Boldo & Melquiond, IEEE TC 57(4), 2008,
 * doi:10.1109/TC.2007.70819
 */
#include "mem/num.h"

#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/half.h"
#include "mem/number.h"

#define EXACT_P10 22 /* 10^22 is the largest power of ten that a double holds exactly */

static const double p10[EXACT_P10 + 1] = {1e0,	1e1,  1e2,  1e3,  1e4,	1e5,  1e6,  1e7,
					  1e8,	1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
					  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static const char *const ranges[GPUSIM_NDTYPES] = {
    [GPUSIM_I8] = "-128 to 127",
    [GPUSIM_U8] = "0 to 255",
    [GPUSIM_I32] = "-2147483648 to 2147483647",
    [GPUSIM_U32] = "0 to 4294967295",
    [GPUSIM_I64] = "-9223372036854775808 to 9223372036854775807",
    [GPUSIM_U64] = "0 to 18446744073709551615",
    [GPUSIM_F16] = "at most 65504",
    [GPUSIM_BF16] = "at most 3.39e38",
    [GPUSIM_F8E4M3] = "at most 448",
    [GPUSIM_F8E5M2] = "at most 57344",
    [GPUSIM_F32] = "at most 3.4028235e38",
    [GPUSIM_F64] = "at most 1.7976931348623157e308",
};

const char *
num_range(enum gpusim_dtype t)
{
	return (size_t)t < GPUSIM_NDTYPES ? ranges[t] : "?";
}

static bool
is_digit(char c)
{
	return (unsigned char)(c - '0') <= 9;
}

static enum num_status
parse_int(enum gpusim_dtype t, const char *s, size_t len, uint64_t *out)
{
	const char *end = s + len;
	bool negative = len && *s == '-', over = false;
	uint64_t v = 0, most;

	s += len && (*s == '-' || *s == '+');
	if (s == end)
		return NUM_SYNTAX;
	for (; s < end; s++) {
		if (!is_digit(*s))
			return NUM_SYNTAX;
		over |= __builtin_mul_overflow(v, 10, &v);
		over |= __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v);
	}
	most = UINT64_MAX >> (64 - 8 * dtype_size(t)) >> dtype_is_signed(t);
	if (over || v > (!negative ? most : dtype_is_signed(t) ? most + 1 : 0))
		return NUM_RANGE;
	*out = negative ? 0 - v : v;
	return NUM_OK;
}

/* Parse text as +-m * 10^e10; false: not a plain decimal of at most 18 digits. */
static bool
scan_decimal(const char *s, size_t len, bool *negative, uint64_t *m, int *e10)
{
	const char *end = s + len;
	int ndigits = 0, point = 0, exp = 0, nexp = 0;
	bool exp_negative;

	*negative = len && *s == '-';
	s += len && (*s == '-' || *s == '+');
	*m = 0;
	for (; s < end && is_digit(*s) && ndigits <= 18; s++, ndigits++)
		*m = *m * 10 + (uint64_t)(*s - '0');
	if (s < end && *s == '.')
		for (s++; s < end && is_digit(*s) && ndigits <= 18; s++, ndigits++, point++)
			*m = *m * 10 + (uint64_t)(*s - '0');
	if (ndigits == 0 || ndigits > 18)
		return false;
	if (s < end && (*s == 'e' || *s == 'E')) {
		s++;
		exp_negative = s < end && *s == '-';
		s += s < end && (*s == '-' || *s == '+');
		for (; s < end && is_digit(*s) && nexp < 4; s++, nexp++)
			exp = exp * 10 + (*s - '0');
		if (nexp == 0)
			return false;
		exp = exp_negative ? -exp : exp;
	}
	*e10 = exp - point;
	return s == end;
}

/*
 * *d: the decimal's value, rounded to nearest for f64 and such that rounding again is right for the
 * narrower types. False: undecided.
 */
static bool
fast_decimal(enum gpusim_dtype t, const char *text, size_t len, double *d)
{
	bool negative;
	uint64_t m;
	int e10;
	double v;

	if (!scan_decimal(text, len, &negative, &m, &e10) || m > UINT64_C(1) << 53 ||
	    e10 < -EXACT_P10 || e10 > EXACT_P10)
		return false;
	v = e10 < 0 ? (double)m / p10[-e10] : (double)m * p10[e10];
	if (t != GPUSIM_F64 && m && e10) {
		/* Below f32's smallest normal number, halfway cases have more bits. */
		if (v < 0x1p-126)
			return false;
		/*
		 * Elsewhere v can lie halfway between two elements only if its last 28 bits are 0,
		 * and must not have got there by rounding. With e10 in -12..0 it has not: v has 25
		 * bits and 5^12 has 28, so v * 10^-e10 differs from m by nothing or by more than
		 * 2^-53 of it.
		 */
		if ((f64_bits(v) & 0xfffffff) == 0 && (e10 > 0 || e10 < -12))
			return false;
	}
	*d = negative ? -v : v;
	return true;
}

/* strtod in the C locale, of a terminated text, rounded to nearest or to odd. */
static enum num_status
slow_float(const char *text, size_t len, bool to_odd, double *d)
{
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	fenv_t env;
	char *end;
	double v;

	if (!c)
		return NUM_NOMEM;
	feholdexcept(&env);
	fesetround(to_odd ? FE_TOWARDZERO : FE_TONEAREST);
	v = strtod_l(text, &end, c);
	if (to_odd && fetestexcept(FE_INEXACT) && isfinite(v))
		v = f64_of_bits(f64_bits(v) | 1);
	fesetenv(&env);
	freelocale(c);
	if (end != text + len)
		return NUM_SYNTAX;
	*d = v;
	return NUM_OK;
}

/* text, copied so that it ends in a NUL, through slow_float. */
static enum num_status
parse_float_slow(const char *text, size_t len, bool to_odd, double *d)
{
	char small[128], *copy = small;
	enum num_status st;

	/* strtod would skip leading white space. */
	if (len == 0 || !(is_digit(*text) || (*text && strchr("+-.iInN", *text))))
		return NUM_SYNTAX;
	if (len >= sizeof small)
		copy = malloc(len + 1);
	if (!copy)
		return NUM_NOMEM;
	memcpy(copy, text, len);
	copy[len] = '\0';
	st = slow_float(copy, len, to_odd, d);
	if (copy != small)
		free(copy);
	return st;
}

/* To f32, rounded to odd: halfway between two shorter floats only when d is. */
static float
f32_to_odd(double d)
{
	float f = (float)d;
	uint32_t u = f32_bits(f);

	if (isnan(d) || (double)f == d)
		return f;
	if (fabs((double)f) > fabs(d))
		u--;
	return f32_of_bits(u | 1);
}

/*
 * The 8-bit conversions saturate, so overflow is detected before: e4m3 has none
 * from 464 on (halfway to 480; 464 itself goes to the even 448), e5m2 none from 61440 on.
 */
static enum num_status
parse_eighth(enum gpusim_dtype t, double d, uint8_t *out)
{
	double a = fabs(d);

	if (t == GPUSIM_F8E4M3 ? a > 464 : a >= 61440 && !isinf(a))
		return NUM_RANGE;
	*out = t == GPUSIM_F8E4M3 ? f8e4m3_from_f32(f32_to_odd(d)) : f8e5m2_from_f32(f32_to_odd(d));
	if (isinf(a))
		*out = (uint8_t)((*out & 0x80) | 0x7c);
	return NUM_OK;
}

static enum num_status
parse_float(enum gpusim_dtype t, const char *text, size_t len, void *out)
{
	enum num_status st;
	uint16_t h = 0;
	uint8_t q = 0;
	double d;
	float f = 0;
	bool inf, said_inf;

	if (!fast_decimal(t, text, len, &d)) {
		st = parse_float_slow(text, len, t != GPUSIM_F64, &d);
		if (st)
			return st;
	}
	said_inf = memchr(text, 'n', len) || memchr(text, 'N', len);
	switch (t) {
	case GPUSIM_F8E4M3:
	case GPUSIM_F8E5M2:
		inf = isinf(d);
		st = parse_eighth(t, d, &q);
		if (st)
			return st;
		break;
	case GPUSIM_F16:
		h = f16_from_f32(f32_to_odd(d));
		inf = (h & 0x7fff) == 0x7c00;
		break;
	case GPUSIM_BF16:
		h = bf16_from_f32(f32_to_odd(d));
		inf = (h & 0x7fff) == 0x7f80;
		break;
	case GPUSIM_F32:
		f = (float)d;
		inf = isinf(f);
		break;
	default:
		inf = isinf(d);
		break;
	}
	if (inf && !said_inf)
		return NUM_RANGE;
	if (t == GPUSIM_F64)
		memcpy(out, &d, sizeof d);
	else if (t == GPUSIM_F32)
		memcpy(out, &f, sizeof f);
	else if (dtype_size(t) == 2)
		memcpy(out, &h, sizeof h);
	else
		memcpy(out, &q, sizeof q);
	return NUM_OK;
}

enum num_status
num_parse(enum gpusim_dtype t, const char *text, size_t len, void *out)
{
	enum num_status st;
	uint64_t v = 0;

	if (dtype_is_float(t))
		return parse_float(t, text, len, out);
	if (dtype_size(t) == 0)
		return NUM_SYNTAX;
	st = parse_int(t, text, len, &v);
	if (st == NUM_OK)
		number_put(t, out, (union number){.whole = v});
	return st;
}
