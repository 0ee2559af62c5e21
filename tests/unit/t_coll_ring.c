/* The ring algorithms: right for every shape, at the cost that each one's comment states. */
#include "coll_sweep.h"

/* Messages that all parts but part r take. */
static uint64_t
messages_but(const struct plan_args *a, uint32_t r)
{
	uint64_t n = 0;

	for (uint32_t j = 0; j < a->nranks; j++)
		n += j == r % a->nranks ? 0 : nmessages(a, part_size(a, j));
	return n;
}

static struct plan_counts
allreduce_cost(const struct plan_args *a)
{
	struct plan_counts c = {.rounds = 2 * (a->nranks - 1)};
	uint64_t n = a->nelem;

	for (uint32_t r = 0; r < a->nranks; r++)
		add_rank(&c, messages_but(a, r) + messages_but(a, r + 1),
			 2 * n - part_size(a, r) - part_size(a, r + 1),
			 2 * n - part_size(a, r + a->nranks - 1) - part_size(a, r));
	return c;
}

static struct plan_counts
allgather_cost(const struct plan_args *a)
{
	struct plan_counts c = {.rounds = a->nranks - 1};

	for (uint32_t r = 0; r < a->nranks; r++)
		add_rank(&c, messages_but(a, r + 1), a->nelem - part_size(a, r + 1),
			 a->nelem - part_size(a, r));
	return c;
}

static struct plan_counts
reducescatter_cost(const struct plan_args *a)
{
	struct plan_counts c = {.rounds = a->nranks - 1};

	for (uint32_t r = 0; r < a->nranks; r++)
		add_rank(&c, messages_but(a, r), a->nelem - part_size(a, r),
			 a->nelem - part_size(a, r + a->nranks - 1));
	return c;
}

/* Broadcast and reduce: p-1 links of a chain, and the end that sends nothing. */
static struct plan_counts
chain_cost(const struct plan_args *a)
{
	uint64_t m = nmessages(a, a->nelem);

	return (struct plan_counts){.max_messages = m,
				    .max_elements = a->nelem,
				    .max_recv_elements = a->nelem,
				    .total_messages = (a->nranks - 1) * m,
				    .total_elements = (a->nranks - 1) * a->nelem,
				    .rounds = (uint32_t)(a->nranks - 2 + m)};
}

/* The textbook numbers, where p divides n and nothing is cut. */
static bool
textbook(enum gpusim_coll coll, uint64_t times)
{
	for (uint32_t p = 2; p <= 16; p++) {
		struct plan_args a = {.coll = coll, .nranks = p, .nelem = 5 * p};
		struct plan_counts c;
		struct err err = {0};

		if (plan_check(&a, "ring", PLAN_OUT_OF_PLACE, &c, &err) ||
		    c.max_messages != times * (p - 1) || c.max_elements != times * 5 * (p - 1) ||
		    c.total_messages != times * p * (p - 1)) {
			printf("#   p %u: %s\n", p, err.text);
			return false;
		}
	}
	return true;
}

int
main(void)
{
	check_algo(GPUSIM_ALLREDUCE, "ring", allreduce_cost);
	check_algo(GPUSIM_ALLGATHER, "ring", allgather_cost);
	check_algo(GPUSIM_REDUCESCATTER, "ring", reducescatter_cost);
	check_algo(GPUSIM_BROADCAST, "ring", chain_cost);
	check_algo(GPUSIM_REDUCE, "ring", chain_cost);
	ok(textbook(GPUSIM_ALLREDUCE, 2), "allreduce: 2(p-1) messages, 2n(p-1)/p elements");
	ok(textbook(GPUSIM_ALLGATHER, 1), "allgather: p-1 messages, n(p-1)/p elements");
	ok(textbook(GPUSIM_REDUCESCATTER, 1), "reduce-scatter: p-1 messages, n(p-1)/p elements");
	return tap_done();
}
