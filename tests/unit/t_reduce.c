/* Every type and operation against one element at a time, at awkward counts and addresses. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/reduce.h"

#include "tap.h"

#define MAX_NELEM 2100 /* more than the blocks that f16 goes through */

static uint64_t seed = 0x9e3779b97f4a7c15ull;

static uint64_t
rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed * 0x2545f4914f6cdd1dull;
}

/* The naive reference for floats: x op y exactly as the header says. */
static double
ref_minmax(bool want_max, double x, double y)
{
	if (isnan(x) || isnan(y))
		return (double)NAN;
	if (x == y)
		return (signbit(x) != 0) != want_max ? x : y;
	return (x < y) != want_max ? x : y;
}

#define REF_FLOAT(type, op, x, y)                                                 \
	((op) == GPUSIM_PROD  ? (type)((x) * (y))                                 \
	 : (op) == GPUSIM_MIN ? (type)ref_minmax(false, (double)(x), (double)(y)) \
	 : (op) == GPUSIM_MAX ? (type)ref_minmax(true, (double)(x), (double)(y))  \
			      : (type)((x) + (y)))

#define REF_INT(type, utype)                                            \
	do {                                                            \
		type ix, iy, r;                                         \
		memcpy(&ix, a, sizeof ix);                              \
		memcpy(&iy, b, sizeof iy);                              \
		if (op == GPUSIM_MIN)                                   \
			r = ix < iy ? ix : iy;                          \
		else if (op == GPUSIM_MAX)                              \
			r = ix > iy ? ix : iy;                          \
		else if (op == GPUSIM_PROD)                             \
			r = (type)(utype)((uint64_t)ix * (uint64_t)iy); \
		else                                                    \
			r = (type)(utype)((uint64_t)ix + (uint64_t)iy); \
		memcpy(d, &r, sizeof r);                                \
	} while (0)

static void
ref_one(enum gpusim_dtype t, enum gpusim_op op, void *d, const void *a, const void *b)
{
	uint16_t ha, hb;
	double x, y;
	float fx, fy;

	switch (t) {
	case GPUSIM_F64:
		memcpy(&x, a, 8);
		memcpy(&y, b, 8);
		x = REF_FLOAT(double, op, x, y);
		memcpy(d, &x, 8);
		break;
	case GPUSIM_F32:
		memcpy(&fx, a, 4);
		memcpy(&fy, b, 4);
		fx = REF_FLOAT(float, op, fx, fy);
		memcpy(d, &fx, 4);
		break;
	case GPUSIM_F16:
	case GPUSIM_BF16:
		memcpy(&ha, a, 2);
		memcpy(&hb, b, 2);
		fx = t == GPUSIM_F16 ? half_to_f32(ha) : bf16_to_f32(ha);
		fy = t == GPUSIM_F16 ? half_to_f32(hb) : bf16_to_f32(hb);
		fx = REF_FLOAT(float, op, fx, fy);
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

static bool
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
static bool
same(enum gpusim_dtype t, const void *p, const void *q)
{
	return memcmp(p, q, dtype_size(t)) == 0 || (is_nan(t, p) && is_nan(t, q));
}

/* Random bits; one element in eight is special: 0, -0, inf, NaN, all ones, the sign bit alone. */
static void
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

enum place { PLACE_APART, PLACE_ON_A, PLACE_ON_B, PLACE_ALL_ONE, NPLACES };

static unsigned char mem_a[8 * MAX_NELEM + 16], mem_b[8 * MAX_NELEM + 16],
    mem_d[8 * MAX_NELEM + 16], keep_a[8 * MAX_NELEM], keep_b[8 * MAX_NELEM];

/* One call at one placement; the index of the first wrong element, or -1. Also: bytes around stay.
 */
static long
try_one(enum gpusim_dtype t, enum gpusim_op op, size_t nelem, enum place place, size_t off)
{
	size_t size = dtype_size(t), i;
	unsigned char *a = mem_a + off, *b = mem_b + (off ? 8 - off : 0), *d = mem_d + off / 2,
		      want[8];

	fill(t, a, nelem);
	fill(t, b, nelem);
	if (place == PLACE_ALL_ONE)
		b = a;
	if (place == PLACE_ON_A || place == PLACE_ALL_ONE)
		d = a;
	if (place == PLACE_ON_B)
		d = b;
	memcpy(keep_a, a, nelem * size);
	memcpy(keep_b, b, nelem * size);
	d[nelem * size] = 0x5a;
	reduce_apply(t, op, d, a, b, nelem);
	if (d[nelem * size] != 0x5a)
		return (long)nelem;
	for (i = 0; i < nelem; i++) {
		ref_one(t, op, want, keep_a + i * size, keep_b + i * size);
		if (!same(t, want, d + i * size))
			return (long)i;
	}
	return -1;
}

static void
test_apply(enum gpusim_dtype t, enum gpusim_op op)
{
	static const size_t counts[] = {0,  1,	2,  3,	7,   8,	   15,	 16,	   17,
					31, 33, 64, 65, 127, 1023, 1025, MAX_NELEM};
	char what[128] = "";
	size_t c, off;
	int place;
	long bad;

	for (c = 0; c < sizeof counts / sizeof counts[0]; c++) {
		for (off = 0; off<8; off += counts[c]> 128 ? 3 : 1) {
			for (place = 0; place < NPLACES; place++) {
				bad = try_one(t, op, counts[c], (enum place)place, off);
				if (bad >= 0 && !what[0])
					snprintf(what, sizeof what,
						 "element %ld of %zu, placement %d, offset %zu",
						 bad, counts[c], place, off);
			}
		}
	}
	ok(!what[0], "%s %s", dtype_name(t), op_name(op));
	if (what[0])
		printf("# %s\n", what);
}

/* x op identity is x, for every x but -0 + 0 and NaN payloads. */
static void
test_identity(enum gpusim_dtype t)
{
	size_t size = dtype_size(t), i;
	int op, bad = 0;

	for (op = 0; op < GPUSIM_NOPS; op++) {
		fill(t, mem_a, 1000);
		if (dtype_is_float(t) && (op == GPUSIM_SUM || op == GPUSIM_AVG))
			for (i = 0; i < 1000; i++)
				mem_a[(i + 1) * size - 1] &= 0x7f;
		reduce_identity(t, (enum gpusim_op)op, mem_b, 1000);
		reduce_apply(t, (enum gpusim_op)op, mem_d, mem_a, mem_b, 1000);
		for (i = 0; i < 1000; i++)
			bad += !same(t, mem_a + i * size, mem_d + i * size);
	}
	ok(bad == 0, "%s: the identity of each operation changes nothing", dtype_name(t));
}

#define AVG(t, type, n, ...)                                           \
	do {                                                           \
		type v[] = {__VA_ARGS__}, want[] = {__VA_ARGS__};      \
		size_t k, nv = sizeof v / sizeof v[0];                 \
		for (k = 0; k < nv; k++)                               \
			want[k] = (type)(want[k] / (n));               \
		memcpy(mem_a + 1, v, sizeof v);                        \
		reduce_finish(t, GPUSIM_AVG, mem_a + 1, nv, n);        \
		good = good && memcmp(mem_a + 1, want, sizeof v) == 0; \
	} while (0)

static void
test_finish(void)
{
	bool good = true;
	uint16_t h[3] = {half_from_f32(10), half_from_f32(-1), half_from_f32(0.5f)}, w[3];
	int i;

	AVG(GPUSIM_F64, double, 3, 1, -10, 1e300, 0.1);
	AVG(GPUSIM_F32, float, 3, 1, -10, 1e30f, 0.1f);
	ok(good, "avg divides f32 and f64");
	for (i = 0; i < 3; i++)
		w[i] = half_from_f32(half_to_f32(h[i]) / 3);
	reduce_finish(GPUSIM_F16, GPUSIM_AVG, h, 3, 3);
	good = memcmp(h, w, sizeof h) == 0;
	for (i = 0; i < 3; i++) {
		h[i] = bf16_from_f32((float)i - 7.5f);
		w[i] = bf16_from_f32(bf16_to_f32(h[i]) / 7);
	}
	reduce_finish(GPUSIM_BF16, GPUSIM_AVG, h, 3, 7);
	ok(good && memcmp(h, w, sizeof h) == 0, "avg divides f16 and bf16 in f32");
	good = true;
	AVG(GPUSIM_I8, int8_t, 3, -128, -1, -7, 7, 127);
	AVG(GPUSIM_U8, uint8_t, 3, 255, 0, 2, 3, 128);
	AVG(GPUSIM_I32, int32_t, 4, INT32_MIN, INT32_MAX, -3, 3, -4);
	AVG(GPUSIM_U32, uint32_t, 4u, UINT32_MAX, 0, 0x80000000u);
	AVG(GPUSIM_I64, int64_t, 5, INT64_MIN, INT64_MAX, -4, 4, -5);
	AVG(GPUSIM_U64, uint64_t, 5u, UINT64_MAX, 0, 1ull << 63);
	ok(good, "avg of integers truncates toward zero");
	h[0] = 9;
	reduce_finish(GPUSIM_BF16, GPUSIM_SUM, h, 1, 3);
	reduce_finish(GPUSIM_BF16, GPUSIM_AVG, h, 1, 1);
	reduce_finish(GPUSIM_BF16, GPUSIM_AVG, h, 1, 0);
	ok(h[0] == 9, "other operations and one rank divide nothing");
}

int
main(void)
{
	unsigned char one = 1;
	int t, op;

	for (t = 0; t < GPUSIM_NDTYPES; t++) {
		for (op = 0; op < GPUSIM_NOPS; op++)
			test_apply((enum gpusim_dtype)t, (enum gpusim_op)op);
		test_identity((enum gpusim_dtype)t);
	}
	test_finish();
	reduce_apply((enum gpusim_dtype)99, GPUSIM_SUM, &one, &one, &one, 1);
	reduce_apply(GPUSIM_U8, (enum gpusim_op)99, &one, &one, &one, 1);
	ok(one == 1, "a number that is no type or operation touches nothing");
	return tap_done();
}
