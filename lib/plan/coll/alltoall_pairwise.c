/*
 * alltoall_pairwise.c - alltoall, one block out and one block in each round.
 */
#include "coll/algo.h"

/*
 * plan_alltoall_pairwise - append one rank's steps of a pairwise alltoall.
 *
 *	a	in[p blocks of n/p] -> out[p blocks of n/p], or blocks of any size by tables; no scratch
 *	out	[out] appended to
 *
 * Round t-1: rank r sends block r+t to rank r+t and receives block r-t from rank r-t, for t =
 * 1..p-1; so each rank is the target of one message a round. The own block is copied last.
 * Cost per rank: n(p-1)/p elements in (p-1) ceil((n/p) / chunk) messages (p-1 when chunk is 0).
 * Rounds: p-1.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/coll/t_coll_misc.c
 */
void
plan_alltoall_pairwise(const struct plan_args *a, struct plan *out)
{
	struct span own = part_of(a, a->rank);

	for (uint32_t t = 1; t < a->nranks; t++) {
		uint32_t to = rank_after(a, t), from = rank_before(a, t);

		plan_exchange(a, out, step_send(PLAN_IN, part_of(a, to), to, t - 1),
			      step_recv(PLAN_OUT, recv_part_of(a, from), from, t - 1));
	}
	plan_local(out,
		   step_copy(PLAN_IN, own.off, PLAN_OUT, recv_part_of(a, a->rank), a->nranks - 2));
}
