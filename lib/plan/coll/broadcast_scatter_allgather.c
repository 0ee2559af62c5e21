/*
 * broadcast_scatter_allgather.c - scatter the vector down a tree, gather it on a ring.
 */
#include "coll/algo.h"

/* Blocks first..first+n-1 of the vector; block d is for place d. */
static struct span
blocks(const struct plan_args *a, uint32_t begin, uint32_t n)
{
	return n ? parts_of(a, begin, begin + n) : (struct span){0};
}

/* Round k of D: the blocks of the place 2^(D-1-k) on and of those after it. */
static void
scatter(const struct plan_args *a, const struct binomial *t, struct plan *out)
{
	if (t->place)
		plan_message(a, out,
			     step_recv(PLAN_OUT,
				       blocks(a, t->place, binomial_size(a, t->place, t->reach)),
				       binomial_rank(a, t->place - t->reach),
				       t->depth - 1 - log2_of(t->reach)));
	for (uint32_t d = t->reach / 2; d; d /= 2) {
		uint32_t child = t->place + d;

		if (child < a->nranks)
			plan_message(a, out,
				     step_send(t->place ? PLAN_OUT : PLAN_IN,
					       blocks(a, child, binomial_size(a, child, d)),
					       binomial_rank(a, child), t->depth - 1 - log2_of(d)));
	}
}

/* The block, or nothing if `place` has it from the scatter. */
static struct span
missing(const struct plan_args *a, uint32_t place, uint32_t block)
{
	uint32_t low = place ? place & -place : a->nranks;
	uint32_t have = binomial_size(a, place, low);

	if (block >= place && block < place + have)
		return (struct span){0};
	return blocks(a, block, 1);
}

/*
 * plan_broadcast_scatter_allgather - append one rank's steps of van de Geijn's broadcast.
 *
 *	a	in[n] at the root -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Rank root+d has place d, and block d of the vector is its part. Rounds 0..D-1, D = ceil(log2 p):
 * a binomial tree brings each place the blocks of its subtree. Rounds D..D+p-2: the blocks go round the
 * ring, except those that a place has already; so the root receives nothing. The root's own copy comes last.
 * Cost: a place receives n elements, its subtree's down the tree and the others on the ring; the
 * root sends n less its block down the tree, and on the ring what its neighbour lacks: 2n(p-1)/p
 * for p a power of two that divides n. Rounds: D+p-1 when n >= p.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Barnett, Gupta, Payne, Shuler, van de Geijn & Watts, SHPCC 1994,
 *	doi:10.1109/SHPCC.1994.296665
 * Checked by: tests/unit/coll/t_coll_tree.c
 */
void
plan_broadcast_scatter_allgather(const struct plan_args *a, struct plan *out)
{
	struct binomial t = binomial_of(a);
	uint32_t p = a->nranks, next = (t.place + 1) % p;

	scatter(a, &t, out);
	for (uint32_t i = 0; i + 1 < p; i++) {
		uint32_t block = (t.place + p - i) % p;

		plan_exchange(a, out,
			      step_send(t.place ? PLAN_OUT : PLAN_IN, missing(a, next, block),
					rank_after(a, 1), t.depth + i),
			      step_recv(PLAN_OUT, missing(a, t.place, (block + p - 1) % p),
					rank_before(a, 1), t.depth + i));
	}
	if (!t.place)
		plan_local(out, step_copy(PLAN_IN, 0, PLAN_OUT, whole(a), t.depth + p - 2));
}
