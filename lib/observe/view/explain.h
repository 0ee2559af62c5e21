/*
 * explain.h - a world in words: each communicator's current operation, the rank that holds it up and
 * why, the ranks that wait for it, and how to continue.
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

/* The state of a communicator, or of all: later is worse. */
enum explain_state {
	EXPLAIN_IDLE,	 /* there is no operation */
	EXPLAIN_GOES_ON, /* an operation makes progress */
	EXPLAIN_WAITS,	 /* an operation is blocked, or waits for an action of a user or program */
	EXPLAIN_FAILED	 /* permanently */
};

/* Static storage. */
const char *explain_state_name(enum explain_state s);

struct explanation {
	enum explain_state state;
	/* Why it is blocked, slow or failed, as a word that gpuctl.1 lists; static; or "". */
	const char *cause;
};

/*
 * explain_comm - append a paragraph on a communicator.
 *
 *	brief	the first sentence alone, without a newline: for tables and lists
 *
 * RC_NOTFOUND: there is no such communicator.
 */
enum rc explain_comm(const struct world *w, uint64_t comm, bool brief, struct buf *out,
		     struct explanation *how, struct err *err);

/* Everything: the communicators, worst first, then the rest. */
void explain_world(const struct world *w, struct buf *out, struct explanation *how);

/* A line on a coordinator that is stopped, has ended, or does not answer. */
void explain_alone(uint32_t pid, char process, uint32_t tracer, struct buf *out);

#endif
