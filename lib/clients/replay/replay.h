/*
 * replay.h - run a recording again on fresh devices, and compare.
 *
 * Device K of the cluster plays process K of the story, so a restarted device is a different one here.
 * The devices also record; replay_compare compares the two recordings.
 */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include "replay/story.h"

#define REPLAY_ROOM_MIN (8u << 20) /* bytes of each device for pending operations, at least */

/* The most that one device needs for the buffers of one unit, in bytes; at least REPLAY_ROOM_MIN. */
uint64_t replay_room(const struct story *s);

/* The communicators and queues of the replay, for replay_compare. */
struct replay_map {
	uint64_t *comm; /* by communicator of the story: its id in the replay; 0: not created */
	struct replay_queue {
		uint32_t proc;
		uint64_t then, now; /* ids */
	} * queue;
	size_t nqueues;
	uint64_t hollow; /* operations whose inputs are missing or were not recorded */
};

struct replay_config {
	struct gpusim *g;
	const struct gpusim_device *device; /* by process of the story */
	const struct story *story;
	uint64_t room;
	/* longest wait for an operation that failed in the recording, before its communicator is * aborted */
	uint32_t wait_ms;
};

/*
 * replay_play - submit the operations, in their order, with their faults.
 *
 *	out	[out] release with replay_map_fini, also after a failure
 *
 * A failed operation is not an error. RC_BADDATA: data with a wrong checksum, or a recording that
 * lacks a device's file.
 */
enum rc replay_play(const struct replay_config *cfg, struct replay_map *out, struct err *err);
void replay_map_fini(struct replay_map *m);

/* The result of a comparison. */
struct replay_result {
	/* operations that succeeded both times, with the same output where inputs were kept */
	uint64_t same;
	uint64_t failed;       /* operations of units that failed both times */
	uint64_t nfaults, met; /* faults at steps; those that happened again */
	uint64_t differ;
	char first[900]; /* the first difference, in the order of units; "": none */
};

/* now: the recording of the replay. */
void replay_compare(const struct story *then, const struct story *now, const struct replay_map *map,
		    struct replay_result *out);

#endif
