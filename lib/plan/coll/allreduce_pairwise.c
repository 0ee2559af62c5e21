/*
 * allreduce_pairwise.c - allreduce with each part straight to its rank, and straight back to all.
 */
#include "coll/algo.h"

/*
 * plan_allreduce_pairwise - append one rank's steps of a pairwise allreduce.
 *
 *	a	in[n] -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Round t-1: rank r sends part r+t of IN to rank r+t and adds rank r-t's to its own, for t = 1..p-1.
 * Round p-1 + t-1: it sends its finished part to rank r+t and receives that of rank r-t. It moves as
 * many elements as the ring, but no partial sum travels: each rank alone sums its part, from inputs.
 * The own part of IN is never posted. In place, part r+t of OUT comes from the rank that has consumed
 * part r+t of IN before. A canonical plan handles the parts message by message: each goes to its part's
 * rank, is reduced there with all others, and goes back to all. Message c is in rounds 2c and 2c+1; the
 * window limits the number in flight.
 * Cost of rank r: n - |part r| and (p-1)|part r| elements, each part in m messages of at most `chunk`:
 * 2(p-1) messages and 2n(p-1)/p elements when p divides n and chunk is 0. Rounds: 2(p-1), or 2m if canonical.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/coll/t_coll_misc.c, canonical plans by tests/unit/coll/t_canonical.c
 */
static void
canonical(const struct plan_args *a, struct plan *out)
{
	struct span own = part_of(a, a->rank);
	uint64_t m = plan_most_messages(a);

	for (uint64_t c = 0; c < m && !out->rc; c++) {
		uint32_t round = (uint32_t)(2 * c);

		plan_nth_exchange(a, out, c, own.off, round);
		for (uint32_t t = 1; t < a->nranks; t++) {
			plan_nth_local(a, out, c,
				       step_send(PLAN_OUT, own, rank_after(a, t), round + 1));
			plan_nth_local(a, out, c,
				       step_recv(PLAN_OUT, part_of(a, rank_before(a, t)),
						 rank_before(a, t), round + 1));
		}
	}
}

void
plan_allreduce_pairwise(const struct plan_args *a, struct plan *out)
{
	struct span own = part_of(a, a->rank);

	if (a->canonical) {
		canonical(a, out);
		return;
	}
	for (uint32_t t = 1; t < a->nranks; t++)
		plan_exchange(
		    a, out,
		    step_send(PLAN_IN, part_of(a, rank_after(a, t)), rank_after(a, t), t - 1),
		    step_reduce(t > 1 ? PLAN_OUT : PLAN_IN, own.off, PLAN_OUT, own,
				rank_before(a, t), t - 1));
	plan_local(out, step_finish(PLAN_OUT, own, a->nranks - 2));
	for (uint32_t t = 1; t < a->nranks; t++)
		plan_exchange(a, out, step_send(PLAN_OUT, own, rank_after(a, t), a->nranks - 2 + t),
			      step_recv(PLAN_OUT, part_of(a, rank_before(a, t)), rank_before(a, t),
					a->nranks - 2 + t));
}
