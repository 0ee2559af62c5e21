/*
 * allgather_naive.c - allgather through rank 0.
 */
#include "coll/algo.h"

/* Rank 0 gathers the parts in rank order, then sends the whole vector to each. */
static enum rc
build_root(const struct plan_args *a, struct plan *out)
{
	uint32_t p = a->nranks;
	enum rc rc = plan_local(out, (struct plan_step){.kind = STEP_COPY,
							.src = PLAN_IN,
							.dst = PLAN_OUT,
							.count = part_of(a, 0).count});

	for (uint32_t k = 1; k < p && !rc; k++) {
		struct span part = part_of(a, k);

		rc = plan_message(a, out,
				  (struct plan_step){.kind = STEP_RECV,
						     .dst = PLAN_OUT,
						     .peer = k,
						     .round = k - 1,
						     .dst_off = part.off,
						     .count = part.count});
	}
	for (uint32_t k = 1; k < p && !rc; k++)
		rc = plan_message(a, out,
				  (struct plan_step){.kind = STEP_SEND,
						     .src = PLAN_OUT,
						     .peer = k,
						     .round = p - 1 + k - 1,
						     .count = a->nelem});
	return rc;
}

/*
 * plan_allgather_naive - append one rank's steps of an allgather through rank 0.
 *
 *	a	in[part(rank)] -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Round k-1: rank k sends its part to rank 0. Round p-1 + k-1: rank 0 sends the whole vector to
 * rank k, its own part included.
 * Cost, with m(x) = ceil(x / chunk) (1 when chunk is 0 and x is not): rank 0 sends (p-1)n
 * elements in (p-1)m(n) messages, rank k |part k| elements in m(|part k|) messages. Rounds:
 * 2(p-1).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/t_coll_naive.c
 */
enum rc
plan_allgather_naive(const struct plan_args *a, struct plan *out)
{
	if (a->rank == 0)
		return build_root(a, out);
	return naive_other(a, out, part_of(a, a->rank).count, a->nelem);
}
