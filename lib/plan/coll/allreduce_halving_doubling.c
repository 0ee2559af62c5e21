/*
 * allreduce_halving_doubling.c - reduce-scatter by recursive halving, allgather by doubling.
 */
#include "coll/algo.h"

/* Segments first..end-1 of the places' equal shares of the vector. */
static struct span
segments(const struct plan_args *a, const struct fold *f, uint32_t first, uint32_t end)
{
	struct span x, y;

	plan_part(a->nelem, f->size, first, &x.off, &x.count);
	plan_part(a->nelem, f->size, end - 1, &y.off, &y.count);
	return (struct span){x.off, y.off + y.count - x.off};
}

/* The segments of a rank and of the peer `distance` places away. */
struct halves {
	uint32_t peer;
	struct span mine, theirs;
};

static struct halves
halve(const struct plan_args *a, const struct fold *f, uint32_t distance)
{
	uint32_t mine = f->place & ~(distance - 1), theirs = mine ^ distance;

	return (struct halves){.peer = fold_rank(f, f->place ^ distance),
			       .mine = segments(a, f, mine, mine + distance),
			       .theirs = segments(a, f, theirs, theirs + distance)};
}

/*
 * plan_allreduce_halving_doubling - append one rank's steps of Rabenseifner's allreduce.
 *
 *	a	in[n] -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Of p = 2^d + e ranks, the even ones of the first 2e give their vector to the odd one after them
 * in a round before, and get the result from it in a round after. The 2^d others have places
 * 0..2^d-1, and segment i is plan_part(n, 2^d, i). In round k of d the rank exchanges halves of
 * what it has with the rank 2^(d-1-k) places away and keeps the half with its own segment; then
 * the same peers in reverse exchange the finished segments. A peer sends back the half that was
 * posted to it, which it has reduced by then.
 * Cost with e = 0: 2n(p-1)/p elements when p divides n, in 2d messages when chunk is 0. In
 * general 2(n - |segment|) elements; an odd rank of the first 2e n more, an even one n in all.
 * Rounds: 2d, and 2 more if e > 0.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521
 * Checked by: tests/unit/coll/t_coll_doubling.c
 */
void
plan_allreduce_halving_doubling(const struct plan_args *a, struct plan *out)
{
	struct fold f = fold_of(a);
	uint32_t round = f.extra > 0, last = 2 * f.log2 + 1;
	enum plan_buf src = f.folded ? PLAN_OUT : PLAN_IN;

	if (f.idle) {
		fold_idle(a, out, a->nelem, a->nelem, last);
		return;
	}
	if (f.folded)
		plan_message(a, out, step_reduce(PLAN_IN, 0, PLAN_OUT, whole(a), a->rank - 1, 0));
	/* Send the peer's half, and reduce the received one into the own half. */
	for (uint32_t d = f.size / 2; d; d /= 2, round++, src = PLAN_OUT) {
		struct halves h = halve(a, &f, d);

		plan_exchange(a, out, step_send(src, h.theirs, h.peer, round),
			      step_reduce(src, h.mine.off, PLAN_OUT, h.mine, h.peer, round));
	}
	plan_local(out, step_finish(PLAN_OUT, segments(a, &f, f.place, f.place + 1), round - 1));
	/* Send the finished half, and receive the peer's. */
	for (uint32_t d = 1; d < f.size; d *= 2, round++) {
		struct halves h = halve(a, &f, d);

		plan_exchange(a, out, step_send(PLAN_OUT, h.mine, h.peer, round),
			      step_recv(PLAN_OUT, h.theirs, h.peer, round));
	}
	fold_give(a, &f, out, last);
}
