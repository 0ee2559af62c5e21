/*
 * wait.h - meets the other ranks: repeats a call to the coordinator until all ranks have called.
 */
#ifndef NCCL_WAIT_H
#define NCCL_WAIT_H

#include "nccl/nccl_impl.h"

/* The configuration of all communicators of this library. */
struct gpusim_comm_config nccl_comm_config(void);

/*
 * Call `try` until it does not time out, GPUSIM_TIMEOUT is over, or the program has aborted the
 * job's communicator. Each try that times out logs the missing ranks.
 */
typedef enum gpusim_rc nccl_try_fn(void *arg, struct gpusim_comm **out);
ncclResult_t nccl_rendezvous(struct nccl_job *job, nccl_try_fn *attempt, void *arg,
			     struct gpusim_comm **out);

#endif
