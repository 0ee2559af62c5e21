/*
 * order.h - the order in which a group's operations begin. Pure.
 *
 * The operations of one communicator run on one stream, the stream of its first; the communicator's
 * other streams and this one wait for each other. A stream's operations are sorted by communicator,
 * which is the same order on all ranks; of each communicator, collectives come first, in the order
 * of their calls, and then its sends and receives, as one set.
 *
 * A set is cut where a nested group sends from a range into which an earlier nested group receives:
 * that is an algorithm of several steps, which a program calls for all its devices in one group.
 * NCCL does not define which data are sent. Ranges within one nested group are not compared,
 * because a cut there could make two ranks wait for each other.
 */
#ifndef NCCL_ORDER_H
#define NCCL_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "mem/cmdq.h"

struct ncclComm;

struct nccl_op {
	struct ncclComm *comm;
	void *stream;
	int ordinal;	  /* of the communicator's device: streams of two devices differ */
	uint32_t rank;	  /* own, in the communicator */
	uint64_t comm_id; /* of the communicator, the same on all its ranks */
	uint64_t nbytes;  /* of a send or receive */
	uint32_t inner;	  /* the nested group that it belongs to */
	struct cmdq_command c;
	size_t launch;		      /* [out] operations with the same number begin together */
	size_t call, lead, next_lead; /* of order.c */
};

/* A stream of a communicator other than the one on which its operations begin. */
struct nccl_edge {
	void *lead, *other;
	int ordinal;
};

/* Sort, and replace each stream by the one on which the operation begins. Returns the number of
 * launches; those of launch 0 come first. */
size_t nccl_order(struct nccl_op *op, size_t n);

/*
 * Find the streams that wait for each other, from the unsorted operations.
 *
 *	edge [out] room for n
 *
 * Returns the number of edges.
 */
size_t nccl_edges(struct nccl_op *op, size_t n, struct nccl_edge *edge);

/* The number of a launch's sorted operations that can be appended at once: a set of sends and
 * receives stays whole. */
size_t nccl_piece(const struct nccl_op *op, size_t n);

/* RC_INVAL: a communicator has more sends and receives than a queue can take at once. */
enum rc nccl_check_sets(const struct nccl_op *op, size_t n, struct err *err);

/*
 * Match sends to oneself with receives from oneself of the same communicator, in order: the send
 * becomes a copy within the device, the receive is dropped. *n [out]: the remaining operations.
 * RC_INVAL: one has no match, or the sizes differ.
 */
enum rc nccl_pair_self(struct nccl_op *op, size_t *n, struct err *err);

#endif
