/*
 * schedule.h - what one rank does in an algorithm that came from a file, at the level of chunks. Pure.
 *
 * A schedule is made once (lib/algo/lower.h), packed, sent to the rank's device, and becomes a plan for any number of
 * elements: plan_build takes it from plan_args.schedule. The vector is cut into nchunks chunks as the collective says
 * (schedule_chunk); a value keeps the length of the chunk of the vector that it stands for, in scratch too.
 *
 * Rounds. A rank does in each round: local steps, then its sends, then its receives, then local steps. Sends and receives
 * of a message are of one round, and of a rank to another there is one message in a round, with as many chunks
 * on both sides. Whatever a message needs was there before its round. So no rank waits for itself, with a window of one message.
 * A long chunk is cut in slices: slice l does round t as round t + l * interval, older slices first.
 *
 * Partial sums: values that some ranks contributed to, more than one but not all. Where plan_args.wide they lie in
 * PLAN_WIDE, at the place that stands for their place here.
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
	SCHEDULE_JOINED =
	    1, /* of a message with count > 1: one range on both sides, whatever the chunks' lengths.
			      * Else only where all chunks are equally long */
	SCHEDULE_LAST =
	    2, /* of recv-reduce and reduce: all ranks have contributed to the result: it is finished */
	SCHEDULE_SRC_PARTIAL = 4, /* src is a partial sum; with; dst */
	SCHEDULE_WITH_PARTIAL = 8,
	SCHEDULE_DST_PARTIAL = 16,
};

/* A step of a plan on whole chunks. */
struct schedule_step {
	uint8_t kind;	  /* enum plan_step_kind: send, recv, recv-reduce, copy, reduce */
	uint8_t flags;	  /* enum schedule_flag */
	uint8_t src, dst; /* enum plan_buf: PLAN_IN, PLAN_OUT, PLAN_TMP; those that the kind has */
	uint8_t with;	  /* of reduce */
	uint32_t peer, round;		  /* rounds never fall */
	uint32_t src_at, dst_at, with_at; /* chunks: of the vector in IN and OUT, places in TMP */
	uint32_t chunk; /* of the vector, which the first of them stands for: it gives the length */
	uint32_t count; /* chunks; more than 1 in messages only */
};

struct schedule {
	char name[64];	 /* of the algorithm, NUL-terminated */
	uint64_t digest; /* of all ranks' schedules: equal on all ranks */
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

/* n schedules of one piece of memory; NULL is legal. */
void schedule_free_all(struct schedule *s, uint32_t n);

/* Everything that makes schedule_build safe for memory, whoever made the schedule. RC_BADDATA with a sentence. */
enum rc schedule_check(const struct schedule *s, struct err *err);

/* As bytes, and back with every bound checked: RC_BADDATA. What was unpacked is released with schedule_free_all(s, 1). */
bool schedule_pack(const struct schedule *s, struct buf *out);
enum rc schedule_unpack(const void *bytes, size_t n, struct schedule **out, struct err *err);

/* Where chunk c of the vector lies: elements. The operation may have a table of parts. */
void schedule_chunk(const struct schedule *s, const struct plan_args *a, uint32_t c, uint64_t *off,
		    uint64_t *count);

/* Whether it can do the operation: collective, ranks, root, parts without gaps. RC_INVAL with a sentence. */
enum rc schedule_takes(const struct schedule *s, const struct plan_args *a, struct err *err);

/* By how much its messages are longer than their elements at most, where partial sums are `widening` times as long. */
unsigned schedule_widening(const struct schedule *s, unsigned widening);

/* Append the plan of a->schedule; as plan_algo.build. schedule_takes has said yes. */
void schedule_build(const struct plan_args *a, struct plan *out);

#endif
