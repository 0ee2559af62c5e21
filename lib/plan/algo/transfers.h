/*
 * transfers.h - make an algorithm from ordered transfers, as if each were done before the next. Pure.
 *
 * Thread blocks and dependencies are derived. A rank has one block for each peer and channel, and one for
 * local steps; a step waits for earlier conflicting steps of other blocks on its chunks. All edges, also
 * those of full connections, lead from earlier transfers to later ones: such an algorithm has no race and
 * no deadlock, for any number of slots.
 */
#ifndef ALGO_TRANSFERS_H
#define ALGO_TRANSFERS_H

#include "algo/algo.h"

#define TRANSFERS_MAX_CHUNKS  (1u << 22) /* of all used buffers */
#define TRANSFERS_MAX_TOUCHES (1u << 23) /* chunks read and written by all steps */

struct algo_place {
	uint32_t rank;
	uint8_t buf; /* enum algo_buf */
	uint32_t at;
};

enum transfer_kind {
	TRANSFER_COPY,	 /* to = from */
	TRANSFER_REDUCE, /* to = to + from */
	TRANSFER_SUM	 /* to = with + from; with is at to's rank, from at another */
};

struct transfer {
	enum transfer_kind kind;
	struct algo_place from, with, to;
	uint32_t count, channel, line;
};

struct transfers;

/* For an algorithm whose head and chunks of input and output are set. It borrows a. NULL: out of memory. */
struct transfers *transfers_new(struct algo *a);

/*
 * transfers_add - append the steps of one transfer to the algorithm.
 *
 * A rank's chunks of scratch grow with their use, to `scratch` at most. RC_BADDATA, without a line: ranks,
 * buffers and channels that do not exist, local copies to overlapping places. RC_NOMEM.
 */
enum rc transfers_add(struct transfers *t, const struct transfer *x, uint32_t scratch,
		      struct err *err);

/* NULL is legal; the algorithm stays. */
void transfers_free(struct transfers *t);

#endif
