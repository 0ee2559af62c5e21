/*
 * run.c - runs: submitted, started at every rank, collected, failed as one.
 *
 * Runs of a communicator are serial, in order of submission. A run of only sends and receives without a
 * match in its submit starts at once, because its other half may be in a later submit.
 */
#include "coord/run/run_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct run *
run_find(struct coord *c, uint64_t id)
{
	for (struct comm *comm = comm_next(c, NULL); comm; comm = comm_next(c, comm))
		for (struct run *run = comm_work(comm)->runs; run; run = run->next)
			if (run->id == id)
				return run;
	return NULL;
}

static bool
describe(struct coord *c, struct pending *p, struct err *err)
{
	const struct run *run = run_find(c, pending_id(p));
	const struct comm *comm = run ? run->comm : NULL;
	uint32_t r = 0;
	char more[32] = "";

	if (!run)
		return false;
	if (!run->started) {
		err_set(err, RC_TIMEOUT, "comm %" PRIu64 ": still queued, %u runs in all",
			comm_id(comm), comm_work(comm)->nruns);
		return false;
	}
	while (r + 1 < comm_nranks(comm) && !call_is_live(&run->rank[r].call))
		r++;
	if (run->waiting > 1)
		snprintf(more, sizeof more, " and %u more", run->waiting - 1);
	err_set(err, RC_TIMEOUT,
		"comm %" PRIu64
		": still in progress after %.1fs, waiting for rank %u (device %016" PRIx64 ")%s",
		comm_id(comm), (double)(c->now_ms - call_since_ms(&run->rank[r].call)) / 1e3, r,
		device_id(comm_device(comm, r)), more);
	return false;
}

const struct wait wait_run = {.late = describe};

/*
 * ---- stragglers: the ranks that others wait for
 *
 * Each rank reports how long it waited for each other rank. A rank that waits passes its delay on: in a
 * ring the successor of a late rank is late too. So a rank's own lateness is the longest that any rank
 * waited for it, less its own wait. Only durations are compared, so clocks of different hosts need not
 * agree.
 */

static void
late_begin(struct run *run)
{
	for (uint32_t r = 0; r < comm_nranks(run->comm); r++)
		run->rank[r].held_ns = run->rank[r].waited_ns = 0;
}

static void
late_answer(struct run *run, uint32_t r, const GpuSim__RunResponse *m)
{
	if (m->n_waitedns != comm_nranks(run->comm))
		return;
	for (uint32_t q = 0; q < comm_nranks(run->comm); q++) {
		uint64_t *held = &run->rank[q].held_ns;

		run->rank[r].waited_ns += m->waitedns[q];
		if (m->waitedns[q] > *held)
			*held = m->waitedns[q];
	}
}

static void
late_count(const struct run *run)
{
	for (uint32_t r = 0; run->nops && r < comm_nranks(run->comm); r++) {
		const struct run_rank *rr = &run->rank[r];
		uint64_t own = rr->held_ns > rr->waited_ns ? rr->held_ns - rr->waited_ns : 0;

		comm_late(run->comm, r, run->nops, own);
	}
}

/* ---- ending */

static void
answer_run(struct coord *c, const struct run *run, struct pending *w)
{
	uint32_t nranks = comm_nranks(run->comm);
	GpuSim__SubmitResponse submit = GPU_SIM__SUBMIT_RESPONSE__INIT;
	GpuSim__GroupEndResponse group = GPU_SIM__GROUP_END_RESPONSE__INIT;
	GpuSim__RunResponse **p = messages_new(nranks, &gpu_sim__run_response__descriptor);
	struct err note = {0};

	if (run->recoveries != comm_recoveries(run->comm))
		err_set(&note, RC_OK, "comm %" PRIu64 ": %s, redo %" PRIu64 " ms%s%s%s",
			comm_id(run->comm), comm_recovered(run->comm), c->now_ms - run->started_ms,
			*run->outgrown ? "; algorithm " : "", run->outgrown,
			*run->outgrown ? " is for more ranks, so another was used" : "");
	for (uint32_t r = 0; p && r < nranks; r++) {
		p[r]->computens = run->rank[r].compute_ns;
		p[r]->commns = run->rank[r].comm_ns;
	}
	if (pending_asker(w)->kind == GPU_SIM__REQUEST__BODY_GROUP_END) {
		group.success = true;
		group.note = note.text;
		answer_body(c, w, GPU_SIM__REPLY__BODY_GROUP_END, &group);
	} else if (p) {
		submit.operation = run->first_seq;
		submit.n_ranks = submit.nranks = nranks;
		submit.ranks = p;
		submit.note = note.text;
		answer_body(c, w, GPU_SIM__REPLY__BODY_SUBMIT, &submit);
	} else {
		answer_nomem(c, w);
	}
	free(p);
}

static void
run_free(struct coord *c, struct run *run)
{
	run_unrecord(c, run);
	for (uint32_t r = 0; r < comm_nranks(run->comm); r++) {
		call_cancel(c, &run->rank[r].call);
		buf_fini(&run->rank[r].body);
	}
	if (run->graph)
		run->graph->nruns--;
	parts_free(c, run->parts);
	held_drop(c, run->held);
	free(run);
}

/* End the run: with *why if that is a failure, else with its own result. The caller starts the next. */
void
run_end_quietly(struct coord *c, struct run *run, const struct err *why)
{
	struct comm *comm = run->comm;
	struct run **p = &comm_work(comm)->runs;
	struct err result = run->cause;
	bool heard = false;
	struct pending *w;

	while (*p != run)
		p = &(*p)->next;
	*p = run->next;
	if (!run->next)
		comm_work(comm)->runs_tail = p;
	comm_count_runs(comm, --comm_work(comm)->nruns);
	if (result.rc == RC_OK || result.rc == RC_ABORTED) {
		if (why)
			result = *why;
		else if ((result.rc == RC_ABORTED || run->waiting) &&
			 comm_failed(comm)->rc != RC_OK)
			result = *comm_failed(comm);
	}
	if (result.rc == RC_OK)
		late_count(run);
	while ((w = pending_find(c, &wait_run, run->id))) {
		heard = true;
		if (result.rc == RC_OK)
			answer_run(c, run, w);
		else
			answer_failure(c, w, &result);
	}
	if (result.rc != RC_OK && !heard)
		comm_unheard(comm, &result);
	run_free(c, run);
}

static void
run_end(struct coord *c, struct run *run, const struct err *why)
{
	struct comm *comm = run->comm;

	run_end_quietly(c, run, why);
	runs_start_next(c, comm);
	comm_idle(c, comm);
}

void
runs_end_all(struct coord *c, struct comm *comm, const struct err *why)
{
	while (comm_work(comm)->runs)
		run_end(c, comm_work(comm)->runs, why);
}

void
runs_end_failed(struct coord *c, struct comm *comm, const struct err *why)
{
	while (comm_work(comm)->runs) {
		const struct err *own = &comm_work(comm)->runs->cause;
		bool same = strcmp(own->text, comm_cause(comm)->text) == 0;

		if (same)
			comm_work(comm)->runs->cause = *why;
		run_end(c, comm_work(comm)->runs,
			own->rc == RC_OK || own->rc == RC_ABORTED ? why : NULL);
	}
}

void
runs_end_unstarted(struct coord *c, struct comm *comm, const struct err *why)
{
	struct run *next;

	for (struct run *run = comm_work(comm)->runs; run; run = next) {
		next = run->next;
		if (!run->started)
			run_end(c, run, why);
	}
}

bool
runs_overdue(const struct coord *c, const struct comm *comm)
{
	for (const struct run *run = comm_work(comm)->runs; run; run = run->next)
		if (run->tries && c->now_ms - run->failed_ms >= c->cfg.comm_timeout_ms)
			return true;
	return false;
}

bool
runs_begun(const struct comm *comm)
{
	for (const struct run *run = comm_work(comm)->runs; run; run = run->next)
		if (run->started)
			return true;
	return false;
}

bool
runs_wait_for(const struct comm *comm, uint32_t rank)
{
	for (const struct run *run = comm_work(comm)->runs; run; run = run->next)
		if (run->started && !call_is_idle(&run->rank[rank].call))
			return true;
	return false;
}

/* The failure does not depend on the ranks. */
static bool
is_hopeless(enum rc rc)
{
	return rc == RC_INVAL || rc == RC_NOTFOUND || rc == RC_NOMEM || rc == RC_BUSY ||
	       rc == RC_INTERNAL;
}

static void
run_rank_ended(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct run *run = owner;
	struct outcome out = *o;
	struct err text;

	run->waiting--;
	if (o->reply && o->reply->body_case == GPU_SIM__REPLY__BODY_RUN) {
		run->rank[rank].compute_ns = o->reply->run->computens;
		run->rank[rank].comm_ns = o->reply->run->commns;
		late_answer(run, rank, o->reply->run);
	} else if (o->reply) {
		err_set(&out.err, RC_BADDATA, "sent an unexpected answer to a run");
	}
	if (out.err.rc != RC_OK) {
		call_culprit(comm_id(run->comm), rank, &out, &text);
		if (run->cause.rc == RC_OK ||
		    (run->cause.rc == RC_ABORTED && out.err.rc != RC_ABORTED))
			run->cause = text;
		run->hopeless |= out.answered && is_hopeless(out.err.rc);
		comm_call_failed(run->comm, rank, &out);
		comm_fail(c, run->comm, &text);
	}
	/* A failed run is ended or repeated when all is known of the failure. */
	if (run->waiting == 0 && run->cause.rc == RC_OK)
		run_end(c, run, NULL);
}

/* ---- starting */

void
run_start(struct coord *c, struct run *run)
{
	struct comm *comm = run->comm;

	run->started = true;
	run->started_ms = c->now_ms;
	late_begin(run);
	for (uint32_t r = 0; r < comm_nranks(comm); r++) {
		struct run_rank *rr = &run->rank[r];
		size_t n = rr->body.len;

		if (!rr->body.data)
			continue;
		run->waiting++;
		held_drop(c, n);
		run->held -= n;
		call_start(c, &rr->call, comm_device(comm, r), run_rank_ended, run, r,
			   c->cfg.job_timeout_ms, &rr->body);
	}
}

/* Start the first serial run that waits, unless one is in progress. */
void
runs_start_next(struct coord *c, struct comm *comm)
{
	for (struct run *run = comm_work(comm)->runs; run && comm_is_live(comm); run = run->next)
		if (run->serial) {
			if (!run->started)
				run_start(c, run);
			return;
		}
}

static struct run *
run_new(struct coord *c, struct comm *comm, uint64_t nops, struct err *err)
{
	/* The limit of a client on a communicator of another. */
	bool guest = c->client_id && comm_client(comm) != c->client_id;
	struct run *run;
	uint32_t n = 0;

	if (comm_work(comm)->nruns >= COORD_MAX_RUNS) {
		err_set(err, RC_BUSY, "comm %" PRIu64 ": %u runs are pending, which is the limit",
			comm_id(comm), COORD_MAX_RUNS);
		return NULL;
	}
	if (nops > COORD_MAX_OP - comm_work(comm)->next_seq) {
		err_set(err, RC_INVAL, "comm %" PRIu64 ": %" PRIu64 " operations are too many",
			comm_id(comm), nops);
		return NULL;
	}
	for (run = comm_work(comm)->runs; run && guest; run = run->next)
		n += run->client_id == c->client_id;
	if (n >= COORD_GUEST_RUNS) {
		err_set(err, RC_BUSY,
			"comm %" PRIu64
			": %u runs of this client are pending, which is its limit on "
			"another client's communicator",
			comm_id(comm), COORD_GUEST_RUNS);
		return NULL;
	}
	run = run_alloc(c, comm, err);
	if (!run)
		return NULL;
	run->client_id = c->client_id;
	run->id = c->last_number + 1;
	run->made_ms = c->now_ms;
	run->nops = nops;
	run->first_seq = comm_work(comm)->next_seq;
	run->recoveries = comm_recoveries(comm);
	return run;
}

/* Make the body of one rank's call. Takes *ops, its encoded operations. */
static enum rc
run_pack_rank(struct coord *c, struct run *run, uint32_t r, uint64_t iterations, struct buf *ops,
	      struct err *err)
{
	GpuSim__RunRequest q = GPU_SIM__RUN_REQUEST__INIT;
	struct buf body = {0};
	bool packed;

	q.commid = comm_id(run->comm);
	q.epoch = comm_epoch(run->comm);
	q.firstop = run->first_seq;
	q.iterations = iterations;
	q.stride = run->nops / iterations;
	q.firstiteration = run->first_iteration;
	q.graphid = run->graph ? run->graph->id : 0;
	q.run = run->id;
	q.keep = run->pure && run->serial && comm_recovers(run->comm);
	q.restore = q.keep && run->tries > 0;
	packed = pack_request(GPU_SIM__REQUEST__BODY_RUN, &q.base, ops, &body);
	buf_fini(ops);
	if (!packed)
		return comm_nomem(run->comm, err);
	if (!held_take(c, body.len, err)) {
		buf_fini(&body);
		return err->rc;
	}
	run->held += body.len;
	run->rank[r].body = body;
	return RC_OK;
}

/* Queue the complete run, and start it if possible. */
static void
run_queue(struct coord *c, struct run *run, struct pending *w, bool wait)
{
	struct comm *comm = run->comm;

	c->last_number = run->id;
	comm_work(comm)->next_seq += run->nops;
	work_append(comm, run);
	if (wait)
		pending_wait(c, w, &wait_run, run->id, NULL);
	run_record(c, run);
	if (run->serial)
		runs_start_next(c, comm);
	else if (comm_is_live(comm))
		run_start(c, run);
}

enum rc
run_encode(struct coord *c, struct run *run, struct batch *b, const GpuSim__SubmitRequest *one,
	   const struct group_part *parts, struct err *err)
{
	struct work *work = comm_work(run->comm);
	uint32_t nranks = comm_nranks(run->comm);
	struct buf *ops = alloc_zeroed(nranks, sizeof *ops);
	enum rc rc = ops ? RC_OK : comm_nomem(run->comm, err);

	batch_rewind(b);
	if (rc == RC_OK)
		rc = one ? batch_encode(b, one, 6, ops, err) : RC_OK;
	for (; rc == RC_OK && parts; parts = parts->next) {
		GpuSim__SubmitRequest *s = part_unpack(parts);

		rc = s ? batch_encode(b, s, 6, ops, err) : comm_nomem(run->comm, err);
		gpu_sim__submit_request__free_unpacked(s, NULL);
	}
	for (uint32_t r = 0; rc == RC_OK && r < nranks; r++)
		if (ops[r].data)
			rc = run_pack_rank(c, run, r, 1, &ops[r], err);
	bufs_free(ops, nranks);
	if (rc == RC_OK)
		batch_commit(b);
	if (b->outgrown)
		snprintf(run->outgrown, sizeof run->outgrown, "%s", b->outgrown->name);
	if (b->outgrown && work->told_epoch != comm_epoch(run->comm)) { /* log it once per epoch */
		work->told_epoch = comm_epoch(run->comm);
		act_log(c,
			"comm %" PRIu64
			": algorithm %s is for %u ranks and %u remain: using another",
			comm_id(run->comm), b->outgrown->name, b->outgrown->nranks, nranks);
	}
	return rc;
}

enum rc
run_submit(struct coord *c, struct batch *b, const GpuSim__SubmitRequest *one,
	   const struct group_part *parts, struct pending *w, bool wait, uint64_t *operation,
	   struct err *err)
{
	struct comm *comm = b->comm;
	struct run *run = run_new(c, comm, batch_numbered(b), err);
	enum rc rc = RC_OK;

	if (!run)
		return err->rc;
	run->gist = b->gist;
	run->serial = run->nops > 0 || batch_loose(b) == 0;
	run->pure = b->npure == b->nops;
	if (comm_recovers(comm))
		rc = parts_copy(c, one, parts, &run->parts, err);
	if (rc == RC_OK)
		rc = run_encode(c, run, b, one, parts, err);
	if (rc != RC_OK) {
		run_free(c, run);
		return rc;
	}
	*operation = run->first_seq;
	run_queue(c, run, w, wait);
	return RC_OK;
}

/* Pack the requests of a graph's run. */
enum rc
run_encode_graph(struct coord *c, struct run *run, struct err *err)
{
	enum rc rc = RC_OK;

	for (uint32_t r = 0; rc == RC_OK && r < comm_nranks(run->comm); r++)
		if (run->graph->rank[r].has_ops) {
			struct buf none = {0};

			rc = run_pack_rank(c, run, r, run->iterations, &none, err);
		}
	return rc;
}

enum rc
run_graph(struct coord *c, struct graph *g, const GpuSim__GraphLaunchRequest *q, struct pending *w,
	  uint64_t *operation, struct err *err)
{
	struct comm *comm = g->comm;
	uint64_t iterations = q->iterations;
	struct run *run;
	enum rc rc;

	if (g->nops && iterations > COORD_MAX_OP / g->nops)
		return err_set(err, RC_INVAL,
			       "graph %" PRIu64 ": %" PRIu64 " iterations are too many", g->id,
			       iterations);
	run = run_new(c, comm, g->nops * iterations, err);
	if (!run)
		return err->rc;
	run->serial = true;
	run->graph = g;
	run->first_iteration = q->firstiteration;
	run->iterations = iterations;
	g->nruns++;
	rc = run_encode_graph(c, run, err);
	if (rc != RC_OK) {
		run_free(c, run);
		return rc;
	}
	*operation = run->first_seq;
	run_queue(c, run, w, q->wait);
	return RC_OK;
}
