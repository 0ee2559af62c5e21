/*
 * reducescatter_halving.c - recursive halving reduce-scatter.
 */
#include "coll/algo.h"

/* Rounds of distance size/2 .. 1; sums lie in scratch; the last may go directly to OUT. */
static void
halve(const struct plan_args *a, const struct fold *f, struct plan *out)
{
	enum plan_buf src = f->folded ? PLAN_TMP : PLAN_IN;
	uint32_t round = f->extra > 0;

	for (uint32_t d = f->size / 2; d; d /= 2, round++, src = PLAN_TMP) {
		uint32_t mine = f->place & ~(d - 1), theirs = mine ^ d;
		uint32_t peer = fold_rank(f, f->place ^ d);
		struct span come = fold_parts(a, f, mine, mine + d);
		bool last = d == 1 && !f->folded;

		plan_exchange(a, out,
			      step_send(src, fold_parts(a, f, theirs, theirs + d), peer, round),
			      step_reduce(src, come.off, last ? PLAN_OUT : PLAN_TMP,
					  last ? first(come.count) : come, peer, round));
	}
}

/*
 * plan_reducescatter_halving - append one rank's steps of a recursive halving reduce-scatter.
 *
 *	a	in[n] -> out[part(rank)]; scratch n when p > 2
 *	out	[out] appended to
 *
 * Of p = 2^d + e ranks, the even ones of the first 2e give their vector to the odd one after them
 * in a round before, and get their part from it in a round after. The 2^d others have places
 * 0..2^d-1; in round k of d the rank exchanges halves of what it has with the rank 2^(d-1-k)
 * places away and keeps the half with the parts of its place. Own parts of IN are never posted, so
 * in place is safe.
 * Cost with e = 0: n(p-1)/p elements when p divides n, in d messages when chunk is 0. In general
 * a rank sends all parts but those of its place; an odd rank of the first 2e the even one's part
 * too; an even one n. Rounds: d, and 2 more if e > 0.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/coll/t_coll_doubling.c
 */
void
plan_reducescatter_halving(const struct plan_args *a, struct plan *out)
{
	struct fold f = fold_of(a);
	struct span own = part_of(a, a->rank);

	if (f.idle) {
		fold_idle(a, out, a->nelem, own.count, f.log2 + 1);
		return;
	}
	if (a->nranks > 2)
		plan_scratch(out, a->nelem);
	if (f.folded)
		plan_message(a, out, step_reduce(PLAN_IN, 0, PLAN_TMP, whole(a), a->rank - 1, 0));
	halve(a, &f, out);
	if (!f.folded) {
		plan_local(out, step_finish(PLAN_OUT, first(own.count), f.log2 - (f.extra == 0)));
		return;
	}
	/* Both parts are finished here; the even rank gets its own. */
	plan_local(out, step_finish(PLAN_TMP, fold_parts(a, &f, f.place, f.place + 1), f.log2));
	plan_message(a, out, step_send(PLAN_TMP, part_of(a, a->rank - 1), a->rank - 1, f.log2 + 1));
	plan_local(out, step_copy(PLAN_TMP, own.off, PLAN_OUT, first(own.count), f.log2 + 1));
}
