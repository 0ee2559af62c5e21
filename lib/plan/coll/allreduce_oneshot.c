/*
 * allreduce_oneshot.c - allreduce over peer memory with one sync: every rank reduces everything.
 */
#include "coll/algo.h"

/*
 * plan_allreduce_oneshot - append one rank's steps of a one-shot allreduce.
 *
 *	a	in[n] -> out[n]; no scratch; chunk is not used
 *	out	[out] appended to; plan->mapped is set
 *
 * Every rank leaves a copy of its input for all, waits until all have, and reduces all copies into
 * its own output, in the order of ranks, so that every rank gets the same bits. Ranks read
 * copies, so no second sync is needed: this has the lowest latency of all. More than `share` elements
 * are cut into slices of that size.
 * Cost of rank r: writes 2n, reads (p+1) n elements. No messages. Rounds: one sync a slice.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the one-shot allreduce over peer-mapped memory of GPU inference engines
 * Checked by: tests/unit/coll/t_coll_oneshot.c
 */
void
plan_allreduce_oneshot(const struct plan_args *a, struct plan *out)
{
	uint64_t most = a->share ? a->share : a->nelem;
	uint32_t round = 0;

	for (uint64_t off = 0; off < a->nelem && !out->rc; off += most, round++) {
		uint64_t count = a->nelem - off < most ? a->nelem - off : most;

		plan_append(out, (struct plan_step){.kind = STEP_SHARE,
						    .src = PLAN_IN,
						    .round = round,
						    .src_off = off,
						    .count = count});
		plan_append(out, (struct plan_step){.kind = STEP_REDUCE_ALL,
						    .src = PLAN_SHARED,
						    .dst = PLAN_OUT,
						    .peer = a->rank,
						    .round = round,
						    .dst_off = off,
						    .count = count});
	}
}
