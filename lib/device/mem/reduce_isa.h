/*
 * reduce_isa.h - the innermost loops of the reductions, once for each instruction set.
 *
 * Internal to lib/device/mem: reduce.c, reduce_many.c and halfvec.c use them, and a test compares the bits of all
 * sets of the processor. Unlike the clones of clones.h the sets are chosen by a call, so they can be named,
 * and also work under the sanitizers.
 *
 * The results do not depend on the set: an element's operations are the same IEEE 754 operations in
 * the same order, as the loops are compiled from one text (reduce_loops.inc), a vector lane holds
 * one element, no element is reassociated with another, and nothing is contracted to an FMA
 * (-ffp-contract=off in the Makefile). Only the payload and sign of a NaN that arithmetic made or
 * passed on are open, as in IEEE 754.
 */
#ifndef MEM_REDUCE_ISA_H
#define MEM_REDUCE_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpusim.h"

#define REDUCE_FOLD_MAX	   4 /* sources of one fold */
#define REDUCE_TREE_STREAM 8
#define REDUCE_LINE	   64 /* bytes of a cache line; streaming stores fill whole ones */

/* All at any alignment. */
struct reduce_isa {
	const char *name;

	/* dst[i] = src[0][i] redop ... redop src[nsrc-1][i], from the left; 2 <= nsrc <=
	 * REDUCE_FOLD_MAX. dst may be one of the sources exactly. A mean is not yet divided. NULL
	 * for floats shorter than f32, and where redop_takes says no. */
	void (*fold[GPUSIM_NDTYPES][GPUSIM_NREDOPS])(void *dst, const void *const src[],
						     unsigned nsrc, size_t nelem);

	/* As fold: dst[i] = (src[0][i] redop src[1][i]) redop (src[2][i] redop src[3][i]). f32 and f64
	 * only. */
	void (*fold_pairs[GPUSIM_NDTYPES][GPUSIM_NREDOPS])(void *dst, const void *const src[4],
							   size_t nelem);

	/* As fold_pairs, for 2 to 4 sources; every NaN becomes the quiet NaN without sign and payload: the
	 * last step of a canonical tree. f32 and f64 only; dst may be one of the sources exactly. */
	void (*fold_last[GPUSIM_NDTYPES][GPUSIM_NREDOPS])(void *dst, const void *const src[],
							  unsigned nsrc, size_t nelem);

	/* buf[i] /= n, n >= 1; integers truncate toward zero. Not floats shorter than f32. */
	void (*divide)(enum gpusim_dtype t, void *buf, size_t nelem, uint32_t n);

	/* Floats shorter than f32, bit for bit as dtype.h's conversions. No overlap. */
	void (*widen)(enum gpusim_dtype t, float *dst, const void *src, size_t nelem);
	void (*narrow)(enum gpusim_dtype t, void *dst, const float *src, size_t nelem);

	/* Copy past the caches. No overlap. Others see it in order after reduce_isa_fence. */
	void (*stream)(void *dst, const void *src, size_t nbytes);

	/*
	 * dst[j][i] = src[0][i] + ... + src[nsrc-1][i], from the left, for nbytes off bytes on, all
	 * past the caches; with avg divided by nsrc. nbytes and dst[j] + off are multiples of
	 * REDUCE_LINE; no destination is a source. Not floats shorter than f32, nor avg of integers. NULL
	 * where the processor cannot.
	 */
	void (*stream_sum)(enum gpusim_dtype t, bool avg, void *const dst[], unsigned ndst,
			   const void *const src[], unsigned nsrc, size_t off, size_t nbytes);

	/* As stream_sum, by the canonical tree, with the one NaN. f32 and f64 only; 2 <= nsrc <=
	 * REDUCE_TREE_STREAM. */
	void (*stream_tree)(enum gpusim_dtype t, bool avg, void *const dst[], unsigned ndst,
			    const void *const src[], unsigned nsrc, size_t off, size_t nbytes);
};

/* The i-th instruction set of this processor, the best first and the portable one last; then NULL.
 * Static storage. */
const struct reduce_isa *reduce_isa_at(unsigned i);

/* Order what `stream` stored before the stores that follow. */
void reduce_isa_fence(void);

/* reduce_many on one instruction set, which the processor must have. */
void reduce_many_on(const struct reduce_isa *isa, enum gpusim_dtype t, enum gpusim_redop redop,
		    void *const dst[], unsigned ndst, const void *const src[], unsigned nsrc,
		    size_t nelem, unsigned flags);

#endif
