/* Algorithms over doubling and halving distances: right for every shape, at their stated cost. */
#include "coll_sweep.h"

#define RANKS 130 /* the sweep's maximum */

/* The elements and messages that each rank sends and receives. */
struct tally {
	uint64_t messages[RANKS], elements[RANKS], received[RANKS];
	uint32_t rounds;
};

static void
send_to(const struct plan_args *a, struct tally *t, uint32_t from, uint32_t to, uint64_t n,
	uint32_t round)
{
	t->messages[from] += nmessages(a, n);
	t->elements[from] += n;
	t->received[to] += n;
	if (n && t->rounds <= round)
		t->rounds = round + 1;
}

static struct plan_counts
counts_of(const struct plan_args *a, const struct tally *t)
{
	struct plan_counts c = {.rounds = t->rounds};

	for (uint32_t r = 0; r < a->nranks; r++)
		add_rank(&c, t->messages[r], t->elements[r], t->received[r]);
	return c;
}

/* The largest power of two of p ranks, the ranks beyond it, the rank at a place. */
struct power {
	uint32_t size, log2, extra;
};

static struct power
power_of(uint32_t p)
{
	struct power w = {1, 0, 0};

	for (; w.size * 2 <= p; w.size *= 2)
		w.log2++;
	w.extra = p - w.size;
	return w;
}

static uint32_t
at(const struct power *w, uint32_t place)
{
	return place < w->extra ? 2 * place + 1 : place + w->extra;
}

/* The elements of places first..first+n-1: parts of their ranks, or segments of 1/size. */
static uint64_t
parts(const struct plan_args *a, const struct power *w, uint32_t first, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = first; i < first + n; i++) {
		sum += part_size(a, at(w, i));
		if (i < w->extra)
			sum += part_size(a, at(w, i) - 1);
	}
	return sum;
}

static uint64_t
segments(const struct plan_args *a, const struct power *w, uint32_t first, uint32_t n)
{
	return (first + n) * a->nelem / w->size - first * a->nelem / w->size;
}

/* The elements that folded even ranks give before, and get after, d rounds. */
static void
fold(const struct plan_args *a, const struct power *w, struct tally *t, bool give_part,
     bool get_part, uint32_t rounds)
{
	for (uint32_t r = 0; r < 2 * w->extra; r += 2) {
		send_to(a, t, r, r + 1, give_part ? part_size(a, r) : a->nelem, 0);
		send_to(a, t, r + 1, r, get_part ? part_size(a, r) : a->nelem, rounds + 1);
	}
}

static struct plan_counts
recursive_doubling_cost(const struct plan_args *a)
{
	struct power w = power_of(a->nranks);
	struct tally t = {0};

	fold(a, &w, &t, false, false, w.log2);
	for (uint32_t k = 0; k < w.log2; k++)
		for (uint32_t i = 0; i < w.size; i++)
			send_to(a, &t, at(&w, i), at(&w, i ^ 1u << k), a->nelem, k + (w.extra > 0));
	return counts_of(a, &t);
}

static struct plan_counts
halving_doubling_cost(const struct plan_args *a)
{
	struct power w = power_of(a->nranks);
	struct tally t = {0};

	fold(a, &w, &t, false, false, 2 * w.log2);
	for (uint32_t k = 0; k < w.log2; k++) {
		uint32_t d = 1u << k;

		for (uint32_t i = 0; i < w.size; i++) {
			uint32_t peer = at(&w, i ^ d), mine = i & ~(d - 1);

			send_to(a, &t, at(&w, i), peer, segments(a, &w, mine ^ d, d),
				w.log2 - 1 - k + (w.extra > 0));
			send_to(a, &t, at(&w, i), peer, segments(a, &w, mine, d),
				w.log2 + k + (w.extra > 0));
		}
	}
	return counts_of(a, &t);
}

static struct plan_counts
allgather_cost(const struct plan_args *a)
{
	struct power w = power_of(a->nranks);
	struct tally t = {0};

	fold(a, &w, &t, true, false, w.log2);
	for (uint32_t k = 0; k < w.log2; k++)
		for (uint32_t i = 0; i < w.size; i++)
			send_to(a, &t, at(&w, i), at(&w, i ^ 1u << k),
				parts(a, &w, i & ~((1u << k) - 1), 1u << k), k + (w.extra > 0));
	return counts_of(a, &t);
}

static struct plan_counts
halving_cost(const struct plan_args *a)
{
	struct power w = power_of(a->nranks);
	struct tally t = {0};

	fold(a, &w, &t, false, true, w.log2);
	for (uint32_t k = 0; k < w.log2; k++) {
		uint32_t d = w.size >> (k + 1);

		for (uint32_t i = 0; i < w.size; i++)
			send_to(a, &t, at(&w, i), at(&w, i ^ d),
				parts(a, &w, (i & ~(d - 1)) ^ d, d), k + (w.extra > 0));
	}
	return counts_of(a, &t);
}

static struct plan_counts
bruck_cost(const struct plan_args *a)
{
	struct tally t = {0};
	uint32_t p = a->nranks;

	for (uint32_t d = 1, k = 0; d < p; d *= 2, k++) {
		for (uint32_t r = 0; r < p; r++) {
			uint64_t n = 0;

			for (uint32_t j = r; j < r + d && j < r + p - d; j++)
				n += part_size(a, j);
			send_to(a, &t, r, (r + p - d) % p, n, k);
		}
	}
	return counts_of(a, &t);
}

/* The textbook numbers, where p is a power of two that divides n and nothing is cut. */
static bool
textbook(enum gpusim_coll coll, const char *algo, uint64_t rounds, uint64_t elements)
{
	for (uint32_t p = 2; p <= 64; p *= 2) {
		struct plan_args a = {.coll = coll, .nranks = p, .nelem = 5 * p};
		struct plan_counts c;
		struct err err = {0};
		uint32_t d = (uint32_t)__builtin_ctz(p);

		if (plan_check(&a, algo, PLAN_IN_PLACE, &c, &err) || c.rounds != rounds * d ||
		    c.max_messages != rounds * d ||
		    c.max_elements != (elements ? elements * 5 * (p - 1) : 5ull * p * d)) {
			printf("#   p %u: %s\n", p, err.text);
			return false;
		}
	}
	return true;
}

int
main(void)
{
	check_algo(GPUSIM_ALLREDUCE, "recursive-doubling", recursive_doubling_cost);
	check_algo(GPUSIM_ALLREDUCE, "halving-doubling", halving_doubling_cost);
	check_algo(GPUSIM_ALLGATHER, "recursive-doubling", allgather_cost);
	check_algo(GPUSIM_ALLGATHER, "bruck", bruck_cost);
	check_algo(GPUSIM_REDUCESCATTER, "halving", halving_cost);
	ok(textbook(GPUSIM_ALLREDUCE, "recursive-doubling", 1, 0),
	   "recursive doubling allreduce: n log2 p elements in log2 p rounds");
	ok(textbook(GPUSIM_ALLREDUCE, "halving-doubling", 2, 2),
	   "halving-doubling: 2n(p-1)/p elements in 2 log2 p rounds");
	ok(textbook(GPUSIM_ALLGATHER, "recursive-doubling", 1, 1) &&
	       textbook(GPUSIM_ALLGATHER, "bruck", 1, 1),
	   "allgather: n(p-1)/p elements in log2 p rounds");
	ok(textbook(GPUSIM_REDUCESCATTER, "halving", 1, 1),
	   "reduce-scatter: n(p-1)/p elements in log2 p rounds");
	return tap_done();
}
