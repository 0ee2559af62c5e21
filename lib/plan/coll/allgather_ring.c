/*
 * allgather_ring.c - ring allgather.
 */
#include "coll/algo.h"

/*
 * plan_allgather_ring - append one rank's steps of a ring allgather.
 *
 *	a	in[part(rank)] -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Round t: rank r sends part r-t (its own straight from IN) and receives part r-t-1. The copy of the
 * own part comes last: no rank waits for it.
 * Cost of rank r: n - |part r+1| elements, each part in m messages of at most `chunk`: p-1
 * messages and n(p-1)/p elements when p divides n and chunk is 0. All ranks together: n(p-1)
 * elements, p-1 messages for each message that a part is cut in. Rounds: p-1.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/coll/t_coll_ring.c
 */
void
plan_allgather_ring(const struct plan_args *a, struct plan *out)
{
	struct span own = part_of(a, a->rank);

	for (uint32_t t = 0; t + 1 < a->nranks; t++)
		plan_exchange(
		    a, out,
		    t ? step_send(PLAN_OUT, part_of(a, rank_before(a, t)), rank_after(a, 1), t)
		      : step_send(PLAN_IN, first(own.count), rank_after(a, 1), t),
		    step_recv(PLAN_OUT, part_of(a, rank_before(a, t + 1)), rank_before(a, 1), t));
	plan_local(out, step_copy(PLAN_IN, 0, PLAN_OUT, own, a->nranks - 2));
}
