/*
 * Design notes. A float's shortest decimal is searched in three ways, the cheap ones first: integral values
 * are printed as integers; then m * 10^-k for k = 1, 2 .. with an m of few digits, where m / 10^k in double
 * is correctly rounded, so comparing it with the ends of the interval that rounds to the element is exact
 * (an end itself decides nothing); then printf with more and more digits, each tried by reading it back.
 */
#include "mem/num.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/half.h"
#include "mem/number.h"

/* A decimal, m * 10^e10. */
struct decimal {
	uint64_t m;
	int e10;
};

static size_t
put_u64(uint64_t v, char *dst)
{
	char tmp[20];
	size_t n = 0, i;

	do
		tmp[n++] = (char)('0' + v % 10);
	while (v /= 10);
	for (i = 0; i < n; i++)
		dst[i] = tmp[n - 1 - i];
	return n;
}

static size_t
put_i64(int64_t v, char *dst)
{
	if (v >= 0)
		return put_u64((uint64_t)v, dst);
	*dst = '-';
	return 1 + put_u64(0 - (uint64_t)v, dst + 1);
}

static size_t
put_text(const char *s, char *dst)
{
	size_t n = strlen(s);

	memcpy(dst, s, n);
	return n;
}

/* m is not 0 and has at most 17 digits. */
static size_t
put_decimal(struct decimal v, char *dst)
{
	char digits[20], *p = dst;
	int n, exp;

	for (; v.m % 10 == 0; v.m /= 10)
		v.e10++;
	n = (int)put_u64(v.m, digits);
	exp = v.e10 + n - 1; /* of the first digit */
	if (exp < -5 || exp >= 15) {
		*p++ = digits[0];
		if (n > 1)
			*p++ = '.';
		memcpy(p, digits + 1, (size_t)n - 1);
		p += n - 1;
		*p++ = 'e';
		return (size_t)(p - dst) + put_i64(exp, p);
	}
	if (exp < 0) {
		memcpy(p, "0.00000", (size_t)(1 - exp));
		p += 1 - exp;
		memcpy(p, digits, (size_t)n);
		return (size_t)(p - dst) + (size_t)n;
	}
	for (int i = 0; i < n || i <= exp; i++) {
		if (i == exp + 1)
			*p++ = '.';
		*p++ = i < n ? digits[i] : '0';
	}
	return (size_t)(p - dst);
}

/* The bits of one float element; and the value of bits, exactly. */
static uint64_t
load_bits(enum gpusim_dtype t, const void *src)
{
	uint64_t u64;
	uint32_t u32;
	uint16_t u16;
	uint8_t u8;

	switch (dtype_size(t)) {
	case 8:
		memcpy(&u64, src, sizeof u64);
		return u64;
	case 4:
		memcpy(&u32, src, sizeof u32);
		return u32;
	case 2:
		memcpy(&u16, src, sizeof u16);
		return u16;
	default:
		memcpy(&u8, src, sizeof u8);
		return u8;
	}
}

static double
value_of(enum gpusim_dtype t, uint64_t bits)
{
	switch (t) {
	case GPUSIM_F16:
		return f16_to_f32((uint16_t)bits);
	case GPUSIM_BF16:
		return bf16_to_f32((uint16_t)bits);
	case GPUSIM_F8E4M3:
		return f8e4m3_to_f32((uint8_t)bits);
	case GPUSIM_F8E5M2:
		return f8e5m2_to_f32((uint8_t)bits);
	case GPUSIM_F32:
		return f32_of_bits((uint32_t)bits);
	default:
		return f64_of_bits(bits);
	}
}

/* x > 0 in a type narrower than f64: f64 holds the ends of the interval that rounds to x. */
static bool
fast_narrow(enum gpusim_dtype t, uint64_t bits, double x, struct decimal *out)
{
	const double lo = x - (x - value_of(t, bits - 1)) / 2, next = value_of(t, bits + 1);
	const double hi = !isfinite(next) ? x + (x - lo) : x + (next - x) / 2;
	double scale = 1, y, d;
	uint64_t m, other;
	int k, i;

	for (k = 0; k <= 22; k++, scale *= 10) {
		y = x * scale;
		if (y >= 1e9)
			return false;
		m = (uint64_t)(y + 0.5);
		other = (double)m > y ? m - 1 : m + 1;
		for (i = 0; i < 2; i++, m = other) {
			d = (double)m / scale;
			if (d == lo || d == hi)
				return false;
			if (d > lo && d < hi) {
				*out = (struct decimal){m, -k};
				return true;
			}
		}
	}
	return false;
}

/* x > 0 in f64: a decimal of at most 15 digits names it uniquely. */
static bool
fast_f64(double x, struct decimal *out)
{
	double scale = 1, y;
	int k;

	for (k = 0; k <= 22; k++, scale *= 10) {
		y = x * scale;
		if (y >= 1e15)
			return false;
		y = (double)(uint64_t)(y + 0.5);
		if (y / scale == x) {
			*out = (struct decimal){(uint64_t)y, -k};
			return true;
		}
	}
	return false;
}

/* Return true if v reads back as these bits. */
static bool
reads_back(enum gpusim_dtype t, struct decimal v, uint64_t bits)
{
	unsigned char elem[8] = {0};
	char text[40];
	size_t n = put_u64(v.m, text);

	text[n++] = 'e';
	n += put_i64(v.e10, text + n);
	return num_parse(t, text, n, elem) == NUM_OK && load_bits(t, elem) == bits;
}

/* x rounded to ndigits. */
static struct decimal
rounded(double x, int ndigits)
{
	struct decimal v = {0, 0};
	char text[40], *p = text;

	snprintf(text, sizeof text, "%.*e", ndigits - 1, x);
	for (; *p != 'e'; p++)
		if (*p >= '0' && *p <= '9') /* in any locale */
			v.m = v.m * 10 + (uint64_t)(*p - '0');
	v.e10 = atoi(p + 1) - (ndigits - 1);
	return v;
}

/*
 * Digits to begin with. A normal number that a decimal of DIG digits or fewer names has that
 * decimal, filled up with zeros, for its DIG digits (the DIG of FLT_DIG); and fast_f64 has tried 15
 * in the middle of the range.
 */
static int
fewest_digits(enum gpusim_dtype t, double x)
{
	switch (t) {
	case GPUSIM_F16:
		return x < 0x1p-14 ? 1 : 3;
	case GPUSIM_BF16:
		return x < 0x1p-126 ? 1 : 2;
	case GPUSIM_F8E4M3:
	case GPUSIM_F8E5M2:
		return 1;
	case GPUSIM_F32:
		return x < 0x1p-126 ? 1 : 6;
	default:
		return x < 0x1p-1022 ? 1 : x >= 1e-7 && x < 1e15 ? 16 : 15;
	}
}

static struct decimal
slow_decimal(enum gpusim_dtype t, uint64_t bits, double x)
{
	static const int enough[GPUSIM_NDTYPES] = {
	    [GPUSIM_F64] = 17, [GPUSIM_F32] = 9,    [GPUSIM_F16] = 5,
	    [GPUSIM_BF16] = 4, [GPUSIM_F8E4M3] = 3, [GPUSIM_F8E5M2] = 2};
	int n, exp;
	/* The interval of a power of two is twice as wide above as below, so the decimal above the
	 * nearest may read back when the nearest does not. */
	const bool lopsided = frexp(x, &exp) == 0.5;
	struct decimal v = {0, 0};

	for (n = fewest_digits(t, x); n <= enough[t]; n++) {
		v = rounded(x, n);
		if (n == enough[t] || reads_back(t, v, bits))
			break;
		v.m++;
		if (lopsided && reads_back(t, v, bits))
			break;
	}
	return v;
}

static size_t
format_float(enum gpusim_dtype t, const void *src, char *dst)
{
	const uint64_t sign = UINT64_C(1) << (8 * dtype_size(t) - 1);
	uint64_t bits = load_bits(t, src);
	struct decimal v;
	char *p = dst;
	double x;

	if (isnan(value_of(t, bits)))
		return put_text("nan", dst);
	if (bits & sign)
		*p++ = '-';
	bits &= ~sign;
	x = value_of(t, bits);
	if (isinf(x))
		return (size_t)(p - dst) + put_text("inf", p);
	if (x < 1e15 && x == (double)(uint64_t)x)
		return (size_t)(p - dst) + put_u64((uint64_t)x, p);
	if (!(t == GPUSIM_F64 ? fast_f64(x, &v) : fast_narrow(t, bits, x, &v)))
		v = slow_decimal(t, bits, x);
	return (size_t)(p - dst) + put_decimal(v, p);
}

size_t
num_format(enum gpusim_dtype t, const void *src, char *dst)
{
	union number n;

	if (dtype_size(t) == 0)
		return 0;
	if (dtype_is_float(t))
		return format_float(t, src, dst);
	n = number_get(t, src);
	return dtype_is_signed(t) ? put_i64((int64_t)n.whole, dst) : put_u64(n.whole, dst);
}
