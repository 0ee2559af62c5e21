/*
 * reduce_tree.c - reduce up a binomial tree.
 */
#include "coll/algo.h"

/*
 * plan_reduce_tree - append one rank's steps of a binomial tree reduce.
 *
 *	a	in[n] -> out[n] at the root; scratch n at the ranks inside the tree
 *	out	[out] appended to
 *
 * Rank root+d has place d. In step k the places whose lowest bit is 2^k send to the one 2^k places
 * before, which adds it to what it has: children in order of their distance. Each message of at
 * most `chunk` goes this way by itself: message c in rounds cD .. cD+D-1, D = ceil(log2 p). An inner
 * rank has no OUT, and no message reports what was consumed, so its sums lie in scratch.
 * Cost of each rank but the root: n elements in m = ceil(n / chunk) messages (1 when chunk is 0);
 * the root receives D n. Rounds: m D.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/coll/t_coll_tree.c
 */
void
plan_reduce_tree(const struct plan_args *a, struct plan *out)
{
	struct binomial t = binomial_of(a);
	uint64_t m = plan_nmessages(a->nelem, a->chunk);
	enum plan_buf sum = t.place ? PLAN_TMP : PLAN_OUT;
	bool inside = t.reach > 1 && t.place + 1 < a->nranks;

	if (m > PLAN_MAX_STEPS)
		plan_fail(out, RC_INVAL);
	if (t.place && inside)
		plan_scratch(out, a->nelem);
	for (uint32_t c = 0; c < m && !out->rc; c++) {
		for (uint32_t d = 1; d < t.reach && t.place + d < a->nranks; d *= 2)
			plan_nth_local(a, out, c,
				       step_reduce(d > 1 ? sum : PLAN_IN, 0, sum, whole(a),
						   binomial_rank(a, t.place + d),
						   c * t.depth + log2_of(d)));
		if (t.place)
			plan_nth_local(a, out, c,
				       step_send(inside ? PLAN_TMP : PLAN_IN, whole(a),
						 binomial_rank(a, t.place - t.reach),
						 c * t.depth + log2_of(t.reach)));
	}
	if (!t.place)
		plan_local(out, step_finish(PLAN_OUT, whole(a), last_round(out)));
}
