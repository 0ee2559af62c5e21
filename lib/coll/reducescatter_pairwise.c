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
 * Cost of rank r: n - |part r| elements, each part in m messages of at most `chunk`: p-1 messages
 * and n(p-1)/p elements when p divides n and chunk is 0. Rounds: p-1.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/t_coll_misc.c
 */
enum rc
plan_reducescatter_pairwise(const struct plan_args *a, struct plan *out)
{
	struct span own = part_of(a, a->rank);
	enum rc rc = RC_OK;

	for (uint32_t t = 1; t < a->nranks && !rc; t++) {
		struct span gone = part_of(a, rank_after(a, t));

		rc = plan_exchange(a, out,
				   (struct plan_step){.kind = STEP_SEND,
						      .src = PLAN_IN,
						      .peer = rank_after(a, t),
						      .round = t - 1,
						      .src_off = gone.off,
						      .count = gone.count},
				   (struct plan_step){.kind = STEP_RECV_REDUCE,
						      .src = t > 1 ? PLAN_OUT : PLAN_IN,
						      .dst = PLAN_OUT,
						      .peer = rank_before(a, t),
						      .round = t - 1,
						      .src_off = t > 1 ? 0 : own.off,
						      .count = own.count});
	}
	if (rc)
		return rc;
	return plan_local(out, (struct plan_step){.kind = STEP_FINISH,
						  .dst = PLAN_OUT,
						  .round = a->nranks - 2,
						  .count = own.count});
}
