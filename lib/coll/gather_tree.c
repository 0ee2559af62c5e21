/*
 * gather_tree.c - gather up a binomial tree.
 */
#include "coll/algo.h"

static void
subtree(const struct plan_args *a, uint32_t first, uint32_t n, struct span s[static 2])
{
	parts_around(a, binomial_rank(a, first), n, s);
}

/* What the places from `child` on have: to its place at the root, packed in scratch elsewhere. */
static enum rc
from_child(const struct plan_args *a, const struct binomial *t, uint32_t child, uint32_t d,
	   struct plan *out)
{
	struct plan_step s = {.kind = STEP_RECV,
			      .dst = t->place ? PLAN_TMP : PLAN_OUT,
			      .peer = binomial_rank(a, child),
			      .round = (uint32_t)__builtin_ctz(d)};
	struct span come[2], before[2];
	enum rc rc = RC_OK;

	subtree(a, child, binomial_size(a, child, d), come);
	subtree(a, t->place, child - t->place, before);
	if (t->place)
		s.dst_off = before[0].count + before[1].count;
	for (int i = 0; i < 2 && !rc; i++) {
		s.count = come[i].count;
		if (!t->place)
			s.dst_off = come[i].off;
		rc = plan_message(a, out, s);
		s.dst_off += s.count;
	}
	return rc;
}

static enum rc
to_parent(const struct plan_args *a, const struct binomial *t, struct plan *out)
{
	uint32_t n = binomial_size(a, t->place, t->reach);
	struct plan_step s = {.kind = STEP_SEND,
			      .src = n > 1 ? PLAN_TMP : PLAN_IN,
			      .peer = binomial_rank(a, t->place - t->reach),
			      .round = (uint32_t)__builtin_ctz(t->reach)};
	struct span gone[2];
	enum rc rc = RC_OK;

	subtree(a, t->place, n, gone);
	for (int i = 0; i < 2 && !rc; i++) {
		s.count = gone[i].count;
		rc = plan_message(a, out, s);
		s.src_off += s.count;
	}
	return rc;
}

/*
 * plan_gather_tree - append one rank's steps of a binomial tree gather.
 *
 *	a	in[part(rank)] -> out[n] at the root; scratch of the subtree's parts inside the tree
 *	out	[out] appended to
 *
 * Rank root+d has place d. In round k the places whose lowest bit is 2^k send to the one 2^k places
 * before the parts of themselves and of those behind them. Parts that lie on both ends of the
 * vector are two messages.
 * Cost of each rank but the root: the parts of its subtree; the root receives n - |part root|.
 * Rounds: D = ceil(log2 p) when every rank has a part.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/t_coll_tree.c
 */
enum rc
plan_gather_tree(const struct plan_args *a, struct plan *out)
{
	struct binomial t = binomial_of(a);
	struct span own = part_of(a, a->rank), all[2];
	uint32_t n = binomial_size(a, t.place, t.reach);
	enum rc rc = RC_OK;

	subtree(a, t.place, n, all);
	if (t.place && n > 1)
		plan_scratch(out, all[0].count + all[1].count);
	if (!t.place || n > 1)
		rc = plan_local(out, (struct plan_step){.kind = STEP_COPY,
							.src = PLAN_IN,
							.dst = t.place ? PLAN_TMP : PLAN_OUT,
							.dst_off = t.place ? 0 : own.off,
							.count = own.count});
	for (uint32_t d = 1; d < t.reach && t.place + d < a->nranks && !rc; d *= 2)
		rc = from_child(a, &t, t.place + d, d, out);
	return rc || !t.place ? rc : to_parent(a, &t, out);
}
