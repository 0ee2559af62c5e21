/*
 * explain.h - a world in words: each communicator's operation at hand, which rank holds it up and why, who waits for
 * it, and how to go on.
 *
 * Pure. gpuctl.1 has the table of cases (EXPLAIN).
 */
#ifndef VIEW_EXPLAIN_H
#define VIEW_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"
#include "view/world.h"

/* How a communicator, or all, stands: later is worse. */
enum explain_state {
	EXPLAIN_IDLE,	 /* no operation is at hand */
	EXPLAIN_GOES_ON, /* one is, and nothing holds it up */
	EXPLAIN_WAITS,	 /* one stands still, or waits for something that somebody has to do */
	EXPLAIN_FAILED	 /* for good */
};

/* Static storage. */
const char *explain_state_name(enum explain_state s);

struct explanation {
	enum explain_state state;
	const char *
	    cause; /* of what stands, goes on slowly or failed, as a word: gpuctl.1 lists them; static; or "" */
};

/*
 * explain_comm - append a paragraph on a communicator.
 *
 *	brief	the first sentence alone, without a newline: for tables and lists
 *
 * RC_NOTFOUND: there is no such communicator; RC_NOMEM.
 */
enum rc explain_comm(const struct world *w, uint64_t comm, bool brief, struct buf *out,
		     struct explanation *how, struct err *err);

/* A paragraph on all that belongs to no communicator alone: devices, ranks that gather, requests in the queue, communicators
 * that wait for each other. Nothing is appended if there is nothing to say. RC_NOMEM. */
enum rc explain_rest(const struct world *w, struct buf *out, struct explanation *how,
		     struct err *err);

/* Everything: the communicators, worst first, then the rest. RC_NOMEM. */
enum rc explain_world(const struct world *w, struct buf *out, struct explanation *how,
		      struct err *err);

/* A line on a coordinator that is stopped, has ended, or does not answer. RC_NOMEM. */
enum rc explain_alone(uint32_t pid, char process, uint32_t tracer, struct buf *out,
		      struct err *err);

#endif
