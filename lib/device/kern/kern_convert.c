/*
 * kern_convert.c - conversion between any two element types.
 *
 * Blocks that stay in the first-level cache are converted through one wide type, int64_t between
 * integers, double otherwise. So ten loops in and ten out serve a hundred pairs. The loops are generated
 * from DTYPES.
 */
#include "kern/kern_impl.h"

#include <math.h>
#include <string.h>

#include "mem/clones.h"
#include "mem/half.h"
#include "mem/halfvec.h"

#define BLOCK 512

/*
 * A case in a switch over types: out[i] of n is an expression of the element `from[i]`, which the
 * kind of the type chooses. Kinds that cannot occur have none.
 */
#define CASE(constant, to, from, expr)         \
	case GPUSIM_##constant: {              \
		to;                            \
		from;                          \
                                               \
		HOT_LOOP                       \
		for (size_t i = 0; i < n; i++) \
			out[i] = (expr);       \
		break;                         \
	}
#define SIGNED_MAX(type)   (((uint64_t)1 << (8 * sizeof(type) - 1)) - 1)
#define UNSIGNED_MAX(type) ((type)-1)

/* ---- through double */

/*
 * A whole number as a double that still rounds correctly to any narrower type: where it has more than
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

#define REAL_LOAD(name, type, x)     (double)(x)
#define HALF_LOAD(name, type, x)     (double)name##_to_f32(x)
#define SIGNED_LOAD(name, type, x)   exact || sizeof(type) < 8 ? (double)(x) : sticky_signed(x)
#define UNSIGNED_LOAD(name, type, x) exact || sizeof(type) < 8 ? (double)(x) : (double)sticky(x)
#define LOAD(constant, name, type, kind, ...) \
	CASE(constant, double *out = dst, const type *from = src, kind##_LOAD(name, type, from[i]))

/* exact: the doubles are the result, so 64-bit integers round to nearest, not to odd. */
HOT_CLONES static void
cast_widen(enum gpusim_dtype t, double *dst, const void *src, size_t n, bool exact)
{
	switch (t) {
		DTYPES(LOAD)
	case GPUSIM_NDTYPES:
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

/* 2^63 and 2^64 are doubles but not elements: the range ends at the largest double that is one. */
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

#define REAL_STORE(name, type, x) (type)(x)
#define HALF_STORE(name, type, x) name##_from_f32(float_to_odd(x))
#define SIGNED_STORE(name, type, x)                                                      \
	sizeof(type) < 8                                                                 \
	    ? (type)to_whole(x, -1 - (double)SIGNED_MAX(type), (double)SIGNED_MAX(type)) \
	    : (type)to_i64(x)
#define UNSIGNED_STORE(name, type, x) \
	sizeof(type) < 8 ? (type)to_whole(x, 0, (double)UNSIGNED_MAX(type)) : (type)to_u64(x)
#define STORE(constant, name, type, kind, ...) \
	CASE(constant, type *out = dst, const double *from = src, kind##_STORE(name, type, from[i]))

HOT_CLONES static void
cast_narrow(enum gpusim_dtype t, void *dst, const double *src, size_t n)
{
	switch (t) {
		DTYPES(STORE)
	case GPUSIM_NDTYPES:
		break;
	}
}

/* Separate from its loops, because clang 14 hides the name of a function that it clones. */
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

/* Floats never occur here. A u64 above INT64_MAX becomes INT64_MAX: it saturates in every other integer type
 * anyway. */
#define NO_CASE(constant, type) \
	case GPUSIM_##constant: \
		break;
#define REAL_TAKE NO_CASE
#define HALF_TAKE NO_CASE
#define SIGNED_TAKE(constant, type) \
	CASE(constant, int64_t *out = dst, const type *from = src, from[i])
#define UNSIGNED_TAKE(constant, type)                              \
	CASE(constant, int64_t *out = dst, const type *from = src, \
	     sizeof(type) == 8 && from[i] > INT64_MAX ? INT64_MAX : (int64_t)from[i])
#define TAKE(constant, name, type, kind, ...) kind##_TAKE(constant, type)

HOT_CLONES static void
integers_widen(enum gpusim_dtype t, int64_t *dst, const void *src, size_t n)
{
	switch (t) {
		DTYPES(TAKE)
	case GPUSIM_NDTYPES:
		break;
	}
}

#define REAL_GIVE NO_CASE
#define HALF_GIVE NO_CASE
#define SIGNED_GIVE(constant, type)                                \
	CASE(constant, type *out = dst, const int64_t *from = src, \
	     (type)clamp(from[i], -1 - (int64_t)SIGNED_MAX(type), (int64_t)SIGNED_MAX(type)))
#define UNSIGNED_GIVE(constant, type)                              \
	CASE(constant, type *out = dst, const int64_t *from = src, \
	     (type)clamp(from[i], 0, sizeof(type) < 8 ? (int64_t)UNSIGNED_MAX(type) : INT64_MAX))
#define GIVE(constant, name, type, kind, ...) kind##_GIVE(constant, type)

HOT_CLONES static void
integers_narrow(enum gpusim_dtype t, void *dst, const int64_t *src, size_t n)
{
	switch (t) {
		DTYPES(GIVE)
	case GPUSIM_NDTYPES:
		break;
	}
}

/* ---- bytes to f32, the input of networks */

HOT_CLONES static void
bytes_by_parts(float *out, const uint8_t *src, size_t n, float hi, float lo)
{
	HOT_LOOP
	for (size_t i = 0; i < n; i++)
		out[i] = (float)src[i] * hi + (float)src[i] * lo;
}

HOT_CLONES static void
bytes_by_double(float *out, const uint8_t *src, size_t n, double scale)
{
	HOT_LOOP
	for (size_t i = 0; i < n; i++)
		out[i] = (float)((double)src[i] * scale);
}

/*
 * The scale in two parts: hi has 16 bits, so its product with a byte is exact, and lo is the rest.
 * That nearly always rounds as the product in double does, in a third of the time; all 256 bytes are tried.
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

/* ---- halves to f32 and back: the copies that kernels compute on */

HOT_CLONES static void
bf16_widen(float *out, const uint16_t *src, size_t n)
{
	HOT_LOOP
	for (size_t i = 0; i < n; i++)
		out[i] = bf16_to_f32(src[i]);
}

HOT_CLONES static void
bf16_narrow(uint16_t *out, const float *src, size_t n)
{
	HOT_LOOP
	for (size_t i = 0; i < n; i++)
		out[i] = bf16_from_f32(src[i]);
}

/* False: of other types. */
static bool
cast_half(enum gpusim_dtype to, void *dst, enum gpusim_dtype from, const void *src, size_t n)
{
	if (to == GPUSIM_F32 && from == GPUSIM_F16)
		halfvec_widen(dst, src, n);
	else if (to == GPUSIM_F16 && from == GPUSIM_F32)
		halfvec_narrow(dst, src, n);
	else if (to == GPUSIM_F32 && from == GPUSIM_BF16)
		bf16_widen(dst, src, n);
	else if (to == GPUSIM_BF16 && from == GPUSIM_F32)
		bf16_narrow(dst, src, n);
	else
		return false;
	return true;
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
	} else if (c->scale != 1 || !cast_half(c->to, dst, c->from, src, n)) {
		for (at = 0; at < n; at += count) {
			count = n - at < BLOCK ? n - at : BLOCK;
			cast_block(c->to, (unsigned char *)dst + at * to_size, c->from,
				   (const unsigned char *)src + at * from_size, count, c->scale);
		}
	}
}
