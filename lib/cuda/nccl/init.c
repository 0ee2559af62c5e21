/* Making communicators by an id: alone, with other threads and processes, all in one process. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

static enum gpusim_rc
try_init(const struct nccl_try *t, struct gpusim_comm **out)
{
	return gpusim_comm_init_rank(t->g, (uint32_t)t->job->nranks, t->job->id,
				     (uint32_t)t->job->rank, t->device, &t->config, out);
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
	struct nccl_job job = {
	    .attempt = try_init, .starts = true, .call = call, .nranks = nranks, .rank = rank};
	ncclResult_t r = ncclSuccess;
	cudaError_t e;

	if (!newcomm)
		r = nccl_fail(ncclInvalidArgument, "%s : comm argument is NULL", call);
	else if (nranks < 1 || rank < 0 || rank >= nranks)
		r = nccl_fail(ncclInvalidArgument, "%s : invalid rank requested : %d/%d", call,
			      rank, nranks);
	if (r == ncclSuccess)
		r = read_ids(call, ids, nids, &job);
	if (r != ncclSuccess)
		return nccl_group_note(r);
	e = cudaGetDevice(&job.ordinal);
	if (e != cudaSuccess)
		return nccl_group_note(nccl_fail_cuda(e, call));
	return nccl_make(&job, config, newcomm);
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
		struct nccl_job job = {.attempt = try_init,
				       .starts = true,
				       .call = call,
				       .id = id,
				       .has_id = true,
				       .nranks = ndev,
				       .rank = i,
				       .ordinal = devlist ? devlist[i] : i};

		r = nccl_make(&job, NULL, &comm[i]);
		if (r != ncclSuccess)
			break;
	}
	r = ncclGroupEnd();
	for (int i = 0; r != ncclSuccess && r != ncclInProgress && i < ndev; i++)
		comm[i] = NULL;
	return r;
}
NCCL_ALIAS(ncclCommInitAll);
