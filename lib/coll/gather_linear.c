/*
 * gather_linear.c - gather by the root alone.
 */
#include "coll/algo.h"

/*
 * plan_gather_linear - append one rank's steps of a linear gather.
 *
 *	a	in[part(rank)] -> out[n] at the root; no scratch
 *	out	[out] appended to
 *
 * Round k-1: rank root+k sends its part to the root.
 * Cost of rank r but the root: |part r| elements in ceil(|part r| / chunk) messages (1 when
 * chunk is 0 and the part is not empty); the root sends nothing. Rounds: at most p-1; p-1 when
 * n >= p.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/t_coll_misc.c
 */
enum rc
plan_gather_linear(const struct plan_args *a, struct plan *out)
{
	uint32_t d = rank_distance(a, a->root);
	struct span own = part_of(a, a->rank);
	enum rc rc;

	if (d)
		return plan_message(a, out,
				    (struct plan_step){.kind = STEP_SEND,
						       .src = PLAN_IN,
						       .peer = a->root,
						       .round = d - 1,
						       .count = own.count});
	rc = plan_local(out, (struct plan_step){.kind = STEP_COPY,
						.src = PLAN_IN,
						.dst = PLAN_OUT,
						.dst_off = own.off,
						.count = own.count});
	for (uint32_t k = 1; k < a->nranks && !rc; k++) {
		struct span part = part_of(a, rank_after(a, k));

		rc = plan_message(a, out,
				  (struct plan_step){.kind = STEP_RECV,
						     .dst = PLAN_OUT,
						     .peer = rank_after(a, k),
						     .round = k - 1,
						     .dst_off = part.off,
						     .count = part.count});
	}
	return rc;
}
