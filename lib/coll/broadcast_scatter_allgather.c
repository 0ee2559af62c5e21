/*
 * broadcast_scatter_allgather.c - scatter the vector down a tree, gather it on a ring.
 */
#include "coll/algo.h"

/* Blocks first..first+n-1 of the vector; block d is for place d. */
static struct span
blocks(const struct plan_args *a, uint32_t first, uint32_t n)
{
	return n ? parts_of(a, first, first + n) : (struct span){0};
}

/* Round k of D: blocks for the place 2^(D-1-k) on and those behind it. */
static enum rc
scatter(const struct plan_args *a, const struct binomial *t, struct plan *out)
{
	uint8_t src = t->place ? PLAN_OUT : PLAN_IN;
	enum rc rc = RC_OK;

	if (t->place) {
		struct span come = blocks(a, t->place, binomial_size(a, t->place, t->reach));

		rc = plan_message(
		    a, out,
		    (struct plan_step){.kind = STEP_RECV,
				       .dst = PLAN_OUT,
				       .peer = binomial_rank(a, t->place - t->reach),
				       .round = t->depth - 1 - (uint32_t)__builtin_ctz(t->reach),
				       .dst_off = come.off,
				       .count = come.count});
	}
	for (uint32_t d = t->reach / 2; d && !rc; d /= 2) {
		uint32_t child = t->place + d;
		struct span gone;

		if (child >= a->nranks)
			continue;
		gone = blocks(a, child, binomial_size(a, child, d));
		rc = plan_message(
		    a, out,
		    (struct plan_step){.kind = STEP_SEND,
				       .src = src,
				       .peer = binomial_rank(a, child),
				       .round = t->depth - 1 - (uint32_t)__builtin_ctz(d),
				       .src_off = gone.off,
				       .count = gone.count});
	}
	return rc;
}

/* The block, unless `place` has it from the scatter. */
static struct span
missing(const struct plan_args *a, uint32_t place, uint32_t block)
{
	uint32_t low = place ? place & -place : a->nranks;
	uint32_t have = binomial_size(a, place, low);

	if (block >= place && block < place + have)
		return (struct span){0};
	return blocks(a, block, 1);
}

/* Round D+t: block d-t to the next place, block d-t-1 from the one before. */
static enum rc
allgather(const struct plan_args *a, const struct binomial *t, struct plan *out)
{
	uint32_t p = a->nranks, next = (t->place + 1) % p;
	enum rc rc = RC_OK;

	for (uint32_t i = 0; i + 1 < p && !rc; i++) {
		uint32_t block = (t->place + p - i) % p;
		struct span gone = missing(a, next, block);
		struct span come = missing(a, t->place, (block + p - 1) % p);

		rc = plan_exchange(a, out,
				   (struct plan_step){.kind = STEP_SEND,
						      .src = t->place ? PLAN_OUT : PLAN_IN,
						      .peer = rank_after(a, 1),
						      .round = t->depth + i,
						      .src_off = gone.off,
						      .count = gone.count},
				   (struct plan_step){.kind = STEP_RECV,
						      .dst = PLAN_OUT,
						      .peer = rank_before(a, 1),
						      .round = t->depth + i,
						      .dst_off = come.off,
						      .count = come.count});
	}
	return rc;
}

/*
 * plan_broadcast_scatter_allgather - append one rank's steps of van de Geijn's broadcast.
 *
 *	a	in[n] at the root -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Rank root+d has place d, and block d of the vector is its part. Rounds 0..D-1, D = ceil(log2 p):
 * a binomial tree brings each place the blocks of its subtree. Rounds D..D+p-2: the blocks go round
 * the ring, but for those that a place has already; so the root receives nothing. The root's own
 * copy comes last.
 * Cost: a place receives n elements, its subtree's down the tree and the others on the ring; the
 * root sends n less its block down the tree, and on the ring what its neighbour lacks: 2n(p-1)/p
 * for p a power of two that divides n. Rounds: D+p-1 when n >= p.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Barnett, Gupta, Payne, Shuler, van de Geijn & Watts, SHPCC 1994,
 *	doi:10.1109/SHPCC.1994.296665
 * Checked by: tests/unit/t_coll_tree.c
 */
enum rc
plan_broadcast_scatter_allgather(const struct plan_args *a, struct plan *out)
{
	struct binomial t = binomial_of(a);
	enum rc rc = scatter(a, &t, out);

	if (!rc)
		rc = allgather(a, &t, out);
	if (rc || t.place)
		return rc;
	return plan_local(out, (struct plan_step){.kind = STEP_COPY,
						  .src = PLAN_IN,
						  .dst = PLAN_OUT,
						  .round = t.depth + a->nranks - 2,
						  .count = a->nelem});
}
