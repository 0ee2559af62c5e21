/*
 * explain_impl.h - shared by the files of explain. No other file includes it.
 */
#ifndef VIEW_EXPLAIN_IMPL_H
#define VIEW_EXPLAIN_IMPL_H

#include "coll/culprit.h"
#include "view/explain.h"

#define LONG_NS UINT64_C(1000000000) /* an operation is not reported as blocked before this time */

/* Why a rank holds up the others: a word for programs, the text for many ranks, and the remedy; NULL:
 * it depends. */
/* clang-format off */
#define CAUSES(X) \
	X(LOST, "lost", "are lost", NULL) /* its device is lost, according to the coordinator */ \
	X(ENDED, "ended", "have ended", "wait until the coordinator has noticed") \
	X(STOPPED, "stopped", "are stopped", NULL) \
	X(TRACED, "debugger", "are held by debuggers", NULL) \
	X(OTHER_OP, "other-operation", "are in other operations", /* than most */ \
	  "have all ranks call the same operations in the same order") \
	X(SHAPE, "other-shape", "are in operations of another shape", \
	  "have all ranks call it with the same size, type, reduction and root") \
	X(SENDS, "all-send", "send, and none of them receives", GROUP_THEM) /* in a circle */ \
	X(RECEIVES, "all-receive", "receive, and none of them sends", GROUP_THEM) \
	X(CROSSED, "other-communicator", "are in operations of other communicators", NULL) \
	X(PROGRAM, "program", "do not call it, because their programs are stopped or have ended", NULL) \
	X(GROUP, "group", "have called it in groups that are still open", \
	  "have the program end its group: ncclGroupEnd, or gpusim_group_end") \
	X(KERNEL, "kernel", "have not reached it, because a kernel runs before it", \
	  "wait for the kernel, or end its program") \
	X(HOST, "host-function", "have not reached it, because a host function runs before it", NULL) \
	X(EVENT, "event", "have not reached it, because their streams wait for events", \
	  "have the other stream record the event") \
	X(MEMORY, "no-memory", "have not called it, and had no memory", \
	  "free memory, or start devices with a larger --mem") \
	X(MISSING, "not-called", "have not called it", "have the rank's program call it") \
	X(SLOW, "fault", "are slow", "gpuctl inject clear, or wait") /* by an injected fault */ \
	X(LATE, "straggler", "are late", NULL) /* again and again */ \
	X(WORKS, "works", "work and wait for no rank", "wait") \
	X(APART, "network", "receive nothing from each other", NULL)
/* clang-format on */

#define GROUP_THEM                                                                \
	"group the sends with the receives: ncclGroupStart and ncclGroupEnd, or " \
	"gpusim_group_start and gpusim_group_end, around them"

#define CAUSE_OF(name, word, many, remedy) CAUSE_##name,
enum cause { CAUSE_NONE, CAUSES(CAUSE_OF) CAUSE_NCAUSES };

/* A rank of a communicator, as far as it is known. */
struct seen {
	const struct world_device *dev; /* NULL: not listed */
	const struct world_ring *ring;	/* its operation's ring; NULL: in none, or not recorded */
	/* A queue or stream in which it has run operations; or NULL */
	const struct world_ring *own;
	bool here; /* it is in an operation: */
	struct flight_op op;
	bool known; /* op's shape is known; else only its number */
	uint32_t step, steps, waits_for;
	uint64_t waits_ns, runs_ns;
	const GpuSim__Work *call;	/* its call, which waits for the other ranks' calls */
	const struct flight_live *away; /* it is in this operation of another communicator */
	const struct world_ring *task;	/* a ring that has done something else for long */
	uint8_t ways;			/* it sends, it receives: FLIGHT_SENDS, FLIGHT_RECEIVES */
	uint64_t grouped,
	    grouped_ns; /* operations in an open group of its program; its beginning */
	uint64_t refused, refused_ns; /* bytes of a refused allocation, and its time */
	struct flight_op last;	      /* kind 0: none */
	uint64_t last_ns;	      /* its end */
	const char *fault;	      /* the last one that was injected; or "" */
	char fault_text[160];
	enum cause cause;
	/* CAUSE_APART: the other end; CAUSE_OTHER_OP, CAUSE_SHAPE: a rank that it differs from;
	 * CAUSE_SENDS, CAUSE_RECEIVES: the next rank. */
	uint32_t other;
	uint32_t depth; /* 1: it waits for a culprit, 2: in turn; 0: it does not wait */
};

struct scene {
	const struct world *w;
	const GpuSim__CommSummary *comm;
	const struct world_holder *holder; /* its program, if that is stopped; or NULL */
	uint32_t n;
	struct seen *rank;
	bool at_hand;	 /* some rank is in an operation */
	uint32_t head;	 /* the rank whose operation is the current one */
	uint64_t age_ns; /* of the current operation */
	uint32_t nhere, nculprits;
	uint64_t late_ns;	/* average lateness, over late_of times */
	uint32_t late_of, late; /* late: the straggler's rank, + 1 */
};

/* ---- explain_look.c */

/* Collect what the world knows of the communicator's ranks. */
void scene_init(const struct world *w, const GpuSim__CommSummary *comm, struct scene *out);
void scene_fini(struct scene *s);

/* The ranks that take part in an operation; NULL: all, or not known. And if a rank does. */
const struct flight_group *scene_group(const struct scene *s, const struct flight_op *op);
bool takes_part(const struct scene *s, const struct flight_op *op, uint32_t r);

/* Return true if a rank has finished an operation, according to the recorders. */
bool rank_finished(const struct scene *s, uint32_t r, const struct flight_op *op);

/* The last operation that some rank has finished, or all its ranks; NULL: none in the recorders. */
const struct flight_op *scene_last(const struct scene *s, bool all, uint64_t *ended_ns);

/* ---- explain_cause.c */

/* Find the ranks that hold up the current operation. */
void scene_causes(struct scene *s);

/* Return true if some rank cannot proceed; the longest wait for a culprit; true if the operation is
 * blocked. */
bool has_hard_cause(const struct scene *s);
uint64_t longest_wait(const struct scene *s);
bool scene_stands(const struct scene *s);

/* Return true if the program that uses the rank's queue is stopped. */
static inline bool
is_held(const struct seen *a)
{
	return a->own && (a->own->process == 'T' || a->own->process == 't');
}

/* ---- explain_words.c */

#define PARTS	 32
#define PART_MAX 512

struct words {
	struct buf *out;
	const char *cause; /* the first one reported; or NULL */
	char part[PARTS][PART_MAX];
	unsigned parts;
};

void say(struct words *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A part of a sentence, truncated to PART_MAX. This and all results below are overwritten after PARTS
 * calls. */
const char *part(struct words *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "12.3 s", "450 ms". */
const char *part_time(struct words *t, uint64_t ns);
/* "20:15:01.123", local time. */
const char *part_when(struct words *t, uint64_t wall_ns);
/* "8 MiB", "12 B". */
const char *part_bytes(struct words *t, uint64_t nbytes);
/* "allreduce #7"; "ring, 4 ranks, 8 MiB of f32, sum", "ring, tp0 of 2 ranks, ...". */
const char *part_op(struct words *t, const struct flight_op *op, bool known);
const char *part_shape(struct words *t, const struct scene *s, const struct flight_op *op);
/* "allreduce of 8 MiB of f32, sum". */
const char *part_work(struct words *t, const GpuSim__Work *m);
/* "d1 t0 p1" and what comes after, if the rank has a place in a grid; or "". */
const char *part_place(struct words *t, const struct scene *s, uint32_t r, const char *after);
/* "rank 2", "ranks 1, 3-5", "rank 2 (d1 t0 p0)": the ranks for which pick returns true; and their number. */
typedef bool pick_rank(const struct scene *s, uint32_t rank, uint32_t arg);
const char *part_ranks(struct words *t, const struct scene *s, pick_rank *pick, uint32_t arg);
uint32_t count_ranks(const struct scene *s, pick_rank *pick, uint32_t arg);
/* "device 0123..., pid 4711". */
const char *part_device(struct words *t, const struct world_device *d);
/* "is stopped", "is held by a debugger, pid 12", "has ended"; "kill -CONT 4711", "have the debugger ...". */
const char *part_process(struct words *t, char process, uint32_t tracer);
const char *part_release(struct words *t, uint32_t pid, uint32_t tracer);

/* ---- explain_say.c */

/* "its stream runs kernel spin for 5.0 s" */
void say_task(struct words *t, const struct scene *s, const struct seen *a);

/* "rank 2 (device 0123..., pid 4711) is stopped in step 3 of 6; rank 5 ..." */
void say_culprits(struct words *t, const struct scene *s);
/* "; rank 3 waits for it; ranks 0 and 1 wait in turn" */
void say_waiters(struct words *t, const struct scene *s);
/* "kill -CONT 4711, or ..." */
void say_remedies(struct words *t, const struct scene *s);

#endif
