/*
 * meet.h - a queued communicator whose ranks are all this process's.
 */
#ifndef REPLAY_MEET_H
#define REPLAY_MEET_H

#include "base/api.h"
#include "client/cmdq.h"

/*
 * meet - make it: each rank calls on a thread of its own, which has ended when this returns.
 *
 *	device	by rank
 *	comm, bind	[out] by rank, NULL before; also filled after a failure, as far as it came. Release with meet_end
 */
enum rc meet(struct gpusim *g, const struct gpusim_device *device, uint32_t nranks,
	     uint32_t op_timeout_ms, struct gpusim_comm **comm, struct cmdq_bind **bind,
	     struct err *err);
void meet_end(struct gpusim_comm **comm, struct cmdq_bind **bind, uint32_t nranks);

#endif
