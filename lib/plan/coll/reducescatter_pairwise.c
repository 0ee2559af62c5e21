/*
 * reducescatter_pairwise.c - reduce-scatter, each part straight to its rank.
 */
#include "coll/algo.h"

/*
 * plan_reducescatter_pairwise - append one rank's steps of a pairwise reduce-scatter.
 *
 *	a	in[n] -> out[part(rank)]; no scratch
 *	out	[out] appended to
 *
 * Round t-1: rank r sends part r+t of IN to rank r+t and adds rank r-t's to its own, for t =
 * 1..p-1. The own part of IN is never posted, so in place is safe.
 * A canonical plan handles the parts message by message, message c in round c.
 * Cost of rank r: n - |part r| elements, each part in m messages of at most `chunk`: p-1 messages
 * and n(p-1)/p elements when p divides n and chunk is 0. Rounds: p-1, or m if canonical.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/coll/t_coll_misc.c, canonical plans by tests/unit/coll/t_canonical.c
 */
void
plan_reducescatter_pairwise(const struct plan_args *a, struct plan *out)
{
	struct span own = part_of(a, a->rank);
	uint64_t m = a->canonical ? plan_most_messages(a) : 0;

	for (uint64_t c = 0; c < m && !out->rc; c++)
		plan_nth_exchange(a, out, c, 0, (uint32_t)c);
	if (a->canonical)
		return;

	for (uint32_t t = 1; t < a->nranks; t++)
		plan_exchange(
		    a, out,
		    step_send(PLAN_IN, part_of(a, rank_after(a, t)), rank_after(a, t), t - 1),
		    step_reduce(t > 1 ? PLAN_OUT : PLAN_IN, t > 1 ? 0 : own.off, PLAN_OUT,
				first(own.count), rank_before(a, t), t - 1));
	plan_local(out, step_finish(PLAN_OUT, first(own.count), a->nranks - 2));
}
