/*
 * halfvec.h - whole vectors of binary16 to and from f32, by the processor's own instructions if it has them.
 *
 * Same results, bit for bit, as f16_to_f32 and f16_from_f32 on each element.
 */
#ifndef MEM_HALFVEC_H
#define MEM_HALFVEC_H

#include <stddef.h>

/* src: nelem binary16 at any alignment. No overlap. */
void halfvec_widen(float *dst, const void *src, size_t nelem);

/* dst: room for nelem binary16 at any alignment. No overlap. */
void halfvec_narrow(void *dst, const float *src, size_t nelem);

#endif
