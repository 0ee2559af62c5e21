/*
 * allreduce_ring.c - ring allreduce: reduce-scatter, then allgather.
 */
#include "coll/algo.h"

/* Rank r's part of the slice. */
static struct span
slice_part(const struct plan_args *a, struct span slice, uint32_t r)
{
	struct span s;

	plan_part(slice.count, a->nranks, r, &s.off, &s.count);
	s.off += slice.off;
	return s;
}

void
plan_ring_slice(const struct plan_args *a, struct plan *out, struct span slice, uint32_t round)
{
	uint32_t next = rank_after(a, 1), before = rank_before(a, 1), p = a->nranks;

	for (uint32_t t = 0; t + 1 < p; t++) { /* partial sums go round, to the rank of the part */
		struct span come = slice_part(a, slice, rank_before(a, t + 2));

		plan_exchange(a, out,
			      step_send(t ? PLAN_OUT : PLAN_IN,
					slice_part(a, slice, rank_before(a, t + 1)), next,
					round + t),
			      step_reduce(PLAN_IN, come.off, PLAN_OUT, come, before, round + t));
	}
	plan_local(out, step_finish(PLAN_OUT, slice_part(a, slice, a->rank), round + p - 2));
	for (uint32_t t = 0; t + 1 < p; t++) /* the finished parts go round */
		plan_exchange(a, out,
			      step_send(PLAN_OUT, slice_part(a, slice, rank_before(a, t)), next,
					round + p - 1 + t),
			      step_recv(PLAN_OUT, slice_part(a, slice, rank_before(a, t + 1)),
					before, round + p - 1 + t));
}

/*
 * plan_allreduce_ring - append one rank's steps of a ring allreduce.
 *
 *	a	in[n] -> out[n]; part i is plan_part(n, p, i); no scratch
 *	out	[out] appended to
 *
 * Rounds 0..p-2 reduce-scatter: rank r sends part r-t-1 and reduces part r-t-2 in round t, so
 * it ends with part r. The first send goes out of IN and each partial sum is IN + message ->
 * OUT, so nothing is copied first.
 * Rounds p-1..2p-3 allgather: rank r sends part r-t. A part that comes back by the ring has
 * passed every rank, so the copy of it that this rank posted earlier has been consumed.
 * Cost of rank r: 2n - |part r| - |part r+1| elements, each part in m messages of at most
 * `chunk`: 2(p-1) messages and 2n(p-1)/p elements when p divides n and chunk is 0. All ranks
 * together: 2n(p-1) elements, 2(p-1) messages for each message that a part is cut in. Rounds:
 * 2(p-1).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Patarasuk & Yuan, JPDC 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002
 * Checked by: tests/unit/coll/t_coll_ring.c
 */
void
plan_allreduce_ring(const struct plan_args *a, struct plan *out)
{
	plan_ring_slice(a, out, whole(a), 0);
}
