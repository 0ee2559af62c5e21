/*
 * broadcast_tree.c - broadcast down a binomial tree.
 */
#include "coll/algo.h"

/*
 * plan_broadcast_tree - append one rank's steps of a binomial tree broadcast.
 *
 *	a	in[n] at the root -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Rank root+d has place d. With D = ceil(log2 p), the places that are multiples of 2^(D-k) send to
 * the one 2^(D-1-k) places on in step k, the largest subtree first. Each message of at most `chunk`
 * goes this way by itself: message c in rounds cD .. cD+D-1. The root's own copy comes last.
 * Cost of a rank with k children: k n elements in k m messages, m = ceil(n / chunk) (1 when chunk
 * is 0); the root has D. Rounds: m D.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/coll/t_coll_tree.c
 */
void
plan_broadcast_tree(const struct plan_args *a, struct plan *out)
{
	struct binomial t = binomial_of(a);
	uint64_t m = plan_nmessages(a->nelem, a->chunk);

	if (m > PLAN_MAX_STEPS)
		plan_fail(out, RC_INVAL);
	for (uint32_t c = 0; c < m && !out->rc; c++) {
		uint32_t last = c * t.depth + t.depth - 1;

		if (t.place)
			plan_nth_local(a, out, c,
				       step_recv(PLAN_OUT, whole(a),
						 binomial_rank(a, t.place - t.reach),
						 last - log2_of(t.reach)));
		for (uint32_t d = t.reach / 2; d; d /= 2)
			if (t.place + d < a->nranks)
				plan_nth_local(a, out, c,
					       step_send(t.place ? PLAN_OUT : PLAN_IN, whole(a),
							 binomial_rank(a, t.place + d),
							 last - log2_of(d)));
	}
	if (!t.place)
		plan_local(out, step_copy(PLAN_IN, 0, PLAN_OUT, whole(a), last_round(out)));
}
