/*
 * order.h - the order in which a group's operations begin. Pure.
 *
 * The operations of one communicator run on one stream, that of its first; the communicator's other streams wait for
 * it and it for them. A stream's operations are sorted by communicator, which is the same order on all ranks; of each
 * communicator collectives come first, in the order of their calls, then its sends and receives, as one set.
 *
 * A set is cut where a group inside the group sends out of a range into which an earlier one inside it receives: that
 * is an algorithm of several steps, which a program calls for all its devices in one group. NCCL leaves open which data
 * are sent. Within one inner group such ranges are not looked at, because a cut there could make two ranks wait for
 * each other.
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
	uint32_t inner;	  /* which group inside of the group it belongs to */
	struct cmdq_command c;
	size_t launch;		      /* [out] operations with the same number begin together */
	size_t call, lead, next_lead; /* of order.c */
};

/* A stream of a communicator that is not the one its operations begin on. */
struct nccl_edge {
	void *lead, *other;
	int ordinal;
};

/* Sort, and replace each stream by the one that the operation begins on. Returns the number of launches; those of
 * launch 0 come first. */
size_t nccl_order(struct nccl_op *op, size_t n);

/*
 * The streams that wait for each other, from the operations before they are sorted.
 *
 *	edge	n of them [out]
 *
 * Returns how many.
 */
size_t nccl_edges(struct nccl_op *op, size_t n, struct nccl_edge *edge);

/* How many of a launch's sorted operations can be appended at once: a set of sends and receives stays whole. */
size_t nccl_piece(const struct nccl_op *op, size_t n);

/* RC_INVAL: a communicator has more sends and receives than a queue takes at once. */
enum rc nccl_check_sets(const struct nccl_op *op, size_t n, struct err *err);

/*
 * Sends to oneself meet the receives from oneself of the same communicator, in order: the send becomes a copy within
 * the device, the receive is left out. *n [out]: how many are left. RC_INVAL: one has no other half, or they differ
 * in size.
 */
enum rc nccl_pair_self(struct nccl_op *op, size_t *n, struct err *err);

#endif
