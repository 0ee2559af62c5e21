/*
 * Jobs: work that waits for other ranks. A blocking job runs in the call; each job of a group on
 * its own thread; a job of a communicator with blocking=0 in the background.
 *
 * Design notes. A job's communicator is `busy` until the job has ended; the registry's lock guards
 * that. A program may abort a busy communicator: then the job releases it.
 */
#include <stdlib.h>
#include <string.h>

#include "nccl/nccl_impl.h"

static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

static void
set_busy(struct nccl_job *job, bool busy)
{
	pthread_mutex_lock(&nccl_registry);
	job->comm->busy = busy;
	pthread_mutex_unlock(&nccl_registry);
}

static void
execute(struct nccl_job *job)
{
	job->result = job->run(job);
	if (job->result != ncclSuccess)
		job->failure = *nccl_last_failure();
	free(job->ranks);
	job->ranks = NULL;
}

/* Store a job's result in the communicator; release the communicator if it was aborted meanwhile. */
static void
finish(struct nccl_job *job)
{
	struct ncclComm *comm = job->comm;
	bool orphan;

	if (job->result != ncclSuccess && job->makes)
		atomic_store(&comm->use, NCCL_USE_FAILED);
	pthread_mutex_lock(&nccl_registry);
	orphan = comm->orphan || job->discard;
	comm->busy = false;
	comm->result = job->result;
	if (job->result != ncclSuccess)
		comm->failure = job->failure;
	pthread_cond_broadcast(&ended);
	pthread_mutex_unlock(&nccl_registry);
	if (orphan)
		nccl_comm_free(comm);
}

/* A blocking call that fails creates nothing. */
static void
undo(struct nccl_job *job)
{
	if (!job->makes)
		return;
	nccl_comm_free(job->comm);
	if (job->out)
		*job->out = NULL;
}

static void *
run_background(void *arg)
{
	struct nccl_job *job = arg;

	execute(job);
	finish(job);
	free(job);
	return NULL;
}

static ncclResult_t
begin_background(struct nccl_job *job)
{
	pthread_t thread;

	set_busy(job, true);
	if (pthread_create(&thread, NULL, run_background, job) != 0) {
		const char *call = job->call;

		set_busy(job, false);
		undo(job);
		free(job->ranks);
		free(job);
		return nccl_fail(ncclSystemError, "%s : cannot start a thread", call);
	}
	pthread_detach(thread);
	return ncclInProgress;
}

ncclResult_t
nccl_job_start(const struct nccl_job *job)
{
	struct nccl_job mine = *job, *copy;
	ncclResult_t r;

	if (nccl_group_open()) {
		r = nccl_group_job(job);
		if (r != ncclSuccess)
			undo(&mine);
		return r;
	}
	if (job->blocking) {
		execute(&mine);
		r = mine.result;
		if (r != ncclSuccess || mine.discard)
			undo(&mine);
		return r;
	}
	copy = malloc(sizeof *copy);
	if (!copy) {
		undo(&mine);
		return nccl_fail(ncclSystemError, "%s : out of memory", job->call);
	}
	*copy = mine;
	return begin_background(copy);
}

/* ---- jobs of a group */

static void *
run_beside(void *job)
{
	execute(job);
	return NULL;
}

static ncclResult_t
begin_all(struct nccl_job *list)
{
	ncclResult_t r = ncclInProgress;

	for (struct nccl_job *j = list, *next; j; j = next) {
		ncclResult_t one;

		next = j->next;
		one = begin_background(j);
		if (one != ncclInProgress)
			r = one;
	}
	return r;
}

ncclResult_t
nccl_jobs_run(struct nccl_job *list)
{
	ncclResult_t r = ncclSuccess;

	if (list && !list->blocking)
		return begin_all(list);
	for (struct nccl_job *j = list; j; j = j->next) {
		j->begun = j->next && pthread_create(&j->thread, NULL, run_beside, j) == 0;
		if (!j->begun)
			execute(j);
	}
	for (struct nccl_job *j = list; j; j = j->next) {
		if (j->begun)
			pthread_join(j->thread, NULL);
		if (j->result != ncclSuccess && r == ncclSuccess)
			r = nccl_fail(j->result, "%s", j->failure.text);
	}
	for (struct nccl_job *j = list, *next; j; j = next) {
		next = j->next;
		if (j->result != ncclSuccess || j->discard)
			undo(j);
		free(j);
	}
	return r;
}

void
nccl_jobs_drop(struct nccl_job *list, ncclResult_t r)
{
	for (struct nccl_job *j = list, *next; j; j = next) {
		next = j->next;
		free(j->ranks);
		if (j->blocking) {
			undo(j);
		} else {
			j->result = r;
			j->failure = *nccl_last_failure();
			finish(j);
		}
		free(j);
	}
}

void
nccl_job_wait(struct ncclComm *comm)
{
	pthread_mutex_lock(&nccl_registry);
	while (comm->busy)
		pthread_cond_wait(&ended, &nccl_registry);
	pthread_mutex_unlock(&nccl_registry);
}
