#include "nccl/wait.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define MARGIN_MS 150 /* the coordinator answers so long before the end of a call */

/* The longest next call of a wait that has taken so long and ends at its limit. */
static uint32_t
slice_ms(uint64_t waited_ms, uint32_t limit_ms)
{
	uint64_t left = limit_ms - waited_ms;

	if (limit_ms == UINT32_MAX || left > NCCL_CALL_MS)
		return NCCL_CALL_MS + MARGIN_MS;
	return (uint32_t)(left < 3 * MARGIN_MS ? left * 4 / 3 + 1 : left + MARGIN_MS);
}

/* The whole wait has timed out: the coordinator's sentence gives the time of the last call. */
static ncclResult_t
fail_late(const struct nccl_job *job, uint64_t waited_ms)
{
	const char *text = gpusim_error(), *cut = strstr(text, " while rank ");

	return nccl_fail(nccl_result(GPUSIM_TIMEOUT),
			 "%s : %.*s while rank %d waited for %.1fs (GPUSIM_TIMEOUT)", job->call,
			 (int)(cut ? cut - text : (ptrdiff_t)strlen(text)), text, job->rank,
			 (double)waited_ms / 1e3);
}

/* The job's other ranks have called, or it fails. */
static ncclResult_t
rendezvous(const struct nccl_try *t, struct gpusim_comm **out)
{
	const struct nccl_job *job = t->job;
	struct gpusim *g = job->other ? job->other->g : t->g;
	uint64_t begun = clock_now_ns(), ms = 0;
	uint32_t limit_ms = nccl_timeout_ms();

	for (;;) {
		enum gpusim_rc rc;
		bool orphan;

		gpusim_set_timeout_ms(g, slice_ms(ms, limit_ms));
		rc = job->attempt(t, out);
		gpusim_set_timeout_ms(g, slice_ms(0, limit_ms));
		ms = (clock_now_ns() - begun) / NS_PER_MS;
		if (rc == GPUSIM_OK)
			return ncclSuccess;
		pthread_mutex_lock(&nccl_registry);
		orphan = job->comm->orphan;
		pthread_mutex_unlock(&nccl_registry);
		if (rc != GPUSIM_TIMEOUT || orphan)
			return nccl_fail_rc(rc, job->call);
		if (limit_ms != UINT32_MAX && ms >= limit_ms)
			return fail_late(job, ms);
		nccl_log_waiting(job->ordinal, "%s : rank %d has waited for %" PRIu64 " s: %s",
				 job->call, job->rank, ms / 1000, gpusim_error());
	}
}

static ncclResult_t
adopt(struct ncclComm *comm, struct gpusim_comm *handle, const char *call)
{
	ncclResult_t r = nccl_connect("", &comm->g);
	enum gpusim_rc rc;

	if (r != ncclSuccess)
		return r;
	comm->handle = handle;
	comm->id = gpusim_comm_id(handle).id;
	comm->nranks = gpusim_comm_count(handle);
	comm->rank = (uint32_t)gpusim_comm_user_rank(handle);
	rc = cmdq_bind(handle, &comm->bind);
	if (rc != GPUSIM_OK)
		return nccl_fail_rc(rc, call);
	comm->algos = nccl_algos();
	nccl_log_version();
	nccl_log(LOG_INFO, LOG_INIT, comm->ordinal,
		 "%s comm %p rank %" PRIu32 " nranks %" PRIu32 " cudaDev %d commId 0x%016" PRIx64
		 "%s%s - Init COMPLETE",
		 call, (void *)comm, comm->rank, comm->nranks, comm->ordinal, comm->id,
		 *comm->config.name ? " commName " : "", comm->config.name);
	atomic_store(&comm->use, NCCL_USE_READY);
	nccl_watch();
	nccl_leave_at_exit();
	return ncclSuccess;
}

static ncclResult_t
run_make(struct nccl_job *job)
{
	struct nccl_try t = {.job = job,
			     .config = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE,
					.on_failure = GPUSIM_ON_FAILURE_ABORT,
					.op_timeout_ms = nccl_timeout_ms(),
					.queues = GPUSIM_QUEUES_ON}};
	struct gpusim_comm *handle = NULL;
	ncclResult_t r = ncclSuccess;
	enum gpusim_rc rc = GPUSIM_OK;

	if (!job->other) {
		r = nccl_connect(job->address, &t.g);
		rc = r == ncclSuccess ? gpusim_cuda_device(job->ordinal, &t.device) : GPUSIM_OK;
	}
	if (rc != GPUSIM_OK)
		r = nccl_fail_rc(rc, job->call);
	if (r == ncclSuccess)
		r = rendezvous(&t, &handle);
	if (r == ncclSuccess && !job->discard)
		r = adopt(job->comm, handle, job->call);
	/* The caller requested the failure. */
	if (r == ncclSuccess && job->abort)
		gpusim_cuda_forgive(job->other->ordinal, job->other->id);
	return r;
}

ncclResult_t
nccl_make(struct nccl_job *job, const ncclConfig_t *config, ncclComm_t *newcomm)
{
	struct nccl_config c;
	struct err err = {0};
	ncclResult_t r = ncclSuccess;

	if (nccl_config_take(config, job->other ? &job->other->config : NULL,
			     getenv("NCCL_COMM_BLOCKING"), &c, &err) != RC_OK)
		r = nccl_fail_err(&err, job->call);
	if (r == ncclSuccess)
		r = nccl_comm_new(job->ordinal, &c, newcomm);
	if (r != ncclSuccess) {
		free(job->ranks);
		return nccl_group_note(r);
	}
	job->run = run_make;
	job->makes = true;
	job->blocking = c.blocking;
	job->comm = *newcomm;
	job->out = newcomm;
	if (job->starts)
		nccl_log(LOG_INFO, LOG_INIT, job->ordinal,
			 "%s comm %p rank %d nranks %d cudaDev %d - Init START", job->call,
			 (void *)*newcomm, job->rank, job->nranks, job->ordinal);
	if (job->discard)
		*newcomm = NULL;
	return nccl_job_start(job);
}
