/*
 * reduce.h - elementwise reduction of whole vectors, all types and operations.
 */
#ifndef MEM_REDUCE_H
#define MEM_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpusim.h"

/*
 * reduce_apply - dst[i] = a[i] redop b[i], i < nelem.
 *
 *	dst	may be a or b exactly; no other overlap. All three at any alignment
 *	redop	a mean (avg) is not divided here: reduce_finish does that at the end
 *
 * Floats shorter than f32 are computed in f32 and rounded once per call. Integer sums and products wrap
 * modulo 2^bits. min and max are IEEE 754-2019 minimum and maximum: NaN when either is NaN, and -0 < +0. An
 * invalid type or redop does nothing, here and below, as does a bitwise redop on floats.
 */
void reduce_apply(enum gpusim_dtype t, enum gpusim_redop redop, void *dst, const void *a,
		  const void *b, size_t nelem);

/*
 * reduce_wide - dst[i] = a[i] redop b[i] as f32, for floats shorter than f32, where operands may already be
 * f32.
 *
 *	a, b	nelem elements of the type, or (a_wide, b_wide) of f32
 *	dst	f32; may be a wide a or b exactly
 * Nothing is rounded to the type. reduce_last does that at the end: its dst is of the type, divided by
 * nranks where the redop is a mean, and may be an a or b of the type exactly.
 */
void reduce_wide(enum gpusim_dtype t, enum gpusim_redop redop, void *dst, const void *a,
		 bool a_wide, const void *b, bool b_wide, size_t nelem);
void reduce_last(enum gpusim_dtype t, enum gpusim_redop redop, void *dst, const void *a,
		 bool a_wide, const void *b, bool b_wide, size_t nelem, uint32_t nranks);

/* reduce_scale - dst[i] = src[i] * factor, i < nelem; the factor as the bits of an element. As with
 * reduce_apply's product; dst may be src exactly. */
void reduce_scale(enum gpusim_dtype t, void *dst, const void *src, size_t nelem, uint64_t factor);

/* reduce_finish - divide each element by nranks where the redop is a mean (integers truncate toward
 * zero); else nothing. */
void reduce_finish(enum gpusim_dtype t, enum gpusim_redop redop, void *buf, size_t nelem,
		   uint32_t nranks);

#endif
