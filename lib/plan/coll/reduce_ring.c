/*
 * reduce_ring.c - reduce up a chain.
 */
#include "coll/algo.h"

/*
 * plan_reduce_ring - append one rank's steps of a pipelined chain reduce.
 *
 *	a	in[n] -> out[n] at the root; scratch n at the ranks inside the chain
 *	out	[out] appended to
 *
 * The chain is root+1, root+2, ... root+p-1, root. The rank d places up reduces IN + message c
 * in round d-1+c and sends it on in round d+c. An inner rank has no OUT, and no message reports what
 * was consumed, so its sums lie in scratch of the whole vector.
 * Cost of each rank but the root: n elements in m = ceil(n / chunk) messages (1 when chunk is
 * 0); the root sends nothing. Rounds: p-2 + m.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Chan, Heimlich, Purkayastha & van de Geijn, CCPE 19(13), 2007, doi:10.1002/cpe.1206
 * Checked by: tests/unit/coll/t_coll_ring.c
 */
void
plan_reduce_ring(const struct plan_args *a, struct plan *out)
{
	uint32_t d = rank_distance(a, (a->root + 1) % a->nranks);
	bool end = a->rank == a->root;
	struct plan_step send = step_send(d ? PLAN_TMP : PLAN_IN, whole(a), rank_after(a, 1), d);
	struct plan_step recv =
	    step_reduce(PLAN_IN, 0, end ? PLAN_OUT : PLAN_TMP, whole(a), rank_before(a, 1), d - 1);

	if (!d) {
		plan_pipe(a, out, send);
	} else if (!end) {
		plan_scratch(out, a->nelem);
		plan_forward(a, out, recv, send);
	} else {
		plan_pipe(a, out, recv);
		plan_local(out, step_finish(PLAN_OUT, whole(a), last_round(out)));
	}
}
