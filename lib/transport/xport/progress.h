/*
 * progress.h - the progress of an operation, the peer that it waits for, and the recorder.
 *
 * A recorder is a thread's interface to its ring of the flight recorder (flight/flight.h): the ring's
 * live line shows what the thread does now to other threads and processes, and a record is written when
 * an operation, or a wait in it, has ended. Without a ring the line is private, and nothing is written.
 *
 * A step costs three stores. The clock is read at the end of an operation, and in long waits. NULL is a legal
 * recorder.
 */
#ifndef XPORT_PROGRESS_H
#define XPORT_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "flight/ticks.h"
#include "flight/write.h"

#define PROGRESS_MISSING_MAX 16

/* The progress that a device reports. */
struct progress {
	uint64_t comm, op, idle_ns; /* time waiting; 0: not waiting */
	uint32_t epoch, step, steps;
	uint32_t waits_for; /* rank + 1; 0: nobody */
};

struct recorder {
	_Atomic(struct flight_live *) live; /* of the ring, or in `own` */
	unsigned char own[sizeof(struct flight_live) + FLIGHT_LINE];
	struct flight_writer w;
	/* Private to the thread. */
	const char *coll, *algo;		/* of the operation; static */
	uint64_t *waited_ns;			/* by rank: time waited for it; NULL: not counted */
	uint64_t idle_ns;			/* of the failed wait */
	uint32_t missing[PROGRESS_MISSING_MAX]; /* ranks waited for in vain */
	uint32_t nmissing;
	uint64_t clock;		/* the last reading of the ticks; 0: stale */
	uint64_t queued;	/* ticks: when the current operations were queued; 0: unknown */
	bool traces;		/* steps are recorded */
	union flight_record op; /* the current operation */
	uint32_t turn;		/* of the live line; odd: the next three fields are visible */
	uint32_t shown_epoch;
	uint64_t shown_comm, shown_seq;
	uint32_t step, steps; /* step: from 1 */
	uint8_t what;	      /* enum plan_step_kind + 1 of the step; 0: opening or ending */
	bool waits;
	uint64_t bytes;		   /* of the step */
	union flight_record wait;  /* a wait that may continue; kind 0: none */
	uint64_t waits_from;	   /* ticks */
	uint64_t told_ns, at_ns;   /* how much of it is counted, and when */
	uint64_t waited;	   /* ticks, total */
	struct flight_range phase; /* that began; kind 0: none */
	uint64_t phase_number;
};

static inline struct flight_live *
recorder_live(const struct recorder *m)
{
	return atomic_load_explicit(&m->live, memory_order_relaxed);
}

/* Initialise without a ring. Must not be moved. */
void recorder_init(struct recorder *m);

/* On the working thread; f may be NULL. Readers on other threads are excluded meanwhile. */
void recorder_open(struct recorder *m, struct flight *f, enum flight_ring_kind kind, uint64_t id,
		   uint64_t stream, uint32_t pid, const char *name);
void recorder_close(struct recorder *m);

/* The time of a start. A start right after an end reads no clock. */
static inline uint64_t
recorder_now(struct recorder *m)
{
	return m->clock ? m->clock : (m->clock = ticks_now());
}

/* The time of an end. */
static inline uint64_t
recorder_clock(struct recorder *m)
{
	uint64_t now = ticks_now();

	return m->clock = now > m->clock ? now : m->clock;
}

/* ---- an operation */

/* Start m->op, with this number of steps; it replaces the previous operation. */
void recorder_begin(struct recorder *m, size_t steps);

/* The end of m->op, at m->clock, for its record. */
struct recorder_result {
	enum rc rc;
	uint8_t flags;	 /* FLIGHT_BY_MEMORY */
	uint64_t nbytes; /* of the operation */
	/* Bytes to and from peers, without those given to recorder_moved. */
	uint64_t sent, received;
};
void recorder_done(struct recorder *m, const struct recorder_result *how);

/* An operation is in progress. */
static inline bool
recorder_at_work(const struct recorder *m)
{
	return m->turn & 1;
}

/* No operation is in progress. A failed one stays visible until then. */
void recorder_end(struct recorder *m);

static inline void
recorder_step(struct recorder *m, size_t step, uint8_t what, uint64_t bytes)
{
	if (!m)
		return;
	m->step = (uint32_t)step;
	atomic_store_explicit(&recorder_live(m)->step, m->step, memory_order_relaxed);
	m->what = what;
	m->bytes = bytes;
}

/* A step of m->op that is recorded because of m->traces. */
struct recorder_step {
	uint64_t begin, waited; /* from recorder_trace_begin */
	uint64_t bytes;
	uint32_t step, peer; /* peer: rank + 1; 0: none */
	uint8_t what;
};
void recorder_trace_begin(struct recorder *m, struct recorder_step *s);
void recorder_trace(struct recorder *m, const struct recorder_step *s, enum rc rc);

/* ---- waits */

/* The thread has to wait for a peer. */
void recorder_waits(struct recorder *m, uint32_t peer);

/* The wait continues at now_ns (clock_now_ns): a long one is counted while it lasts. */
void recorder_waits_on(struct recorder *m, uint64_t now_ns);

/* The wait has ended; rc not RC_OK: it failed. */
void recorder_goes_on(struct recorder *m, enum rc rc);

/* Add a rank that was waited for in vain. */
static inline void
recorder_missing(struct recorder *m, uint32_t peer)
{
	for (uint32_t i = 0; m && i < m->nmissing; i++)
		if (m->missing[i] == peer)
			return;
	if (m && m->nmissing < PROGRESS_MISSING_MAX)
		m->missing[m->nmissing++] = peer;
}

/* ---- chunks by frames, counted as they are sent */

/* A chunk of the current operation is in flight to the peer for ns. */
void recorder_sends(struct recorder *m, uint32_t peer, uint64_t nbytes, uint64_t ns);

/* Count bytes sent and received. No chunk is in flight. */
void recorder_moved(struct recorder *m, uint64_t sent, uint64_t received);

/* ---- other work. It ends at m->clock; kind and end are filled in */

void recorder_kernel(struct recorder *m, const struct flight_kernel *k);
void recorder_copy(struct recorder *m, const struct flight_copy *c);

/* A program's range as it is; only its kind is filled in. */
void recorder_range(struct recorder *m, const struct flight_range *r);

/*
 * recorder_phase - an operation of phase `number` begins now; 0: of none.
 *
 * A phase ends when one with another number or name begins, at the last recorder_phase_goes_on.
 */
void recorder_phase(struct recorder *m, uint64_t number, const char *name);

static inline void
recorder_phase_goes_on(struct recorder *m)
{
	m->phase.end = m->clock;
}

/* Recorded only if it took 1 us or longer. */
void recorder_pause(struct recorder *m, enum flight_copy_kind what, uint64_t with, uint64_t begin);

/* Other current work of the thread; NULL: none. */
void recorder_task(struct recorder *m, const struct flight_now *now);

/* Read the progress on another thread. False: no operation. */
bool recorder_read(const struct recorder *m, struct progress *out);

#endif
