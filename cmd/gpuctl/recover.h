/*
 * recover.h - recovery after a rank of a communicator was lost, for verbs that have a copy of their input.
 */
#ifndef GPUCTL_RECOVER_H
#define GPUCTL_RECOVER_H

#include "cli.h"

#define RECOVER_MOST 100 /* of one verb */

/*
 * recover - after a failure rc of work on comm: may the work begin again?
 *
 *	comm	who is in it; brought up to date on success
 *	was	[out] by rank: which rank of comm it was before; gpusim_comm_count(comm) entries
 *	rc	what the work came to; *err is its sentence
 *
 * RC_OK: yes, *err is empty and what happened has been said on stderr. Else rc, and *err as it was:
 * the communicator has failed, or rc has nothing to do with a lost rank.
 */
enum rc recover(struct cli *cli, struct gpusim_comm **comm, uint32_t *was, enum rc rc,
		struct err *err);

/*
 * recover_refresh - who is in comm after a recovery, and who was that before.
 *
 * A rank is known by its device. If there are as many ranks as before, each is still who it was,
 * whatever device it has now. Errors: as gpusim_comm_open; RC_INTERNAL.
 */
enum rc recover_refresh(struct cli *cli, struct gpusim_comm **comm, uint32_t *was, struct err *err);

#endif
