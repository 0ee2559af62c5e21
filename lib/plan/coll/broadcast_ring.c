/*
 * broadcast_ring.c - broadcast down a chain.
 */
#include "coll/algo.h"

/*
 * plan_broadcast_ring - append one rank's steps of a pipelined chain broadcast.
 *
 *	a	in[n] at the root -> out[n]; no scratch
 *	out	[out] appended to
 *
 * The chain is root, root+1, ... root+p-1. The rank d places down receives message c in round
 * d-1+c and sends it on in round d+c. The root's own copy comes last: no rank waits for it.
 * Cost of each rank but the last of the chain: n elements in m = ceil(n / chunk) messages (1
 * when chunk is 0); the last sends nothing. Rounds: p-2 + m.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Chan, Heimlich, Purkayastha & van de Geijn, CCPE 19(13), 2007, doi:10.1002/cpe.1206
 * Checked by: tests/unit/coll/t_coll_ring.c
 */
void
plan_broadcast_ring(const struct plan_args *a, struct plan *out)
{
	uint32_t d = rank_distance(a, a->root);
	struct plan_step send = step_send(d ? PLAN_OUT : PLAN_IN, whole(a), rank_after(a, 1), d);
	struct plan_step recv = step_recv(PLAN_OUT, whole(a), rank_before(a, 1), d - 1);

	if (d == a->nranks - 1)
		plan_pipe(a, out, recv);
	else if (d)
		plan_forward(a, out, recv, send);
	else
		plan_pipe(a, out, send);
	if (!d)
		plan_local(out, step_copy(PLAN_IN, 0, PLAN_OUT, whole(a), last_round(out)));
}
