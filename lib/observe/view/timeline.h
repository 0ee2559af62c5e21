/*
 * timeline.h - records as a trace for Perfetto and chrome://tracing.
 *
 * A process for each device and one for the coordinator, a thread for each ring; operations that
 * overlap in a ring, such as the sends of a group, lie on parallel threads. Below an operation lie its
 * steps and waits, so the intervals of a thread nest. Times are microseconds since the trace's
 * beginning, by the coordinator's clock.
 *
 * Records are added as they are read, each ring's in its order; the trace is written as it grows. The
 * data held meanwhile are bounded: the steps of operations that have not ended (TIMELINE_STEPS a ring),
 * and the sends whose receive has not been seen (TIMELINE_FLOWS); the excess is left out and counted.
 *
 * A failed write is remembered: nothing more is written, and timeline_end returns the error.
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
 *	begin_ns	since 1970, by the coordinator's clock: records that ended before it are left out
 *	out		[out] the caller's, to timeline_end
 *
 * RC_NOMEM.
 */
enum rc timeline_new(trace_write_fn *write, void *arg, uint64_t begin_ns, struct timeline **out,
		     struct err *err);

/* Find or add a device by its id; meta NULL: the coordinator. The timeline owns it. NULL: out of memory. */
struct timeline_process *timeline_process(struct timeline *t, const GpuSim__DeviceMetadata *meta);

/* A ring's place in the area, and its owner. */
struct timeline_ring {
	uint32_t index, kind;
	uint64_t id, stream;
	uint64_t opened; /* another number: another stream has taken the ring */
	char name[16];
};
struct timeline_ring timeline_ring(uint32_t index, const struct flight_ring *ring);

/*
 * timeline_records - add the next records of a ring.
 *
 *	clock		of the process's host
 *	r		n records; a mark and its texts come together
 *
 * RC_NOMEM: some are missing.
 */
enum rc timeline_records(struct timeline_process *p, const struct timeline_ring *ring,
			 const struct flight_clock *clock, const union flight_record *r, size_t n,
			 struct err *err);

/* Add the operation that the ring's thread is in at now_ns since 1970, if any. Call it last, after the
 * records. */
enum rc timeline_live(struct timeline_process *p, uint32_t index, const struct flight_ring *ring,
		      const struct flight_clock *clock, uint64_t now_ns, struct err *err);

/* Add the process's use of memory from its recorder's header, if it is new. */
void timeline_memory(struct timeline_process *p, const struct flight_header *h,
		     const struct flight_clock *clock);

/* Add an event of the coordinator's history. Its recorder has these events as well; they are left out,
 * unless timeline_events declares that timeline_history is not used. */
void timeline_history(struct timeline *t, const GpuSim__HistoryEvent *e);
void timeline_events(struct timeline *t);

/* Count records that were overwritten before they were read, and invalid ones. */
void timeline_lost(struct timeline *t, uint64_t lost, uint64_t bad);

/* Note the error bound of the host's clock, for the trace's end. */
void timeline_clock(struct timeline_process *p, const struct flight_header *h,
		    const struct flight_clock *clock);

/* Write all that is buffered. */
enum rc timeline_flush(struct timeline *t, struct err *err);

struct timeline_sum {
	uint64_t events, lost;
};

/* Close the trace and free it; sum may be NULL. The error of the first failed write. NULL is legal. */
enum rc timeline_end(struct timeline *t, struct timeline_sum *sum, struct err *err);

/*
 * timeline_of_world - a whole trace.
 *
 *	last_ns	length of the past to include; 0: everything
 */
enum rc timeline_of_world(const struct world *w, uint64_t last_ns, trace_write_fn *write, void *arg,
			  struct timeline_sum *sum, struct err *err);

#endif
