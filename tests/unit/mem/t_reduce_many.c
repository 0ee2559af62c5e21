/* Every instruction set of this processor against one element at a time: each type and operation,
 * at awkward counts, addresses, numbers of vectors, in place and past the caches. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/redop.h"
#include "mem/reduce_isa.h"
#include "mem/reduce_many.h"

#include "reduce_test.h"
#include "tap.h"

#define MAX_VECTORS 9
#define MAX_NELEM   2500 /* more than two blocks of the narrowest but i8 */
#define ROOM	    (8 * MAX_NELEM + 128)

static unsigned char source[MAX_VECTORS][ROOM], place[2 * MAX_VECTORS][ROOM], want[8 * MAX_NELEM];

/* One element of nsrc vectors, as the header says. */
static void
ref_many(enum gpusim_dtype t, enum gpusim_redop redop, void *dst, const void *const src[],
	 unsigned nsrc, size_t i)
{
	size_t at = i * dtype_size(t);
	union number n = number_get(t, (const unsigned char *)src[0] + at);

	for (unsigned k = 1; k < nsrc; k++)
		n = number_fold(t, redop, n, number_get(t, (const unsigned char *)src[k] + at));
	if (nsrc == 1) /* copied: an infinity of f8e5m2 too, which arithmetic makes finite */
		memcpy((unsigned char *)dst + at, (const unsigned char *)src[0] + at,
		       dtype_size(t));
	else
		number_put(t, (unsigned char *)dst + at, number_finish(t, redop, n, nsrc));
}

struct trial {
	enum gpusim_dtype t;
	enum gpusim_redop redop;
	unsigned nsrc, ndst,
	    inplace;  /* the first so many destinations are sources, the last first */
	unsigned off; /* how far from aligned, a different way for each vector */
	unsigned flags;
	size_t nelem;
};

/* The vectors of a trial, the sources' contents in their places. */
static void
lay_out(const struct trial *c, void *dst[], const void *src[])
{
	size_t nbytes = c->nelem * dtype_size(c->t);
	unsigned k;

	for (k = 0; k < c->nsrc; k++) {
		src[k] = place[k] + 16 + (c->off * (k + 1)) % 64;
		memcpy((void *)src[k], source[k], nbytes);
	}
	for (k = 0; k < c->ndst; k++) {
		dst[k] = place[MAX_VECTORS + k] + 16 + (c->off + c->off / 2 * k) % 64;
		if (k < c->inplace)
			dst[k] = (void *)src[c->nsrc - 1 - k];
		((unsigned char *)dst[k])[-1] = 0x5a;
		((unsigned char *)dst[k])[nbytes] = 0x5a;
	}
}

/* The first wrong element of any destination, or -1; nelem for a byte beside it. */
static long
wrong_at(const struct trial *c, void *const dst[])
{
	size_t size = dtype_size(c->t), i;
	const unsigned char *d;
	unsigned k;

	for (k = 0; k < c->ndst; k++) {
		d = dst[k];
		if (d[-1] != 0x5a || d[c->nelem * size] != 0x5a)
			return (long)c->nelem;
		if (k && memcmp(d, dst[0], c->nelem * size) != 0)
			return 0;
		if (memcmp(d, want, c->nelem * size) == 0)
			continue;
		for (i = 0; i < c->nelem; i++) {
			if (!same(c->t, want + i * size, d + i * size))
				return (long)i;
		}
	}
	return -1;
}

static bool
try_all(const struct trial *c)
{
	const void *src[MAX_VECTORS];
	const struct reduce_isa *isa;
	void *dst[MAX_VECTORS];
	unsigned i;
	long bad;

	for (i = 0; i < c->nsrc; i++) {
		fill(c->t, source[i], c->nelem);
		src[i] = source[i];
	}
	for (i = 0; i < c->nelem; i++)
		ref_many(c->t, c->redop, want, src, c->nsrc, i);
	for (i = 0; (isa = reduce_isa_at(i)); i++) {
		lay_out(c, dst, src);
		reduce_many_on(isa, c->t, c->redop, dst, c->ndst, src, c->nsrc, c->nelem, c->flags);
		bad = wrong_at(c, dst);
		if (bad < 0)
			continue;
		printf("# %s: element %ld of %zu, %u sources, %u destinations, %u in place, "
		       "offset %u, flags %u\n",
		       isa->name, bad, c->nelem, c->nsrc, c->ndst, c->inplace, c->off, c->flags);
		return false;
	}
	return true;
}

static void
test_many(enum gpusim_dtype t, enum gpusim_redop redop)
{
	static const size_t counts[] = {0,  1,	2,  3,	7,   8,	  15,  16,   17,
					31, 33, 63, 65, 127, 257, 513, 1025, MAX_NELEM};
	struct trial c = {.t = t, .redop = redop};
	bool good = true;
	unsigned k;
	size_t n;

	for (n = 0; n < sizeof counts / sizeof counts[0]; n++) {
		c.nelem = counts[n];
		for (c.nsrc = 1; c.nsrc <= MAX_VECTORS; c.nsrc++) {
			for (k = 0; k < 4; k++) {
				c.ndst = 1 + (unsigned)(rnd() % 4);
				c.inplace = (unsigned)(rnd() % 3);
				if (c.inplace > c.ndst || c.inplace > c.nsrc)
					c.inplace = 0;
				c.off = rnd() % 4 ? (unsigned)(rnd() % 64) : 0;
				c.flags = k % 2 ? REDUCE_STREAM : 0;
				good = good && try_all(&c);
			}
		}
	}
	ok(good, "%s %s", dtype_name(t), redop_name(redop));
}

/* Numbers of vectors that no array here has room for: the same few, many times. */
static void
test_crowd(unsigned nsrc, unsigned ndst)
{
	const void **src = malloc(nsrc * sizeof *src);
	unsigned char *room = malloc(3u * ndst);
	void **dst = malloc(ndst * sizeof *dst);
	bool good = src && dst && room;
	static unsigned char one[3] = {1, 2, 3};
	unsigned k;

	for (k = 0; good && k < nsrc; k++)
		src[k] = one;
	for (k = 0; good && k < ndst; k++)
		dst[k] = room + 3 * (size_t)k;
	if (good)
		reduce_many(GPUSIM_U8, GPUSIM_SUM, dst, ndst, src, nsrc, 3, REDUCE_STREAM);
	for (k = 0; good && k < 3 * ndst; k++)
		good = room[k] == (unsigned char)(nsrc * (k % 3 + 1));
	ok(good, "%u sources, %u destinations", nsrc, ndst);
	free(src);
	free(dst);
	free(room);
}

/* The conversions: all 2^16 halves there and back, and what lies between them to halves. */
static void
test_halves(const struct reduce_isa *isa, enum gpusim_dtype t)
{
	static uint16_t h[65536 + 5], back[65536 + 5];
	static float f[65536 + 5];
	unsigned i, n = 65536 + 5, bad = 0;
	uint16_t w;
	float g;

	for (i = 0; i < n; i++)
		h[i] = (uint16_t)i;
	isa->widen(t, f, h, n);
	isa->narrow(t, back, f, n);
	for (i = 0; i < n; i++) {
		g = t == GPUSIM_F16 ? f16_to_f32(h[i]) : bf16_to_f32(h[i]);
		w = t == GPUSIM_F16 ? f16_from_f32(g) : bf16_from_f32(g);
		bad += memcmp(&g, &f[i], 4) != 0 || w != back[i];
	}
	for (i = 0; i < n; i++) { /* between halves, to round */
		uint32_t u = (uint32_t)rnd();
		memcpy(&f[i], &u, 4);
		if (i % 2)
			f[i] = (float)(int32_t)u * 0x1p-46f * (float)(1u << i % 32);
	}
	isa->narrow(t, back, f, n);
	for (i = 0; i < n; i++)
		bad += back[i] != (t == GPUSIM_F16 ? f16_from_f32(f[i]) : bf16_from_f32(f[i]));
	ok(bad == 0, "%s: %s to and from f32, NaNs too", isa->name, dtype_name(t));
}

/* Integers about the multiples of the divisor, where a quotient that is rounded would show. */
static void
test_divide(const struct reduce_isa *isa, enum gpusim_dtype t)
{
	static const uint32_t odd[] = {1,	   2,	      3,	  7,	      10,
				       127,	   128,	      255,	  256,	      65535,
				       16777215,   16777217,  0x7fffffff, 0x80000000, 0x80000001,
				       0xfffffffe, 0xffffffff};
	const size_t size = dtype_size(t), nelem = MAX_NELEM;
	uint64_t v, most = size == 8 ? UINT64_MAX : (1ull << 8 * size) - 1;
	unsigned bad = 0, d, n;
	size_t i;

	for (d = 0; d < 400; d++) {
		n = d < sizeof odd / sizeof odd[0] ? odd[d]
						   : 1 + (uint32_t)(rnd() % (1u << d % 31));
		for (i = 0; i < nelem; i++) {
			v = (rnd() >> 1) % (most / n + (n > 1)) * n + rnd() % 3 - 1;
			if (i % 4 == 3)
				v = 0 - v;
			if (i < 512)
				v = i < 256 ? i : most / 2 - 128 + i - 256;
			memcpy(want + i * size, &v, size);
			memcpy(place[0] + 1 + i * size, &v, size);
			number_put(t, want + i * size,
				   number_finish(t, GPUSIM_AVG, number_get(t, want + i * size), n));
		}
		isa->divide(t, place[0] + 1, nelem, n);
		bad += memcmp(want, place[0] + 1, nelem * size) != 0;
	}
	ok(bad == 0, "%s: %s divides and truncates", isa->name, dtype_name(t));
}

/* The same of the types of 8 bits. */
static void
test_bytes(const struct reduce_isa *isa, enum gpusim_dtype t)
{
	static uint8_t h[256 + 5], back[65536];
	static float f[65536];
	unsigned i, bad = 0;

	for (i = 0; i < sizeof h; i++)
		h[i] = (uint8_t)i;
	isa->widen(t, f, h, sizeof h);
	for (i = 0; i < sizeof h; i++) {
		float g = t == GPUSIM_F8E4M3 ? f8e4m3_to_f32(h[i]) : f8e5m2_to_f32(h[i]);

		bad += memcmp(&g, &f[i], 4) != 0;
	}
	for (i = 0; i < 65536; i++) { /* every f32 of 16 bits, and random lower ones */
		uint32_t u = i << 16 | (i % 3 ? (uint32_t)rnd() % 65536 : 0);
		memcpy(&f[i], &u, 4);
	}
	isa->narrow(t, back, f, 65536 - 3);
	for (i = 0; i < 65536 - 3; i++)
		bad +=
		    back[i] != (t == GPUSIM_F8E4M3 ? f8e4m3_from_f32(f[i]) : f8e5m2_from_f32(f[i]));
	ok(bad == 0, "%s: %s to and from f32", isa->name, dtype_name(t));
}

int
main(void)
{
	const struct reduce_isa *isa;
	unsigned char one = 1;
	const void *src = &one;
	void *dst = &one;
	unsigned i;
	int t, redop;

	for (t = 0; t < GPUSIM_NDTYPES; t++) {
		for (redop = 0; redop < GPUSIM_NREDOPS; redop++)
			if (redop_takes((enum gpusim_redop)redop, (enum gpusim_dtype)t))
				test_many((enum gpusim_dtype)t, (enum gpusim_redop)redop);
	}
	for (i = 0; (isa = reduce_isa_at(i)); i++) {
		printf("# %s\n", isa->name);
		test_halves(isa, GPUSIM_F16);
		test_halves(isa, GPUSIM_BF16);
		test_bytes(isa, GPUSIM_F8E4M3);
		test_bytes(isa, GPUSIM_F8E5M2);
		for (t = GPUSIM_F64; t < GPUSIM_NDTYPES; t++) {
			if (!dtype_is_float((enum gpusim_dtype)t))
				test_divide(isa, (enum gpusim_dtype)t);
		}
	}
	test_crowd(65535, 2);
	test_crowd(3, 65535);
	reduce_many((enum gpusim_dtype)99, GPUSIM_SUM, &dst, 1, &src, 1, 1, 0);
	reduce_many(GPUSIM_U8, (enum gpusim_redop)99, &dst, 1, &src, 1, 1, 0);
	ok(one == 1, "a number that is no type or operation touches nothing");
	return tap_done();
}
