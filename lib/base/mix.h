/*
 * mix.h - splitmix64: a small generator of numbers, and the mix of a number that it rests on; not for secrets.
 *
 * Source: Steele, Lea & Flood, OOPSLA 2014, doi:10.1145/2660193.2660195; https://prng.di.unimi.it/
 * Checked by: tests/unit/nn/t_dataset.c against the published output.
 */
#ifndef BASE_MIX_H
#define BASE_MIX_H

#include <stdint.h>

/* Step a state, for which any number is right, and return its number. */
static inline uint64_t
splitmix64(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* The number of a state that is not kept. */
static inline uint64_t
mix64(uint64_t z)
{
	return splitmix64(&z);
}

#endif
