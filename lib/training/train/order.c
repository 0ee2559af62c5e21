#include "train/order.h"

#include "nn/dataset.h"
#include "nn/rng.h"

void
order_epoch(uint64_t seed, uint32_t epoch, uint32_t n, uint32_t *order)
{
	struct rng rng;

	/* Distinct from the seed of the weights, which is the plain seed. */
	rng_init(&rng, seed + 0x9e3779b97f4a7c15u * (epoch + 1ull));
	rng_permutation(&rng, n, order);
}

void
order_share(uint64_t n, uint32_t whole, uint32_t q, uint32_t nworkers, uint64_t *begin,
	    uint64_t *end)
{
	uint32_t first, last;

	dataset_share((uint32_t)((n + whole - 1) / whole), q, nworkers, &first, &last);
	*begin = (uint64_t)first * whole < n ? (uint64_t)first * whole : n;
	*end = (uint64_t)last * whole < n ? (uint64_t)last * whole : n;
}

uint64_t
order_deal(const uint32_t *order, uint32_t n, const struct order_steps *s, uint32_t q,
	   uint32_t *mine)
{
	uint64_t k = 0, rows;

	for (uint64_t first = 0; first < n; first += rows) {
		uint64_t begin, end;

		rows = n - first < s->global ? n - first : s->global;
		order_share(rows, s->whole, q, s->nworkers, &begin, &end);
		for (uint64_t i = begin; i < end; i++)
			mine[k++] = order[first + i];
	}
	return k;
}

/* The largest part of a step of n samples. */
static uint64_t
largest(uint64_t rows, const struct order_steps *s)
{
	uint64_t wholes = (rows + s->whole - 1) / s->whole;
	uint64_t most = (wholes + s->nworkers - 1) / s->nworkers * s->whole;

	return most < rows ? most : rows;
}

uint64_t
order_most_rows(uint32_t n, const struct order_steps *s)
{
	return largest(s->global < n ? s->global : n, s);
}

uint64_t
order_most(uint32_t n, const struct order_steps *s)
{
	return n / s->global * order_most_rows(n, s) + largest(n % s->global, s);
}

void
order_rates(const struct lr_schedule *schedule, uint32_t epoch, uint32_t epochs, uint64_t nsteps,
	    float *rates)
{
	for (uint64_t s = 0; s < nsteps; s++)
		rates[s] = (float)lr_factor(schedule, epoch * nsteps + s, nsteps, epochs * nsteps);
}
