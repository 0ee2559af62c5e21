/* The end of communicators, and their asynchronous errors. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "nccl/nccl_impl.h"

#define SLICE_MS   20
#define SETTLE_MS  5000 /* within this time, operations of a failed communicator end by themselves */
#define ABORTED_MS 2000 /* until the coordinator's notice of the failure arrives */

/* Wait until this rank's operations have ended, with or without error. */
static ncclResult_t
quiesce(struct ncclComm *comm, const char *call)
{
	uint32_t limit_ms = nccl_timeout_ms();
	uint64_t until = limit_ms == UINT32_MAX ? UINT64_MAX : deadline_in_ms(limit_ms);

	while ((!cmdq_bind_idle(comm->bind) || atomic_load(&comm->hosted)) &&
	       cmdq_bind_error(comm->bind) == GPUSIM_OK) {
		enum gpusim_rc rc = gpusim_cuda_drain(comm->ordinal, SLICE_MS);

		if (rc != GPUSIM_TIMEOUT)
			return ncclSuccess;
		if (clock_now_ns() > until)
			return nccl_fail_rc(rc, call);
	}
	return ncclSuccess;
}

/* Fail the communicator for all its ranks, and wait until none of its operations runs here. */
static ncclResult_t
stop(struct ncclComm *comm, const char *call)
{
	char reason[128];
	uint64_t until = deadline_in_ms(ABORTED_MS);
	enum gpusim_rc rc;

	if (!comm->bind)
		return ncclSuccess;
	if (cmdq_bind_error(comm->bind) == GPUSIM_OK) {
		snprintf(reason, sizeof reason, "rank %" PRIu32 " (process %d) called %s",
			 comm->rank, (int)getpid(), call);
		rc = gpusim_comm_abort(comm->handle, reason);
		if (rc != GPUSIM_OK)
			return nccl_fail_rc(rc, call);
		while (cmdq_bind_error(comm->bind) == GPUSIM_OK && clock_now_ns() < until)
			usleep(1000);
	}
	until = deadline_in_ms(SETTLE_MS);
	while ((!cmdq_bind_idle(comm->bind) || atomic_load(&comm->hosted)) &&
	       clock_now_ns() < until &&
	       gpusim_cuda_drain(comm->ordinal, SLICE_MS) == GPUSIM_TIMEOUT)
		continue;
	gpusim_cuda_forgive(comm->ordinal, comm->id);
	return ncclSuccess;
}

ncclResult_t
ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
	ncclResult_t r = nccl_comm_check(comm, "CommGetAsyncError");
	enum gpusim_rc rc;
	bool busy;

	if (r == ncclSuccess && !asyncError)
		r = nccl_fail(ncclInvalidArgument,
			      "CommGetAsyncError : asyncError argument is NULL");
	if (r != ncclSuccess)
		return r;
	pthread_mutex_lock(&nccl_registry);
	busy = comm->busy;
	r = comm->result;
	pthread_mutex_unlock(&nccl_registry);
	if (busy)
		r = ncclInProgress;
	else if (r == ncclSuccess && comm->bind && atomic_load(&comm->use) != NCCL_USE_REVOKED) {
		rc = cmdq_bind_error(comm->bind);
		r = nccl_result(rc);
		if (rc != GPUSIM_OK && !comm->told_failure) {
			nccl_fail_rc(rc, "CommGetAsyncError");
			pthread_mutex_lock(&nccl_registry);
			comm->failure = *nccl_last_failure();
			pthread_mutex_unlock(&nccl_registry);
			comm->told_failure = true;
		}
	}
	*asyncError = r;
	return ncclSuccess;
}
NCCL_ALIAS(ncclCommGetAsyncError);

static ncclResult_t
run_finalize(struct nccl_job *job)
{
	return quiesce(job->comm, job->call);
}

ncclResult_t
ncclCommFinalize(ncclComm_t comm)
{
	struct nccl_job job = {.run = run_finalize, .call = "CommFinalize", .comm = comm};
	ncclResult_t r;
	int use;

	if (!comm)
		return ncclSuccess;
	r = nccl_comm_check(comm, job.call);
	use = r == ncclSuccess ? atomic_load(&comm->use) : 0;
	if (r == ncclSuccess && use != NCCL_USE_READY && use != NCCL_USE_SUSPENDED)
		r = nccl_comm_refuse(comm, job.call);
	if (r != ncclSuccess)
		return nccl_group_note(r);
	atomic_store(&comm->use, NCCL_USE_FINALIZED);
	job.blocking = comm->config.blocking;
	job.ordinal = comm->ordinal;
	return nccl_job_start(&job);
}
NCCL_ALIAS(ncclCommFinalize);

ncclResult_t
ncclCommDestroy(ncclComm_t comm)
{
	static const char call[] = "CommDestroy";
	ncclResult_t r;
	int use;

	if (!comm)
		return ncclSuccess;
	r = nccl_comm_check(comm, call);
	if (r != ncclSuccess)
		return nccl_group_note(r);
	nccl_job_wait(comm);
	use = atomic_load(&comm->use);
	if (use == NCCL_USE_READY || use == NCCL_USE_SUSPENDED)
		r = quiesce(comm, call);
	if (comm->bind && cmdq_bind_error(comm->bind) != GPUSIM_OK)
		stop(comm, call);
	nccl_log(LOG_INFO, LOG_INIT, comm->ordinal,
		 "comm %p rank %" PRIu32 " nranks %" PRIu32 " cudaDev %d - Destroy COMPLETE",
		 (void *)comm, comm->rank, comm->nranks, comm->ordinal);
	nccl_comm_free(comm);
	return r;
}
NCCL_ALIAS(ncclCommDestroy);

ncclResult_t
ncclCommAbort(ncclComm_t comm)
{
	ncclResult_t r;
	bool busy;

	if (!comm)
		return ncclSuccess;
	r = nccl_comm_check(comm, "CommAbort");
	if (r != ncclSuccess)
		return nccl_group_note(r);
	pthread_mutex_lock(&nccl_registry);
	busy = comm->busy;
	comm->orphan = busy;
	pthread_mutex_unlock(&nccl_registry);
	if (busy)
		return ncclSuccess;
	stop(comm, "ncclCommAbort");
	nccl_log(LOG_INFO, LOG_INIT, comm->ordinal,
		 "comm %p rank %" PRIu32 " nranks %" PRIu32 " cudaDev %d - Abort COMPLETE",
		 (void *)comm, comm->rank, comm->nranks, comm->ordinal);
	nccl_comm_free(comm);
	return ncclSuccess;
}
NCCL_ALIAS(ncclCommAbort);

static ncclResult_t
run_revoke(struct nccl_job *job)
{
	return stop(job->comm, job->call);
}

ncclResult_t
ncclCommRevoke(ncclComm_t comm, int revokeFlags)
{
	struct nccl_job job = {.run = run_revoke, .call = "ncclCommRevoke", .comm = comm};
	ncclResult_t r = nccl_comm_check(comm, job.call);
	int use = r == ncclSuccess ? atomic_load(&comm->use) : 0;

	if (r == ncclSuccess && revokeFlags != NCCL_REVOKE_DEFAULT)
		r = nccl_fail(ncclInvalidArgument, "%s : invalid flags 0x%x", job.call,
			      (unsigned)revokeFlags);
	if (r == ncclSuccess && use != NCCL_USE_READY && use != NCCL_USE_SUSPENDED)
		r = nccl_comm_refuse(comm, job.call);
	if (r != ncclSuccess)
		return nccl_group_note(r);
	atomic_store(&comm->use, NCCL_USE_REVOKED);
	job.blocking = comm->config.blocking;
	job.ordinal = comm->ordinal;
	return nccl_job_start(&job);
}
NCCL_ALIAS(ncclCommRevoke);

/* ---- suspension only forbids calls */

ncclResult_t
ncclCommSuspend(ncclComm_t comm, int flags)
{
	static const char call[] = "CommSuspend";
	ncclResult_t r = nccl_comm_check(comm, call);

	if (r == ncclSuccess && flags != NCCL_SUSPEND_MEM)
		r = nccl_fail(ncclInvalidArgument, "%s : invalid flags 0x%x", call,
			      (unsigned)flags);
	if (r == ncclSuccess && atomic_load(&comm->use) != NCCL_USE_READY)
		r = nccl_comm_refuse(comm, call);
	if (r == ncclSuccess)
		r = quiesce(comm, call);
	if (r == ncclSuccess)
		atomic_store(&comm->use, NCCL_USE_SUSPENDED);
	return nccl_group_note(r);
}
NCCL_ALIAS(ncclCommSuspend);

ncclResult_t
ncclCommResume(ncclComm_t comm)
{
	ncclResult_t r = nccl_comm_check(comm, "CommResume");
	int suspended = NCCL_USE_SUSPENDED;

	if (r == ncclSuccess &&
	    !atomic_compare_exchange_strong(&comm->use, &suspended, NCCL_USE_READY))
		r = nccl_fail(ncclInvalidUsage, "CommResume : the communicator is not suspended");
	return nccl_group_note(r);
}
NCCL_ALIAS(ncclCommResume);

ncclResult_t
ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value)
{
	ncclResult_t r = nccl_comm_check(comm, "CommMemStats");
	uint64_t own;

	if (r == ncclSuccess && !value)
		r = nccl_fail(ncclInvalidArgument, "CommMemStats : value argument is NULL");
	if (r != ncclSuccess)
		return r;
	own = comm->signals ? comm->nranks * sizeof(uint64_t) : 0;
	switch (stat) {
	case ncclStatGpuMemSuspend:
		*value = 0;
		return ncclSuccess;
	case ncclStatGpuMemSuspended:
		*value = atomic_load(&comm->use) == NCCL_USE_SUSPENDED;
		return ncclSuccess;
	case ncclStatGpuMemPersist:
	case ncclStatGpuMemTotal:
		*value = own;
		return ncclSuccess;
	}
	return nccl_fail(ncclInvalidArgument, "CommMemStats : invalid statistic %d", (int)stat);
}
NCCL_ALIAS(ncclCommMemStats);
