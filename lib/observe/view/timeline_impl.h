/*
 * timeline_impl.h - shared by the files of the timeline.
 *
 *	timeline.c		processes, counters, the history
 *	timeline_records.c	the records of a ring: slices in lanes, instants
 *	timeline_flow.c		arrows from each send to its receive
 *	timeline_world.c	a whole world, in the order of time
 */
#ifndef VIEW_TIMELINE_IMPL_H
#define VIEW_TIMELINE_IMPL_H

#include <stdbool.h>

#include "view/timeline.h"

/* A thread of the trace, and the end of its last slice by both clocks: ticks decide if two slices
 * overlap, and ns are adjusted so that they do not overlap after a correction of the clock. */
struct lane {
	uint32_t tid;
	uint64_t end_ticks, end_ns;
};

/* A ring, as long as one stream has it. */
struct track {
	struct timeline_process *p;
	uint64_t opened;
	char name[64];
	struct lane *lane;
	size_t nlanes;
	uint32_t program;  /* pid, whose ranges it has; 0: none yet */
	bool begins;	   /* the next slice of its first lane is the first of a phase, */
	uint64_t phase_ns; /* which begins then; 0: not known */
	/* Steps and waits whose operation has not ended, in their order. */
	union flight_record *step;
	size_t nsteps, room;
};

struct timeline_process {
	struct timeline *t;
	struct timeline_process *next;
	uint64_t device; /* 0: the coordinator */
	uint32_t pid, ordinal;
	bool ranked; /* its name includes a rank */
	struct track *track[FLIGHT_RINGS_MAX];
	uint64_t window, bytes; /* of operations that ended in this window */
	bool moved;		/* there were some */
	uint64_t memory_at, memory_used;
	char host[64];
	uint64_t error_ns;
	bool clocked;
	struct flight_group group[FLIGHT_GROUPS];
	uint32_t ngroups;
};

/* One end of an arrow. */
struct flow_key {
	uint64_t comm, seq;
	uint32_t epoch, src, dst, n; /* n: which of the operation's chunks from src to dst */
};
struct flow_end {
	struct flow_key key;
	bool receives;
	uint32_t pid, tid;
	uint64_t at_ns;
	uint32_t next; /* of its bucket, + 1 */
	bool used;
};
struct flows {
	struct flow_end *end;
	uint32_t *bucket; /* place + 1 */
	uint32_t at;	  /* the next place to use: the oldest */
	uint64_t id;	  /* of the last arrow */
	uint64_t given_up;
};

struct timeline {
	struct trace_out out;
	uint64_t begin_ns;
	struct timeline_process *processes;
	uint32_t pids, tids;
	struct flows flows;
	uint32_t *count; /* chunks to and from each rank, of the current operation */
	size_t ncounts;
	bool events; /* take the history from the coordinator's recorder */
	uint64_t lost, bad, steps_given_up;
};

/* Since the trace's beginning; 0 before it. */
uint64_t timeline_ns(const struct timeline *t, const struct flight_clock *c, uint64_t ticks);

/* Begin an event without a duration. */
void timeline_instant(struct timeline *t, uint32_t pid, uint32_t tid, uint64_t at_ns,
		      const char *scope);

/* Name a process or a thread; give it a place among the others. */
void timeline_name(struct timeline *t, uint32_t pid, uint32_t tid, const char *what,
		   const char *name);
void timeline_order(struct timeline *t, uint32_t pid, uint32_t tid, const char *what,
		    uint32_t place);

void track_free(struct track *k);

/* An operation has moved bytes. */
void process_moved(struct timeline_process *p, uint64_t end_ns, uint64_t bytes);

/* It is rank `rank` of something. */
void process_ranked(struct timeline_process *p, uint32_t rank);

/* timeline_flow.c */
enum rc flows_init(struct flows *f, struct err *err);
void flows_fini(struct flows *f);
void flow_add(struct timeline *t, const struct flow_end *end);

#endif
