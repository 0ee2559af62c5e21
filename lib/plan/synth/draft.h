/*
 * draft.h - an algorithm while it is searched for: moves of chunks between ranks, in rounds. Pure.
 *
 * Moves of one round do not depend on each other: a rank sends what it had before the round. The list is in
 * the order of rounds.
 */
#ifndef SYNTH_DRAFT_H
#define SYNTH_DRAFT_H

#include "algo/algo.h"
#include "base/buf.h"

#define DRAFT_MAX_MOVES (1u << 20)

struct draft_place {
	uint32_t rank;
	uint8_t buf; /* enum algo_buf */
	uint32_t at; /* chunk */
};

struct move {
	struct draft_place from, to;
	uint32_t count, round;
	bool reduce; /* else copy */
};

struct draft {
	char name[ALGO_NAME_MAX];
	enum gpusim_coll coll;
	uint32_t nranks, nchunks, root, scratch;
	bool in_place; /* it works in OUT, which initially is IN; it may be called both ways */
	struct move *move;
	size_t nmove, cap;
	bool full; /* it has DRAFT_MAX_MOVES, and needs more */
};

/* draft_fini releases; legal for {0}. */
void draft_fini(struct draft *d);

void draft_move(struct draft *d, uint32_t round, bool reduce, struct draft_place from,
		struct draft_place to, uint32_t count);

/* A copy from OUT to the same chunks of OUT. */
void draft_pass(struct draft *d, uint32_t round, uint32_t from, uint32_t to, uint32_t at,
		uint32_t count);

/* One round more than the last. */
uint32_t draft_rounds(const struct draft *d);

/* Sort by round, stably. */
void draft_sort(struct draft *d);

/*
 * draft_turn - append the reverse of passes that bring every chunk to each rank once: reductions that bring
 * the sum of all ranks to where the chunk came from.
 */
void draft_turn(const struct draft *passes, struct draft *out);

/* Append all moves, `round` rounds later. */
void draft_append(const struct draft *d, uint32_t round, struct draft *out);

/*
 * draft_slice - the same algorithm on each of k parts of all chunks, one after the other, `interval` rounds
 * apart.
 *
 * A chunk of an allgather, reducescatter or alltoall stays with its rank.
 */
void draft_slice(const struct draft *d, uint32_t k, uint32_t interval, struct draft *out);

/* Every rank's plan, by whole moves, for times: nranks of them, to release with plan_free_all. */
enum rc draft_plans(const struct draft *d, uint64_t nelem, struct plan **out, struct err *err);

/* Append as the text form of files. */
void draft_print(const struct draft *d, struct buf *out);

#endif
