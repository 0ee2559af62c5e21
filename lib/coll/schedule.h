/*
 * schedule.h - what one rank does in an algorithm that came from a file, at the level of chunks. Pure.
 *
 * A schedule is made once (lib/algo/lower.h), packed, sent to the rank's device, and becomes a plan for any number of
 * elements: plan_build takes it from plan_args.schedule. The vector is cut into nchunks chunks as the collective says
 * (schedule_chunk); a value keeps the length of the chunk of the vector that it stands for, in scratch too.
 */
#ifndef COLL_SCHEDULE_H
#define COLL_SCHEDULE_H

#include "base/buf.h"
#include "coll/plan.h"

#define SCHEDULE_MAX_STEPS (1u << 18) /* of one rank */

/* A step of a plan on whole chunks. Sends and receives of a message are of one round. */
struct schedule_step {
	uint8_t kind;	  /* enum plan_step_kind: send, recv, recv-reduce, copy, reduce, finish */
	uint8_t src, dst; /* enum plan_buf: PLAN_IN, PLAN_OUT, PLAN_TMP */
	uint32_t peer, round;
	uint32_t src_at, dst_at; /* chunks: of the vector in IN and OUT, places in TMP */
	uint32_t chunk; /* of the vector, which the first of them stands for: it gives the length */
	uint32_t count; /* chunks; more than 1 only where `whole` of the schedule allows it */
};

struct schedule {
	char name[64];	 /* of the algorithm, NUL-terminated */
	uint64_t digest; /* of all ranks' schedules: equal on all ranks */
	enum gpusim_coll coll;
	uint32_t rank, nranks, root, nchunks;
	uint32_t scratch;	     /* places in TMP */
	uint32_t interval;	     /* rounds from one slice to the next */
	bool in_place, out_of_place; /* how it may be called */
	struct schedule_step *step;
	size_t nstep, cap;
};

void schedule_free_all(struct schedule *s, uint32_t n);

/* As bytes, and back with every bound checked: RC_BADDATA. What was unpacked is released with schedule_free_all(s, 1). */
bool schedule_pack(const struct schedule *s, struct buf *out);
enum rc schedule_unpack(const void *bytes, size_t n, struct schedule **out, struct err *err);

/* Where chunk c of the vector lies: elements. */
void schedule_chunk(const struct schedule *s, uint64_t nelem, uint32_t c, uint64_t *off,
		    uint64_t *count);

/* Append the plan; as plan_algo.build. The caller has seen that collective, ranks and root agree. */
void schedule_build(const struct plan_args *a, struct plan *out);

#endif
