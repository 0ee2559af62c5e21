/*
 * barrier_dissemination.c - barrier by empty messages over doubling distances.
 */
#include "coll/algo.h"

/*
 * plan_barrier_dissemination - append one rank's steps of a dissemination barrier.
 *
 *	a	no buffers
 *	out	[out] appended to
 *
 * Round k: rank r sends an empty message to rank r + 2^k and receives one from r - 2^k; after it, r
 * knows, directly or not, that 2^(k+1) - 1 others have entered.
 * Cost per rank: ceil(log2 p) messages, no elements. Rounds: ceil(log2 p).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Hensgen, Finkel & Manber, IJPP 17(1), 1988, doi:10.1007/BF01379320
 * Checked by: tests/unit/coll/t_coll_misc.c
 */
void
plan_barrier_dissemination(const struct plan_args *a, struct plan *out)
{
	for (uint32_t k = 0; 1u << k < a->nranks; k++) {
		plan_append(out, step_send(PLAN_IN, first(0), rank_after(a, 1u << k), k));
		plan_append(out, step_recv(PLAN_OUT, first(0), rank_before(a, 1u << k), k));
	}
}
