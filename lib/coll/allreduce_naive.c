/*
 * allreduce_naive.c - allreduce through rank 0.
 */
#include "coll/algo.h"

/* Rank 0 adds the others' vectors in rank order, then sends the sum to each. */
static enum rc
build_root(const struct plan_args *a, struct plan *out)
{
	uint32_t p = a->nranks;
	enum rc rc = naive_sum(a, out, PLAN_OUT);

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
 * plan_allreduce_naive - append one rank's steps of an allreduce through rank 0.
 *
 *	a	in[n] -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Round k-1: rank k sends its vector, rank 0 adds it, so the sum is in rank order as a serial
 * loop would make it. Round p-1 + k-1: rank 0 sends the result to rank k. The slow comparison
 * for the ring.
 * Cost, with m = ceil(n / chunk) (1 when chunk is 0): rank 0 sends (p-1)n elements in (p-1)m
 * messages and receives as many, the others n elements in m messages. Rounds: 2(p-1).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/t_coll_naive.c
 */
enum rc
plan_allreduce_naive(const struct plan_args *a, struct plan *out)
{
	if (a->rank == 0)
		return build_root(a, out);
	return naive_other(a, out, a->nelem, a->nelem);
}
