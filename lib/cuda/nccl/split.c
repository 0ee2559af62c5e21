/* Communicators from communicators: split, shrink, grow. Each rank calls by itself. */
#include <stdlib.h>
#include <string.h>

#include "base/rundir.h"
#include "nccl/id.h"
#include "nccl/nccl_impl.h"
#include "nccl/wait.h"

static enum gpusim_rc
try_split(const struct nccl_try *t, struct gpusim_comm **out)
{
	return gpusim_comm_split(t->job->other->handle, t->job->color, t->job->key, &t->config,
				 out);
}

static enum gpusim_rc
try_shrink(const struct nccl_try *t, struct gpusim_comm **out)
{
	return gpusim_comm_shrink_rank(t->job->other->handle, t->job->ranks, t->job->n_ranks,
				       t->job->abort, &t->config, out);
}

static enum gpusim_rc
try_grow(const struct nccl_try *t, struct gpusim_comm **out)
{
	const struct nccl_job *job = t->job;

	if (job->other)
		return gpusim_comm_grow_rank(job->other->handle, (uint32_t)job->nranks,
					     job->has_id ? &job->id : NULL, &t->config, out);
	return gpusim_comm_grow_new(t->g, (uint32_t)job->nranks, job->id, (uint32_t)job->rank,
				    t->device, &t->config, out);
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

ncclResult_t
ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
	struct nccl_job job = {.attempt = try_split,
			       .call = "ncclCommSplit",
			       .other = comm,
			       .color = color,
			       .key = key};
	ncclResult_t r = check_parent(comm, job.call, newcomm);

	if (r == ncclSuccess && color < 0 && color != NCCL_SPLIT_NOCOLOR)
		r = nccl_fail(ncclInvalidArgument, "%s : invalid color %d", job.call, color);
	if (r != ncclSuccess)
		return nccl_group_note(r);
	job.discard = color == NCCL_SPLIT_NOCOLOR;
	job.ordinal = comm->ordinal;
	job.rank = (int)comm->rank;
	return nccl_make(&job, config, newcomm);
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
	struct nccl_job job = {.attempt = try_shrink, .call = "ncclCommShrink", .other = comm};
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
	return nccl_make(&job, config, newcomm);
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
	struct nccl_job job = {.attempt = try_grow,
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
	return nccl_make(&job, config, newcomm);
}
NCCL_ALIAS(ncclCommGrow);
