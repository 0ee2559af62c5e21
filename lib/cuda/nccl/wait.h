/*
 * wait.h - makes a communicator with the other ranks: repeats a call to the coordinator until all have called.
 */
#ifndef NCCL_WAIT_H
#define NCCL_WAIT_H

#include "nccl/nccl_impl.h"

/* One try of a job that makes a communicator. */
struct nccl_try {
	const struct nccl_job *job;
	struct gpusim_comm_config config;
	struct gpusim *g;	     /* of a new rank: the job has no other communicator */
	struct gpusim_device device; /* of a new rank */
};

/*
 * Start a job that makes *newcomm, which is set at once, as programs with blocking=0 need it.
 *
 * The job calls job->attempt until it does not time out, GPUSIM_TIMEOUT is over, or the program has aborted
 * the communicator. Each try that times out logs the missing ranks. Set before: attempt, call, ordinal, and
 * what attempt reads.
 */
ncclResult_t nccl_make(struct nccl_job *job, const ncclConfig_t *config, ncclComm_t *newcomm);

#endif
