#include "mem/reduce.h"

#include "mem/dtype.h"
#include "mem/redop.h"
#include "mem/reduce_isa.h"
#include "mem/reduce_many.h"

#define HALF_BLOCK 1024

void
reduce_apply(enum gpusim_dtype t, enum gpusim_redop redop, void *dst, const void *a, const void *b,
	     size_t nelem)
{
	const void *src[] = {a, b};

	reduce_many(t, redop, &dst, 1, src, 2, nelem, REDUCE_PARTIAL);
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
