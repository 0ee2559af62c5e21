/*
 * progress.h - how far an operation is, and for whom it waits; and the recorder of it.
 *
 * The thread that works on an operation records. Other threads may read the atomic fields at any
 * time, in relaxed order: they may see two moments at once. A step costs one store; the recorder is
 * given a clock's reading only where the thread has to wait for long. NULL is a legal recorder.
 */
#ifndef XPORT_PROGRESS_H
#define XPORT_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define PROGRESS_MISSING_MAX 16

/* As a device reports it. */
struct progress {
	uint64_t comm, op, idle_ns; /* waiting for so long; 0: it does not wait */
	uint32_t epoch, step, steps;
	uint32_t waits_for; /* rank + 1; 0: nobody */
};

struct recorder {
	_Atomic uint64_t comm;		     /* 0: in no operation */
	_Atomic uint64_t op, since_ns;	     /* waiting since */
	_Atomic uint32_t epoch, step, steps; /* step: from 1 */
	_Atomic uint32_t waits_for;	     /* rank + 1; 0: nobody */
	/* The thread's own. */
	const char *coll, *algo; /* of the operation; static */
	uint64_t *waited_ns;	 /* by rank: how long it was waited for; NULL: nobody counts */
	uint64_t idle_ns;	 /* of the wait that failed */
	uint32_t missing[PROGRESS_MISSING_MAX]; /* ranks that were waited for in vain */
	uint32_t nmissing;
};

#define RECORDER_SET(m, field, v) atomic_store_explicit(&(m)->field, (v), memory_order_relaxed)
#define RECORDER_GET(m, field)	  atomic_load_explicit(&(m)->field, memory_order_relaxed)

static inline void
recorder_step(struct recorder *m, size_t step)
{
	if (m)
		RECORDER_SET(m, step, (uint32_t)step);
}

static inline void
recorder_begin(struct recorder *m, uint64_t comm, uint32_t epoch, uint64_t op, size_t steps)
{
	if (!m)
		return;
	m->nmissing = 0;
	m->idle_ns = 0;
	RECORDER_SET(m, epoch, epoch);
	RECORDER_SET(m, op, op);
	RECORDER_SET(m, step, 1);
	RECORDER_SET(m, steps, (uint32_t)steps);
	RECORDER_SET(m, comm, comm);
}

static inline void
recorder_end(struct recorder *m)
{
	if (m)
		RECORDER_SET(m, comm, 0);
}

/* The thread has to wait for a peer. */
static inline void
recorder_waits(struct recorder *m, uint32_t peer, uint64_t now_ns)
{
	if (!m)
		return;
	RECORDER_SET(m, since_ns, now_ns);
	RECORDER_SET(m, waits_for, peer + 1);
}

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

/* The wait is over; in_vain: it has failed. */
static inline void
recorder_goes_on(struct recorder *m, bool in_vain)
{
	uint32_t peer;
	uint64_t ns;

	if (!m || !(peer = RECORDER_GET(m, waits_for)))
		return;
	ns = clock_now_ns() - RECORDER_GET(m, since_ns);
	RECORDER_SET(m, waits_for, 0);
	if (m->waited_ns)
		__atomic_fetch_add(&m->waited_ns[peer - 1], ns, __ATOMIC_RELAXED);
	if (in_vain) {
		m->idle_ns = ns;
		recorder_missing(m, peer - 1);
	}
}

/* Read it on another thread. False: in no operation. */
static inline bool
recorder_read(const struct recorder *m, uint64_t now_ns, struct progress *out)
{
	uint64_t since = RECORDER_GET(m, since_ns);

	*out = (struct progress){.comm = RECORDER_GET(m, comm),
				 .op = RECORDER_GET(m, op),
				 .epoch = RECORDER_GET(m, epoch),
				 .step = RECORDER_GET(m, step),
				 .steps = RECORDER_GET(m, steps),
				 .waits_for = RECORDER_GET(m, waits_for)};
	if (out->waits_for && now_ns > since)
		out->idle_ns = now_ns - since;
	return out->comm != 0;
}

#endif
