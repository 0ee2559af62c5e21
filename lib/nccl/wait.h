/*
 * wait.h - meeting the other ranks: a call of the coordinator that is repeated until all ranks have called.
 */
#ifndef NCCL_WAIT_H
#define NCCL_WAIT_H

#include "nccl/nccl_impl.h"

/* Of every communicator that is made here. */
struct gpusim_comm_config nccl_comm_config(void);

/*
 * Call `try` until it does not time out, GPUSIM_TIMEOUT is over, or the program has aborted the job's communicator.
 * Each try that times out logs who is missing.
 */
typedef enum gpusim_rc nccl_try_fn(void *arg, struct gpusim_comm **out);
ncclResult_t nccl_rendezvous(struct nccl_job *job, nccl_try_fn *attempt, void *arg,
			     struct gpusim_comm **out);

#endif
