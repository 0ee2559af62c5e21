/*
 * reducescatter_naive.c - reduce-scatter through rank 0.
 */
#include "coll/algo.h"

/* Rank 0 adds the others' vectors in rank order in scratch, then sends each its part. */
static enum rc
build_root(const struct plan_args *a, struct plan *out)
{
	uint32_t p = a->nranks;
	enum rc rc;

	plan_scratch(out, a->nelem);
	rc = naive_sum(a, out, PLAN_TMP);
	for (uint32_t k = 1; k < p && !rc; k++) {
		struct span part = part_of(a, k);

		rc = plan_message(a, out,
				  (struct plan_step){.kind = STEP_SEND,
						     .src = PLAN_TMP,
						     .peer = k,
						     .round = p - 1 + k - 1,
						     .src_off = part.off,
						     .count = part.count});
	}
	if (rc)
		return rc;
	return plan_local(out, (struct plan_step){.kind = STEP_COPY,
						  .src = PLAN_TMP,
						  .dst = PLAN_OUT,
						  .round = 2 * p - 3,
						  .count = part_of(a, 0).count});
}

/*
 * plan_reducescatter_naive - append one rank's steps of a reduce-scatter through rank 0.
 *
 *	a	in[n] -> out[part(rank)]; scratch n at rank 0
 *	out	[out] appended to
 *
 * Round k-1: rank k sends its vector and rank 0 adds it. Round p-1 + k-1: rank 0 sends part k
 * to rank k.
 * Cost, with m(x) = ceil(x / chunk) (1 when chunk is 0 and x is not): rank k sends n elements
 * in m(n) messages, rank 0 n - |part 0| elements, part k in m(|part k|) messages. Rounds:
 * 2(p-1) (the last rank's part is never empty).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/t_coll_naive.c
 */
enum rc
plan_reducescatter_naive(const struct plan_args *a, struct plan *out)
{
	if (a->rank == 0)
		return build_root(a, out);
	return naive_other(a, out, a->nelem, part_of(a, a->rank).count);
}
