/*
 * explain_impl.h - what the files of explain share. Nobody else includes it.
 */
#ifndef VIEW_EXPLAIN_IMPL_H
#define VIEW_EXPLAIN_IMPL_H

#include "coll/culprit.h"
#include "view/explain.h"

#define LONG_NS \
	UINT64_C(1000000000) /* an operation that has run for less is not said to stand still */

/* Why a rank holds up the others. */
enum cause {
	CAUSE_NONE,
	CAUSE_LOST,    /* its device is, as the coordinator says */
	CAUSE_ENDED,   /* its device's process has ended, and the coordinator has not noticed yet */
	CAUSE_STOPPED, /* its device's process is stopped */
	CAUSE_TRACED,  /* the same, by a debugger */
	CAUSE_OTHER_OP, /* it is in another kind of operation than most */
	CAUSE_SHAPE,	/* in one of another size, type, reduction or root */
	CAUSE_CROSSED,	/* it is in another communicator's operation */
	CAUSE_PROGRAM,	/* it has not called, and its program is stopped or has ended */
	CAUSE_PAUSED,	/* its queue waits for something else: an event, work of the program */
	CAUSE_MISSING,	/* it has not called */
	CAUSE_SLOW,	/* it works, by an injected fault slowly */
	CAUSE_WORKS,	/* it works, and waits for nobody */
	CAUSE_APART,	/* it and another do not hear each other */
	CAUSE_NCAUSES
};

/* A rank of a communicator, as far as it is known. */
struct seen {
	const struct world_device *dev; /* NULL: not listed */
	const struct world_ring
	    *ring; /* where its operation runs; NULL: in none, or not recorded */
	const struct world_ring
	    *own;  /* a queue or stream in which it has run operations; or NULL */
	bool here; /* it is in an operation: */
	struct flight_op op;
	bool known; /* op's shape is; else its number alone */
	uint32_t step, steps, waits_for;
	uint64_t waits_ns, runs_ns;
	const GpuSim__Work *call;	/* its call that waits for other ranks' */
	const struct flight_live *away; /* it is in this operation of another communicator */
	struct flight_op last;		/* kind 0: none */
	uint64_t last_ns;		/* when that ended */
	const char *fault;		/* the last one that was injected; or "" */
	char fault_text[160];
	enum cause cause;
	uint32_t
	    other; /* CAUSE_APART: the other; CAUSE_OTHER_OP, CAUSE_SHAPE: one of those that it differs from */
	uint32_t depth; /* of its waiting: 1: for a culprit, 2: in turn; 0: it does not wait */
};

struct scene {
	const struct world *w;
	const GpuSim__CommSummary *comm;
	uint32_t n;
	struct seen *rank;
	bool at_hand;	 /* some rank is in an operation */
	uint32_t head;	 /* the rank whose operation is the one at hand */
	uint64_t age_ns; /* of it */
	uint32_t nhere, nculprits;
};

/* ---- explain_look.c */

/* What the world says of the communicator's ranks. RC_NOMEM. */
enum rc scene_init(const struct world *w, const GpuSim__CommSummary *comm, struct scene *out,
		   struct err *err);
void scene_fini(struct scene *s);

/* ---- explain_cause.c */

/* Find out who holds up the operation at hand. RC_NOMEM. */
enum rc scene_causes(struct scene *s, struct err *err);

/* ---- explain_words.c; appending tells of no memory by the buffer's length alone */

struct words {
	struct buf *out;
	bool full; /* out of memory */
};

void say(struct words *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "12.3 s", "450 ms". */
void say_time(struct words *t, uint64_t ns);
/* "20:15:01.123", of this machine's day. */
void say_when(struct words *t, uint64_t wall_ns);
/* "8 MiB", "12 B". */
void say_bytes(struct words *t, uint64_t nbytes);
/* "allreduce #7"; "(ring, 4 ranks, 8 MiB of f32, sum)". */
void say_op(struct words *t, const struct flight_op *op, bool known);
void say_shape(struct words *t, const struct flight_op *op, uint32_t nranks);
/* "allreduce of 8 MiB of f32, sum". */
void say_work(struct words *t, const GpuSim__Work *m);
/* "rank 2", "ranks 1, 3-5": those for which pick says so. Their number. */
typedef bool pick_rank(const struct scene *s, uint32_t rank, uint32_t arg);
uint32_t say_ranks(struct words *t, const struct scene *s, pick_rank *pick, uint32_t arg);
uint32_t count_ranks(const struct scene *s, pick_rank *pick, uint32_t arg);
/* "device 0123..., pid 4711". */
void say_device(struct words *t, const struct world_device *d);

/* ---- explain_say.c */

/* "rank 2 (device 0123..., pid 4711) is stopped in step 3 of 6; rank 5 ..." */
void say_culprits(struct words *t, const struct scene *s);
/* "; rank 3 waits for it; ranks 0 and 1 wait in turn" */
void say_waiters(struct words *t, const struct scene *s);
/* "kill -CONT 4711, or ..." */
void say_remedies(struct words *t, const struct scene *s);

#endif
