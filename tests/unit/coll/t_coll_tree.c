/* Algorithms on trees: right for every shape, at the cost that each one's comment states. */
#include "coll_sweep.h"

#define RANKS 130 /* the sweep's maximum */

static uint32_t
depth_of(uint32_t p)
{
	uint32_t d = 0;

	while (1u << d < p)
		d++;
	return d;
}

/* Elements of n parts from place `first` on: up to the vector's end, and after the wrap. */
static void
parts_of_places(const struct plan_args *a, uint32_t first, uint32_t n, uint64_t out[2])
{
	uint32_t rank = (a->root + first) % a->nranks;

	out[0] = out[1] = 0;
	for (uint32_t j = rank; j < rank + n; j++)
		out[j >= a->nranks] += part_size(a, j);
}

/* Broadcast and reduce: every place but 0 has an edge to its parent, the vector on each. */
static struct plan_counts
whole_cost(const struct plan_args *a, bool towards_root)
{
	uint64_t m = nmessages(a, a->nelem);
	uint32_t depth = depth_of(a->nranks);
	struct plan_counts c = {.rounds = (uint32_t)m * depth};

	for (uint32_t d = 0; d < a->nranks; d++) {
		uint64_t children = 0, up = d > 0;

		for (uint32_t b = 1; b < a->nranks && !(d & b); b *= 2)
			children += d + b < a->nranks;
		if (towards_root)
			add_rank(&c, up * m, up * a->nelem, children * a->nelem);
		else
			add_rank(&c, children * m, children * a->nelem, up * a->nelem);
	}
	return c;
}

static struct plan_counts
broadcast_cost(const struct plan_args *a)
{
	return whole_cost(a, false);
}

static struct plan_counts
reduce_cost(const struct plan_args *a)
{
	return whole_cost(a, true);
}

/* Gather and scatter: the parts of a subtree on the edge over it. */
static struct plan_counts
parts_cost(const struct plan_args *a, bool towards_root)
{
	uint32_t p = a->nranks, depth = depth_of(p);
	uint64_t messages[RANKS] = {0}, elements[RANKS] = {0}, received[RANKS] = {0};
	struct plan_counts c = {0};

	for (uint32_t d = 1; d < p; d++) {
		uint32_t low = d & -d, parent = d - low, k = (uint32_t)__builtin_ctz(d);
		uint32_t round = towards_root ? k : depth - 1 - k;
		uint32_t from = towards_root ? d : parent, to = towards_root ? parent : d;
		uint64_t n[2];

		parts_of_places(a, d, d + low < p ? low : p - d, n);
		messages[from] += nmessages(a, n[0]) + nmessages(a, n[1]);
		elements[from] += n[0] + n[1];
		received[to] += n[0] + n[1];
		if (n[0] + n[1] && c.rounds <= round)
			c.rounds = round + 1;
	}
	for (uint32_t d = 0; d < p; d++)
		add_rank(&c, messages[d], elements[d], received[d]);
	return c;
}

static struct plan_counts
gather_cost(const struct plan_args *a)
{
	return parts_cost(a, true);
}

static struct plan_counts
scatter_cost(const struct plan_args *a)
{
	return parts_cost(a, false);
}

/* Blocks down the tree as in scatter, by place; then each block on the ring to all places that lack it.
 */
static struct plan_counts
scatter_allgather_cost(const struct plan_args *a)
{
	uint32_t p = a->nranks, depth = depth_of(p);
	uint64_t messages[RANKS] = {0}, elements[RANKS] = {0}, received[RANKS] = {0};
	struct plan_counts c = {0};

	for (uint32_t d = 1; d < p; d++) {
		uint32_t low = d & -d, n = d + low < p ? low : p - d;
		uint64_t down = (d + n) * a->nelem / p - d * a->nelem / p;

		messages[d - low] += nmessages(a, down);
		elements[d - low] += down;
		received[d] += down;
		if (down && c.rounds < depth - (uint32_t)__builtin_ctz(d))
			c.rounds = depth - (uint32_t)__builtin_ctz(d);
		for (uint32_t t = 0; t + 1 < p; t++) {
			uint32_t block = (d + 2 * p - 1 - t) % p;
			uint64_t size = part_size(a, block);

			if (block >= d && block < d + n)
				continue;
			messages[d - 1] += nmessages(a, size);
			elements[d - 1] += size;
			received[d] += size;
			if (size && c.rounds <= depth + t)
				c.rounds = depth + t + 1;
		}
	}
	for (uint32_t d = 0; d < p; d++)
		add_rank(&c, messages[d], elements[d], received[d]);
	return c;
}

/* The parent of a place in the binary tree, found from the top: each subtree is a range of places
 * with its root in the middle (of the next power of two). */
static uint32_t
parent_in_order(uint32_t p, uint32_t place)
{
	uint32_t lo = 1, hi = p, parent = 0;

	for (;;) {
		uint32_t top = 1;

		while (lo - 1 + top * 2 < hi)
			top *= 2;
		if (lo - 1 + top == place)
			return parent;
		parent = lo - 1 + top;
		if (place < parent)
			hi = parent;
		else
			lo = parent + 1;
	}
}

/* Each half over each edge of its tree, up and down. */
static struct plan_counts
double_tree_cost(const struct plan_args *a)
{
	uint32_t p = a->nranks;
	uint64_t half[2] = {a->nelem / 2, a->nelem - a->nelem / 2};
	uint64_t messages[RANKS] = {0}, elements[RANKS] = {0};
	struct plan_counts c = {.rounds = 2 * (uint32_t)(nmessages(a, half[1]) + depth_of(p) - 1)};

	for (int t = 0; t < 2; t++) {
		for (uint32_t x = 1; x < p; x++) {
			uint32_t y = parent_in_order(p, x);
			uint32_t r = t == 0 ? x : p % 2 ? (x + 1) % p : p - 1 - x;
			uint32_t q = t == 0 ? y : p % 2 ? (y + 1) % p : p - 1 - y;

			messages[r] += nmessages(a, half[t]);
			messages[q] += nmessages(a, half[t]);
			elements[r] += half[t];
			elements[q] += half[t];
		}
	}
	for (uint32_t r = 0; r < p; r++)
		add_rank(&c, messages[r], elements[r], elements[r]);
	return c;
}

/* No rank sends more than 2n, except rank 0 of an odd number of ranks: 2.5n. */
static bool
balanced(void)
{
	for (uint32_t p = 2; p <= 64; p++) {
		struct plan_args a = {.nranks = p, .nelem = 12};
		struct plan_counts c;
		struct err err = {0};

		if (plan_check(&a, "tree", PLAN_OUT_OF_PLACE, &c, &err) ||
		    c.total_elements != 2 * 12 * (p - 1) || c.max_elements > (p % 2 ? 30 : 24)) {
			printf("#   p %u: %s\n", p, err.text);
			return false;
		}
	}
	return true;
}

int
main(void)
{
	check_algo(GPUSIM_BROADCAST, "tree", broadcast_cost);
	check_algo(GPUSIM_REDUCE, "tree", reduce_cost);
	check_algo(GPUSIM_GATHER, "tree", gather_cost);
	check_algo(GPUSIM_SCATTER, "tree", scatter_cost);
	check_algo(GPUSIM_BROADCAST, "scatter-allgather", scatter_allgather_cost);
	check_algo(GPUSIM_ALLREDUCE, "tree", double_tree_cost);
	ok(balanced(), "tree: a rank sends at most 2n, rank 0 of an odd number 2.5n");
	return tap_done();
}
