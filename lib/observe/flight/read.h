/*
 * read.h - read a recorder's area, of a live or ended process, from any source of bytes.
 *
 * Everything is checked: sizes before they are used, enumerations, texts, times. An invalid record is left
 * out and counted. Nothing here writes to the area.
 */
#ifndef FLIGHT_READ_H
#define FLIGHT_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/rc.h"
#include "flight/flight.h"

/* Bytes [offset, offset + n) of an area. */
struct flight_source {
	enum rc (*read)(void *arg, uint64_t offset, void *dst, size_t n, struct err *err);
	void *arg;
};

/* Sources for an open file, from an offset on, and for memory. The struct must outlive the source. */
struct flight_file {
	int fd;
	uint64_t offset, nbytes;
};
struct flight_source flight_file_source(struct flight_file *f);
struct flight_bytes {
	const void *at;
	uint64_t nbytes;
};
struct flight_source flight_bytes_source(struct flight_bytes *b);

/* Read the header and check it. RC_BADDATA: not a header; other codes are the source's. */
enum rc flight_read_header(const struct flight_source *s, struct flight_header *out,
			   struct err *err);

/* A ring's part before its records, with a consistent live operation. RC_NOTFOUND: never used. */
enum rc flight_read_ring(const struct flight_source *s, const struct flight_header *h, uint32_t i,
			 struct flight_ring *out, struct err *err);

/*
 * flight_read_records - the records of a ring from *next on, in their order.
 *
 *	next	[in, out] number of a record; 0: the oldest; then the one after those read
 *	out	[out] room for max records; invalid ones are left out
 *	n	[out] their number
 *	lost	[in, out] grows by those that were overwritten before they could be read, but not
 *		for *next 0; and bad (may be NULL) by those left out
 *
 * Records of text without their mark are left out silently.
 */
enum rc flight_read_records(const struct flight_source *s, const struct flight_header *h,
			    uint32_t i, uint64_t *next, union flight_record *out, size_t max,
			    size_t *n, uint64_t *lost, uint64_t *bad, struct err *err);

/* Copy the area with only the used rings; the copy is a valid area. RC_NOMEM, the source's. */
enum rc flight_copy(const struct flight_source *s, struct buf *out, struct err *err);

/* Return true if the thread of a ring is in an operation. */
static inline bool
flight_at_work(const struct flight_live *l)
{
	return atomic_load(&l->turn) & 1;
}

/* The group of an operation; NULL: all ranks, or not known. */
static inline const struct flight_group *
flight_group_of(const struct flight_header *h, const struct flight_op *op)
{
	return op->group && op->group <= FLIGHT_GROUPS && op->group <= atomic_load(&h->ngroups)
		   ? &h->group[op->group - 1]
		   : NULL;
}

/* The text of the mark at r[i] of n records; "": none. Bytes that are not printable UTF-8 become '?'. */
void flight_text(const union flight_record *r, size_t n, size_t i, char *out, size_t room);

/* ---- times. A clock converts ticks of one host to ns since 1970 on the coordinator's clock. */

struct flight_clock {
	uint64_t ticks;	  /* at this moment ... */
	uint64_t wall_ns; /* ... it was this time, by the coordinator's clock */
	double ns_per_tick;
	uint64_t error_ns; /* of an unknown offset: UINT64_MAX */
};

/* The time between the two moments of a header: the longer it is, the better the rate is known. */
static inline uint64_t
flight_baseline_ns(const struct flight_header *h)
{
	return h->last.mono_ns - h->first.mono_ns;
}

/* From the header with the longest baseline of a host: use one clock for all areas of a host. */
void flight_clock_of(const struct flight_header *h, struct flight_clock *out);
uint64_t flight_time_ns(const struct flight_clock *c, uint64_t ticks);

/* ---- words: static, "?": unknown */

const char *flight_kind_name(unsigned kind);
const char *flight_mark_name(unsigned what);
const char *flight_ring_name(unsigned kind);   /* "stream", "queue" */
const char *flight_class_name(unsigned class); /* "1K": largest size; the last: "inf" */

#endif
