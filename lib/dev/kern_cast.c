/*
 * kern_cast.c - conversion between any two element types.
 *
 * Blocks that stay in the first-level cache go through one wide type, so that ten loops in and ten
 * out do for a hundred pairs: int64_t between integers, double otherwise.
 */
#include "dev/kern_impl.h"

#include <math.h>
#include <string.h>

#include "mem/clones.h"
#include "mem/half.h"

#define BLOCK 512

enum { DST, SRC, N, FROM, TO, SCALE };

#define LOOP(expr)              \
	HOT_LOOP                \
	for (i = 0; i < n; i++) \
	out[i] = (expr)

/* ---- through double */

/*
 * A whole number as a double that still rounds rightly to any narrower type: where it has more than
 * 53 bits, the lower ones are or-ed into bit 11 (rounding to odd).
 */
static inline uint64_t
sticky(uint64_t u)
{
	return u >> 53 ? (u & ~UINT64_C(0x7ff)) | (uint64_t)((u & 0x7ff) != 0) << 11 : u;
}

static inline double
sticky_signed(int64_t s)
{
	return s < 0 ? -(double)sticky(0 - (uint64_t)s) : (double)sticky((uint64_t)s);
}

/* A double as a float likewise: truncated, and odd where that was inexact. NaN stays NaN. */
static inline float
float_to_odd(double d)
{
	float f = (float)d;
	uint32_t away = fabs((double)f) > fabs(d), inexact = (double)f != d;

	return f32_of_bits((f32_bits(f) - away) | inexact);
}

/* exact: the doubles are the result, so 64-bit integers round to nearest, not to odd. */
HOT_CLONES static void
cast_widen(enum gpusim_dtype t, double *out, const void *src, size_t n, bool exact)
{
	size_t i;

	switch (t) {
	case GPUSIM_F64:
		memcpy(out, src, n * sizeof *out);
		break;
	case GPUSIM_F32:
		LOOP((double)((const float *)src)[i]);
		break;
	case GPUSIM_F16:
		LOOP((double)f16_to_f32(((const uint16_t *)src)[i]));
		break;
	case GPUSIM_BF16:
		LOOP((double)bf16_to_f32(((const uint16_t *)src)[i]));
		break;
	case GPUSIM_I8:
		LOOP(((const int8_t *)src)[i]);
		break;
	case GPUSIM_U8:
		LOOP(((const uint8_t *)src)[i]);
		break;
	case GPUSIM_I32:
		LOOP(((const int32_t *)src)[i]);
		break;
	case GPUSIM_U32:
		LOOP(((const uint32_t *)src)[i]);
		break;
	case GPUSIM_I64:
		if (exact)
			LOOP((double)((const int64_t *)src)[i]);
		else
			LOOP(sticky_signed(((const int64_t *)src)[i]));
		break;
	case GPUSIM_U64:
		if (exact)
			LOOP((double)((const uint64_t *)src)[i]);
		else
			LOOP((double)sticky(((const uint64_t *)src)[i]));
		break;
	default:
		break;
	}
}

/* To nearest even, into [lo, hi]; NaN is 0. */
static inline double
to_whole(double d, double lo, double hi)
{
	d = d >= lo ? d : d < lo ? lo : 0;
	return rint(d <= hi ? d : hi);
}

/* 2^63 and 2^64 are doubles but no elements: the largest double that is one ends the range. */
static inline int64_t
to_i64(double d)
{
	return d >= 0x1p63 ? INT64_MAX : (int64_t)to_whole(d, -0x1p63, 0x1p63 - 1024);
}

static inline uint64_t
to_u64(double d)
{
	return d >= 0x1p64 ? UINT64_MAX : (uint64_t)to_whole(d, 0, 0x1p64 - 2048);
}

#define NARROW(type, expr)          \
	do {                        \
		type *out = dst;    \
                                    \
		LOOP((type)(expr)); \
	} while (0)

HOT_CLONES static void
cast_narrow(enum gpusim_dtype t, void *dst, const double *src, size_t n)
{
	size_t i;

	switch (t) {
	case GPUSIM_F64:
		memcpy(dst, src, n * sizeof *src);
		break;
	case GPUSIM_F32:
		NARROW(float, src[i]);
		break;
	case GPUSIM_F16:
		NARROW(uint16_t, f16_from_f32(float_to_odd(src[i])));
		break;
	case GPUSIM_BF16:
		NARROW(uint16_t, bf16_from_f32(float_to_odd(src[i])));
		break;
	case GPUSIM_I8:
		NARROW(int8_t, to_whole(src[i], INT8_MIN, INT8_MAX));
		break;
	case GPUSIM_U8:
		NARROW(uint8_t, to_whole(src[i], 0, UINT8_MAX));
		break;
	case GPUSIM_I32:
		NARROW(int32_t, to_whole(src[i], INT32_MIN, INT32_MAX));
		break;
	case GPUSIM_U32:
		NARROW(uint32_t, to_whole(src[i], 0, UINT32_MAX));
		break;
	case GPUSIM_I64:
		NARROW(int64_t, to_i64(src[i]));
		break;
	case GPUSIM_U64:
		NARROW(uint64_t, to_u64(src[i]));
		break;
	default:
		break;
	}
}

/* Apart from its loops, because clang 14 hides the name of a function that it clones. */
void
kern_narrow(enum gpusim_dtype t, void *dst, const double *src, size_t n)
{
	cast_narrow(t, dst, src, n);
}

/* ---- through int64_t */

static inline int64_t
clamp(int64_t s, int64_t lo, int64_t hi)
{
	return s < lo ? lo : s > hi ? hi : s;
}

/* A u64 above INT64_MAX becomes that: it saturates in every other integer type anyway. */
HOT_CLONES static void
integers_widen(enum gpusim_dtype t, int64_t *out, const void *src, size_t n)
{
	const uint64_t *u64 = src;
	size_t i;

	switch (t) {
	case GPUSIM_I8:
		LOOP(((const int8_t *)src)[i]);
		break;
	case GPUSIM_U8:
		LOOP(((const uint8_t *)src)[i]);
		break;
	case GPUSIM_I32:
		LOOP(((const int32_t *)src)[i]);
		break;
	case GPUSIM_U32:
		LOOP(((const uint32_t *)src)[i]);
		break;
	case GPUSIM_I64:
		memcpy(out, src, n * sizeof *out);
		break;
	default:
		LOOP(u64[i] > INT64_MAX ? INT64_MAX : (int64_t)u64[i]);
		break;
	}
}

HOT_CLONES static void
integers_narrow(enum gpusim_dtype t, void *dst, const int64_t *src, size_t n)
{
	size_t i;

	switch (t) {
	case GPUSIM_I8:
		NARROW(int8_t, clamp(src[i], INT8_MIN, INT8_MAX));
		break;
	case GPUSIM_U8:
		NARROW(uint8_t, clamp(src[i], 0, UINT8_MAX));
		break;
	case GPUSIM_I32:
		NARROW(int32_t, clamp(src[i], INT32_MIN, INT32_MAX));
		break;
	case GPUSIM_U32:
		NARROW(uint32_t, clamp(src[i], 0, UINT32_MAX));
		break;
	case GPUSIM_I64:
		memcpy(dst, src, n * sizeof *src);
		break;
	default:
		NARROW(uint64_t, clamp(src[i], 0, INT64_MAX));
		break;
	}
}

/* ---- bytes to f32, which is what networks are fed with */

HOT_CLONES static void
bytes_by_parts(float *out, const uint8_t *src, size_t n, float hi, float lo)
{
	size_t i;

	LOOP((float)src[i] * hi + (float)src[i] * lo);
}

HOT_CLONES static void
bytes_by_double(float *out, const uint8_t *src, size_t n, double scale)
{
	size_t i;

	LOOP((float)((double)src[i] * scale));
}

/*
 * The scale in two parts: hi has 16 bits, so its product with a byte is exact, and lo is the rest.
 * That nearly always rounds as the product in double does, in a third of the time; there are only
 * 256 bytes to try it with.
 */
static void
split_scale(struct kern_cast *c)
{
	uint8_t all[256];
	float want[256], got[256];

	c->hi = f32_of_bits(f32_bits((float)c->scale) & 0xffffff00);
	c->lo = (float)(c->scale - (double)c->hi);
	for (size_t i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	bytes_by_double(want, all, 256, c->scale);
	bytes_by_parts(got, all, 256, c->hi, c->lo);
	c->parts = memcmp(got, want, sizeof want) == 0;
}

/* ---- any types */

static void
cast_block(enum gpusim_dtype to, void *dst, enum gpusim_dtype from, const void *src, size_t n,
	   double scale)
{
	double reals[BLOCK];
	int64_t whole[BLOCK];
	size_t i;

	if (scale == 1 && !dtype_is_float(from) && !dtype_is_float(to)) {
		integers_widen(from, whole, src, n);
		integers_narrow(to, dst, whole, n);
		return;
	}
	cast_widen(from, reals, src, n, scale != 1 || to == GPUSIM_F64);
	if (scale != 1) {
		for (i = 0; i < n; i++)
			reals[i] *= scale;
	}
	cast_narrow(to, dst, reals, n);
}

void
kern_cast_init(struct kern_cast *c, enum gpusim_dtype to, enum gpusim_dtype from, double scale)
{
	*c = (struct kern_cast){.to = to, .from = from, .scale = scale};
	if (from == GPUSIM_U8 && to == GPUSIM_F32)
		split_scale(c);
}

void
kern_cast(const struct kern_cast *c, void *dst, const void *src, size_t n)
{
	size_t from_size = dtype_size(c->from), to_size = dtype_size(c->to), at, count;

	if (c->from == c->to && c->scale == 1) {
		memcpy(dst, src, n * to_size);
	} else if (c->parts) {
		bytes_by_parts(dst, src, n, c->hi, c->lo);
	} else {
		for (at = 0; at < n; at += count) {
			count = n - at < BLOCK ? n - at : BLOCK;
			cast_block(c->to, (unsigned char *)dst + at * to_size, c->from,
				   (const unsigned char *)src + at * from_size, count, c->scale);
		}
	}
}

/* ---- the kernel */

static enum rc
cast_run(const struct devmem *mem, const union kernel_value *v, struct err *err)
{
	struct kern_call call = {.k = &kernel_cast, .mem = mem, .v = v, .err = err};
	size_t from_size = kern_type(&call, FROM), to_size = kern_type(&call, TO);
	enum gpusim_dtype from = (enum gpusim_dtype)v[FROM].u, to = (enum gpusim_dtype)v[TO].u;
	uint64_t n = v[N].u;
	void *dst = kern_at(&call, DST, n, 1, to_size);
	const void *src = kern_at(&call, SRC, n, 1, from_size);
	struct kern_cast cast;

	kern_apart(&call, DST, SRC);
	if (call.rc != RC_OK)
		return call.rc;
	kern_cast_init(&cast, to, from, v[SCALE].f);
	kern_cast(&cast, dst, src, n);
	return RC_OK;
}

/*
 * cast - dst[i] = scale src[i] in another type. The areas do not overlap.
 *
 * Rounds once, to nearest even (with a scale: the product is a double, and rounds again). A number
 * beyond an integer type becomes its nearest element, NaN becomes 0; beyond a float type, infinity.
 * Errors: RC_INVAL. Checked by: tests/unit/t_kern_cast.c
 */
const struct kernel kernel_cast = {
    .name = "cast",
    .summary = "convert a vector to another type",
    .params =
	{
	    [DST] = {"dst", KP_ADDR, false, 0, "[n] of type to, out"},
	    [SRC] = {"src", KP_ADDR, false, 0, "[n] of type from, in"},
	    [N] = {"n", KP_COUNT, false, 0, "number of elements"},
	    [FROM] = {"from", KP_DTYPE, false, 0, "type of src"},
	    [TO] = {"to", KP_DTYPE, false, 0, "type of dst"},
	    [SCALE] = {"scale", KP_REAL, true, 1, "factor, e.g. 1/255 for pixels"},
	},
    .run = cast_run,
};
