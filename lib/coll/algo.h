/*
 * algo.h - the table of algorithms, and what they are built with. Only for lib/coll.
 *
 * A new algorithm is one file with its build function, and one ROW here.
 */
#ifndef COLL_ALGO_H
#define COLL_ALGO_H

#include "coll/plan.h"

/* The first row of a collective is its default. */
/* clang-format off */
#define PLAN_ALGOS(ROW)                                                                            \
	ROW(ALLREDUCE, "ring", plan_allreduce_ring, "reduce-scatter, then allgather, on a ring")   \
	ROW(ALLREDUCE, "naive", plan_allreduce_naive, "vectors to rank 0, the result back")        \
	ROW(ALLREDUCE, "direct", plan_allreduce_direct, "each rank reduces its part for all; p2p") \
	ROW(ALLREDUCE, "oneshot", plan_allreduce_oneshot, "all ranks reduce all of it; p2p")       \
	ROW(BROADCAST, "ring", plan_broadcast_ring, "a pipelined chain from the root")             \
	ROW(BROADCAST, "naive", plan_broadcast_naive, "the root sends to each rank in turn")       \
	ROW(REDUCE, "ring", plan_reduce_ring, "a pipelined chain to the root")                     \
	ROW(REDUCE, "naive", plan_reduce_naive, "the root receives from each rank in turn")        \
	ROW(ALLGATHER, "ring", plan_allgather_ring, "every part goes once round the ring")         \
	ROW(ALLGATHER, "naive", plan_allgather_naive, "parts to rank 0, the vector back")          \
	ROW(REDUCESCATTER, "ring", plan_reducescatter_ring, "partial sums go once round the ring") \
	ROW(REDUCESCATTER, "naive", plan_reducescatter_naive, "vectors to rank 0, the parts back") \
	ROW(ALLTOALL, "pairwise", plan_alltoall_pairwise, "a block out and a block in each round") \
	ROW(GATHER, "linear", plan_gather_linear, "the root receives from each rank in turn")      \
	ROW(SCATTER, "linear", plan_scatter_linear, "the root sends to each rank in turn")         \
	ROW(BARRIER, "dissemination", plan_barrier_dissemination, "empty messages, doubling reach")\
	ROW(SEND, "direct", plan_send_direct, "the vector to one peer")                            \
	ROW(RECV, "direct", plan_recv_direct, "the vector from one peer")
/* clang-format on */

#define PLAN_ALGO_PROTOTYPE(coll, name, build, summary) \
	enum rc build(const struct plan_args *a, struct plan *out);
PLAN_ALGOS(PLAN_ALGO_PROTOTYPE)
#undef PLAN_ALGO_PROTOTYPE

/* A range of elements. */
struct span {
	uint64_t off, count;
};

/* Rank r's part of the vector. */
struct span part_of(const struct plan_args *a, uint32_t r);

/* The rank d places after or before this one on the ring; d <= nranks. */
uint32_t rank_after(const struct plan_args *a, uint32_t d);
uint32_t rank_before(const struct plan_args *a, uint32_t d);

/* How many places this rank is after `first` on the ring: 0..nranks-1. */
uint32_t rank_distance(const struct plan_args *a, uint32_t first);

/* Messages of at most chunk elements (0: no limit) that carry count; none when count is 0. */
uint64_t plan_nmessages(uint64_t count, uint64_t chunk);

/* The plan needs scratch of at least ntmp elements. */
void plan_scratch(struct plan *out, uint64_t ntmp);

/*
 * These append steps: every send and receive is cut in messages of at most a->chunk elements, and a
 * step of no elements is dropped. RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS; some steps may have been
 * appended then (plan_build drops them).
 *
 *	plan_message	one send, or one receive
 *	plan_exchange	a send and a receive of one round as send, receive, send, receive ...: ranks
 *			that all do this make progress with a window of 1
 *	plan_forward	receive a message, send it on, receive the next: the link of a pipeline;
 *			both have the same count; message c is c rounds later than the step given
 *	plan_pipe	an end of a pipeline, as plan_forward: message c is c rounds later
 *	plan_local	a copy or finish, whole
 */
enum rc plan_message(const struct plan_args *a, struct plan *out, struct plan_step s);
enum rc plan_exchange(const struct plan_args *a, struct plan *out, struct plan_step send,
		      struct plan_step recv);
enum rc plan_forward(const struct plan_args *a, struct plan *out, struct plan_step recv,
		     struct plan_step send);
enum rc plan_pipe(const struct plan_args *a, struct plan *out, struct plan_step s);
enum rc plan_local(struct plan *out, struct plan_step s);

#endif
