/*
 * snapshot.h - copies of the inputs that a run overwrites, so that the run can be repeated.
 *
 * One record a communicator, in the device's memory file: it outlives the device, and another device that
 * adopts the memory gets it. A record is complete or not, whenever the device is killed. A run begins
 * only when its record is complete, so without a complete record the run has not overwritten its inputs.
 * Thread-safe.
 */
#ifndef DEV_SNAPSHOT_H
#define DEV_SNAPSHOT_H

#include "dev/program.h"

struct snapshots;

/* A run, by communicator and coordinator (its instance, since ids count from 1). */
struct snapshot_id {
	uint64_t coordinator, comm, run;
};

/* Takes over the records that the memory has, and frees damaged ones. mem outlives it. RC_NOMEM. */
enum rc snapshots_new(struct devmem *mem, struct snapshots **out, struct err *err);
void snapshots_free(struct snapshots *k); /* NULL is legal; the records stay */

/* Take over records that were added to the memory since. RC_NOMEM. */
enum rc snapshots_load(struct snapshots *k, struct err *err);

/*
 * snapshot_take - before the run's first instruction: copy the ranges that its collectives both read
 * and write, as one memcpy a range, into the communicator's area.
 *
 * It replaces the snapshot of another run of the communicator. A snapshot of this run is kept. Once the
 * area is large enough nothing is allocated. RC_INVAL: the program has more than collectives, sends and
 * receives. RC_NOMEM says what helps.
 */
enum rc snapshot_take(struct snapshots *k, const struct snapshot_id *id, const struct program *p,
		      struct err *err);

/* Mark the memory as the communicator's, at its first attach, by a record without inputs; best effort. */
void snapshot_mark(struct snapshots *k, const struct snapshot_id *id);

/*
 * snapshot_restore - before the run is repeated: put the bytes back. Without a snapshot of the run, but
 * with its inputs here, the run never began here, and nothing is done. Inputs are here if a record of the
 * communicator exists (it need not have allocated them), or if they are allocated.
 *
 * RC_NOTFOUND: the inputs are lost: the snapshot is of a later run, or there is no record and the program
 * reads outside of this memory's allocations. RC_INVAL: the snapshot's ranges are not in this memory.
 */
enum rc snapshot_restore(struct snapshots *k, const struct snapshot_id *id, const struct program *p,
			 struct err *err);

/* Drop the snapshots of a communicator (0: of all), except those of the coordinator `spared` (0: none). A
 * snapshot in use is dropped when its thread is done. */
void snapshot_drop(struct snapshots *k, uint64_t comm, uint64_t spared);

#endif
