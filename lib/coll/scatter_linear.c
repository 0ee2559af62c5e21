/*
 * scatter_linear.c - scatter by the root alone.
 */
#include "coll/algo.h"

/*
 * plan_scatter_linear - append one rank's steps of a linear scatter.
 *
 *	a	in[n] at the root -> out[part(rank)]; no scratch
 *	out	[out] appended to
 *
 * Round k-1: the root sends part root+k to rank root+k. Its own copy comes last: nobody waits
 * for it.
 * Cost of the root: n - |part root| elements, part k in ceil(|part k| / chunk) messages (1 when
 * chunk is 0 and the part is not empty); the others send nothing. Rounds: at most p-1; p-1 when
 * n >= p.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/t_coll_misc.c
 */
enum rc
plan_scatter_linear(const struct plan_args *a, struct plan *out)
{
	uint32_t d = rank_distance(a, a->root);
	struct span own = part_of(a, a->rank);
	enum rc rc = RC_OK;

	if (d)
		return plan_message(a, out,
				    (struct plan_step){.kind = STEP_RECV,
						       .dst = PLAN_OUT,
						       .peer = a->root,
						       .round = d - 1,
						       .count = own.count});
	for (uint32_t k = 1; k < a->nranks && !rc; k++) {
		struct span part = part_of(a, rank_after(a, k));

		rc = plan_message(a, out,
				  (struct plan_step){.kind = STEP_SEND,
						     .src = PLAN_IN,
						     .peer = rank_after(a, k),
						     .round = k - 1,
						     .src_off = part.off,
						     .count = part.count});
	}
	if (rc)
		return rc;
	return plan_local(out, (struct plan_step){.kind = STEP_COPY,
						  .src = PLAN_IN,
						  .dst = PLAN_OUT,
						  .round = a->nranks - 2,
						  .src_off = own.off,
						  .count = own.count});
}
