/*
 * allreduce_twoshot.c - allreduce over peer memory: each rank reduces one part, for all.
 */
#include "coll/algo.h"

/*
 * plan_allreduce_twoshot - append one rank's steps of a two-shot allreduce.
 *
 *	a	in[n] -> out[n]; part i is plan_part(n, p, i); no scratch; chunk is not used
 *	out	[out] appended to; plan->mapped is set
 *
 * Sync, so that every input is present; rank r reads part r of all inputs and writes the sum to part r
 * of all outputs; sync, so that every output is complete. In place, part r is touched by rank r alone.
 * Every rank gets the same bits, reduced in the order of ranks.
 * Cost of rank r: reads p |part r|, writes p |part r| elements: n and n when p divides n. No
 * messages. Rounds: 2 syncs.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the two-shot allreduce over peer-mapped memory of GPU inference engines; Rabenseifner's
 * reduce-scatter and allgather (ICCS 2004) with loads and stores for messages
 * Checked by: tests/unit/coll/t_coll_oneshot.c
 */
void
plan_allreduce_twoshot(const struct plan_args *a, struct plan *out)
{
	struct span own = part_of(a, a->rank);

	plan_append(out, (struct plan_step){.kind = STEP_SYNC});
	plan_local(out, (struct plan_step){.kind = STEP_REDUCE_ALL,
					   .src = PLAN_IN,
					   .dst = PLAN_OUT,
					   .peer = PLAN_EVERY,
					   .src_off = own.off,
					   .dst_off = own.off,
					   .count = own.count});
	plan_append(out, (struct plan_step){.kind = STEP_SYNC, .round = 1});
}
