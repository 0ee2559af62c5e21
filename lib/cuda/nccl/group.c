/*
 * Jobs: work that waits for other ranks. A blocking job runs in the call; each job of a group on
 * its own thread; a job of a communicator with blocking=0 in the background. Groups: operations and jobs
 * that a thread gathers between ncclGroupStart and ncclGroupEnd.
 *
 * Design notes. A job's communicator is `busy` until the job has ended; the registry's lock guards
 * that. A program may abort a busy communicator: then the job releases it.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "nccl/nccl_impl.h"

struct group {
	int depth;
	uint32_t inner;	     /* nested groups that have begun or ended */
	ncclResult_t result; /* the first failure of a call */
	struct nccl_op *op;
	size_t nops, cap;
	struct nccl_job *job, **job_end; /* in order */
};

static __thread struct group group;

ncclResult_t
nccl_group_note(ncclResult_t result)
{
	if (group.depth > 0 && result != ncclSuccess && group.result == ncclSuccess)
		group.result = result;
	return result;
}

/* ---- jobs */

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

static ncclResult_t
group_job(const struct nccl_job *job)
{
	struct nccl_job *j;

	if (group.job && group.job->blocking != job->blocking)
		return nccl_group_note(nccl_fail(
		    ncclInvalidArgument,
		    "Blocking and nonblocking communicators are not allowed in the same group."));
	j = malloc(sizeof *j);
	if (!j)
		return nccl_group_note(nccl_fail(ncclSystemError, "out of memory"));
	*j = *job;
	j->next = NULL;
	if (!group.job)
		group.job_end = &group.job;
	*group.job_end = j;
	group.job_end = &j->next;
	return ncclSuccess;
}

ncclResult_t
nccl_job_start(const struct nccl_job *job)
{
	struct nccl_job mine = *job, *copy;
	ncclResult_t r;

	if (group.depth > 0) {
		r = group_job(job);
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

void
nccl_job_wait(struct ncclComm *comm)
{
	pthread_mutex_lock(&nccl_registry);
	while (comm->busy)
		pthread_cond_wait(&ended, &nccl_registry);
	pthread_mutex_unlock(&nccl_registry);
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

/* Run a group's jobs concurrently, and release the list. */
static ncclResult_t
jobs_run(struct nccl_job *list)
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

/* Release jobs that never began, and their communicators, because the group failed with r. */
static void
jobs_drop(struct nccl_job *list, ncclResult_t r)
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

/*
 * ---- operations
 *
 * A burst is the commands of one launch. cudart owns it until it frees it, at once or with the graph that captured
 * it, on any thread.
 */

struct burst {
	size_t n, ncopies; /* copies come first */
	struct cmdq_bind **bind;
	struct cmdq_command c[];
};

static enum gpusim_rc
append(void *arg, struct cmdq *q)
{
	struct burst *b = arg;
	enum gpusim_rc rc = GPUSIM_OK;

	if (b->ncopies)
		rc = cmdq_append(q, b->c, b->ncopies, NULL);
	if (rc == GPUSIM_OK && b->n > b->ncopies)
		rc = cmdq_append_colls(q, b->bind + b->ncopies, b->c + b->ncopies,
				       b->n - b->ncopies, NULL);
	return rc;
}

/* Enqueue the sorted operations of one launch. */
static ncclResult_t
enqueue(const struct nccl_op *op, size_t n)
{
	struct burst *b = malloc(sizeof *b + n * (sizeof *b->c + sizeof *b->bind));
	size_t filled = 0;
	cudaError_t e;

	if (!b)
		return nccl_fail(ncclSystemError, "out of memory");
	b->n = n;
	b->bind = (struct cmdq_bind **)&b->c[n];
	for (int copies = 1; copies >= 0; copies--) {
		for (size_t i = 0; i < n; i++)
			if ((op[i].c.kind == CMDQ_COPY) == copies) {
				b->bind[filled] = op[i].comm->bind;
				b->c[filled++] = op[i].c;
			}
		if (copies)
			b->ncopies = filled;
	}
	e = gpusim_cuda_enqueue(op->stream, op->ordinal, append, b, free);
	return e == cudaSuccess ? ncclSuccess : nccl_fail_cuda(e, "Enqueue");
}

ncclResult_t
nccl_submit(const struct nccl_op *op)
{
	if (group.depth > 0) {
		if (!alloc_room(&group.op, group.nops, &group.cap, sizeof *group.op))
			return nccl_group_note(nccl_fail(ncclSystemError, "out of memory"));
		group.op[group.nops] = *op;
		group.op[group.nops++].inner = group.inner;
		cmdq_bind_grouped(op->comm->bind);
		return ncclSuccess;
	}
	if (op->c.kind == CMDQ_SENDRECV && op->c.u.coll.root == op->rank)
		return nccl_fail(ncclInvalidUsage,
				 "rank %" PRIu32
				 " sends to or receives from itself outside of a group",
				 op->rank);
	return enqueue(op, 1);
}

/* ---- the end */

/* Drop the group's operations; communicators that were released meanwhile must not be touched. */
static void
ungroup(struct ncclComm *comm, void *nops)
{
	for (size_t i = *(size_t *)nops; i-- > 0;)
		if (group.op[i].comm == comm && comm->bind)
			cmdq_bind_ungrouped(comm->bind);
}

/* Streams of one communicator wait for each other: before the operations the lead stream waits for
 * the others, afterwards they wait for it. */
static ncclResult_t
join(const struct nccl_edge *e, bool before)
{
	cudaStream_t from = before ? e->other : e->lead, to = before ? e->lead : e->other;
	int device = 0;
	cudaEvent_t event;
	cudaError_t rc = cudaGetDevice(&device);

	if (rc == cudaSuccess)
		rc = cudaSetDevice(e->ordinal);
	if (rc == cudaSuccess)
		rc = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
	if (rc == cudaSuccess) {
		rc = cudaEventRecord(event, from);
		if (rc == cudaSuccess)
			rc = cudaStreamWaitEvent(to, event, 0);
		cudaEventDestroy(event);
	}
	cudaSetDevice(device);
	return rc == cudaSuccess ? ncclSuccess : nccl_fail_cuda(rc, "GroupEnd");
}

/* Enqueue the next part of a launch; called for all launches in turn, so that no queue is full
 * while another is empty. */
static ncclResult_t
enqueue_all(struct nccl_op *op, size_t n, size_t launches)
{
	size_t *at = alloc_zeroed(launches + 1, sizeof *at);
	ncclResult_t r = at ? ncclSuccess : nccl_fail(ncclSystemError, "out of memory");
	bool more = n > 0;

	for (size_t i = n; at && i-- > 0;)
		at[op[i].launch] = i;
	while (more && r == ncclSuccess) {
		more = false;
		for (size_t l = 0; l < launches && r == ncclSuccess; l++) {
			size_t end = at[l], piece;

			while (end < n && op[end].launch == l)
				end++;
			if (end == at[l])
				continue;
			piece = nccl_piece(&op[at[l]], end - at[l]);
			r = enqueue(&op[at[l]], piece);
			at[l] += piece;
			more |= at[l] < end;
		}
	}
	free(at);
	return r;
}

static ncclResult_t
launch(struct nccl_op *op, size_t n)
{
	struct nccl_edge *edge = alloc_zeroed(n, sizeof *edge);
	size_t nedges = edge ? nccl_edges(op, n, edge) : 0;
	ncclResult_t r = edge ? ncclSuccess : nccl_fail(ncclSystemError, "out of memory");
	size_t launches;

	for (size_t i = 0; i < nedges && r == ncclSuccess; i++)
		r = join(&edge[i], true);
	launches = nccl_order(op, n);
	if (r == ncclSuccess)
		r = enqueue_all(op, n, launches);
	for (size_t i = 0; i < nedges && r == ncclSuccess; i++)
		r = join(&edge[i], false);
	free(edge);
	return r;
}

static ncclResult_t
end_group(ncclSimInfo_t *sim)
{
	struct nccl_job *job = group.job;
	struct err err = {0};
	ncclResult_t r = group.result, jobs;
	size_t n = group.nops, gathered = n;
	bool background = job && !job->blocking;

	group.depth = 0;
	group.result = ncclSuccess;
	group.nops = 0;
	group.job = NULL;
	if (r == ncclSuccess && (nccl_pair_self(group.op, &n, &err) != RC_OK ||
				 nccl_check_sets(group.op, n, &err) != RC_OK))
		r = nccl_fail(ncclInvalidUsage, "GroupEnd : %s", err.text);
	if (r != ncclSuccess || sim)
		nccl_comms_each(ungroup, &gathered);
	if (r != ncclSuccess) {
		jobs_drop(job, r);
		return r;
	}
	jobs = jobs_run(job);
	if (jobs != ncclSuccess && !(background && jobs == ncclInProgress)) {
		nccl_comms_each(ungroup, &n);
		return jobs;
	}
	if (sim)
		sim->estimatedTime = nccl_simulate(group.op, n);
	else if (n == 1)
		r = enqueue(group.op, 1);
	else if (n)
		r = launch(group.op, n);
	return r == ncclSuccess ? jobs : r;
}

ncclResult_t
ncclGroupStart(void)
{
	group.inner = group.depth++ ? group.inner + 1 : 0;
	return ncclSuccess;
}
NCCL_ALIAS(ncclGroupStart);

static ncclResult_t
leave(ncclSimInfo_t *sim)
{
	ncclResult_t r;

	if (group.depth == 0)
		return nccl_fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
	if (group.depth > 1) {
		group.depth--;
		group.inner++;
		return ncclSuccess;
	}
	r = end_group(sim);
	free(group.op);
	group.op = NULL;
	group.cap = 0;
	return r;
}

ncclResult_t
ncclGroupEnd(void)
{
	return leave(NULL);
}
NCCL_ALIAS(ncclGroupEnd);

ncclResult_t
ncclGroupSimulateEnd(ncclSimInfo_t *simInfo)
{
	struct err err = {0};

	if (!simInfo)
		return nccl_group_note(
		    nccl_fail(ncclInvalidArgument, "GroupSimulateEnd : simInfo argument is NULL"));
	if (nccl_sim_info_check(simInfo, &err) != RC_OK)
		return nccl_group_note(nccl_fail_err(&err, "GroupSimulateEnd"));
	return leave(simInfo);
}
NCCL_ALIAS(ncclGroupSimulateEnd);
