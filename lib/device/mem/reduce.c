#include "mem/reduce.h"

#include "mem/dtype.h"
#include "mem/redop.h"
#include "mem/reduce_isa.h"
#include "mem/reduce_many.h"

#include <string.h>

#define HALF_BLOCK  1024
#define SCALE_BYTES 2048

void
reduce_apply(enum gpusim_dtype t, enum gpusim_redop redop, void *dst, const void *a, const void *b,
	     size_t nelem)
{
	const void *src[] = {a, b};

	reduce_many(t, redop, &dst, 1, src, 2, nelem, REDUCE_PARTIAL);
}

/* n elements as f32: in place, or widened into room. */
static const void *
as_f32(const struct reduce_isa *isa, enum gpusim_dtype t, const unsigned char *from, bool wide,
       size_t at, size_t n, float *room)
{
	if (wide)
		return from + at * sizeof(float);
	isa->widen(t, room, from + at * dtype_size(t), n);
	return room;
}

/* n elements from `at` on of a and b, folded into dst. */
static void
fold_wide(const struct reduce_isa *isa, enum gpusim_dtype t, enum gpusim_redop redop, void *dst,
	  const void *a, bool a_wide, const void *b, bool b_wide, size_t at, size_t n)
{
	/* Not 4096 bytes apart: a load would wait for a store that differs only in higher address bits. */
	_Alignas(64) float x[HALF_BLOCK + 144], y[HALF_BLOCK];
	const void *src[2] = {as_f32(isa, t, a, a_wide, at, n, x),
			      as_f32(isa, t, b, b_wide, at, n, y)};

	isa->fold[GPUSIM_F32][redop](dst, src, 2, n);
}

void
reduce_wide(enum gpusim_dtype t, enum gpusim_redop redop, void *dst, const void *a, bool a_wide,
	    const void *b, bool b_wide, size_t nelem)
{
	const struct reduce_isa *isa = reduce_isa_at(0);
	size_t n;

	if (!redop_takes(redop, t) || !dtype_is_half(t))
		return;
	for (size_t i = 0; i < nelem; i += n) {
		n = nelem - i < HALF_BLOCK ? nelem - i : HALF_BLOCK;
		fold_wide(isa, t, redop, (unsigned char *)dst + i * sizeof(float), a, a_wide, b,
			  b_wide, i, n);
	}
}

void
reduce_last(enum gpusim_dtype t, enum gpusim_redop redop, void *dst, const void *a, bool a_wide,
	    const void *b, bool b_wide, size_t nelem, uint32_t nranks)
{
	const struct reduce_isa *isa = reduce_isa_at(0);
	_Alignas(64) float room[HALF_BLOCK];
	size_t size = dtype_size(t), n;

	if (!redop_takes(redop, t) || !dtype_is_half(t))
		return;
	for (size_t i = 0; i < nelem; i += n) {
		n = nelem - i < HALF_BLOCK ? nelem - i : HALF_BLOCK;
		fold_wide(isa, t, redop, room, a, a_wide, b, b_wide, i, n);
		if (redops[redop].mean)
			isa->divide(GPUSIM_F32, room, n, nranks);
		isa->narrow(t, (unsigned char *)dst + i * size, room, n);
	}
}

void
reduce_scale(enum gpusim_dtype t, void *dst, const void *src, size_t nelem, uint64_t factor)
{
	size_t size = dtype_size(t), most = size ? SCALE_BYTES / size : 0, n;
	_Alignas(64) unsigned char factors[SCALE_BYTES];
	const unsigned char *from = src;
	unsigned char *to = dst;

	for (size_t i = 0; i < most && i < nelem; i++)
		memcpy(factors + i * size, &factor, size);
	for (; nelem && most; nelem -= n, to += n * size, from += n * size) {
		n = nelem < most ? nelem : most;
		reduce_apply(t, GPUSIM_PROD, to, from, factors, n);
	}
}

/* Floats shorter than f32 go through f32 in blocks that stay in the first-level cache. */
static void
divide_half(const struct reduce_isa *isa, enum gpusim_dtype t, unsigned char *buf, size_t nelem,
	    uint32_t nranks)
{
	float f[HALF_BLOCK];
	size_t size = dtype_size(t), n;

	for (; nelem; nelem -= n, buf += size * n) {
		n = nelem < HALF_BLOCK ? nelem : HALF_BLOCK;
		isa->widen(t, f, buf, n);
		isa->divide(GPUSIM_F32, f, n, nranks);
		isa->narrow(t, buf, f, n);
	}
}

void
reduce_finish(enum gpusim_dtype t, enum gpusim_redop redop, void *buf, size_t nelem,
	      uint32_t nranks)
{
	const struct reduce_isa *isa = reduce_isa_at(0);

	if ((unsigned)redop >= GPUSIM_NREDOPS || !redops[redop].mean || nranks <= 1)
		return;
	if (dtype_is_half(t))
		divide_half(isa, t, buf, nelem, nranks);
	else
		isa->divide(t, buf, nelem, nranks);
}
