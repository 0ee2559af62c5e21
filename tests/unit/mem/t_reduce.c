/* Every type and operation against one element at a time, at awkward counts and addresses. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/redop.h"
#include "mem/reduce.h"
#include "mem/reduce_many.h"

#include "reduce_test.h"
#include "tap.h"

#define MAX_NELEM 2100 /* more than the blocks that f16 goes through */

enum place { PLACE_APART, PLACE_ON_A, PLACE_ON_B, PLACE_ALL_ONE, NPLACES };

static unsigned char mem_a[8 * MAX_NELEM + 16], mem_b[8 * MAX_NELEM + 16],
    mem_d[8 * MAX_NELEM + 16], keep_a[8 * MAX_NELEM], keep_b[8 * MAX_NELEM];

/* One call at one placement; the index of the first wrong element, or -1. Also: bytes around stay.
 */
static long
try_one(enum gpusim_dtype t, enum gpusim_redop redop, size_t nelem, enum place place, size_t off)
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
	reduce_apply(t, redop, d, a, b, nelem);
	if (d[nelem * size] != 0x5a)
		return (long)nelem;
	for (i = 0; i < nelem; i++) {
		union number n = number_fold(t, redop, number_get(t, keep_a + i * size),
					     number_get(t, keep_b + i * size));

		number_put(t, want,
			   number_finish(t, redops[redop].mean ? GPUSIM_SUM : redop, n, 2));
		if (!same(t, want, d + i * size))
			return (long)i;
	}
	return -1;
}

static void
test_apply(enum gpusim_dtype t, enum gpusim_redop redop)
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
				bad = try_one(t, redop, counts[c], (enum place)place, off);
				if (bad >= 0 && !what[0])
					snprintf(what, sizeof what,
						 "element %ld of %zu, placement %d, offset %zu",
						 bad, counts[c], place, off);
			}
		}
	}
	ok(!what[0], "%s %s", dtype_name(t), redop_name(redop));
	if (what[0])
		printf("# %s\n", what);
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

/* The row of a redop keeps what it promises to tests and to gpuctl bench. */
static void
test_row(enum gpusim_redop redop)
{
	const struct redop *row = &redops[redop];
	union number n, six;
	bool good = true;

	for (int t = 0; t < GPUSIM_NDTYPES; t++) {
		enum gpusim_dtype type = (enum gpusim_dtype)t;
		union number identity = number_of(type, row->identity);

		if (!redop_takes(redop, type))
			continue;
		for (int v = 0; v < 128; v++) {
			n = number_of(type, v);
			six = number_fold(type, redop, n, identity);
			good = good && memcmp(&six, &n, sizeof n) == 0;
		}
		six = number_of(type, row->small);
		for (int k = 1; k < 6; k++)
			six = number_fold(type, redop, six, number_of(type, row->small));
		n = number_of(type, dtype_is_float(type) ? 128 : 127);
		good = good && (dtype_is_float(type) ? six.real <= n.real : six.whole <= n.whole);
	}
	ok(good, "%s: its identity and its small numbers, in every type", row->name);
}

static void
test_finish(void)
{
	bool good = true;
	uint16_t h[3] = {f16_from_f32(10), f16_from_f32(-1), f16_from_f32(0.5f)}, w[3];
	uint8_t q[3], wq[3];
	int i;

	AVG(GPUSIM_F64, double, 3, 1, -10, 1e300, 0.1);
	AVG(GPUSIM_F32, float, 3, 1, -10, 1e30f, 0.1f);
	ok(good, "avg divides f32 and f64");
	for (i = 0; i < 3; i++)
		w[i] = f16_from_f32(f16_to_f32(h[i]) / 3);
	reduce_finish(GPUSIM_F16, GPUSIM_AVG, h, 3, 3);
	good = memcmp(h, w, sizeof h) == 0;
	for (i = 0; i < 3; i++) {
		h[i] = bf16_from_f32((float)i - 7.5f);
		w[i] = bf16_from_f32(bf16_to_f32(h[i]) / 7);
	}
	reduce_finish(GPUSIM_BF16, GPUSIM_AVG, h, 3, 7);
	ok(good && memcmp(h, w, sizeof h) == 0, "avg divides f16 and bf16 in f32");
	for (i = 0; i < 3; i++) {
		q[i] = f8e4m3_from_f32((float)i - 7.5f);
		wq[i] = f8e4m3_from_f32(f8e4m3_to_f32(q[i]) / 7);
	}
	reduce_finish(GPUSIM_F8E4M3, GPUSIM_AVG, q, 3, 7);
	ok(memcmp(q, wq, sizeof q) == 0, "and f8e4m3");
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

/* Every type times a factor, at odd addresses and in place. */
static void
test_scale(enum gpusim_dtype t)
{
	size_t size = dtype_size(t), i;
	unsigned char want[8], *a = mem_a + 1, *d = mem_d + 3;
	uint64_t factor = 0;
	bool good = true;

	for (int k = 0; k < 20; k++) {
		bool in_place = k % 2;

		fill(t, (unsigned char *)&factor, 1);
		fill(t, a, MAX_NELEM);
		memcpy(keep_a, a, MAX_NELEM * size);
		d = in_place ? a : mem_d + 3;
		d[MAX_NELEM * size] = 0x5a;
		reduce_scale(t, d, a, MAX_NELEM, factor);
		good = good && d[MAX_NELEM * size] == 0x5a;
		for (i = 0; i < MAX_NELEM; i++) {
			number_put(t, want,
				   number_enter(t, GPUSIM_PREMULSUM,
						number_get(t, keep_a + i * size),
						number_get(t, &factor)));
			good = good && same(t, want, d + i * size);
		}
	}
	ok(good, "%s times a factor", dtype_name(t));
}

/* Elements of one type by their bits; the reference says the same as the loops. */
struct given {
	enum gpusim_dtype t;
	enum gpusim_redop redop;
	uint32_t n; /* ranks */
	uint64_t in[2], factor, want;
};

/* One rank has its element, times its factor of premulsum; two have what is written here by hand. */
static const struct given by_hand[] = {
    {GPUSIM_F32, GPUSIM_SUM, 1, {0x40400000}, 0x40000000, 0x40400000},
    {GPUSIM_F32, GPUSIM_AVG, 1, {0x40400000}, 0x40000000, 0x40400000},
    {GPUSIM_F32, GPUSIM_PROD, 1, {0x80000000}, 0x40000000, 0x80000000},
    {GPUSIM_F32, GPUSIM_PREMULSUM, 1, {0x40400000}, 0x40000000, 0x40c00000}, /* 3, 2: 6 */
    {GPUSIM_F16, GPUSIM_PREMULSUM, 1, {0x7bff}, 0x4000, 0x7c00}, /* 65504, 2: infinity */
    {GPUSIM_I8, GPUSIM_PREMULSUM, 1, {100}, 3, 44},		 /* 300 - 256 */
    {GPUSIM_I8, GPUSIM_AVG, 1, {0x80}, 1, 0x80},		 /* -128 */
    {GPUSIM_F8E4M3, GPUSIM_PREMULSUM, 1, {0x7e}, 0x40, 0x7e},	 /* 448, 2: 448 */
    {GPUSIM_F8E5M2, GPUSIM_PREMULSUM, 1, {0x7c}, 0x40, 0x7b},	 /* infinity, 2: 57344 */
    {GPUSIM_F8E5M2, GPUSIM_SUM, 1, {0xfc}, 0x40, 0xfc},		 /* -infinity */
    {GPUSIM_F8E5M2, GPUSIM_SUM, 2, {0x7c, 0x3c}, 0, 0x7b},	 /* infinity, 1: 57344 */
    {GPUSIM_F8E5M2, GPUSIM_AVG, 2, {0x7c, 0x3c}, 0, 0x7b},
    {GPUSIM_F8E5M2, GPUSIM_MAX, 2, {0x7c, 0x3c}, 0, 0x7c},
    {GPUSIM_F8E5M2, GPUSIM_MAX, 2, {0xfc, 0xfb}, 0, 0xfb},
    {GPUSIM_F8E5M2, GPUSIM_MIN, 2, {0xfc, 0x3c}, 0, 0xfc},
    {GPUSIM_F8E5M2, GPUSIM_MIN, 2, {0x7c, 0x7c}, 0, 0x7c},
    {GPUSIM_F8E4M3, GPUSIM_MIN, 2, {0x80, 0x00}, 0, 0x80},
};

static void
test_by_hand(const struct given *g)
{
	uint64_t made = 0, entered[2] = {g->in[0], g->in[1]};
	const void *src[] = {&entered[0], &entered[1]};
	union number n, factor = number_get(g->t, &g->factor);
	unsigned char want[8] = {0};
	void *dst = &made;

	if (g->redop == GPUSIM_PREMULSUM)
		reduce_scale(g->t, &entered[0], &g->in[0], 1, g->factor);
	for (unsigned flags = 0; flags <= REDUCE_CANONICAL; flags += REDUCE_CANONICAL) {
		made = 0;
		reduce_many(g->t, g->redop, &dst, 1, src, g->n, 1, flags);
		ok(made == g->want, "%s %s of %u: 0x%llx", dtype_name(g->t), redop_name(g->redop),
		   g->n, (unsigned long long)made);
	}
	reduce_finish(g->t, g->redop, &entered[0], 1, 1);
	ok(g->n > 1 || entered[0] == g->want, "alone");
	n = number_enter(g->t, g->redop, number_get(g->t, &g->in[0]), factor);
	if (g->n > 1)
		n = number_fold(g->t, g->redop, n, number_get(g->t, &g->in[1]));
	number_put(g->t, want, number_finish(g->t, g->redop, n, g->n));
	ok(memcmp(want, &g->want, sizeof want) == 0, "so says the reference");
}

int
main(void)
{
	unsigned char one = 1;
	int t, redop;

	for (t = 0; t < GPUSIM_NDTYPES; t++) {
		for (redop = 0; redop < GPUSIM_NREDOPS; redop++)
			if (redop_takes((enum gpusim_redop)redop, (enum gpusim_dtype)t))
				test_apply((enum gpusim_dtype)t, (enum gpusim_redop)redop);
	}
	for (t = 0; t < GPUSIM_NDTYPES; t++)
		test_scale((enum gpusim_dtype)t);
	for (redop = 0; redop < GPUSIM_NREDOPS; redop++)
		test_row((enum gpusim_redop)redop);
	test_finish();
	for (size_t i = 0; i < sizeof by_hand / sizeof by_hand[0]; i++)
		test_by_hand(&by_hand[i]);
	reduce_apply((enum gpusim_dtype)99, GPUSIM_SUM, &one, &one, &one, 1);
	reduce_apply(GPUSIM_U8, (enum gpusim_redop)99, &one, &one, &one, 1);
	reduce_apply(GPUSIM_F8E4M3, GPUSIM_BAND, &one, &one, &one, 1);
	ok(one == 1, "a number that is no type or operation, or not of this type, touches nothing");
	return tap_done();
}
