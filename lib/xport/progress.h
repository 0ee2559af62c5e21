/*
 * progress.h - how far an operation is, and for whom it waits; and the recorder of it.
 *
 * A recorder is the face of a ring of the flight recorder (flight/flight.h) for the thread that works on operations: it
 * tells what the thread does now in the ring's live line, which other threads and processes read, and writes a record
 * when an operation, or a wait in it, has ended. Without a ring the line is a private one, and nothing is written.
 *
 * A step costs three stores. The clock is read at the end of an operation, and where the thread has to wait for long. NULL
 * is a legal recorder.
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

/* As a device reports it. */
struct progress {
	uint64_t comm, op, idle_ns; /* waiting for so long; 0: it does not wait */
	uint32_t epoch, step, steps;
	uint32_t waits_for; /* rank + 1; 0: nobody */
};

struct recorder {
	_Atomic(struct flight_live *) live; /* of the ring, or in `own` */
	unsigned char own[sizeof(struct flight_live) + FLIGHT_LINE];
	struct flight_writer w;
	/* The thread's own. */
	const char *coll, *algo; /* of the operation; static */
	uint64_t *waited_ns;	 /* by rank: how long it was waited for; NULL: nobody counts */
	uint64_t idle_ns;	 /* of the wait that failed */
	uint32_t missing[PROGRESS_MISSING_MAX]; /* ranks that were waited for in vain */
	uint32_t nmissing;
	uint64_t clock;		/* the last reading of the ticks; 0: time has passed since */
	uint64_t queued;	/* ticks: when the operations at hand were queued; 0: not known */
	bool traces;		/* steps are recorded */
	union flight_record op; /* the operation that is worked on */
	uint32_t turn;		/* of the live line; odd: the next three are in sight */
	uint32_t shown_epoch;
	uint64_t shown_comm, shown_seq;
	uint32_t step, steps; /* step: from 1 */
	uint8_t what;	      /* enum plan_step_kind + 1 of the step; 0: opening or ending */
	bool waits;
	uint64_t bytes;		  /* of the step */
	union flight_record wait; /* one that may go on; kind 0: there is none */
	uint64_t waits_from;	  /* ticks */
	uint64_t told_ns, at_ns;  /* so much of it is counted, and when that was */
	uint64_t waited;	  /* ticks, in all */
};

static inline struct flight_live *
recorder_live(const struct recorder *m)
{
	return atomic_load_explicit(&m->live, memory_order_relaxed);
}

/* Without a ring. It stays where it is. */
void recorder_init(struct recorder *m);

/* On the thread that is to work; f may be NULL. Readers on other threads are shut out while it opens and closes. */
void recorder_open(struct recorder *m, struct flight *f, enum flight_ring_kind kind, uint64_t id,
		   uint64_t stream, uint32_t pid, const char *name);
void recorder_close(struct recorder *m);

/* The time for what begins now. What begins where something has ended reads no clock. */
static inline uint64_t
recorder_now(struct recorder *m)
{
	return m->clock ? m->clock : (m->clock = ticks_now());
}

/* The time for what ends now. */
static inline uint64_t
recorder_clock(struct recorder *m)
{
	uint64_t now = ticks_now();

	return m->clock = now > m->clock ? now : m->clock;
}

/* ---- an operation */

/* m->op is worked on, which has so many steps. What was at hand before is at hand no more. */
void recorder_begin(struct recorder *m, size_t steps);

/* How m->op has ended, at m->clock: its record. */
struct recorder_result {
	enum rc rc;
	uint8_t flags;	 /* FLIGHT_BY_MEMORY */
	uint64_t nbytes; /* of the operation */
	/* Bytes to and from peers, without those that recorder_moved has told. */
	uint64_t sent, received;
};
void recorder_done(struct recorder *m, const struct recorder_result *how);

/* Is an operation at hand? */
static inline bool
recorder_at_work(const struct recorder *m)
{
	return m->turn & 1;
}

/* No operation is at hand. One that has failed stays in sight until then. */
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

/* A step of m->op that is recorded, waits or not, because m->traces. */
struct recorder_step {
	uint64_t begin, waited; /* as recorder_trace_begin says */
	uint64_t bytes;
	uint32_t step, peer; /* peer: rank + 1; 0: nobody */
	uint8_t what;
};
void recorder_trace_begin(struct recorder *m, struct recorder_step *s);
void recorder_trace(struct recorder *m, const struct recorder_step *s, enum rc rc);

/* ---- waits */

/* The thread has to wait for a peer. */
void recorder_waits(struct recorder *m, uint32_t peer);

/* It goes on at now_ns (clock_now_ns): a long one is counted while it lasts. */
void recorder_waits_on(struct recorder *m, uint64_t now_ns);

/* The wait is over; rc not RC_OK: in vain. */
void recorder_goes_on(struct recorder *m, enum rc rc);

/* One more rank that was waited for in vain. */
static inline void
recorder_missing(struct recorder *m, uint32_t peer)
{
	for (uint32_t i = 0; m && i < m->nmissing; i++)
		if (m->missing[i] == peer)
			return;
	if (m && m->nmissing < PROGRESS_MISSING_MAX)
		m->missing[m->nmissing++] = peer;
}

/* ---- chunks by frames, which count as they go */

/* A chunk of the operation at hand is on its way to the peer for so long. */
void recorder_sends(struct recorder *m, uint32_t peer, uint64_t nbytes, uint64_t ns);

/* So much has gone and come. No chunk is on its way. */
void recorder_moved(struct recorder *m, uint64_t sent, uint64_t received);

/* ---- what is no operation between ranks. It ends at m->clock; kind and end are filled in */

void recorder_kernel(struct recorder *m, const struct flight_kernel *k);
void recorder_copy(struct recorder *m, const struct flight_copy *c);

/* Recorded only when it took 1 us or longer. */
void recorder_pause(struct recorder *m, enum flight_copy_kind what, uint64_t with, uint64_t begin);

/* What the thread does from now on that is none of these; NULL: nothing. */
void recorder_task(struct recorder *m, const struct flight_now *now);

/* Read it on another thread. False: in no operation. */
bool recorder_read(const struct recorder *m, struct progress *out);

#endif
