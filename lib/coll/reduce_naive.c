/*
 * reduce_naive.c - reduce by the root alone.
 */
#include "coll/algo.h"

/*
 * plan_reduce_naive - append one rank's steps of a reduce by the root alone.
 *
 *	a	in[n] -> out[n] at the root; no scratch
 *	out	[out] appended to
 *
 * Round k-1: rank root+k sends its vector and the root adds it.
 * Cost, with m = ceil(n / chunk) (1 when chunk is 0): each rank but the root sends n elements in m
 * messages; the root receives (p-1)n. Rounds: p-1.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/t_coll_naive.c
 */
enum rc
plan_reduce_naive(const struct plan_args *a, struct plan *out)
{
	uint32_t d = rank_distance(a, a->root);
	enum rc rc = RC_OK;

	if (d)
		return plan_message(a, out,
				    (struct plan_step){.kind = STEP_SEND,
						       .src = PLAN_IN,
						       .peer = a->root,
						       .round = d - 1,
						       .count = a->nelem});
	for (uint32_t k = 1; k < a->nranks && !rc; k++)
		rc = plan_message(a, out,
				  (struct plan_step){.kind = STEP_RECV_REDUCE,
						     .src = k > 1 ? PLAN_OUT : PLAN_IN,
						     .dst = PLAN_OUT,
						     .peer = rank_after(a, k),
						     .round = k - 1,
						     .count = a->nelem});
	if (rc)
		return rc;
	return plan_local(out, (struct plan_step){.kind = STEP_FINISH,
						  .dst = PLAN_OUT,
						  .round = a->nranks - 2,
						  .count = a->nelem});
}
