/*
 * reduce_many.h - elementwise reduction of many whole vectors into many, in one pass over memory.
 */
#ifndef MEM_REDUCE_MANY_H
#define MEM_REDUCE_MANY_H

#include <stddef.h>

#include "gpusim.h"

enum reduce_flags {
	REDUCE_STREAM = 1,  /* the vectors are larger than the second-level cache: store past it */
	REDUCE_PARTIAL = 2, /* more elements will be folded in: do not divide a mean yet */
	REDUCE_CANONICAL = 4, /* floats: by the canonical tree, and every NaN is the same one */
};

/*
 * reduce_many - dst[j][i] = src[0][i] redop src[1][i] redop ... redop src[nsrc-1][i], j < ndst, i < nelem.
 *
 *	dst	ndst >= 1 vectors. Each may be one of the sources exactly; no other overlap
 *	src	nsrc >= 1 vectors, all at any alignment
 *	redop	a mean (avg) divides by nsrc at the end (integers truncate toward zero)
 *	flags	of enum reduce_flags. With REDUCE_STREAM everything is stored, as seen by other
 *		threads and processes, in order before whatever the caller stores next
 *
 * Each element is reduced by itself, from the left in the order of sources. So the same sources give
 * the same bits, on every instruction set and however the vector is cut (but for the payload and
 * sign of NaNs; reduce_isa.h says why). Floats shorter than f32 accumulate in f32 over all
 * sources, a mean divides there, and the result is rounded once. One source is copied as it is. The
 * rest is as with reduce_apply.
 *
 * With REDUCE_CANONICAL floats are reduced by the canonical tree over the sources instead: the first half of
 * n sources, which is the largest power of two below n, with the rest, each half in the same way: ((0 + 1) +
 * (2 + 3)) + 4. A NaN result has one bit pattern. So all bits depend only on the sources and their order.
 * Integers are not rounded, so they need no order. nsrc <= REDUCE_TREE_MAX.
 */
#define REDUCE_TREE_MAX 65536

void reduce_many(enum gpusim_dtype t, enum gpusim_redop redop, void *const dst[], unsigned ndst,
		 const void *const src[], unsigned nsrc, size_t nelem, unsigned flags);

#endif
