/*
 * allreduce_recursive_doubling.c - whole vectors, exchanged over doubling distances.
 */
#include "coll/algo.h"

/*
 * plan_allreduce_recursive_doubling - append one rank's steps of a recursive doubling allreduce.
 *
 *	a	in[n] -> out[n]; scratch d n, where d = floor(log2 p)
 *	out	[out] appended to
 *
 * Of p = 2^d + e ranks, the even ones of the first 2e give their vector to the odd one after them
 * in a round before, and get the result from it in a round after. The others exchange what they
 * have with the rank 2^k places away in round k. A rank never learns that what it posted in a round has
 * been consumed, so each round has its own vector of scratch, and IN, which may be OUT, is copied there
 * first. A rank's new sum is its own sum + its peer's, so ranks get the same bits because the
 * reductions are commutative.
 * Cost, with m = ceil(n / chunk) (1 when chunk is 0): d n elements in d m messages; an odd rank
 * of the first 2e n and m more; an even one n and m in all. Rounds: d, and 2 more if e > 0.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/coll/t_coll_doubling.c
 */
void
plan_allreduce_recursive_doubling(const struct plan_args *a, struct plan *out)
{
	struct fold f = fold_of(a);
	uint32_t round = f.extra > 0;

	if (f.idle) {
		fold_idle(a, out, a->nelem, a->nelem, f.log2 + 1);
		return;
	}
	if (a->nelem > UINT64_MAX / f.log2) {
		plan_fail(out, RC_NOMEM);
		return;
	}
	plan_scratch(out, f.log2 * a->nelem);
	if (f.folded)
		plan_message(a, out, step_reduce(PLAN_IN, 0, PLAN_TMP, whole(a), a->rank - 1, 0));
	else
		plan_local(out, step_copy(PLAN_IN, 0, PLAN_TMP, whole(a), 0));
	/* Send vector k of scratch; the received vector makes it vector k+1, or the result. */
	for (uint32_t k = 0; k < f.log2; k++, round++) {
		uint32_t peer = fold_rank(&f, f.place ^ 1u << k);
		struct span have = {k * a->nelem, a->nelem}, next = {have.off + a->nelem, a->nelem};
		bool last = k + 1 == f.log2;

		plan_exchange(a, out, step_send(PLAN_TMP, have, peer, round),
			      step_reduce(PLAN_TMP, have.off, last ? PLAN_OUT : PLAN_TMP,
					  last ? whole(a) : next, peer, round));
	}
	plan_local(out, step_finish(PLAN_OUT, whole(a), round - 1));
	fold_give(a, &f, out, f.log2 + 1);
}
