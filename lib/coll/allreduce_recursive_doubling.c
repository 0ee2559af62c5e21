/*
 * allreduce_recursive_doubling.c - whole vectors, exchanged over doubling distances.
 */
#include "coll/algo.h"

/* The k-th vector of scratch. */
static uint64_t
slot(const struct plan_args *a, uint32_t k)
{
	return k * a->nelem;
}

/* This rank's vector, or that of its folded pair, to slot 0. */
static enum rc
begin(const struct plan_args *a, const struct fold *f, struct plan *out)
{
	if (f->folded)
		return plan_message(a, out,
				    (struct plan_step){.kind = STEP_RECV_REDUCE,
						       .src = PLAN_IN,
						       .dst = PLAN_TMP,
						       .peer = a->rank - 1,
						       .count = a->nelem});
	return plan_local(
	    out, (struct plan_step){
		     .kind = STEP_COPY, .src = PLAN_IN, .dst = PLAN_TMP, .count = a->nelem});
}

/* Round k: slot k goes out; with what comes it is slot k+1, or the result. */
static enum rc
exchange(const struct plan_args *a, const struct fold *f, struct plan *out, uint32_t k)
{
	uint32_t peer = fold_rank(f, f->place ^ 1u << k), round = k + (f->extra > 0);
	bool last = k + 1 == f->log2;

	return plan_exchange(a, out,
			     (struct plan_step){.kind = STEP_SEND,
						.src = PLAN_TMP,
						.peer = peer,
						.round = round,
						.src_off = slot(a, k),
						.count = a->nelem},
			     (struct plan_step){.kind = STEP_RECV_REDUCE,
						.src = PLAN_TMP,
						.dst = last ? PLAN_OUT : PLAN_TMP,
						.peer = peer,
						.round = round,
						.src_off = slot(a, k),
						.dst_off = last ? 0 : slot(a, k + 1),
						.count = a->nelem});
}

/*
 * plan_allreduce_recursive_doubling - append one rank's steps of a recursive doubling allreduce.
 *
 *	a	in[n] -> out[n]; scratch d n, where d = floor(log2 p)
 *	out	[out] appended to
 *
 * Of p = 2^d + e ranks, the even ones of the first 2e give their vector to the odd one after them
 * in a round before, and get the result from it in a round after. The others exchange what they
 * have with the rank 2^k places away in round k. Nobody ever tells a rank that what it posted in a
 * round has been consumed, so each round has its own vector of scratch, and IN, which may be OUT,
 * is copied there first.
 * The sum of a rank is its own sum + that of its peer, so ranks get the same bits because the
 * reductions are commutative.
 * Cost, with m = ceil(n / chunk) (1 when chunk is 0): d n elements in d m messages; an odd rank
 * of the first 2e n and m more; an even one n and m in all. Rounds: d, and 2 more if e > 0.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/t_coll_doubling.c
 */
enum rc
plan_allreduce_recursive_doubling(const struct plan_args *a, struct plan *out)
{
	struct fold f = fold_of(a);
	enum rc rc;

	if (f.idle)
		return fold_idle(a, out, a->nelem, a->nelem, f.log2 + 1);
	if (a->nelem > UINT64_MAX / f.log2)
		return RC_NOMEM;
	plan_scratch(out, f.log2 * a->nelem);
	rc = begin(a, &f, out);
	for (uint32_t k = 0; k < f.log2 && !rc; k++)
		rc = exchange(a, &f, out, k);
	if (!rc)
		rc = plan_local(out, (struct plan_step){.kind = STEP_FINISH,
							.dst = PLAN_OUT,
							.round = f.log2 - (f.extra == 0),
							.count = a->nelem});
	return rc ? rc : fold_give(a, &f, out, f.log2 + 1);
}
