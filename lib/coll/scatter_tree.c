/*
 * scatter_tree.c - scatter down a binomial tree.
 */
#include "coll/algo.h"

/* Elements of `n` parts from that of place `first` on, as they lie in the vector: two spans. */
static void
subtree(const struct plan_args *a, uint32_t first, uint32_t n, struct span s[static 2])
{
	parts_around(a, binomial_rank(a, first), n, s);
}

/* The parts of the subtree come, packed in scratch; a leaf's straight to OUT. */
static enum rc
from_parent(const struct plan_args *a, const struct binomial *t, struct plan *out)
{
	uint32_t n = binomial_size(a, t->place, t->reach);
	struct plan_step s = {.kind = STEP_RECV,
			      .dst = n > 1 ? PLAN_TMP : PLAN_OUT,
			      .peer = binomial_rank(a, t->place - t->reach),
			      .round = t->depth - 1 - (uint32_t)__builtin_ctz(t->reach)};
	struct span come[2];
	enum rc rc = RC_OK;

	subtree(a, t->place, n, come);
	if (n > 1)
		plan_scratch(out, come[0].count + come[1].count);
	for (int i = 0; i < 2 && !rc; i++) {
		s.count = come[i].count;
		rc = plan_message(a, out, s);
		s.dst_off += s.count;
	}
	return rc;
}

/* What the places from `child` on shall have. */
static enum rc
to_child(const struct plan_args *a, const struct binomial *t, uint32_t child, uint32_t d,
	 struct plan *out)
{
	struct plan_step s = {.kind = STEP_SEND,
			      .src = t->place ? PLAN_TMP : PLAN_IN,
			      .peer = binomial_rank(a, child),
			      .round = t->depth - 1 - (uint32_t)__builtin_ctz(d)};
	struct span gone[2], before[2];
	enum rc rc = RC_OK;

	subtree(a, child, binomial_size(a, child, d), gone);
	subtree(a, t->place, child - t->place, before);
	if (t->place)
		s.src_off = before[0].count + before[1].count;
	for (int i = 0; i < 2 && !rc; i++) {
		s.count = gone[i].count;
		if (!t->place)
			s.src_off = gone[i].off;
		rc = plan_message(a, out, s);
		s.src_off += s.count;
	}
	return rc;
}

/*
 * plan_scatter_tree - append one rank's steps of a binomial tree scatter.
 *
 *	a	in[n] at the root -> out[part(rank)]; scratch of the subtree's parts inside the tree
 *	out	[out] appended to
 *
 * Rank root+d has place d. With D = ceil(log2 p), in round k the places that are multiples of
 * 2^(D-k) send to the one 2^(D-1-k) places on the parts of it and of those behind it. Parts that
 * lie on both ends of the vector are two messages. The own part is copied last.
 * Cost of a rank: the parts of each child's subtree; of the root n - |part root| in D messages or
 * more. Rounds: D when every rank has a part.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/t_coll_tree.c
 */
enum rc
plan_scatter_tree(const struct plan_args *a, struct plan *out)
{
	struct binomial t = binomial_of(a);
	struct span own = part_of(a, a->rank);
	enum rc rc = t.place ? from_parent(a, &t, out) : RC_OK;

	for (uint32_t d = t.reach / 2; d && !rc; d /= 2) {
		if (t.place + d < a->nranks)
			rc = to_child(a, &t, t.place + d, d, out);
	}
	if (rc || (t.place && binomial_size(a, t.place, t.reach) == 1))
		return rc;
	return plan_local(out, (struct plan_step){.kind = STEP_COPY,
						  .src = t.place ? PLAN_TMP : PLAN_IN,
						  .dst = PLAN_OUT,
						  .round = t.depth - 1,
						  .src_off = t.place ? 0 : own.off,
						  .count = own.count});
}
