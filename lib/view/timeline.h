/*
 * timeline.h - records as a trace that Perfetto and chrome://tracing show.
 *
 * A process for each device and one for the coordinator, a thread for each ring; operations that overlap in a ring, such as
 * the sends of a group, lie on threads beside each other. Below an operation lie its steps and waits, so the intervals
 * of a thread nest. Times are microseconds since the trace's beginning, by the coordinator's clock.
 *
 * Records go in as they are read, each ring's in its order; the trace goes out as it grows. What is held meanwhile is
 * bounded: the steps of operations that have not ended (TIMELINE_STEPS a ring), and the sends whose
 * receive has not come (TIMELINE_FLOWS); what exceeds that is left out and counted.
 *
 * A failed write is remembered: nothing is written any more, and timeline_end tells.
 */
#ifndef VIEW_TIMELINE_H
#define VIEW_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "flight/read.h"
#include "gpu_sim.pb-c.h"
#include "view/trace_event.h"

struct world;
struct timeline;
struct timeline_process;

#define TIMELINE_STEPS (1u << 16)
#define TIMELINE_FLOWS (1u << 16)

/*
 * timeline_new - begin a trace.
 *
 *	begin_ns	since 1970, by the coordinator's clock: what ended before it is left out
 *	out		[out] the caller's, to timeline_end
 *
 * RC_NOMEM.
 */
enum rc timeline_new(trace_write_fn *write, void *arg, uint64_t begin_ns, struct timeline **out,
		     struct err *err);

/* A device by its id, new or known; meta NULL: the coordinator. The timeline's. NULL: out of memory. */
struct timeline_process *timeline_process(struct timeline *t, const GpuSim__DeviceMetadata *meta);

/* What a timeline wants to know of a ring: its place in the area, and whose it is. */
struct timeline_ring {
	uint32_t index, kind;
	uint64_t id, stream;
	uint64_t opened; /* another number: another stream has taken the ring */
	char name[16];
};
struct timeline_ring timeline_ring(uint32_t index, const struct flight_ring *ring);

/*
 * timeline_records - the next records of a ring.
 *
 *	clock		of the process's host
 *	r		n records; no mark is cut from its texts
 *
 * RC_NOMEM: some are missing.
 */
enum rc timeline_records(struct timeline_process *p, const struct timeline_ring *ring,
			 const struct flight_clock *clock, const union flight_record *r, size_t n,
			 struct err *err);

/* The operation that the ring's thread is in at now_ns since 1970, if it is in one. After its records; last. */
enum rc timeline_live(struct timeline_process *p, uint32_t index, const struct flight_ring *ring,
		      const struct flight_clock *clock, uint64_t now_ns, struct err *err);

/* The process's memory, as its recorder's header tells; only what is new. */
void timeline_memory(struct timeline_process *p, const struct flight_header *h,
		     const struct flight_clock *clock);

/* An event of the coordinator's history. Its recorder has them as well, and those are left out, unless timeline_events says
 * that nobody calls this. */
void timeline_history(struct timeline *t, const GpuSim__HistoryEvent *e);
void timeline_events(struct timeline *t);

/* Records that were overwritten before they were read, and some that made no sense. */
void timeline_lost(struct timeline *t, uint64_t lost, uint64_t bad);

/* How far the clock of the process's host may be wrong, for the trace's end. */
void timeline_clock(struct timeline_process *p, const struct flight_header *h,
		    const struct flight_clock *clock);

/* Hand on all that is ready. */
enum rc timeline_flush(struct timeline *t, struct err *err);

struct timeline_sum {
	uint64_t events, lost;
};

/* Close the trace and free it; sum may be NULL. The error of the first failed write. NULL is legal. */
enum rc timeline_end(struct timeline *t, struct timeline_sum *sum, struct err *err);

/*
 * timeline_of_world - a whole trace.
 *
 *	last_ns	so much of the past; 0: all there is
 */
enum rc timeline_of_world(const struct world *w, uint64_t last_ns, trace_write_fn *write, void *arg,
			  struct timeline_sum *sum, struct err *err);

#endif
