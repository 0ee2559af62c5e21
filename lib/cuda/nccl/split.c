/* Communicators from communicators: split, shrink, grow. Each rank calls by itself. */
#include <stdlib.h>
#include <string.h>

#include "base/rundir.h"
#include "nccl/id.h"
#include "nccl/nccl_impl.h"
#include "nccl/wait.h"

struct attempt {
	struct nccl_job *job;
	struct gpusim_comm_config config;
	struct gpusim *g;	     /* of a new rank */
	struct gpusim_device device; /* of a new rank */
};

static enum gpusim_rc
try_split(void *arg, struct gpusim_comm **out)
{
	struct attempt *a = arg;

	return gpusim_comm_split(a->job->other->handle, a->job->color, a->job->key, &a->config,
				 out);
}

static enum gpusim_rc
try_shrink(void *arg, struct gpusim_comm **out)
{
	struct attempt *a = arg;

	return gpusim_comm_shrink_rank(a->job->other->handle, a->job->ranks, a->job->n_ranks,
				       a->job->abort, &a->config, out);
}

static enum gpusim_rc
try_grow(void *arg, struct gpusim_comm **out)
{
	struct attempt *a = arg;
	struct nccl_job *job = a->job;

	if (job->other)
		return gpusim_comm_grow_rank(job->other->handle, (uint32_t)job->nranks,
					     job->has_id ? &job->id : NULL, &a->config, out);
	return gpusim_comm_grow_new(a->g, (uint32_t)job->nranks, job->id, (uint32_t)job->rank,
				    a->device, &a->config, out);
}

static ncclResult_t
meet(struct nccl_job *job, nccl_try_fn *attempt, struct attempt *a)
{
	struct gpusim_comm *handle = NULL;
	ncclResult_t r;

	a->job = job;
	a->config = nccl_comm_config();
	r = nccl_rendezvous(job, attempt, a, &handle);
	if (r != ncclSuccess || job->discard)
		return r;
	return nccl_comm_adopt(job->comm, handle, job->call);
}

static ncclResult_t
run_split(struct nccl_job *job)
{
	return meet(job, try_split, &(struct attempt){0});
}

static ncclResult_t
run_shrink(struct nccl_job *job)
{
	ncclResult_t r = meet(job, try_shrink, &(struct attempt){0});

	/* The caller requested the failure. */
	if (r == ncclSuccess && job->abort)
		gpusim_cuda_forgive(job->other->id);
	return r;
}

static ncclResult_t
run_grow(struct nccl_job *job)
{
	struct attempt a = {0};
	ncclResult_t r = ncclSuccess;
	enum gpusim_rc rc;

	if (!job->other) {
		r = nccl_connect(job->address, &a.g);
		rc = r == ncclSuccess ? gpusim_cuda_device(job->ordinal, &a.device) : GPUSIM_OK;
		if (rc != GPUSIM_OK)
			r = nccl_fail_rc(rc, job->call);
	}
	return r == ncclSuccess ? meet(job, try_grow, &a) : r;
}

/* A communicator may have children while it is ready; with `abort` also after it has failed or was
 * revoked. */
static ncclResult_t
check_parent(const struct ncclComm *comm, const char *call, const ncclComm_t *newcomm)
{
	ncclResult_t r = nccl_comm_check(comm, call);
	int use = r == ncclSuccess ? atomic_load(&comm->use) : 0;

	if (r == ncclSuccess && !newcomm)
		r = nccl_fail(ncclInvalidArgument, "%s : newcomm argument is NULL", call);
	if (r == ncclSuccess && use != NCCL_USE_READY && use != NCCL_USE_REVOKED)
		r = nccl_comm_refuse(comm, call);
	return r;
}

static ncclResult_t
start(struct nccl_job *job, const ncclConfig_t *config, ncclComm_t *newcomm)
{
	const struct ncclComm *parent = job->other;
	struct nccl_config c;
	struct err err = {0};
	ncclResult_t r = ncclSuccess;

	if (nccl_config_take(config, parent ? &parent->config : NULL, getenv("NCCL_COMM_BLOCKING"),
			     &c, &err) != RC_OK)
		r = nccl_fail_err(&err, job->call);
	if (r == ncclSuccess)
		r = nccl_comm_new(job->ordinal, &c, newcomm);
	if (r != ncclSuccess) {
		free(job->ranks);
		return nccl_group_note(r);
	}
	job->comm = *newcomm;
	job->makes = true;
	job->out = newcomm;
	if (job->discard)
		*newcomm = NULL;
	job->blocking = c.blocking;
	return nccl_job_start(job);
}

ncclResult_t
ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
	struct nccl_job job = {
	    .run = run_split, .call = "ncclCommSplit", .other = comm, .color = color, .key = key};
	ncclResult_t r = check_parent(comm, job.call, newcomm);

	if (r == ncclSuccess && color < 0 && color != NCCL_SPLIT_NOCOLOR)
		r = nccl_fail(ncclInvalidArgument, "%s : invalid color %d", job.call, color);
	if (r != ncclSuccess)
		return nccl_group_note(r);
	job.discard = color == NCCL_SPLIT_NOCOLOR;
	job.ordinal = comm->ordinal;
	job.rank = (int)comm->rank;
	return start(&job, config, newcomm);
}
NCCL_ALIAS(ncclCommSplit);

/* The job's list of excluded ranks. */
static ncclResult_t
take_ranks(struct nccl_job *job, const int *list, int n)
{
	const struct ncclComm *comm = job->other;

	job->ranks = calloc((size_t)n, sizeof *job->ranks);
	if (!job->ranks)
		return nccl_fail(ncclSystemError, "%s : out of memory", job->call);
	for (int i = 0; i < n; i++) {
		if (list[i] < 0 || (uint32_t)list[i] >= comm->nranks)
			return nccl_fail(ncclInvalidArgument,
					 "%s : cannot exclude rank %d of %u ranks", job->call,
					 list[i], comm->nranks);
		if ((uint32_t)list[i] == comm->rank)
			return nccl_fail(ncclInvalidArgument, "%s : rank %d excludes itself",
					 job->call, list[i]);
		job->ranks[i] = (uint32_t)list[i];
	}
	job->n_ranks = (size_t)n;
	return ncclSuccess;
}

ncclResult_t
ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm,
	       ncclConfig_t *config, int shrinkFlags)
{
	struct nccl_job job = {.run = run_shrink, .call = "ncclCommShrink", .other = comm};
	ncclResult_t r = check_parent(comm, job.call, newcomm);

	if (r == ncclSuccess && (!excludeRanksList || excludeRanksCount < 1))
		r = nccl_fail(ncclInvalidArgument, "%s : the list of excluded ranks is empty",
			      job.call);
	if (r == ncclSuccess && (shrinkFlags & ~NCCL_SHRINK_ABORT))
		r = nccl_fail(ncclInvalidArgument, "%s : invalid flags 0x%x", job.call,
			      (unsigned)shrinkFlags);
	if (r == ncclSuccess)
		r = take_ranks(&job, excludeRanksList, excludeRanksCount);
	if (r != ncclSuccess) {
		free(job.ranks);
		return nccl_group_note(r);
	}
	job.abort =
	    (shrinkFlags & NCCL_SHRINK_ABORT) || atomic_load(&comm->use) == NCCL_USE_REVOKED;
	job.ordinal = comm->ordinal;
	job.rank = (int)comm->rank;
	return start(&job, config, newcomm);
}
NCCL_ALIAS(ncclCommShrink);

ncclResult_t
ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId)
{
	static const char call[] = "ncclCommGetUniqueId";
	ncclResult_t r = nccl_comm_check(comm, call);

	if (r == ncclSuccess && !uniqueId)
		r = nccl_fail(ncclInvalidArgument, "%s : uniqueId argument is NULL", call);
	if (r == ncclSuccess && comm->growing)
		r = nccl_fail(ncclInvalidUsage, "%s : the previous id has not been used yet", call);
	if (r == ncclSuccess)
		r = ncclGetUniqueId(uniqueId);
	if (r == ncclSuccess) {
		comm->grow_id = *uniqueId;
		comm->growing = true;
	}
	return r;
}
NCCL_ALIAS(ncclCommGetUniqueId);

static ncclResult_t
check_grow(struct nccl_job *job, const ncclUniqueId *id, int rank, const ncclComm_t *newcomm)
{
	const struct ncclComm *comm = job->other;
	struct err err = {0};

	if (!newcomm || (!comm && !id))
		return nccl_fail(ncclInvalidArgument, "%s : %s argument is NULL", job->call,
				 newcomm ? "uniqueId" : "newcomm");
	if (id && nccl_id_read(id, &job->id, job->address, &err) != RC_OK)
		return nccl_fail_err(&err, job->call);
	job->has_id = id != NULL;
	if (!comm && (rank < 0 || rank >= job->nranks))
		return nccl_fail(ncclInvalidArgument, "%s : invalid rank requested : %d/%d",
				 job->call, rank, job->nranks);
	if (comm && rank != -1)
		return nccl_fail(ncclInvalidArgument,
				 "%s : rank %d is given with a communicator; it must be -1",
				 job->call, rank);
	if (comm && (job->nranks < 0 || (uint32_t)job->nranks <= comm->nranks))
		return nccl_fail(ncclInvalidArgument,
				 "%s : %d ranks are not more than the communicator's %u ranks",
				 job->call, job->nranks, comm->nranks);
	return ncclSuccess;
}

ncclResult_t
ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
	     ncclComm_t *newcomm, ncclConfig_t *config)
{
	struct nccl_job job = {.run = run_grow,
			       .call = "ncclCommGrow",
			       .other = comm,
			       .nranks = nRanks,
			       .rank = comm ? 0 : rank};
	ncclResult_t r = comm ? check_parent(comm, job.call, newcomm) : ncclSuccess;
	cudaError_t e = comm ? cudaSuccess : cudaGetDevice(&job.ordinal);

	if (r == ncclSuccess && e != cudaSuccess)
		r = nccl_fail_cuda(e, job.call);
	if (r == ncclSuccess)
		r = check_grow(&job, uniqueId, rank, newcomm);
	if (r != ncclSuccess)
		return nccl_group_note(r);
	if (comm) {
		job.ordinal = comm->ordinal;
		job.rank = (int)comm->rank;
		comm->growing = false;
	}
	return start(&job, config, newcomm);
}
NCCL_ALIAS(ncclCommGrow);
