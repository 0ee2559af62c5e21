#include "train/order.h"

#include "nn/dataset.h"
#include "nn/rng.h"

void
order_epoch(uint64_t seed, uint32_t epoch, uint32_t n, uint32_t *order)
{
	struct rng rng;

	/* Far from the seeds of weights, which are the plain seed. */
	rng_init(&rng, seed + 0x9e3779b97f4a7c15u * (epoch + 1ull));
	rng_permutation(&rng, n, order);
}

uint64_t
order_deal(const uint32_t *order, uint32_t n, uint64_t global, uint32_t q, uint32_t nworkers,
	   uint32_t *mine)
{
	uint64_t k = 0, rows;

	for (uint64_t first = 0; first < n; first += rows) {
		uint32_t begin, end;

		rows = n - first < global ? n - first : global;
		dataset_share((uint32_t)rows, q, nworkers, &begin, &end);
		for (uint32_t i = begin; i < end; i++)
			mine[k++] = order[first + i];
	}
	return k;
}

uint64_t
order_most_rows(uint32_t n, uint64_t global, uint32_t nworkers)
{
	return ((global < n ? global : n) + nworkers - 1) / nworkers;
}

uint64_t
order_most(uint32_t n, uint64_t global, uint32_t nworkers)
{
	return n / global * order_most_rows(n, global, nworkers) +
	       (n % global + nworkers - 1) / nworkers;
}

void
order_rates(const struct lr_schedule *schedule, uint32_t epoch, uint32_t epochs, uint64_t nsteps,
	    float *rates)
{
	for (uint64_t s = 0; s < nsteps; s++)
		rates[s] = (float)lr_factor(schedule, epoch * nsteps + s, nsteps, epochs * nsteps);
}
