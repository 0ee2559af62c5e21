/*
 * hoist.h - which sends of a plan may be posted before their turn.
 *
 * A plan lists its steps in an order that is right with a window of one chunk. A device with a
 * larger window posts a send as soon as nothing that is still to be done writes what it sends, so
 * that chunks are under way while it waits for others. Sends to a peer keep their order; nothing
 * but sends moves.
 */
#ifndef COLL_HOIST_H
#define COLL_HOIST_H

#include <stddef.h>
#include <stdint.h>

#include "coll/plan.h"

#define HOIST_LOOKBACK 4096	  /* steps looked back from a send */
#define HOIST_WORK     (1u << 26) /* steps looked at in all: longer plans look back less */

/*
 * hoist_compute - for each send of the plan, how many steps of it must have been done first.
 *
 *	base, elem	where the plan's buffers are (they may overlap: in place); bytes of an
 *			element; PLAN_WIDE has f32
 *
 * Returns nstep entries, the caller's to free(3); NULL: out of memory. Entry j is at most j, and
 * exact unless the last writer stands further back than is looked: then it is later than need be.
 */
uint32_t *hoist_compute(const struct plan *plan, unsigned char *const base[PLAN_NBUFS],
			size_t elem);

/* The same, for buffers apart from each other; so many steps are looked at, and so many sends of the rank are posted before their
 * turn, at most. */
uint32_t *hoist_apart(const struct plan *plan, size_t elem, size_t work, size_t ahead);

#endif
