/*
 * broadcast_naive.c - broadcast by the root alone.
 */
#include "coll/algo.h"

/*
 * plan_broadcast_naive - append one rank's steps of a broadcast by the root alone.
 *
 *	a	in[n] at the root -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Round k-1: the root sends its vector to rank root+k. Its own copy comes last: nobody waits
 * for it.
 * Cost, with m = ceil(n / chunk) (1 when chunk is 0): the root sends (p-1)n elements in (p-1)m
 * messages, the others nothing. Rounds: p-1.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/t_coll_naive.c
 */
enum rc
plan_broadcast_naive(const struct plan_args *a, struct plan *out)
{
	uint32_t d = rank_distance(a, a->root);
	enum rc rc = RC_OK;

	if (d)
		return plan_message(a, out,
				    (struct plan_step){.kind = STEP_RECV,
						       .dst = PLAN_OUT,
						       .peer = a->root,
						       .round = d - 1,
						       .count = a->nelem});
	for (uint32_t k = 1; k < a->nranks && !rc; k++)
		rc = plan_message(a, out,
				  (struct plan_step){.kind = STEP_SEND,
						     .src = PLAN_IN,
						     .peer = rank_after(a, k),
						     .round = k - 1,
						     .count = a->nelem});
	if (rc)
		return rc;
	return plan_local(out, (struct plan_step){.kind = STEP_COPY,
						  .src = PLAN_IN,
						  .dst = PLAN_OUT,
						  .round = a->nranks - 2,
						  .count = a->nelem});
}
