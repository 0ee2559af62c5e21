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
 * in round d-1+c and sends it on in round d+c. A rank inside has no OUT, and nobody tells it
 * what was consumed, so its sums lie in scratch of the whole vector.
 * Cost of each rank but the root: n elements in m = ceil(n / chunk) messages (1 when chunk is
 * 0); the root sends nothing. Rounds: p-2 + m.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Chan, Heimlich, Purkayastha & van de Geijn, CCPE 19(13), 2007, doi:10.1002/cpe.1206
 * Checked by: tests/unit/t_coll_ring.c
 */
enum rc
plan_reduce_ring(const struct plan_args *a, struct plan *out)
{
	uint32_t d = rank_distance(a, (a->root + 1) % a->nranks);
	struct plan_step send = {.kind = STEP_SEND,
				 .src = d ? PLAN_TMP : PLAN_IN,
				 .peer = rank_after(a, 1),
				 .round = d,
				 .count = a->nelem};
	struct plan_step recv = {.kind = STEP_RECV_REDUCE,
				 .src = PLAN_IN,
				 .dst = a->rank == a->root ? PLAN_OUT : PLAN_TMP,
				 .peer = rank_before(a, 1),
				 .round = d - 1,
				 .count = a->nelem};
	enum rc rc;

	if (!d)
		return plan_pipe(a, out, send);
	if (a->rank != a->root) {
		plan_scratch(out, a->nelem);
		return plan_forward(a, out, recv, send);
	}
	rc = plan_pipe(a, out, recv);
	if (rc)
		return rc;
	return plan_local(out, (struct plan_step){.kind = STEP_FINISH,
						  .dst = PLAN_OUT,
						  .round = out->step[out->nstep - 1].round,
						  .count = a->nelem});
}
