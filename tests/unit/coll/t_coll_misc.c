/* Alltoall, pairwise, gather, scatter, barrier, send and recv: right for every shape, at their
 * stated cost.
 */
#include "coll_sweep.h"

static struct plan_counts
alltoall_cost(const struct plan_args *a)
{
	struct plan_counts c = {.rounds = a->nranks - 1};
	uint64_t block = a->nelem / a->nranks, others = a->nranks - 1;

	for (uint32_t r = 0; r < a->nranks; r++)
		add_rank(&c, others * nmessages(a, block), others * block, others * block);
	return c;
}

static struct plan_counts
alltoall_bruck_cost(const struct plan_args *a)
{
	struct plan_counts c = {0};
	uint64_t block = a->nelem / a->nranks, messages = 0, blocks = 0;

	for (; 1u << c.rounds < a->nranks; c.rounds++) {
		uint64_t n = 0;

		for (uint32_t j = 0; j < a->nranks; j++)
			n += j >> c.rounds & 1;
		messages += nmessages(a, n * block);
		blocks += n;
	}
	for (uint32_t r = 0; r < a->nranks; r++)
		add_rank(&c, messages, blocks * block, blocks * block);
	return c;
}

static struct plan_counts
reducescatter_pairwise_cost(const struct plan_args *a)
{
	struct plan_counts c = {0};

	for (uint32_t r = 0; r < a->nranks; r++) {
		uint64_t messages = 0;

		for (uint32_t t = 1; t < a->nranks; t++) {
			messages += nmessages(a, part_size(a, r + t));
			if (part_size(a, r + t) && c.rounds < t)
				c.rounds = t;
		}
		add_rank(&c, messages, a->nelem - part_size(a, r),
			 (a->nranks - 1) * part_size(a, r));
	}
	return c;
}

/* Rounds of gather and scatter: up to the last rank after the root with a part. */
static uint32_t
linear_rounds(const struct plan_args *a)
{
	uint32_t rounds = 0;

	for (uint32_t k = 1; k < a->nranks; k++) {
		if (part_size(a, a->root + k))
			rounds = k;
	}
	return rounds;
}

static struct plan_counts
gather_cost(const struct plan_args *a)
{
	struct plan_counts c = {.rounds = linear_rounds(a)};

	for (uint32_t k = 1; k < a->nranks; k++) {
		uint64_t part = part_size(a, a->root + k);

		add_rank(&c, nmessages(a, part), part, 0);
	}
	add_rank(&c, 0, 0, a->nelem - part_size(a, a->root));
	return c;
}

static struct plan_counts
scatter_cost(const struct plan_args *a)
{
	struct plan_counts c = {.rounds = linear_rounds(a)};
	uint64_t messages = 0;

	for (uint32_t k = 1; k < a->nranks; k++) {
		uint64_t part = part_size(a, a->root + k);

		messages += nmessages(a, part);
		add_rank(&c, 0, 0, part);
	}
	add_rank(&c, messages, a->nelem - part_size(a, a->root), 0);
	return c;
}

static struct plan_counts
barrier_cost(const struct plan_args *a)
{
	struct plan_counts c = {0};

	while (1u << c.rounds < a->nranks)
		c.rounds++;
	c.max_messages = c.rounds;
	c.total_messages = (uint64_t)c.rounds * a->nranks;
	return c;
}

static struct plan_counts
sendrecv_cost(const struct plan_args *a)
{
	uint64_t m = nmessages(a, a->nelem);

	return (struct plan_counts){.max_messages = m,
				    .max_elements = a->nelem,
				    .max_recv_elements = a->nelem,
				    .total_messages = m,
				    .total_elements = a->nelem,
				    .rounds = (uint32_t)m};
}

static struct plan_counts
allreduce_pairwise_cost(const struct plan_args *a)
{
	struct plan_counts c = {0};
	uint32_t p = a->nranks;

	for (uint32_t r = 0; r < p; r++) {
		uint64_t own = part_size(a, r), elements = a->nelem - own + (p - 1) * own;
		uint64_t messages = (p - 1) * nmessages(a, own);

		for (uint32_t q = 1; q < p; q++)
			messages += nmessages(a, part_size(a, r + q));
		add_rank(&c, messages, elements, elements);
	}
	c.rounds = 2 * (p - 1);
	return c;
}

int
main(void)
{
	check_algo(GPUSIM_ALLREDUCE, "pairwise", allreduce_pairwise_cost);
	check_algo(GPUSIM_ALLTOALL, "pairwise", alltoall_cost);
	check_algo(GPUSIM_ALLTOALL, "bruck", alltoall_bruck_cost);
	check_algo(GPUSIM_REDUCESCATTER, "pairwise", reducescatter_pairwise_cost);
	check_algo(GPUSIM_GATHER, "linear", gather_cost);
	check_algo(GPUSIM_SCATTER, "linear", scatter_cost);
	check_algo(GPUSIM_BARRIER, "dissemination", barrier_cost);
	check_algo(GPUSIM_SEND, "direct", sendrecv_cost);
	check_algo(GPUSIM_RECV, "direct", sendrecv_cost);
	return tap_done();
}
