/*
 * reduce_test.h - elements to reduce, and whether two are the same.
 */
#ifndef REDUCE_TEST_H
#define REDUCE_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "chance.h"
#include "mem/dtype.h"
#include "mem/number.h"
#include "mem/redop.h"

static uint64_t seed = 0x9e3779b97f4a7c15ull;

static inline uint64_t
rnd(void)
{
	return xorshift_star(&seed);
}

static inline bool
is_nan(enum gpusim_dtype t, const void *p)
{
	return dtype_is_float(t) && isnan(number_get(t, p).real);
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
				<< (size > 2 ? 8 * size - 16 : 0) >>
			    (size == 1 ? 8 : 0);
		else
			v >>= 3;
		if (dtype_is_float(t) && size > 1 &&
		    rnd() % 2) /* similar magnitudes: else one of them vanishes in sums */
			v = (v & ~(0xffffull << (8 * size - 16))) |
			    ((t == GPUSIM_F16 ? 0x3c00ull : 0x3f80ull) + rnd() % 256)
				<< (8 * size - 16);
		memcpy(p + i * size, &v, size);
	}
}

#endif
