/*
 * schedule.h - one rank's part of an algorithm from a file, at the level of chunks. Pure.
 *
 * A schedule is made once (lib/plan/algo/lower.c), packed, sent to the rank's device, and becomes a plan for
 * any number of elements: plan_build takes it from plan_args.schedule. The vector is cut into nchunks
 * chunks in the collective's way (schedule_chunk); a value keeps the length of the chunk of the vector
 * that it stands for, also in scratch.
 *
 * Rounds. A rank does in each round: local steps, then its sends, then its receives, then local steps.
 * A message is sent and received in one round. Between two ranks, in one direction, a round has at most
 * one message, with the same number of chunks on both sides. The data of a message exist before its
 * round. So no rank waits for itself, with a window of one message. A long chunk is cut in slices:
 * slice l does round t as round t + l * interval, older slices first.
 *
 * Partial sums are values with contributions of more than one rank but not of all. With plan_args.wide
 * they lie in PLAN_WIDE, at the place that corresponds to their place here.
 */
#ifndef COLL_SCHEDULE_H
#define COLL_SCHEDULE_H

#include "base/buf.h"
#include "coll/plan.h"

#define SCHEDULE_MAX_STEPS   (1u << 18) /* of one rank */
#define SCHEDULE_MAX_ROUNDS  (1u << 22)
#define SCHEDULE_MAX_CHUNKS  (1u << 16)
#define SCHEDULE_MAX_SCRATCH (1u << 20) /* places */

enum schedule_flag {
	/* A message with count > 1 is one range on both sides, whatever the chunks' lengths. Without the flag
	 * that is so only if all chunks are equally long. */
	SCHEDULE_JOINED = 1,
	SCHEDULE_LAST = 2,	  /* recv-reduce, reduce: all ranks are in the result: finish it */
	SCHEDULE_SRC_PARTIAL = 4, /* src is a partial sum; likewise with, dst */
	SCHEDULE_WITH_PARTIAL = 8,
	SCHEDULE_DST_PARTIAL = 16,
};

/* A step of a plan on whole chunks. */
struct schedule_step {
	uint8_t kind;	      /* enum plan_step_kind: send, recv, recv-reduce, copy, reduce */
	uint8_t flags;	      /* enum schedule_flag */
	uint8_t src, dst;     /* enum plan_buf: PLAN_IN, PLAN_OUT, PLAN_TMP; if the kind has them */
	uint8_t with;	      /* enum plan_buf; reduce */
	uint32_t peer, round; /* rounds never decrease */
	uint32_t src_at, dst_at, with_at; /* chunks: of the vector in IN and OUT, places in TMP */
	uint32_t chunk; /* chunk of the vector that the first one stands for: gives the length */
	uint32_t count; /* chunks; more than 1 in messages only */
};

struct schedule {
	char name[64];	 /* of the algorithm, NUL-terminated */
	uint64_t digest; /* over all ranks' schedules: equal on all ranks */
	enum gpusim_coll coll;
	uint32_t rank, nranks, root, nchunks;
	uint32_t scratch;   /* places in TMP */
	uint32_t interval;  /* rounds from one slice to the next, at least 1 */
	bool sends_partial; /* some rank sends a partial sum; equal on all ranks */
	struct schedule_step *step;
	size_t nstep, cap;
};

/* Append with growth. False: out of memory. */
bool schedule_append(struct schedule *s, struct schedule_step step);

/* Free n schedules in one allocation; NULL is legal. */
void schedule_free_all(struct schedule *s, uint32_t n);

/* Check everything that schedule_build needs to be memory-safe, also for schedules from peers.
 * RC_BADDATA with a sentence. */
enum rc schedule_check(const struct schedule *s, struct err *err);

/* Pack a schedule; unpack it with every bound checked: RC_BADDATA. Release an unpacked one with
 * schedule_free_all(s, 1). */
bool schedule_pack(const struct schedule *s, struct buf *out);
enum rc schedule_unpack(const void *bytes, size_t n, struct schedule **out, struct err *err);

/* The elements of chunk c of the vector. The operation may have a table of parts. */
void schedule_chunk(const struct schedule *s, const struct plan_args *a, uint32_t c, uint64_t *off,
		    uint64_t *count);

/* Check that the schedule can do the operation: collective, ranks, root, parts without gaps. RC_INVAL
 * with a sentence. */
enum rc schedule_takes(const struct schedule *s, const struct plan_args *a, struct err *err);

/* The largest factor by which its messages are longer than their elements, if partial sums are
 * `widening` times as long. */
unsigned schedule_widening(const struct schedule *s, unsigned widening);

/* Append the plan of a->schedule, as plan_algo.build. schedule_takes must have accepted it. */
void schedule_build(const struct plan_args *a, struct plan *out);

#endif
