/*
 * hoist.h - find the sends of a plan that may be posted before their turn.
 *
 * A plan lists its steps in an order that works with a window of one chunk. A device with a larger
 * window posts a send as soon as no step still to be done writes its data, so that chunks are in flight
 * while it waits for others. Sends to a peer keep their order; only sends move.
 */
#ifndef COLL_HOIST_H
#define COLL_HOIST_H

#include <stddef.h>
#include <stdint.h>

#include "coll/plan.h"

#define HOIST_LOOKBACK 4096	  /* steps looked back from a send */
#define HOIST_WORK     (1u << 26) /* steps examined in all: longer plans look back less */

/*
 * hoist_compute - for each send of the plan, the number of steps that must have been done first.
 *
 *	base, elem	where the plan's buffers are (they may overlap: in place); bytes of an
 *			element; PLAN_WIDE has f32
 *
 * Returns nstep entries, the caller's to free(3); NULL: out of memory. Entry j is at most j, and
 * exact unless the last writer is more than HOIST_LOOKBACK steps back: then it is later than necessary.
 */
uint32_t *hoist_compute(const struct plan *plan, unsigned char *const base[PLAN_NBUFS],
			size_t elem);

/* As hoist_compute, for buffers that do not overlap. work: the most steps to examine; ahead: the most
 * sends that are posted before their turn. */
uint32_t *hoist_apart(const struct plan *plan, size_t elem, size_t work, size_t ahead);

#endif
