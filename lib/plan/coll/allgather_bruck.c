/*
 * allgather_bruck.c - allgather over doubling distances, for any number of ranks.
 */
#include "coll/algo.h"

/* Elements of n parts, beginning with this rank's. */
static uint64_t
elements(const struct plan_args *a, uint32_t n)
{
	struct span s[2];

	parts_around(a, a->rank, n, s);
	return s[0].count + s[1].count;
}

/*
 * plan_allgather_bruck - append one rank's steps of Bruck's allgather.
 *
 *	a	in[part(rank)] -> out[n]; scratch n
 *	out	[out] appended to
 *
 * Before round k rank r has in scratch the parts of ranks r, r+1, ... r+2^k-1, one after the other; it
 * sends the first min(2^k, p-2^k) of them to rank r-2^k and receives as many from rank r+2^k, which it
 * puts after its own. In the end they are copied to their places.
 * Cost of rank r: in round k the parts r .. r+min(2^k, p-2^k)-1 in one message (or more of at most
 * `chunk`): n(p-1)/p elements in ceil(log2 p) messages when p divides n and chunk is 0. Rounds:
 * ceil(log2 p).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Bruck, Ho, Kipnis, Upfal & Weathersby, IEEE TPDS 8(11), 1997, doi:10.1109/71.642949
 * Checked by: tests/unit/coll/t_coll_doubling.c
 */
void
plan_allgather_bruck(const struct plan_args *a, struct plan *out)
{
	uint64_t before = part_of(a, a->rank).off, behind = a->nelem - before;
	uint32_t k = 0;

	plan_scratch(out, a->nelem);
	plan_local(out, step_copy(PLAN_IN, 0, PLAN_TMP, first(elements(a, 1)), 0));
	for (uint32_t d = 1; d < a->nranks; d *= 2, k++) {
		uint32_t n = d < a->nranks - d ? d : a->nranks - d;
		uint64_t have = elements(a, d);

		plan_exchange(a, out,
			      step_send(PLAN_TMP, first(elements(a, n)), rank_before(a, d), k),
			      step_recv(PLAN_TMP, (struct span){have, elements(a, d + n) - have},
					rank_after(a, d), k));
	}
	/* Scratch begins with the own part, OUT with rank 0's. */
	plan_local(out, step_copy(PLAN_TMP, 0, PLAN_OUT, (struct span){before, behind}, k - 1));
	plan_local(out, step_copy(PLAN_TMP, behind, PLAN_OUT, first(before), k - 1));
}
