/*
 * reduce_ref.h - the naive reference of the reductions: one element at a time, as the headers say.
 */
#ifndef REDUCE_REF_H
#define REDUCE_REF_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "chance.h"
#include "mem/dtype.h"

static uint64_t seed = 0x9e3779b97f4a7c15ull;

static inline uint64_t
rnd(void)
{
	return xorshift_star(&seed);
}

/* The naive reference for floats: x redop y exactly as the header says. */
static inline double
ref_minmax(bool want_max, double x, double y)
{
	if (isnan(x) || isnan(y))
		return (double)NAN;
	if (x == y)
		return (signbit(x) != 0) != want_max ? x : y;
	return (x < y) != want_max ? x : y;
}

#define REF_FLOAT(type, redop, x, y)                                                 \
	((redop) == GPUSIM_PROD	 ? (type)((x) * (y))                                 \
	 : (redop) == GPUSIM_MIN ? (type)ref_minmax(false, (double)(x), (double)(y)) \
	 : (redop) == GPUSIM_MAX ? (type)ref_minmax(true, (double)(x), (double)(y))  \
				 : (type)((x) + (y)))

#define REF_INT(type, utype)                                            \
	do {                                                            \
		type ix, iy, r;                                         \
		memcpy(&ix, a, sizeof ix);                              \
		memcpy(&iy, b, sizeof iy);                              \
		if (redop == GPUSIM_MIN)                                \
			r = ix < iy ? ix : iy;                          \
		else if (redop == GPUSIM_MAX)                           \
			r = ix > iy ? ix : iy;                          \
		else if (redop == GPUSIM_PROD)                          \
			r = (type)(utype)((uint64_t)ix * (uint64_t)iy); \
		else                                                    \
			r = (type)(utype)((uint64_t)ix + (uint64_t)iy); \
		memcpy(d, &r, sizeof r);                                \
	} while (0)

static inline void
ref_one(enum gpusim_dtype t, enum gpusim_redop redop, void *d, const void *a, const void *b)
{
	uint16_t ha, hb;
	double x, y;
	float fx, fy;

	switch (t) {
	case GPUSIM_F64:
		memcpy(&x, a, 8);
		memcpy(&y, b, 8);
		x = REF_FLOAT(double, redop, x, y);
		memcpy(d, &x, 8);
		break;
	case GPUSIM_F32:
		memcpy(&fx, a, 4);
		memcpy(&fy, b, 4);
		fx = REF_FLOAT(float, redop, fx, fy);
		memcpy(d, &fx, 4);
		break;
	case GPUSIM_F16:
	case GPUSIM_BF16:
		memcpy(&ha, a, 2);
		memcpy(&hb, b, 2);
		fx = t == GPUSIM_F16 ? half_to_f32(ha) : bf16_to_f32(ha);
		fy = t == GPUSIM_F16 ? half_to_f32(hb) : bf16_to_f32(hb);
		fx = REF_FLOAT(float, redop, fx, fy);
		ha = t == GPUSIM_F16 ? half_from_f32(fx) : bf16_from_f32(fx);
		memcpy(d, &ha, 2);
		break;
	case GPUSIM_I8:
		REF_INT(int8_t, uint8_t);
		break;
	case GPUSIM_U8:
		REF_INT(uint8_t, uint8_t);
		break;
	case GPUSIM_I32:
		REF_INT(int32_t, uint32_t);
		break;
	case GPUSIM_U32:
		REF_INT(uint32_t, uint32_t);
		break;
	case GPUSIM_I64:
		REF_INT(int64_t, uint64_t);
		break;
	default:
		REF_INT(uint64_t, uint64_t);
		break;
	}
}

static inline bool
is_nan(enum gpusim_dtype t, const void *p)
{
	uint16_t h;
	double x;
	float f;

	switch (t) {
	case GPUSIM_F64:
		memcpy(&x, p, 8);
		return isnan(x);
	case GPUSIM_F32:
		memcpy(&f, p, 4);
		return isnan(f);
	case GPUSIM_F16:
		memcpy(&h, p, 2);
		return (h & 0x7fff) > 0x7c00;
	case GPUSIM_BF16:
		memcpy(&h, p, 2);
		return (h & 0x7fff) > 0x7f80;
	default:
		return false;
	}
}

/* Equal bits, or both NaN (IEEE 754 leaves its payload open). */
static inline bool
same(enum gpusim_dtype t, const void *p, const void *q)
{
	return memcmp(p, q, dtype_size(t)) == 0 || (is_nan(t, p) && is_nan(t, q));
}

/* Random bits; one element in eight is special: 0, -0, inf, NaN, all ones, the sign bit alone. */
static inline void
fill(enum gpusim_dtype t, unsigned char *p, size_t nelem)
{
	static const uint64_t top[] = {0,      0x8000, 0x7ff0, 0xfff0, 0x7ff8, 0x7f80, 0xff80,
				       0x7c00, 0xfc00, 0xffff, 0x3ff0, 0x3f80, 0x3c00, 0x7fff};
	size_t size = dtype_size(t), i;
	uint64_t v;

	for (i = 0; i < nelem; i++) {
		v = rnd();
		if (v % 8 == 0)
			v = top[v / 8 % (sizeof top / sizeof top[0])]
			    << (size > 2 ? 8 * size - 16 : 0);
		else
			v >>= 3;
		if (dtype_is_float(t) &&
		    rnd() % 2) /* magnitudes that meet: else sums round to one */
			v = (v & ~(0xffffull << (8 * size - 16))) |
			    ((t == GPUSIM_F16 ? 0x3c00ull : 0x3f80ull) + rnd() % 256)
				<< (8 * size - 16);
		memcpy(p + i * size, &v, size);
	}
}

#endif
