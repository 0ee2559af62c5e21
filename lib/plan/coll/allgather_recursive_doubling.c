/*
 * allgather_recursive_doubling.c - ranks exchange all that they have, over doubling distances.
 */
#include "coll/algo.h"

/*
 * plan_allgather_recursive_doubling - append one rank's steps of a recursive doubling allgather.
 *
 *	a	in[part(rank)] -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Of p = 2^d + e ranks, the even ones of the first 2e give their part to the odd one after them in
 * a round before, and get the whole vector from it in a round after. The 2^d others have places
 * 0..2^d-1; in round k the rank exchanges the parts of 2^k places with the rank 2^k places away.
 * Cost with e = 0: n(p-1)/p elements when p divides n, in d messages when chunk is 0. In general
 * rank r sends, in round k, the parts of its 2^k places; an odd rank of the first 2e n more; an
 * even one its part. Rounds: d, and 2 more if e > 0.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/coll/t_coll_doubling.c
 */
void
plan_allgather_recursive_doubling(const struct plan_args *a, struct plan *out)
{
	struct fold f = fold_of(a);
	struct span own = part_of(a, a->rank);
	uint32_t round = f.extra > 0;

	if (f.idle) {
		fold_idle(a, out, own.count, a->nelem, f.log2 + 1);
		return;
	}
	plan_local(out, step_copy(PLAN_IN, 0, PLAN_OUT, own, 0));
	if (f.folded)
		plan_message(a, out, step_recv(PLAN_OUT, part_of(a, a->rank - 1), a->rank - 1, 0));
	for (uint32_t d = 1; d < f.size; d *= 2, round++) {
		uint32_t mine = f.place & ~(d - 1), theirs = mine ^ d;
		uint32_t peer = fold_rank(&f, f.place ^ d);

		plan_exchange(
		    a, out, step_send(PLAN_OUT, fold_parts(a, &f, mine, mine + d), peer, round),
		    step_recv(PLAN_OUT, fold_parts(a, &f, theirs, theirs + d), peer, round));
	}
	fold_give(a, &f, out, f.log2 + 1);
}
