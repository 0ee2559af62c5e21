#include "nccl/wait.h"

#include <inttypes.h>

#include "base/clock.h"

struct gpusim_comm_config
nccl_comm_config(void)
{
	return (struct gpusim_comm_config){
	    GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE, .on_failure = GPUSIM_ON_FAILURE_ABORT,
	    .op_timeout_ms = nccl_timeout_ms(), .queues = GPUSIM_QUEUES_ON};
}

static bool
is_given_up(struct ncclComm *comm)
{
	bool orphan;

	pthread_mutex_lock(&nccl_registry);
	orphan = comm->orphan;
	pthread_mutex_unlock(&nccl_registry);
	return orphan;
}

ncclResult_t
nccl_rendezvous(struct nccl_job *job, nccl_try_fn *attempt, void *arg, struct gpusim_comm **out)
{
	uint64_t begun = clock_now_ns();
	uint32_t limit_ms = nccl_timeout_ms();

	for (;;) {
		enum gpusim_rc rc = attempt(arg, out);
		uint64_t ms = (clock_now_ns() - begun) / NS_PER_MS;

		if (rc == GPUSIM_OK)
			return ncclSuccess;
		if (rc != GPUSIM_TIMEOUT || (limit_ms != UINT32_MAX && ms >= limit_ms) ||
		    is_given_up(job->comm))
			return nccl_fail_rc(rc, job->call);
		nccl_log_waiting(job->ordinal, "%s : rank %d has waited for %" PRIu64 " s: %s",
				 job->call, job->rank, ms / 1000, gpusim_error());
	}
}
