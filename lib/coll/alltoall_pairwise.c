/*
 * alltoall_pairwise.c - alltoall, one block out and one block in each round.
 */
#include "coll/algo.h"

/*
 * plan_alltoall_pairwise - append one rank's steps of a pairwise alltoall.
 *
 *	a	in[p blocks of n/p] -> out[p blocks of n/p]; no scratch
 *	out	[out] appended to
 *
 * Round t-1: rank r sends block r+t to rank r+t and receives block r-t from rank r-t, for t =
 * 1..p-1; so each rank is the target of one message a round. The own block is copied last.
 * Cost per rank: n(p-1)/p elements in (p-1) ceil((n/p) / chunk) messages (p-1 when chunk is 0).
 * Rounds: p-1.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/t_coll_misc.c
 */
enum rc
plan_alltoall_pairwise(const struct plan_args *a, struct plan *out)
{
	uint64_t block = a->nelem / a->nranks;
	enum rc rc = RC_OK;

	for (uint32_t t = 1; t < a->nranks && !rc; t++) {
		uint32_t to = rank_after(a, t), from = rank_before(a, t);

		rc = plan_exchange(a, out,
				   (struct plan_step){.kind = STEP_SEND,
						      .src = PLAN_IN,
						      .peer = to,
						      .round = t - 1,
						      .src_off = to * block,
						      .count = block},
				   (struct plan_step){.kind = STEP_RECV,
						      .dst = PLAN_OUT,
						      .peer = from,
						      .round = t - 1,
						      .dst_off = from * block,
						      .count = block});
	}
	if (rc)
		return rc;
	return plan_local(out, (struct plan_step){.kind = STEP_COPY,
						  .src = PLAN_IN,
						  .dst = PLAN_OUT,
						  .round = a->nranks - 2,
						  .src_off = a->rank * block,
						  .dst_off = a->rank * block,
						  .count = block});
}
