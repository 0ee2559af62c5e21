/*
 * number.h - one element at a time: the reference of all reductions.
 *
 * Naive on purpose: one wide number of each kind, one switch of each redop. Unit tests hold the
 * loops of reduce_many.h against it, end-to-end tests, `gpuctl bench` and `gpuctl chaos` whole
 * collectives.
 */
#ifndef MEM_NUMBER_H
#define MEM_NUMBER_H

#include "gpusim.h"

/* real of the floats, exact; whole of the integers, as 64 bits in two's complement. */
union number {
	double real;
	uint64_t whole;
};

/* The whole number v, as far as the type holds it. */
union number number_of(enum gpusim_dtype t, int64_t v);

/* Load and store an element, at any alignment. Storing rounds to nearest even; integers wrap; infinity
 * stays infinite if the type has it. */
union number number_get(enum gpusim_dtype t, const void *element);
void number_put(enum gpusim_dtype t, void *element, union number n);

/* a redop b: in double for f64, in float for f32, f16 and bf16, modulo 2^bits for integers. */
union number number_fold(enum gpusim_dtype t, enum gpusim_redop redop, union number a,
			 union number b);

/* A rank's element as it enters a reduction: for premulsum times the rank's factor, rounded to the type;
 * else unchanged. With one rank this is the result. */
union number number_enter(enum gpusim_dtype t, enum gpusim_redop redop, union number n,
			  union number factor);

/* Finish a fold of nranks elements: divide for a mean, and saturate if the redop rounds and the type's sums
 * do not overflow to infinity. */
union number number_finish(enum gpusim_dtype t, enum gpusim_redop redop, union number n,
			   uint32_t nranks);

#endif
