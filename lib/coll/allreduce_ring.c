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

/* Rounds 0..p-2: partial sums go round; this rank ends with the whole sum of its own part. */
static enum rc
reduce_scatter(const struct plan_args *a, struct plan *out, struct span slice, uint32_t round)
{
	enum rc rc = RC_OK;

	for (uint32_t t = 0; t + 1 < a->nranks && !rc; t++) {
		struct span gone = slice_part(a, slice, rank_before(a, t + 1));
		struct span come = slice_part(a, slice, rank_before(a, t + 2));

		rc = plan_exchange(a, out,
				   (struct plan_step){.kind = STEP_SEND,
						      .src = t ? PLAN_OUT : PLAN_IN,
						      .peer = rank_after(a, 1),
						      .round = round + t,
						      .src_off = gone.off,
						      .count = gone.count},
				   (struct plan_step){.kind = STEP_RECV_REDUCE,
						      .src = PLAN_IN,
						      .dst = PLAN_OUT,
						      .peer = rank_before(a, 1),
						      .round = round + t,
						      .src_off = come.off,
						      .dst_off = come.off,
						      .count = come.count});
	}
	return rc;
}

/* Rounds p-1..2p-3: the finished parts go round. */
static enum rc
allgather(const struct plan_args *a, struct plan *out, struct span slice, uint32_t round)
{
	enum rc rc = RC_OK;

	for (uint32_t t = 0; t + 1 < a->nranks && !rc; t++) {
		struct span gone = slice_part(a, slice, rank_before(a, t));
		struct span come = slice_part(a, slice, rank_before(a, t + 1));

		rc = plan_exchange(a, out,
				   (struct plan_step){.kind = STEP_SEND,
						      .src = PLAN_OUT,
						      .peer = rank_after(a, 1),
						      .round = round + a->nranks - 1 + t,
						      .src_off = gone.off,
						      .count = gone.count},
				   (struct plan_step){.kind = STEP_RECV,
						      .dst = PLAN_OUT,
						      .peer = rank_before(a, 1),
						      .round = round + a->nranks - 1 + t,
						      .dst_off = come.off,
						      .count = come.count});
	}
	return rc;
}

enum rc
plan_ring_slice(const struct plan_args *a, struct plan *out, struct span slice, uint32_t round)
{
	struct span own = slice_part(a, slice, a->rank);
	enum rc rc = reduce_scatter(a, out, slice, round);

	if (!rc)
		rc = plan_local(out, (struct plan_step){.kind = STEP_FINISH,
							.dst = PLAN_OUT,
							.round = round + a->nranks - 2,
							.dst_off = own.off,
							.count = own.count});
	return rc ? rc : allgather(a, out, slice, round);
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
 * Checked by: tests/unit/t_coll_ring.c
 */
enum rc
plan_allreduce_ring(const struct plan_args *a, struct plan *out)
{
	return plan_ring_slice(a, out, (struct span){0, a->nelem}, 0);
}
