/* Making communicators by an id: alone, with other threads and processes, all in one process. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rundir.h"
#include "nccl/id.h"
#include "nccl/nccl_impl.h"
#include "nccl/wait.h"

ncclResult_t
ncclGetUniqueId(ncclUniqueId *uniqueId)
{
	char room[RUNDIR_ADDRESS_MAX];
	struct gpusim_unique_id id;
	struct err err = {0};
	const char *address = rundir_coordinator(room, &err);

	if (!uniqueId)
		return nccl_fail(ncclInvalidArgument, "GetUniqueId : out argument is NULL");
	gpusim_get_unique_id(&id);
	nccl_id_make(&id, address ? address : "", uniqueId);
	return ncclSuccess;
}
NCCL_ALIAS(ncclGetUniqueId);

struct attempt {
	struct gpusim *g;
	struct nccl_job *job;
	struct gpusim_device device;
	struct gpusim_comm_config config;
};

static enum gpusim_rc
try_init(void *arg, struct gpusim_comm **out)
{
	struct attempt *a = arg;

	return gpusim_comm_init_rank(a->g, (uint32_t)a->job->nranks, a->job->id,
				     (uint32_t)a->job->rank, a->device, &a->config, out);
}

static ncclResult_t
run_init(struct nccl_job *job)
{
	struct attempt a = {.job = job, .config = nccl_comm_config()};
	struct gpusim_comm *handle;
	enum gpusim_rc rc;
	ncclResult_t r = nccl_connect(job->address, &a.g);

	if (r != ncclSuccess)
		return r;
	rc = gpusim_cuda_device(job->ordinal, &a.device);
	if (rc != GPUSIM_OK)
		return nccl_fail_rc(rc, job->call);
	r = nccl_rendezvous(job, try_init, &a, &handle);
	return r == ncclSuccess ? nccl_comm_adopt(job->comm, handle, job->call) : r;
}

/* Start to make one rank; newcomm is set at once, as programs with blocking=0 need it. */
static ncclResult_t
start(const char *call, ncclComm_t *newcomm, struct nccl_job *job, const ncclConfig_t *config)
{
	struct nccl_config c;
	struct err err = {0};
	ncclResult_t r;

	if (nccl_config_take(config, NULL, getenv("NCCL_COMM_BLOCKING"), &c, &err) != RC_OK)
		return nccl_group_note(nccl_fail_err(&err, call));
	r = nccl_comm_new(job->ordinal, &c, newcomm);
	if (r != ncclSuccess)
		return nccl_group_note(r);
	job->run = run_init;
	job->makes = true;
	job->blocking = c.blocking;
	job->comm = *newcomm;
	job->out = newcomm;
	job->call = call;
	nccl_log(LOG_INFO, LOG_INIT, job->ordinal,
		 "%s comm %p rank %d nranks %d cudaDev %d - Init START", call, (void *)*newcomm,
		 job->rank, job->nranks, job->ordinal);
	return nccl_job_start(job);
}

static ncclResult_t
check(const char *call, const ncclComm_t *newcomm, int nranks, int rank)
{
	if (!newcomm)
		return nccl_fail(ncclInvalidArgument, "%s : comm argument is NULL", call);
	if (nranks < 1 || rank < 0 || rank >= nranks)
		return nccl_fail(ncclInvalidArgument, "%s : invalid rank requested : %d/%d", call,
				 rank, nranks);
	return ncclSuccess;
}

/* Set a job's id from n ids. */
static ncclResult_t
read_ids(const char *call, const ncclUniqueId *ids, int n, struct nccl_job *job)
{
	struct gpusim_unique_id *each = calloc((size_t)n, sizeof *each);
	char address[NCCL_ID_ROOM];
	struct err err = {0};

	if (!each)
		return nccl_fail(ncclSystemError, "%s : out of memory", call);
	for (int i = 0; i < n && err.rc == RC_OK; i++)
		nccl_id_read(&ids[i], &each[i], i ? address : job->address, &err);
	if (err.rc == RC_OK)
		nccl_id_join(each, (size_t)n, &job->id);
	job->has_id = true;
	free(each);
	return err.rc == RC_OK ? ncclSuccess : nccl_fail_err(&err, call);
}

static ncclResult_t
init(const char *call, ncclComm_t *newcomm, int nranks, const ncclUniqueId *ids, int nids, int rank,
     const ncclConfig_t *config)
{
	struct nccl_job job = {.nranks = nranks, .rank = rank};
	ncclResult_t r = check(call, newcomm, nranks, rank);
	cudaError_t e;

	if (r == ncclSuccess)
		r = read_ids(call, ids, nids, &job);
	if (r != ncclSuccess)
		return nccl_group_note(r);
	e = cudaGetDevice(&job.ordinal);
	if (e != cudaSuccess)
		return nccl_group_note(nccl_fail_cuda(e, call));
	return start(call, newcomm, &job, config);
}

ncclResult_t
ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank)
{
	return init("ncclCommInitRank", comm, nranks, &commId, 1, rank, NULL);
}
NCCL_ALIAS(ncclCommInitRank);

ncclResult_t
ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
		       ncclConfig_t *config)
{
	return init("ncclCommInitRankConfig", comm, nranks, &commId, 1, rank, config);
}
NCCL_ALIAS(ncclCommInitRankConfig);

ncclResult_t
ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
			 ncclUniqueId *commIds, ncclConfig_t *config)
{
	const char *call = "ncclCommInitRankScalable";

	if (!commIds || nId < 1 || nId > nranks)
		return nccl_group_note(nccl_fail(
		    ncclInvalidArgument, "%s : improper number of ncclUniqueIds (%d), valid 1..%d",
		    call, nId, nranks));
	return init(call, newcomm, nranks, commIds, nId, myrank, config);
}
NCCL_ALIAS(ncclCommInitRankScalable);

/* ---- all ranks in one process */

static ncclResult_t
check_devices(const char *call, int ndev, const int *devlist)
{
	int have = 0;
	cudaError_t e = cudaGetDeviceCount(&have);

	if (e != cudaSuccess)
		return nccl_fail_cuda(e, call);
	for (int i = 0; i < ndev; i++) {
		int device = devlist ? devlist[i] : i;

		if (device < 0 || device >= have)
			return nccl_fail(ncclInvalidArgument,
					 "%s : invalid device %d: this process sees %d", call,
					 device, have);
		for (int k = 0; devlist && k < i; k++)
			if (devlist[k] == device)
				return nccl_fail(ncclInvalidUsage,
						 "%s : device %d is in the list twice", call,
						 device);
	}
	return ncclSuccess;
}

ncclResult_t
ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist)
{
	static const char call[] = "ncclCommInitAll";
	struct gpusim_unique_id id;
	ncclResult_t r;

	if (!comm || ndev < 1)
		return nccl_group_note(nccl_fail(ncclInvalidArgument,
						 comm ? "%s : invalid device count requested : %d"
						      : "%s : comm argument is NULL (%d devices)",
						 call, ndev));
	r = check_devices(call, ndev, devlist);
	if (r != ncclSuccess)
		return nccl_group_note(r);
	gpusim_get_unique_id(&id);
	ncclGroupStart();
	for (int i = 0; i < ndev; i++) {
		struct nccl_job job = {.id = id,
				       .has_id = true,
				       .nranks = ndev,
				       .rank = i,
				       .ordinal = devlist ? devlist[i] : i};

		r = start(call, &comm[i], &job, NULL);
		if (r != ncclSuccess)
			break;
	}
	r = ncclGroupEnd();
	for (int i = 0; r != ncclSuccess && r != ncclInProgress && i < ndev; i++)
		comm[i] = NULL;
	return r;
}
NCCL_ALIAS(ncclCommInitAll);
