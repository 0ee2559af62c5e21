/*
 * meet.h - a queued communicator whose ranks all belong to this process.
 */
#ifndef REPLAY_MEET_H
#define REPLAY_MEET_H

#include "base/api.h"
#include "client/cmdq.h"

/*
 * meet - create the communicator: each rank calls on its own thread, which has ended when this returns.
 *
 *	device	by rank
 *	comm, bind	[out] by rank, NULL before; partly filled after a failure. Release with meet_end
 */
enum rc meet(struct gpusim *g, const struct gpusim_device *device, uint32_t nranks,
	     uint32_t op_timeout_ms, struct gpusim_comm **comm, struct cmdq_bind **bind,
	     struct err *err);
void meet_end(struct gpusim_comm **comm, struct cmdq_bind **bind, uint32_t nranks);

#endif
