/*
 * kern_vec.c - vectors: fill, copy, gather, axpy, scale.
 */
#include "kern/kern_impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "mem/clones.h"

/* ---- fill */

enum { FILL_DST, FILL_N, FILL_VALUE, FILL_DTYPE };

/* value is an element of the integer type t of size bytes. */
static bool
is_integer_of(enum gpusim_dtype t, size_t size, double value)
{
	bool is_signed = t == GPUSIM_I8 || t == GPUSIM_I32 || t == GPUSIM_I64;
	int bits = (int)size * 8;
	double lo = is_signed ? -ldexp(1, bits - 1) : 0, end = ldexp(1, bits - is_signed);

	return value >= lo && value < end && value == rint(value);
}

#define FILL(type)                             \
	do {                                   \
		type e;                        \
                                               \
		memcpy(&e, element, sizeof e); \
		for (i = 0; i < n; i++)        \
			((type *)dst)[i] = e;  \
	} while (0)

static enum rc
fill_run(struct kern_call *call)
{
	size_t size = kern_type(call, FILL_DTYPE), i, n = call->v[FILL_N].u;
	enum gpusim_dtype t = (enum gpusim_dtype)call->v[FILL_DTYPE].u;
	void *dst = kern_at(call, FILL_DST, n, 1, size);
	double value = call->v[FILL_VALUE].f;
	unsigned char element[8];

	if (size != 0 && !dtype_is_float(t) && !is_integer_of(t, size, value))
		kern_fail(call, RC_INVAL, "value: %.17g is not a %s", value, dtype_name(t));
	if (call->rc != RC_OK)
		return call->rc;
	kern_narrow(t, element, &value, 1);
	switch (size) {
	case 1:
		memset(dst, element[0], n);
		break;
	case 2:
		FILL(uint16_t);
		break;
	case 4:
		FILL(uint32_t);
		break;
	default:
		FILL(uint64_t);
	}
	return RC_OK;
}

/*
 * fill - dst[i] = value.
 *
 * A float is rounded to nearest; for an integer type value must be one of its numbers.
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_vec.c
 */
const struct kernel kernel_fill = {
    .name = "fill",
    .summary = "set every element to one value",
    .params =
	{
	    [FILL_DST] = {"dst", KP_ADDR, false, 0, "[n] out"},
	    [FILL_N] = {"n", KP_COUNT, false, 0, "number of elements"},
	    [FILL_VALUE] = {"value", KP_REAL, true, 0, "the element"},
	    [FILL_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "any type"},
	},
    .run = fill_run,
};

/* ---- copy */

enum { COPY_DST, COPY_SRC, COPY_N, COPY_DTYPE };

static enum rc
copy_run(struct kern_call *call)
{
	size_t size = kern_type(call, COPY_DTYPE), n = call->v[COPY_N].u;
	void *dst = kern_at(call, COPY_DST, n, 1, size);
	const void *src = kern_at(call, COPY_SRC, n, 1, size);

	if (call->rc == RC_OK)
		memmove(dst, src, n * size);
	return call->rc;
}

/*
 * copy - dst[i] = src[i]; the areas may overlap, as with memmove.
 *
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_vec.c
 */
const struct kernel kernel_copy = {
    .name = "copy",
    .summary = "copy a vector",
    .params =
	{
	    [COPY_DST] = {"dst", KP_ADDR, false, 0, "[n] out"},
	    [COPY_SRC] = {"src", KP_ADDR, false, 0, "[n] in"},
	    [COPY_N] = {"n", KP_COUNT, false, 0, "number of elements"},
	    [COPY_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "any type"},
	},
    .run = copy_run,
};

/* ---- gather */

enum {
	GATHER_DST,
	GATHER_SRC,
	GATHER_INDEX,
	GATHER_N,
	GATHER_ROWS,
	GATHER_COLS,
	GATHER_DTYPE,
	GATHER_TO,
	GATHER_SCALE,
};

#define AHEAD	    3	 /* rows to prefetch: about the latency of memory */
#define HOIST_BYTES 4096 /* of each; the processor prefetches the rest of a long row itself */

/* Prefetch rows, which the processor cannot predict. */
static void
fetch_row(const unsigned char *row, size_t nbytes)
{
	for (size_t at = 0; at < nbytes && at < HOIST_BYTES; at += 64)
		__builtin_prefetch(row + at, 0, 1);
}

static enum rc
gather_run(struct kern_call *call)
{
	uint64_t n = call->v[GATHER_N].u, rows = call->v[GATHER_ROWS].u,
		 cols = call->v[GATHER_COLS].u, i, row;
	bool cast = call->v[GATHER_TO].u != GPUSIM_NDTYPES;
	unsigned to = cast ? GATHER_TO : GATHER_DTYPE;
	size_t size = kern_type(call, GATHER_DTYPE), to_size = kern_type(call, to);
	unsigned char *dst = kern_at(call, GATHER_DST, n, cols, to_size);
	const unsigned char *src = kern_at(call, GATHER_SRC, rows, cols, size);
	struct kern_cast c;
	/* Volatile: another thread may write it meanwhile, and the checked value must be the used one. */
	const volatile uint32_t *index = kern_at(call, GATHER_INDEX, n, 1, sizeof *index);

	kern_apart(call, GATHER_DST, GATHER_SRC);
	kern_apart(call, GATHER_DST, GATHER_INDEX);
	for (i = 0; call->rc == RC_OK && i < n; i++) {
		if ((row = index[i]) >= rows)
			kern_fail(call, RC_BADDATA,
				  "index[%" PRIu64 "] is %" PRIu64 ": must be less than %" PRIu64
				  " rows",
				  i, row, rows);
	}
	if (call->rc != RC_OK)
		return call->rc;
	kern_cast_init(&c, (enum gpusim_dtype)call->v[to].u,
		       (enum gpusim_dtype)call->v[GATHER_DTYPE].u, call->v[GATHER_SCALE].f);
	for (i = 0; i < n; i++) {
		if (i + AHEAD < n && (row = index[i + AHEAD]) < rows)
			fetch_row(src + row * cols * size, cols * size);
		if ((row = index[i]) >= rows)
			return kern_fail(call, RC_BADDATA,
					 "index[%" PRIu64 "] changed during the kernel", i);
		kern_cast(&c, dst + i * cols * to_size, src + row * cols * size, cols);
	}
	return RC_OK;
}

/*
 * gather - dst[i,:] = scale src[index[i],:], in another type if one is named. dst overlaps neither
 * src nor index.
 *
 * Converts as cast does, row by row while it is in the cache.
 * Errors: RC_INVAL; RC_BADDATA an index past the rows. Checked by: tests/unit/kern/t_kern_vec.c
 */
const struct kernel kernel_gather = {
    .name = "gather",
    .summary = "pick rows of a matrix by index, and convert them",
    .params =
	{
	    [GATHER_DST] = {"dst", KP_ADDR, false, 0, "[n,cols] of type to, out"},
	    [GATHER_SRC] = {"src", KP_ADDR, false, 0, "[rows,cols] in"},
	    [GATHER_INDEX] = {"index", KP_ADDR, false, 0, "u32[n] which rows"},
	    [GATHER_N] = {"n", KP_COUNT, false, 0, "rows to pick"},
	    [GATHER_ROWS] = {"rows", KP_COUNT, false, 0, "rows of src"},
	    [GATHER_COLS] = {"cols", KP_COUNT, false, 0, "elements in a row"},
	    [GATHER_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "any type"},
	    [GATHER_TO] = {"to", KP_DTYPE, true, GPUSIM_NDTYPES, "type of dst; not given: dtype"},
	    [GATHER_SCALE] = {"scale", KP_REAL, true, 1, "factor, e.g. 1/255 for pixels"},
	},
    .run = gather_run,
};

/* ---- axpy */

enum { AXPY_Y, AXPY_X, AXPY_N, AXPY_ALPHA, AXPY_DTYPE };

#define AXPY_LOOP(type)                                                                  \
	HOT_CLONES static void axpy_##type(type *y, const type *x, size_t n, type alpha) \
	{                                                                                \
		size_t i;                                                                \
                                                                                         \
		HOT_LOOP                                                                 \
		for (i = 0; i < n; i++)                                                  \
			y[i] += alpha * x[i];                                            \
	}
AXPY_LOOP(float)
AXPY_LOOP(double)

static enum rc
axpy_run(struct kern_call *call)
{
	size_t size = kern_float(call, AXPY_DTYPE), n = call->v[AXPY_N].u;
	void *y = kern_out(call, AXPY_Y, n, 1, size);
	const void *x = kern_at(call, AXPY_X, n, 1, size);
	double alpha = call->v[AXPY_ALPHA].f;

	kern_inplace(call, AXPY_Y, AXPY_X);
	if (call->rc != RC_OK)
		return call->rc;
	KERN_LOOP(size, axpy, y, x, n, alpha);
	return RC_OK;
}

/*
 * axpy - y[i] += alpha x[i]; x may be y.
 *
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_vec.c
 */
const struct kernel kernel_axpy = {
    .name = "axpy",
    .summary = "add a multiple of a vector",
    .params =
	{
	    [AXPY_Y] = {"y", KP_ADDR, false, 0, "[n] in and out"},
	    [AXPY_X] = {"x", KP_ADDR, false, 0, "[n] in"},
	    [AXPY_N] = {"n", KP_COUNT, false, 0, "number of elements"},
	    [AXPY_ALPHA] = {"alpha", KP_REAL, true, 1, "factor of x"},
	    [AXPY_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = axpy_run,
};

/* ---- scale */

enum { SCALE_X, SCALE_N, SCALE_ALPHA, SCALE_DTYPE };

#define SCALE_LOOP(type)                                                   \
	HOT_CLONES static void scale_##type(type *x, size_t n, type alpha) \
	{                                                                  \
		size_t i;                                                  \
                                                                           \
		for (i = 0; i < n; i++)                                    \
			x[i] *= alpha;                                     \
	}
SCALE_LOOP(float)
SCALE_LOOP(double)

static enum rc
scale_run(struct kern_call *call)
{
	size_t size = kern_float(call, SCALE_DTYPE), n = call->v[SCALE_N].u;
	void *x = kern_out(call, SCALE_X, n, 1, size);
	double alpha = call->v[SCALE_ALPHA].f;

	if (call->rc != RC_OK)
		return call->rc;
	KERN_LOOP(size, scale, x, n, alpha);
	return RC_OK;
}

/*
 * scale - x[i] *= alpha.
 *
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_vec.c
 */
const struct kernel kernel_scale = {
    .name = "scale",
    .summary = "multiply a vector by a number",
    .params =
	{
	    [SCALE_X] = {"x", KP_ADDR, false, 0, "[n] in and out"},
	    [SCALE_N] = {"n", KP_COUNT, false, 0, "number of elements"},
	    [SCALE_ALPHA] = {"alpha", KP_REAL, false, 0, "the factor"},
	    [SCALE_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = scale_run,
};
