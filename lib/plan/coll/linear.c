/*
 * linear.c - everything through one rank: to it, or from it, one rank after the other. These algorithms
 * define their collectives; other algorithms are compared with them.
 */
#include "coll/algo.h"

/* The elements that the hub exchanges with a rank: its part, or all of the vector. */
static struct span
share(const struct plan_args *a, uint32_t r, bool parts)
{
	return parts ? part_of(a, r) : whole(a);
}

/* Rounds begin..begin+p-2: the hub sends each rank in turn its share of `src`, to its OUT. */
static void
from_hub(const struct plan_args *a, struct plan *out, uint32_t hub, enum plan_buf src, bool parts,
	 uint32_t begin)
{
	uint32_t d = rank_distance(a, hub);

	if (d)
		plan_message(
		    a, out,
		    step_recv(PLAN_OUT, first(share(a, a->rank, parts).count), hub, begin + d - 1));
	for (uint32_t k = 1; k < a->nranks && !d; k++)
		plan_message(a, out,
			     step_send(src, share(a, rank_after(a, k), parts), rank_after(a, k),
				       begin + k - 1));
}

/* Rounds 0..p-2: each rank in turn sends its part to the hub's OUT. */
static void
gather(const struct plan_args *a, struct plan *out, uint32_t hub)
{
	uint32_t d = rank_distance(a, hub);
	struct span own = part_of(a, a->rank);

	if (d)
		plan_message(a, out, step_send(PLAN_IN, first(own.count), hub, d - 1));
	else
		plan_local(out, step_copy(PLAN_IN, 0, PLAN_OUT, own, 0));
	for (uint32_t k = 1; k < a->nranks && !d; k++)
		plan_message(
		    a, out,
		    step_recv(PLAN_OUT, part_of(a, rank_after(a, k)), rank_after(a, k), k - 1));
}

/* Rounds 0..p-2: each rank in turn sends its vector; the hub adds it to `sum`, and finishes `sum`. */
static void
reduce(const struct plan_args *a, struct plan *out, uint32_t hub, enum plan_buf sum)
{
	uint32_t d = rank_distance(a, hub);

	if (a->canonical) {
		/* Round 0: all ranks send their vectors, and the hub makes `sum` of them by the canonical tree. */
		if (a->rank == hub)
			plan_message(a, out, step_recv_all(PLAN_IN, 0, sum, whole(a), 0));
		else
			plan_message(a, out, step_send(PLAN_IN, whole(a), hub, 0));
		return;
	}
	if (d) {
		plan_message(a, out, step_send(PLAN_IN, whole(a), hub, d - 1));
		return;
	}
	for (uint32_t k = 1; k < a->nranks; k++)
		plan_message(
		    a, out,
		    step_reduce(k > 1 ? sum : PLAN_IN, 0, sum, whole(a), rank_after(a, k), k - 1));
	plan_local(out, step_finish(sum, whole(a), a->nranks - 2));
}

/*
 * plan_broadcast_naive - append one rank's steps of a broadcast by the root alone.
 *
 *	a	in[n] at the root -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Round k-1: the root sends its vector to rank root+k. Its own copy comes last: no rank waits for it.
 * Cost, with m = ceil(n / chunk) (1 when chunk is 0): the root sends (p-1)n elements in (p-1)m
 * messages, the others nothing. Rounds: p-1.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/coll/t_coll_naive.c
 */
void
plan_broadcast_naive(const struct plan_args *a, struct plan *out)
{
	from_hub(a, out, a->root, PLAN_IN, false, 0);
	if (a->rank == a->root)
		plan_local(out, step_copy(PLAN_IN, 0, PLAN_OUT, whole(a), a->nranks - 2));
}

/*
 * plan_scatter_linear - append one rank's steps of a linear scatter.
 *
 *	a	in[n] at the root -> out[part(rank)]; no scratch
 *	out	[out] appended to
 *
 * Round k-1: the root sends part root+k to rank root+k. Its own copy comes last: no rank waits for it.
 * Cost of the root: n - |part root| elements, part k in ceil(|part k| / chunk) messages (1 when
 * chunk is 0 and the part is not empty); the others send nothing. Rounds: at most p-1; p-1 when
 * n >= p.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/coll/t_coll_misc.c
 */
void
plan_scatter_linear(const struct plan_args *a, struct plan *out)
{
	struct span own = part_of(a, a->rank);

	from_hub(a, out, a->root, PLAN_IN, true, 0);
	if (a->rank == a->root)
		plan_local(out,
			   step_copy(PLAN_IN, own.off, PLAN_OUT, first(own.count), a->nranks - 2));
}

/*
 * plan_gather_linear - append one rank's steps of a linear gather.
 *
 *	a	in[part(rank)] -> out[n] at the root; no scratch
 *	out	[out] appended to
 *
 * Round k-1: rank root+k sends its part to the root.
 * Cost of rank r but the root: |part r| elements in ceil(|part r| / chunk) messages (1 when
 * chunk is 0 and the part is not empty); the root sends nothing. Rounds: at most p-1; p-1 when
 * n >= p.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/coll/t_coll_misc.c
 */
void
plan_gather_linear(const struct plan_args *a, struct plan *out)
{
	gather(a, out, a->root);
}

/*
 * plan_reduce_naive - append one rank's steps of a reduce by the root alone.
 *
 *	a	in[n] -> out[n] at the root; no scratch
 *	out	[out] appended to
 *
 * Round k-1: rank root+k sends its vector and the root adds it. Canonical: all of them in round 0.
 * Cost, with m = ceil(n / chunk) (1 when chunk is 0): each rank but the root sends n elements in m
 * messages; the root receives (p-1)n. Rounds: p-1.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/coll/t_coll_naive.c
 */
void
plan_reduce_naive(const struct plan_args *a, struct plan *out)
{
	reduce(a, out, a->root, PLAN_OUT);
}

/*
 * plan_allreduce_naive - append one rank's steps of an allreduce through rank 0.
 *
 *	a	in[n] -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Round k-1: rank k sends its vector, rank 0 adds it, so the sum is in rank order, as in a serial loop.
 * Round p-1 + k-1: rank 0 sends the result to rank k. A slow baseline for the ring.
 * Cost, with m = ceil(n / chunk) (1 when chunk is 0): rank 0 sends (p-1)n elements in (p-1)m
 * messages and receives as many, the others n elements in m messages. Rounds: 2(p-1).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/coll/t_coll_naive.c
 */
void
plan_allreduce_naive(const struct plan_args *a, struct plan *out)
{
	reduce(a, out, 0, PLAN_OUT);
	from_hub(a, out, 0, PLAN_OUT, false, a->nranks - 1);
}

/*
 * plan_allgather_naive - append one rank's steps of an allgather through rank 0.
 *
 *	a	in[part(rank)] -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Round k-1: rank k sends its part to rank 0. Round p-1 + k-1: rank 0 sends the whole vector to
 * rank k, its own part included.
 * Cost, with m(x) = ceil(x / chunk) (1 when chunk is 0 and x is not): rank 0 sends (p-1)n
 * elements in (p-1)m(n) messages, rank k |part k| elements in m(|part k|) messages. Rounds:
 * 2(p-1).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/coll/t_coll_naive.c
 */
void
plan_allgather_naive(const struct plan_args *a, struct plan *out)
{
	gather(a, out, 0);
	from_hub(a, out, 0, PLAN_OUT, false, a->nranks - 1);
}

/*
 * plan_reducescatter_naive - append one rank's steps of a reduce-scatter through rank 0.
 *
 *	a	in[n] -> out[part(rank)]; scratch n at rank 0
 *	out	[out] appended to
 *
 * Round k-1: rank k sends its vector and rank 0 adds it. Round p-1 + k-1: rank 0 sends part k
 * to rank k.
 * Cost, with m(x) = ceil(x / chunk) (1 when chunk is 0 and x is not): rank k sends n elements
 * in m(n) messages, rank 0 n - |part 0| elements, part k in m(|part k|) messages. Rounds:
 * 2(p-1) (the last rank's part is never empty).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the definition
 * Checked by: tests/unit/coll/t_coll_naive.c
 */
void
plan_reducescatter_naive(const struct plan_args *a, struct plan *out)
{
	if (a->rank == 0)
		plan_scratch(out, a->nelem);
	reduce(a, out, 0, PLAN_TMP);
	from_hub(a, out, 0, PLAN_TMP, true, a->nranks - 1);
	if (a->rank == 0)
		plan_local(out, step_copy(PLAN_TMP, 0, PLAN_OUT, first(part_of(a, 0).count),
					  2 * a->nranks - 3));
}
