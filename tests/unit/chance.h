/*
 * chance.h - numbers for tests, the same in each run.
 */
#ifndef CHANCE_H
#define CHANCE_H

#include <stdint.h>

/* The next of xorshift's numbers, and of xorshift*'s, which are better. *state is not 0. */
static inline uint64_t
xorshift(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static inline uint64_t
xorshift_star(uint64_t *state)
{
	return xorshift(state) * UINT64_C(0x2545f4914f6cdd1d);
}

#endif
