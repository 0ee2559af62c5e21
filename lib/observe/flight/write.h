/*
 * write.h - record. A working thread takes a ring, and writes to it without a lock or a system call.
 *
 * NULL is a legal writer everywhere: nothing is recorded then. A writer belongs to one thread at a time.
 */
#ifndef FLIGHT_WRITE_H
#define FLIGHT_WRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "flight/flight.h"
#include "flight/ticks.h"

struct flight; /* a process's area */

struct flight_identity {
	uint64_t device_id, incarnation;
	uint32_t ordinal;
	const char *name; /* "gpudev" */
};

/*
 * flight_open - record in [area, area + nbytes), which is backed by blocks or gets them from `reserve`.
 *
 * An area from an earlier process, of the same size and shape, is continued: rings keep their records. Any
 * other contents are replaced.
 *
 *	area	page-aligned, the caller's until flight_close; FLIGHT_AREA_BYTES(nrings, nrecords) of it are used
 *	reserve	make [offset, offset + nbytes) of the area safe to access; false: no room, the ring is not taken. NULL:
 *		all of it is
 *
 * RC_INVAL: sizes that do not fit; RC_NOMEM.
 */
typedef bool flight_reserve_fn(void *arg, uint64_t offset, uint64_t nbytes);
enum rc flight_open(void *area, uint64_t nbytes, uint32_t nrecords,
		    const struct flight_identity *who, flight_reserve_fn *reserve, void *arg,
		    struct flight **out, struct err *err);

/* All writers must have been given back. NULL is legal. */
void flight_close(struct flight *f);

/* Update the clocks and the device's memory, with each heartbeat. Thread-safe. */
void flight_beat(struct flight *f, uint64_t mem_used, uint64_t mem_bytes);

/* Set the offset of the coordinator's clock: its CLOCK_REALTIME less this host's. Thread-safe. */
void flight_offset(struct flight *f, int64_t offset_ns, uint64_t error_ns);

/* Record all steps until ticks_now() reaches this value; never shortens. Thread-safe. */
void flight_trace_until(struct flight *f, uint64_t ticks);

/*
 * flight_group - the number of a group of n ranks for flight_op.group. Thread-safe.
 *
 * Returns FLIGHT_GROUPS + 1 if there is no room for another group: then nothing is known of it.
 */
uint8_t flight_group(struct flight *f, const char *name, const uint32_t *rank, uint32_t n);

/* ---- rings */

struct flight_writer {
	struct flight_ring *ring;
	union flight_record *at; /* the records */
	uint64_t mask, head;
	const _Atomic uint64_t *trace_until;
	uint64_t ns_mult; /* ns = ticks * ns_mult >> 32, for intervals */
	struct flight *of;
};

/* Take a ring; false: none is free, and w is a legal writer that records nothing. Thread-safe. */
bool flight_take(struct flight *f, enum flight_ring_kind kind, uint64_t id, uint64_t stream,
		 uint32_t pid, const char *name, struct flight_writer *w);

/* Give it back: its records stay until another takes it, the longest unused first. Thread-safe. */
void flight_give(struct flight_writer *w);

static inline bool
flight_on(const struct flight_writer *w)
{
	return w && w->ring;
}

/* Return true if all steps are recorded at this time. */
static inline bool
flight_traces(const struct flight_writer *w, uint64_t now)
{
	return now < atomic_load_explicit(w->trace_until, memory_order_relaxed);
}

static inline uint64_t
flight_ns(const struct flight_writer *w, uint64_t ticks)
{
	return (uint64_t)((unsigned __int128)ticks * w->ns_mult >> 32);
}

/* Room for the next record: fill all of it, then flight_put. */
static inline union flight_record *
flight_next(struct flight_writer *w)
{
	return &w->at[w->head & w->mask];
}

static inline void
flight_put(struct flight_writer *w)
{
	w->head++;
	atomic_store_explicit(&w->ring->head, w->head, memory_order_release);
}

/* Only the ring's thread adds. */
static inline void
flight_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* Count an operation that has succeeded, by the class (of FLIGHT_CLASSES) of its size and the bucket (of
 * FLIGHT_BUCKETS) of its time. */
void flight_count_op(struct flight_writer *w, unsigned coll, uint64_t nbytes, uint64_t ns);

/* Write a mark with its text, truncated to FLIGHT_TEXTS_MAX * FLIGHT_TEXT_BYTES. Sets kind, ntext and, if
 * 0, `at`. */
void flight_mark(struct flight_writer *w, const struct flight_mark *m, const char *text);

#endif
