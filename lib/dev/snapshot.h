/*
 * snapshot.h - copies of the inputs that a run overwrites, so that the run can be done again.
 *
 * One record a communicator, in the device's memory file: it outlives the device, and goes along
 * when another device adopts the memory. It is complete or it is not, whenever the device is
 * killed; and as a run begins only when its record is complete, inputs of a run without a complete
 * record have not been overwritten. Thread-safe.
 */
#ifndef DEV_SNAPSHOT_H
#define DEV_SNAPSHOT_H

#include "dev/program.h"

struct snapshots;

/* A run: of which communicator, of which coordinator (their instance, since both count from 1). */
struct snapshot_id {
	uint64_t coordinator, comm, run;
};

/* Takes over the records that the memory has, and frees damaged ones. mem outlives it. RC_NOMEM. */
enum rc snapshots_new(struct devmem *mem, struct snapshots **out, struct err *err);
void snapshots_free(struct snapshots *k); /* NULL is legal; the records stay */

/* The same for records that came into the memory since. RC_NOMEM. */
enum rc snapshots_load(struct snapshots *k, struct err *err);

/*
 * snapshot_take - before the run's first instruction: copy the ranges that its collectives both read
 * and write, as one memcpy a range, into the communicator's area.
 *
 * It replaces the snapshot of another run of the communicator. A snapshot of this very run stays as
 * it is. Once the area is large enough nothing is allocated. RC_INVAL: the program holds
 * more than collectives, sends and receives. RC_NOMEM says what helps.
 */
enum rc snapshot_take(struct snapshots *k, const struct snapshot_id *id, const struct program *p,
		      struct err *err);

/* The memory is the communicator's from its first attach on, which a record without inputs says: best effort. */
void snapshot_mark(struct snapshots *k, const struct snapshot_id *id);

/*
 * snapshot_restore - before the run is done again: put the bytes back. Without a snapshot of the run,
 * but with its inputs here, the run never began here, and nothing is to be done. They are here where a record tells of the
 * communicator, which need not have allocated them, or where they are allocated.
 *
 * RC_NOTFOUND: the inputs are lost: the snapshot is of a later run, or there is no record and the program
 * reads outside of this memory's allocations. RC_INVAL: the snapshot's ranges are not in this memory.
 */
enum rc snapshot_restore(struct snapshots *k, const struct snapshot_id *id, const struct program *p,
			 struct err *err);

/* Drop the snapshots of a communicator (0: of all), but those of the coordinator `spared` (0: of none).
 * One that a thread uses goes when that thread is through. */
void snapshot_drop(struct snapshots *k, uint64_t comm, uint64_t spared);

#endif
