/*
 * progress.h - what a thread tells of the operation it is in: how far it is, and for whom it waits.
 *
 * One thread writes; what is atomic others may read at any time, in relaxed order: what they read
 * may be of two moments. A step costs one store; clocks are read only where a thread has to wait for
 * long. NULL is legal for all of these.
 */
#ifndef XPORT_PROGRESS_H
#define XPORT_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define RECORDER_MISSING_MAX 16

struct recorder {
	_Atomic uint64_t comm;		     /* 0: in no operation */
	_Atomic uint64_t op, since_ns;	     /* waiting since */
	_Atomic uint32_t epoch, step, steps; /* step: from 1 */
	_Atomic uint32_t waits_for;	     /* rank + 1; 0: nobody */
	/* The thread's own. */
	const char *coll, *algo; /* of the operation; static */
	uint64_t *waited_ns;	 /* by rank: how long it was waited for; NULL: nobody counts */
	uint64_t idle_ns;	 /* of the wait that failed */
	uint32_t missing[RECORDER_MISSING_MAX]; /* ranks that were waited for in vain */
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
recorder_waits(struct recorder *m, uint32_t peer)
{
	if (!m)
		return;
	RECORDER_SET(m, since_ns, clock_now_ns());
	RECORDER_SET(m, waits_for, peer + 1);
}

/* Once more, what was waited for in vain. */
static inline void
recorder_missing(struct recorder *m, uint32_t peer)
{
	for (uint32_t i = 0; m && i < m->nmissing; i++)
		if (m->missing[i] == peer)
			return;
	if (m && m->nmissing < RECORDER_MISSING_MAX)
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
		m->waited_ns[peer - 1] += ns;
	if (in_vain) {
		m->idle_ns = ns;
		recorder_missing(m, peer - 1);
	}
}

#endif
