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

/* The ring's cost for each slice; a slice is the whole vector if nothing is cut. */
static struct plan_counts
chunked_cost(const struct plan_args *a)
{
	uint64_t most = a->chunk ? a->chunk * a->nranks : a->nelem;
	uint64_t k = (a->nelem + most - 1) / most;
	struct plan_counts c = {.rounds = (uint32_t)k * 2 * (a->nranks - 1)};
	uint64_t messages[130] = {0}, elements[130] = {0}, received[130] = {0};

	for (uint64_t s = 0; s < k; s++) {
		struct plan_args slice = *a;

		slice.chunk = 0;
		slice.nelem = (s + 1) * a->nelem / k - s * a->nelem / k;
		for (uint32_t r = 0; r < a->nranks; r++) {
			messages[r] += messages_but(&slice, r) + messages_but(&slice, r + 1);
			elements[r] +=
			    2 * slice.nelem - part_size(&slice, r) - part_size(&slice, r + 1);
			received[r] += 2 * slice.nelem - part_size(&slice, r) -
				       part_size(&slice, r + a->nranks - 1);
		}
	}
	for (uint32_t r = 0; r < a->nranks; r++)
		add_rank(&c, messages[r], elements[r], received[r]);
	return c;
}

/* However long the vector, a message is at most a chunk and slices differ by one element. */
static bool
slices_are_even(void)
{
	struct plan_args a = {.nranks = 4, .nelem = 4 * 10 * 3 + 1, .chunk = 10};
	struct plan_counts c;
	struct err err = {0};

	return !plan_check(&a, "ring-chunked", PLAN_IN_PLACE, &c, &err) && c.rounds == 4 * 6 &&
	       c.max_messages == 4 * 6;
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
	check_algo(GPUSIM_ALLREDUCE, "ring-chunked", chunked_cost);
	ok(slices_are_even(), "ring-chunked: a vector of a little more than 3 slices goes in 4");
	check_algo(GPUSIM_ALLGATHER, "ring", allgather_cost);
	check_algo(GPUSIM_REDUCESCATTER, "ring", reducescatter_cost);
	check_algo(GPUSIM_BROADCAST, "ring", chain_cost);
	check_algo(GPUSIM_REDUCE, "ring", chain_cost);
	ok(textbook(GPUSIM_ALLREDUCE, 2), "allreduce: 2(p-1) messages, 2n(p-1)/p elements");
	ok(textbook(GPUSIM_ALLGATHER, 1), "allgather: p-1 messages, n(p-1)/p elements");
	ok(textbook(GPUSIM_REDUCESCATTER, 1), "reduce-scatter: p-1 messages, n(p-1)/p elements");
	return tap_done();
}
