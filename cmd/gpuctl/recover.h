/*
 * recover.h - recovery after a rank of a communicator was lost, for verbs that have a copy of their input.
 */
#ifndef GPUCTL_RECOVER_H
#define GPUCTL_RECOVER_H

#include "cli.h"

#define RECOVER_MOST 100 /* of one verb */

/*
 * recover - decide if work on comm that failed with rc may begin again.
 *
 *	comm	updated to the present ranks on success
 *	was	[out] by rank: its rank in comm before; gpusim_comm_count(comm) entries
 *	rc	the result of the work; *err has its message
 *
 * RC_OK: it may, *err is empty, and a note was printed on stderr. Else rc, and *err as it was:
 * the communicator has failed, or rc has nothing to do with a lost rank.
 */
enum rc recover(struct cli *cli, struct gpusim_comm **comm, uint32_t *was, enum rc rc,
		struct err *err);

/*
 * recover_refresh - update comm after a recovery, and map its ranks to those before.
 *
 * A rank is identified by its device. If the number of ranks is unchanged, so is each rank, whatever device
 * it has now. Errors: as gpusim_comm_open; RC_INTERNAL.
 */
enum rc recover_refresh(struct cli *cli, struct gpusim_comm **comm, uint32_t *was, struct err *err);

#endif
