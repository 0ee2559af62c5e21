/*
 * backlog.h - records that were read and are not in the trace yet, in their order. Copying a record takes a
 * twentieth of the time that writing it as text does, so a drain copies first.
 */
#ifndef DRAIN_BACKLOG_H
#define DRAIN_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "view/timeline.h"

#define BACKLOG_MOST  (1u << 20) /* records, of 64 bytes */
#define BACKLOG_PIECE 1024u	 /* records of one piece */

struct piece {
	struct piece *next;
	void *of; /* their owner, the caller's pointer */
	struct timeline_ring ring;
	size_t n;
	union flight_record record[BACKLOG_PIECE];
};

/* Initialise with {0}; backlog_fini releases. */
struct backlog {
	struct piece *first, *last, *spare;
	size_t n; /* records */
};

/* Room for a piece, to be filled and given to backlog_add, or to backlog_recycle. */
struct piece *backlog_room(struct backlog *b);
void backlog_add(struct backlog *b, struct piece *p);

/* Take the oldest piece, which the caller recycles; NULL: none. */
struct piece *backlog_take(struct backlog *b);
void backlog_recycle(struct backlog *b, struct piece *p);

static inline bool
backlog_is_full(const struct backlog *b)
{
	return b->n >= BACKLOG_MOST;
}

void backlog_fini(struct backlog *b);

#endif
