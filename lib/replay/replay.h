/*
 * replay.h - do again what a recording tells, on fresh devices, and compare.
 *
 * Device K of the cluster stands for process K of the story, so a device that was started again is another one here.
 * The devices record too; replay_compare compares the two recordings.
 */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include "replay/story.h"

#define REPLAY_ROOM_MIN (8u << 20) /* bytes of each device for operations under way, at least */

/* What one device needs at most for the buffers of one unit, in bytes; at least REPLAY_ROOM_MIN. */
uint64_t replay_room(const struct story *s);

/* What became of the communicators and queues, for replay_compare. */
struct replay_map {
	uint64_t *comm; /* by communicator of the story: its id now; 0: it was not made */
	struct replay_queue {
		uint32_t proc;
		uint64_t then, now; /* ids */
	} * queue;
	size_t nqueues;
	uint64_t hollow; /* operations whose data were missing or were not recorded */
};

struct replay_config {
	struct gpusim *g;
	const struct gpusim_device *device; /* by process of the story */
	const struct story *story;
	uint64_t room;
	uint32_t
	    wait_ms; /* longest wait for an operation that failed in the recording, before its communicator is
			   * aborted */
};

/*
 * replay_play - submit the operations, in their order, with their faults.
 *
 *	out	[out] release with replay_map_fini, also after a failure
 *
 * Operations that fail are no error. RC_BADDATA: data that do not check, or a recording that lacks a device's file.
 */
enum rc replay_play(const struct replay_config *cfg, struct replay_map *out, struct err *err);
void replay_map_fini(struct replay_map *m);

/* What came of it. */
struct replay_result {
	uint64_t
	    same; /* operations that ended well both times, with the same output where inputs were kept */
	uint64_t failed;       /* operations of units that failed both times */
	uint64_t nfaults, met; /* faults at steps; those that took place again */
	uint64_t differ;
	char first[900]; /* the first difference, in the order of units; "": none */
};

/* now: the recording of the replay. */
void replay_compare(const struct story *then, const struct story *now, const struct replay_map *map,
		    struct replay_result *out);

#endif
