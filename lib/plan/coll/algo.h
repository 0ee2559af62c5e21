/*
 * algo.h - the table of algorithms, and what they are built with. Only for lib/plan/coll.
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
	ROW(ALLREDUCE, "twoshot", plan_allreduce_twoshot,                                          \
	    "each rank reduces its part for all, in peer memory")                                  \
	ROW(ALLREDUCE, "oneshot", plan_allreduce_oneshot,                                          \
	    "each rank reduces all of it, from peer memory")                                       \
	ROW(ALLREDUCE, "halving-doubling", plan_allreduce_halving_doubling,                        \
	    "halves exchanged and reduced, then gathered")                                         \
	ROW(ALLREDUCE, "recursive-doubling", plan_allreduce_recursive_doubling,                    \
	    "whole vectors over doubling distances")                                               \
	ROW(ALLREDUCE, "ring-chunked", plan_allreduce_ring_chunked, "the ring, slice by slice")    \
	ROW(ALLREDUCE, "tree", plan_allreduce_tree, "half up and down each of two binary trees")   \
	ROW(ALLREDUCE, "pairwise", plan_allreduce_pairwise,                                        \
	    "each part to its rank, and back to all")                                              \
	ROW(BROADCAST, "ring", plan_broadcast_ring, "a pipelined chain from the root")             \
	ROW(BROADCAST, "naive", plan_broadcast_naive, "the root sends to each rank in turn")       \
	ROW(BROADCAST, "scatter-allgather", plan_broadcast_scatter_allgather,                      \
	    "parts down a tree, then gathered on a ring")                                          \
	ROW(BROADCAST, "tree", plan_broadcast_tree, "down a binomial tree")                        \
	ROW(REDUCE, "ring", plan_reduce_ring, "a pipelined chain to the root")                     \
	ROW(REDUCE, "naive", plan_reduce_naive, "the root receives from each rank in turn")        \
	ROW(REDUCE, "tree", plan_reduce_tree, "up a binomial tree")                                \
	ROW(ALLGATHER, "ring", plan_allgather_ring, "every part goes once round the ring")         \
	ROW(ALLGATHER, "naive", plan_allgather_naive, "parts to rank 0, the vector back")          \
	ROW(ALLGATHER, "bruck", plan_allgather_bruck, "parts over doubling distances, any ranks")  \
	ROW(ALLGATHER, "recursive-doubling", plan_allgather_recursive_doubling,                    \
	    "what two ranks have, over doubling distances")                                        \
	ROW(REDUCESCATTER, "ring", plan_reducescatter_ring, "partial sums go once round the ring") \
	ROW(REDUCESCATTER, "naive", plan_reducescatter_naive, "vectors to rank 0, the parts back") \
	ROW(REDUCESCATTER, "halving", plan_reducescatter_halving, "halves exchanged and reduced")  \
	ROW(REDUCESCATTER, "pairwise", plan_reducescatter_pairwise, "each part to its rank")       \
	ROW(ALLTOALL, "pairwise", plan_alltoall_pairwise, "a block out and a block in each round") \
	ROW(ALLTOALL, "bruck", plan_alltoall_bruck, "blocks over doubling distances")              \
	ROW(GATHER, "linear", plan_gather_linear, "the root receives from each rank in turn")      \
	ROW(GATHER, "tree", plan_gather_tree, "up a binomial tree")                                \
	ROW(SCATTER, "linear", plan_scatter_linear, "the root sends to each rank in turn")         \
	ROW(SCATTER, "tree", plan_scatter_tree, "down a binomial tree")                            \
	ROW(BARRIER, "dissemination", plan_barrier_dissemination, "empty messages, doubling reach")\
	ROW(SEND, "direct", plan_send_direct, "the vector to one peer")                            \
	ROW(RECV, "direct", plan_recv_direct, "the vector from one peer")
/* clang-format on */

#define PLAN_ALGO_PROTOTYPE(coll, name, build, summary) \
	void build(const struct plan_args *a, struct plan *out);
PLAN_ALGOS(PLAN_ALGO_PROTOTYPE)
#undef PLAN_ALGO_PROTOTYPE

/* A range of elements. */
struct span {
	uint64_t off, count;
};

/* The first n elements of a buffer, and all of the vector. */
static inline struct span
first(uint64_t n)
{
	return (struct span){0, n};
}

static inline struct span
whole(const struct plan_args *a)
{
	return first(a->nelem);
}

/* Of a power of two. */
static inline uint32_t
log2_of(uint32_t power)
{
	return (uint32_t)__builtin_ctz(power);
}

/* The number of ranks in the first half of a canonical tree of n >= 2 ranks: the largest power of two
 * below n. */
static inline uint32_t
plan_left_half(uint32_t n)
{
	return n > 1 ? 1u << (31 - __builtin_clz(n - 1)) : 0;
}

/* Rank r's part of the vector, and in alltoall's output the one that comes from rank r. */
struct span part_of(const struct plan_args *a, uint32_t r);
struct span recv_part_of(const struct plan_args *a, uint32_t r);

/* The parts of ranks first..end-1, first < end <= nranks. */
struct span parts_of(const struct plan_args *a, uint32_t first, uint32_t end);

/* The parts of n <= nranks ranks from `first` on, wrapping to rank 0: two spans, either may be
 * empty. */
void parts_around(const struct plan_args *a, uint32_t first, uint32_t n, struct span out[2]);

/* The rank d places after or before this one on the ring; d <= nranks. */
uint32_t rank_after(const struct plan_args *a, uint32_t d);
uint32_t rank_before(const struct plan_args *a, uint32_t d);

/* The distance from `first` to this rank along the ring: 0..nranks-1. */
uint32_t rank_distance(const struct plan_args *a, uint32_t first);

/* The number of messages of at most chunk elements (0: no limit) that carry count; 0 when count is
 * 0. */
uint64_t plan_nmessages(uint64_t count, uint64_t chunk);

/* The plan needs scratch of at least ntmp elements. */
void plan_scratch(struct plan *out, uint64_t ntmp);

/*
 * Steps. step_reduce and step_copy read at src_off of `src` as many elements as `to` has;
 * step_finish finishes in place.
 */
static inline struct plan_step
step_send(enum plan_buf src, struct span from, uint32_t peer, uint32_t round)
{
	return (struct plan_step){.kind = STEP_SEND,
				  .src = (uint8_t)src,
				  .peer = peer,
				  .round = round,
				  .src_off = from.off,
				  .count = from.count};
}

static inline struct plan_step
step_recv(enum plan_buf dst, struct span to, uint32_t peer, uint32_t round)
{
	return (struct plan_step){.kind = STEP_RECV,
				  .dst = (uint8_t)dst,
				  .peer = peer,
				  .round = round,
				  .dst_off = to.off,
				  .count = to.count};
}

static inline struct plan_step
step_reduce(enum plan_buf src, uint64_t src_off, enum plan_buf dst, struct span to, uint32_t peer,
	    uint32_t round)
{
	struct plan_step s = step_recv(dst, to, peer, round);

	s.kind = STEP_RECV_REDUCE;
	s.src = (uint8_t)src;
	s.src_off = src_off;
	return s;
}

/* All ranks' elements `to`, of which this one's are at src_off of src. */
static inline struct plan_step
step_recv_all(enum plan_buf src, uint64_t src_off, enum plan_buf dst, struct span to,
	      uint32_t round)
{
	struct plan_step s = step_reduce(src, src_off, dst, to, PLAN_EVERY, round);

	s.kind = STEP_RECV_ALL;
	return s;
}

static inline struct plan_step
step_copy(enum plan_buf src, uint64_t src_off, enum plan_buf dst, struct span to, uint32_t round)
{
	struct plan_step s = step_reduce(src, src_off, dst, to, 0, round);

	s.kind = STEP_COPY;
	return s;
}

static inline struct plan_step
step_finish(enum plan_buf dst, struct span in, uint32_t round)
{
	struct plan_step s = step_recv(dst, in, 0, round);

	s.kind = STEP_FINISH;
	return s;
}

/*
 * These append steps: every send and receive is cut in messages of at most a->chunk elements, and a
 * step of no elements is dropped. One that fails sets out->rc, and everything that follows is
 * dropped; loops over messages look at out->rc, so that they end.
 *
 *	plan_message	one send, or one receive
 *	plan_exchange	a send and a receive of one round as send, receive, send, receive ...: ranks
 *			that all do this make progress with a window of 1
 *	plan_forward	receive a message, send it on, receive the next: the link of a pipeline;
 *			both have the same count; message c is c rounds later than the step given
 *	plan_pipe	an end of a pipeline, as plan_forward: message c is c rounds later
 *	plan_local	a copy or finish, whole; or a message that is cut already
 *	plan_nth_local	message c of those that the step is cut in
 */
void plan_message(const struct plan_args *a, struct plan *out, struct plan_step s);
void plan_exchange(const struct plan_args *a, struct plan *out, struct plan_step send,
		   struct plan_step recv);
void plan_forward(const struct plan_args *a, struct plan *out, struct plan_step recv,
		  struct plan_step send);
void plan_pipe(const struct plan_args *a, struct plan *out, struct plan_step s);
void plan_local(struct plan *out, struct plan_step s);
void plan_nth_local(const struct plan_args *a, struct plan *out, uint64_t c, struct plan_step s);

/* Send message c of each part of IN to its rank, and reduce message c of the own part with all ranks'
 * by the canonical tree. The own part begins at `at` of OUT. */
void plan_nth_exchange(const struct plan_args *a, struct plan *out, uint64_t c, uint64_t at,
		       uint32_t round);

/* The number of messages of the longest part. */
uint64_t plan_most_messages(const struct plan_args *a);

/* Partial sums of the steps from number `from` on go to PLAN_WIDE. */
void plan_widen(struct plan *out, size_t from);

/* The plan cannot be made: RC_NOMEM, or RC_INVAL past PLAN_MAX_STEPS. */
void plan_fail(struct plan *out, enum rc rc);

/* The round of the last step so far. */
uint32_t last_round(const struct plan *out);

/* One slice of the vector once round the ring: allreduce_ring.c, in 2(p-1) rounds from `round`. */
void plan_ring_slice(const struct plan_args *a, struct plan *out, struct span slice,
		     uint32_t round);

/*
 * A power of two of the ranks. Of p = size + extra ranks, the even ones of the first 2 extra are
 * idle: the odd rank after each takes its place with it ("folded"). Places are in order of ranks.
 */
struct fold {
	uint32_t size, log2; /* size = 2^log2 <= nranks < 2 size */
	uint32_t extra;
	uint32_t place; /* this rank's, or that of the rank it is folded into */
	bool folded, idle;
};

struct fold fold_of(const struct plan_args *a);
uint32_t fold_rank(const struct fold *f, uint32_t place); /* who is at a place */
/* The parts of the ranks at places first..end-1, folded ones included. */
struct span fold_parts(const struct plan_args *a, const struct fold *f, uint32_t first,
		       uint32_t end);
/* An idle rank's steps: `give` elements of IN to its partner in round 0, then `get` to OUT. */
void fold_idle(const struct plan_args *a, struct plan *out, uint64_t give, uint64_t get,
	       uint32_t last);
/* A rank's last step: all of OUT to the idle one whose place it took, if it did. */
void fold_give(const struct plan_args *a, const struct fold *f, struct plan *out, uint32_t last);

/*
 * A binomial tree over the ranks: rank root+d has place d, its parent is d without its lowest bit,
 * and its children are d + 1, d + 2, d + 4 ... below d + reach.
 */
struct binomial {
	uint32_t place;
	uint32_t reach; /* the place's lowest bit; at the root 2^depth */
	uint32_t depth; /* ceil(log2 nranks) */
};

struct binomial binomial_of(const struct plan_args *a);
uint32_t binomial_rank(const struct plan_args *a, uint32_t place);
/* Places from `place` on that its subtree of the given reach has. */
uint32_t binomial_size(const struct plan_args *a, uint32_t place, uint32_t reach);

#endif
