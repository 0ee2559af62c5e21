/*
 * decisions.h - gpucoord --record: write the state machine's decisions to a recording.
 */
#ifndef GPUCOORD_DECISIONS_H
#define GPUCOORD_DECISIONS_H

#include "coord/coord.h"
#include "tape/tape.h"

/* The recording, to which restarted devices also write. */
struct decisions {
	struct tape *tape; /* NULL: nothing is recorded */
	const char *dir;
	bool with_data;
};

/* Open DIR/coordinator.rec. dir is borrowed; NULL: *d is empty. Errors as of tape_open. */
enum rc decisions_open(struct decisions *d, const char *dir, bool with_data, struct err *err);
void decisions_close(struct decisions *d);

/* Write an action if it is a decision: a line of the log, a new communicator, an added algorithm. */
void decisions_note(const struct decisions *d, const struct coord_action *a);

#endif
