/*
 * allgather_recursive_doubling.c - what two ranks have, exchanged over doubling distances.
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
 * Checked by: tests/unit/t_coll_doubling.c
 */
enum rc
plan_allgather_recursive_doubling(const struct plan_args *a, struct plan *out)
{
	struct fold f = fold_of(a);
	struct span own = part_of(a, a->rank), pair = part_of(a, rank_before(a, 1));
	uint32_t round = f.extra > 0;
	enum rc rc;

	if (f.idle)
		return fold_idle(a, out, own.count, a->nelem, f.log2 + 1);
	rc = plan_local(out, (struct plan_step){.kind = STEP_COPY,
						.src = PLAN_IN,
						.dst = PLAN_OUT,
						.dst_off = own.off,
						.count = own.count});
	if (!rc && f.folded)
		rc = plan_message(a, out,
				  (struct plan_step){.kind = STEP_RECV,
						     .dst = PLAN_OUT,
						     .peer = a->rank - 1,
						     .dst_off = pair.off,
						     .count = pair.count});
	for (uint32_t d = 1; d < f.size && !rc; d *= 2, round++) {
		uint32_t mine = f.place & ~(d - 1), theirs = mine ^ d;
		uint32_t peer = fold_rank(&f, f.place ^ d);
		struct span gone = fold_parts(a, &f, mine, mine + d);
		struct span come = fold_parts(a, &f, theirs, theirs + d);

		rc = plan_exchange(a, out,
				   (struct plan_step){.kind = STEP_SEND,
						      .src = PLAN_OUT,
						      .peer = peer,
						      .round = round,
						      .src_off = gone.off,
						      .count = gone.count},
				   (struct plan_step){.kind = STEP_RECV,
						      .dst = PLAN_OUT,
						      .peer = peer,
						      .round = round,
						      .dst_off = come.off,
						      .count = come.count});
	}
	return rc ? rc : fold_give(a, &f, out, f.log2 + 1);
}
