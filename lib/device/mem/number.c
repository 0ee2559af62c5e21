#include "mem/number.h"

#include <math.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/redop.h"

union number
number_of(enum gpusim_dtype t, int64_t v)
{
	unsigned char element[8];

	number_put(t, element,
		   dtype_is_float(t) ? (union number){.real = (double)v}
				     : (union number){.whole = (uint64_t)v});
	return number_get(t, element);
}

union number
number_get(enum gpusim_dtype t, const void *element)
{
	union number n = {0};

#define REAL(name)     n.real = (double)x
#define HALF(name)     n.real = (double)name##_to_f32(x)
#define SIGNED(name)   n.whole = (uint64_t)(int64_t)x
#define UNSIGNED(name) n.whole = x
#define GET(constant, name, type, kind, ...)   \
	case GPUSIM_##constant: {              \
		type x;                        \
                                               \
		memcpy(&x, element, sizeof x); \
		kind(name);                    \
		break;                         \
	}
	switch (t) {
		DTYPES(GET)
	case GPUSIM_NDTYPES:
		break;
	}
#undef REAL
#undef HALF
#undef SIGNED
#undef UNSIGNED
	return n;
}

void
number_put(enum gpusim_dtype t, void *element, union number n)
{
#define REAL(name)     n.real
#define HALF(name)     name##_from_f32((float)n.real)
#define SIGNED(name)   n.whole
#define UNSIGNED(name) n.whole
#define PUT(constant, name, type, kind, ...)   \
	case GPUSIM_##constant: {              \
		type x = (type)kind(name);     \
                                               \
		memcpy(element, &x, sizeof x); \
		break;                         \
	}
	switch (t) {
		DTYPES(PUT)
	case GPUSIM_NDTYPES:
		break;
	}
	if (t == GPUSIM_F8E5M2 && isinf(n.real))
		*(unsigned char *)element = n.real > 0 ? 0x7c : 0xfc;
}

/* IEEE 754-2019 minimum and maximum: NaN when either is, and -0 < +0. */
static double
lesser(double a, double b)
{
	if (isnan(a) || isnan(b))
		return (double)NAN;
	return a < b || (a == b && signbit(a)) ? a : b;
}

static double
fold_real(enum gpusim_redop redop, double a, double b)
{
	switch (redop) {
	case GPUSIM_SUM:
	case GPUSIM_AVG:
	case GPUSIM_PREMULSUM:
		return a + b;
	case GPUSIM_PROD:
		return a * b;
	case GPUSIM_MIN:
		return lesser(a, b);
	case GPUSIM_MAX:
		return -lesser(-a, -b);
	case GPUSIM_BAND:
	case GPUSIM_BOR:
	case GPUSIM_BXOR:
	case GPUSIM_NREDOPS:
		break;
	}
	return (double)NAN;
}

static uint64_t
fold_whole(enum gpusim_redop redop, bool is_signed, uint64_t a, uint64_t b)
{
	bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;

	switch (redop) {
	case GPUSIM_SUM:
	case GPUSIM_AVG:
	case GPUSIM_PREMULSUM:
		return a + b;
	case GPUSIM_PROD:
		return a * b;
	case GPUSIM_MIN:
		return less ? a : b;
	case GPUSIM_MAX:
		return less ? b : a;
	case GPUSIM_BAND:
		return a & b;
	case GPUSIM_BOR:
		return a | b;
	case GPUSIM_BXOR:
		return a ^ b;
	case GPUSIM_NREDOPS:
		break;
	}
	return 0;
}

union number
number_fold(enum gpusim_dtype t, enum gpusim_redop redop, union number a, union number b)
{
	if (!dtype_is_float(t))
		return number_of(t,
				 (int64_t)fold_whole(redop, dtype_is_signed(t), a.whole, b.whole));
	a.real = fold_real(redop, a.real, b.real);
	if (t != GPUSIM_F64)
		a.real = (float)a.real; /* as if folded in float: a double has twice its digits */
	return a;
}

union number
number_finish(enum gpusim_dtype t, enum gpusim_redop redop, union number n, uint32_t nranks)
{
	bool mean = redops[redop].mean;

	if (mean && t == GPUSIM_F64)
		n.real /= nranks;
	else if (mean && dtype_is_float(t))
		n.real = (float)(n.real / (float)nranks);
	else if (mean && dtype_is_signed(t))
		n.whole = (uint64_t)((int64_t)n.whole / (int64_t)nranks);
	else if (mean)
		n.whole /= nranks;
	if (t == GPUSIM_F8E5M2 && nranks > 1 && redop_widening(redop, t) > 1 && isinf(n.real))
		n.real = copysign(57344, n.real);
	return n;
}

union number
number_enter(enum gpusim_dtype t, enum gpusim_redop redop, union number n, union number factor)
{
	unsigned char element[8];

	if (redop != GPUSIM_PREMULSUM)
		return n;
	n = number_fold(t, GPUSIM_PROD, n, factor);
	number_put(t, element, number_finish(t, GPUSIM_PROD, n, 2));
	return number_get(t, element);
}
