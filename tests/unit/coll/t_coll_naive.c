/* The naive algorithms: right for every shape, at the cost that each one's comment states. */
#include "coll_sweep.h"

static struct plan_counts
allreduce_cost(const struct plan_args *a)
{
	struct plan_counts c = {.rounds = 2 * (a->nranks - 1)};
	uint64_t m = nmessages(a, a->nelem), others = a->nranks - 1;

	add_rank(&c, others * m, others * a->nelem, others * a->nelem);
	for (uint32_t r = 1; r < a->nranks; r++)
		add_rank(&c, m, a->nelem, a->nelem);
	return c;
}

static struct plan_counts
broadcast_cost(const struct plan_args *a)
{
	struct plan_counts c = {.rounds = a->nranks - 1};
	uint64_t others = a->nranks - 1;

	add_rank(&c, others * nmessages(a, a->nelem), others * a->nelem, 0);
	add_rank(&c, 0, 0, a->nelem);
	return c;
}

static struct plan_counts
reduce_cost(const struct plan_args *a)
{
	struct plan_counts c = {.rounds = a->nranks - 1};

	add_rank(&c, 0, 0, (a->nranks - 1) * a->nelem);
	for (uint32_t r = 1; r < a->nranks; r++)
		add_rank(&c, nmessages(a, a->nelem), a->nelem, 0);
	return c;
}

static struct plan_counts
allgather_cost(const struct plan_args *a)
{
	struct plan_counts c = {.rounds = 2 * (a->nranks - 1)};
	uint64_t others = a->nranks - 1;

	add_rank(&c, others * nmessages(a, a->nelem), others * a->nelem,
		 a->nelem - part_size(a, 0));
	for (uint32_t r = 1; r < a->nranks; r++)
		add_rank(&c, nmessages(a, part_size(a, r)), part_size(a, r), a->nelem);
	return c;
}

static struct plan_counts
reducescatter_cost(const struct plan_args *a)
{
	struct plan_counts c = {.rounds = 2 * (a->nranks - 1)};
	uint64_t back = 0;

	for (uint32_t r = 1; r < a->nranks; r++) {
		back += nmessages(a, part_size(a, r));
		add_rank(&c, nmessages(a, a->nelem), a->nelem, part_size(a, r));
	}
	add_rank(&c, back, a->nelem - part_size(a, 0), (a->nranks - 1) * a->nelem);
	return c;
}

int
main(void)
{
	check_algo(GPUSIM_ALLREDUCE, "naive", allreduce_cost);
	check_algo(GPUSIM_BROADCAST, "naive", broadcast_cost);
	check_algo(GPUSIM_REDUCE, "naive", reduce_cost);
	check_algo(GPUSIM_ALLGATHER, "naive", allgather_cost);
	check_algo(GPUSIM_REDUCESCATTER, "naive", reducescatter_cost);
	return tap_done();
}
