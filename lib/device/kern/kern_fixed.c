/*
 * kern_fixed.c - sums in fixed point. Sums of whole numbers are exact, so their bits do not depend on the
 * order.
 */
#include "kern/kern_impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "mem/clones.h"

/* units that an element may have: a sum of 4096 elements cannot overflow */
#define LIMIT 0x1p50
/* added to a smaller number, it leaves the rounded number in the lowest bits */
#define MAGIC 0x1.8p52
#define BLOCK 1024 /* elements that are checked, then added while in the cache */

enum { FIX_SUM, FIX_SRC, FIX_N, FIX_SCALE, FIX_ADD, FIX_DTYPE };

/* In two's complement. */
static inline uint64_t
to_fixed(double units)
{
	double d = units + MAGIC, magic = MAGIC;
	uint64_t a, b;

	memcpy(&a, &d, sizeof a);
	memcpy(&b, &magic, sizeof b);
	return a - b;
}

/* fits: each element is a number below the limit. */
#define FIXED_LOOPS(type)                                                                         \
	HOT_CLONES static bool fits_##type(const type *src, size_t n, double scale)               \
	{                                                                                         \
		unsigned beyond = 0;                                                              \
                                                                                                  \
		HOT_LOOP                                                                          \
		for (size_t i = 0; i < n; i++)                                                    \
			beyond |= !(fabs((double)src[i] * scale) < LIMIT);                        \
		return beyond == 0;                                                               \
	}                                                                                         \
	HOT_CLONES static void fix_##type(uint64_t *sum, const type *src, size_t n, double scale, \
					  bool add)                                               \
	{                                                                                         \
		if (add) {                                                                        \
			HOT_LOOP                                                                  \
			for (size_t i = 0; i < n; i++)                                            \
				sum[i] += to_fixed((double)src[i] * scale);                       \
		} else {                                                                          \
			HOT_LOOP                                                                  \
			for (size_t i = 0; i < n; i++)                                            \
				sum[i] = to_fixed((double)src[i] * scale);                        \
		}                                                                                 \
	}
FIXED_LOOPS(float)
FIXED_LOOPS(double)

/* Name the first element of a block that does not fit. */
static enum rc
name_element(struct kern_call *call, const void *src, size_t first, size_t size, double scale)
{
	double x = 0;

	while (fabs((x = kern_get(src, first, size)) * scale) < LIMIT)
		first++;
	if (isfinite(x))
		return kern_fail(call, RC_BADDATA,
				 "src[%zu] is %g: with scale %g its magnitude must be below %g",
				 first, x, scale, LIMIT / scale);
	return kern_fail(call, RC_BADDATA, "src[%zu] is %s", first,
			 isnan(x) ? "not a number" : "infinite");
}

static enum rc
fixed_add_run(struct kern_call *call)
{
	size_t size = kern_float(call, FIX_DTYPE), n = call->v[FIX_N].u, count;
	double scale = call->v[FIX_SCALE].f;
	bool add = call->v[FIX_ADD].u != 0, fits;
	uint64_t *sum = kern_at(call, FIX_SUM, n, 1, sizeof *sum);
	const void *src = kern_at(call, FIX_SRC, n, 1, size);

	kern_apart(call, FIX_SUM, FIX_SRC);
	if (!(scale > 0) || isinf(scale))
		kern_fail(call, RC_INVAL, "scale: %g: must be positive", scale);
	if (call->rc != RC_OK)
		return call->rc;
	for (size_t at = 0; at < n; at += count) {
		const void *from = (const unsigned char *)src + at * size;

		count = n - at < BLOCK ? n - at : BLOCK;
		fits = size == sizeof(float) ? fits_float(from, count, scale)
					     : fits_double(from, count, scale);
		if (!fits)
			return name_element(call, src, at, size, scale);
		KERN_LOOP(size, fix, sum + at, from, count, scale, add);
	}
	return RC_OK;
}

/*
 * fixed_add - sum[i] = scale src[i], rounded to nearest even, as a whole number; with `add` it is added.
 *
 * An element is below 2^50 units, so a sum of 4096 cannot overflow. `cast` from i64 with the inverse
 * scale gives the sum back. The areas do not overlap. Errors: RC_INVAL; RC_BADDATA an element is larger,
 * infinite or NaN: the sums are then undefined. Checked by: tests/unit/kern/t_kern_fixed.c
 */
const struct kernel kernel_fixed_add = {
    .name = "fixed_add",
    .summary = "add a vector to exact sums in fixed point",
    .params =
	{
	    [FIX_SUM] = {"sum", KP_ADDR, false, 0, "i64[n] out, in units of 1/scale"},
	    [FIX_SRC] = {"src", KP_ADDR, false, 0, "[n] in, below 2^50 units"},
	    [FIX_N] = {"n", KP_COUNT, false, 0, "number of elements"},
	    [FIX_SCALE] = {"scale", KP_REAL, false, 0, "units of 1"},
	    [FIX_ADD] = {"add", KP_FLAG, true, 0, "add to sum"},
	    [FIX_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS ": of src"},
	},
    .run = fixed_add_run,
};
