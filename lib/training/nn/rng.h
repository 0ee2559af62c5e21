/*
 * rng.h - a small seeded generator: the same seed gives the same numbers on every machine.
 *
 * xoshiro256** 1.0, its state filled from the seed by splitmix64; not for secrets.
 * Source: Blackman & Vigna, ACM TOMS 47(4), 2021, doi:10.1145/3460772; https://prng.di.unimi.it/
 * Checked by: tests/unit/nn/t_dataset.c against the authors' reference output.
 */
#ifndef NN_RNG_H
#define NN_RNG_H

#include <stdint.h>

#include "base/mix.h"

/* Never all zero. */
struct rng {
	uint64_t s[4];
};

/* Any seed is valid, also 0. */
void rng_init(struct rng *rng, uint64_t seed);

/* 64 uniform bits. */
uint64_t rng_next(struct rng *rng);

/* Uniform in [0, n) without bias; n >= 1. */
uint64_t rng_below(struct rng *rng, uint64_t n);

/* Uniform in [lo, hi] in steps of (hi - lo) / 2^24. */
float rng_uniform(struct rng *rng, float lo, float hi);

/* Make perm, the caller's n entries, a uniform permutation of 0..n-1 (Fisher-Yates). */
void rng_permutation(struct rng *rng, uint32_t n, uint32_t *perm);

#endif
