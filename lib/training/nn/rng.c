#include "nn/rng.h"

void
rng_init(struct rng *rng, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		rng->s[i] = splitmix64(&seed);
}

static uint64_t
rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

uint64_t
rng_next(struct rng *rng)
{
	uint64_t *s = rng->s, out = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return out;
}

uint64_t
rng_below(struct rng *rng, uint64_t n)
{
	uint64_t reject = -n % n, x; /* the 2^64 mod n values that would bias the result */

	do
		x = rng_next(rng);
	while (x < reject);
	return x % n;
}

float
rng_uniform(struct rng *rng, float lo, float hi)
{
	double unit = (double)(rng_next(rng) >> 40) * 0x1p-24;
	double step = ((double)hi - (double)lo) * unit;

	/* Two statements: a fused multiply-add would round differently on some machines. */
	return (float)((double)lo + step);
}

void
rng_permutation(struct rng *rng, uint32_t n, uint32_t *perm)
{
	for (uint32_t i = 0; i < n; i++)
		perm[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t j = (uint32_t)rng_below(rng, i), swap = perm[i - 1];

		perm[i - 1] = perm[j];
		perm[j] = swap;
	}
}
