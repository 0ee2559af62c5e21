/*
 * reducescatter_halving.c - recursive halving reduce-scatter.
 */
#include "coll/algo.h"

/* Rounds of distance size/2 .. 1; sums lie in scratch, but the last may go to OUT at once. */
static enum rc
halve(const struct plan_args *a, const struct fold *f, struct plan *out)
{
	uint8_t src = f->folded ? PLAN_TMP : PLAN_IN;
	uint32_t round = f->extra > 0;
	enum rc rc = RC_OK;

	for (uint32_t d = f->size / 2; d && !rc; d /= 2, round++, src = PLAN_TMP) {
		uint32_t mine = f->place & ~(d - 1), theirs = mine ^ d;
		uint32_t peer = fold_rank(f, f->place ^ d);
		struct span gone = fold_parts(a, f, theirs, theirs + d);
		struct span come = fold_parts(a, f, mine, mine + d);
		bool last = d == 1 && !f->folded;

		rc = plan_exchange(a, out,
				   (struct plan_step){.kind = STEP_SEND,
						      .src = src,
						      .peer = peer,
						      .round = round,
						      .src_off = gone.off,
						      .count = gone.count},
				   (struct plan_step){.kind = STEP_RECV_REDUCE,
						      .src = src,
						      .dst = last ? PLAN_OUT : PLAN_TMP,
						      .peer = peer,
						      .round = round,
						      .src_off = come.off,
						      .dst_off = last ? 0 : come.off,
						      .count = come.count});
	}
	return rc;
}

/* An odd rank of the folded: finish both parts, and give the even rank its own. */
static enum rc
unfold(const struct plan_args *a, const struct fold *f, struct plan *out)
{
	struct span both = fold_parts(a, f, f->place, f->place + 1);
	struct span pair = part_of(a, a->rank - 1), own = part_of(a, a->rank);
	enum rc rc = plan_local(out, (struct plan_step){.kind = STEP_FINISH,
							.dst = PLAN_TMP,
							.round = f->log2,
							.dst_off = both.off,
							.count = both.count});

	if (!rc)
		rc = plan_message(a, out,
				  (struct plan_step){.kind = STEP_SEND,
						     .src = PLAN_TMP,
						     .peer = a->rank - 1,
						     .round = f->log2 + 1,
						     .src_off = pair.off,
						     .count = pair.count});
	return rc ? rc
		  : plan_local(out, (struct plan_step){.kind = STEP_COPY,
						       .src = PLAN_TMP,
						       .dst = PLAN_OUT,
						       .round = f->log2 + 1,
						       .src_off = own.off,
						       .count = own.count});
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
 * Checked by: tests/unit/t_coll_doubling.c
 */
enum rc
plan_reducescatter_halving(const struct plan_args *a, struct plan *out)
{
	struct fold f = fold_of(a);
	enum rc rc = RC_OK;

	if (f.idle)
		return fold_idle(a, out, a->nelem, part_of(a, a->rank).count, f.log2 + 1);
	if (a->nranks > 2)
		plan_scratch(out, a->nelem);
	if (f.folded)
		rc = plan_message(a, out,
				  (struct plan_step){.kind = STEP_RECV_REDUCE,
						     .src = PLAN_IN,
						     .dst = PLAN_TMP,
						     .peer = a->rank - 1,
						     .count = a->nelem});
	if (!rc)
		rc = halve(a, &f, out);
	if (rc || f.folded)
		return rc ? rc : unfold(a, &f, out);
	return plan_local(out, (struct plan_step){.kind = STEP_FINISH,
						  .dst = PLAN_OUT,
						  .round = f.log2 - (f.extra == 0),
						  .count = part_of(a, a->rank).count});
}
