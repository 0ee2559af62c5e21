/*
 * graph.c - operations that the devices keep under a number, to be run many times.
 */
#include "coord/top.h"

#include <inttypes.h>
#include <stdlib.h>

static struct graph *
find_in(struct comm *comm, uint64_t id, enum graph_state state)
{
	struct graph *g = comm->graphs;

	while (g && (g->id != id || g->state != state))
		g = g->next;
	return g;
}

/* Nothing more is to be heard of it, also not from ranks that have left the communicator. */
static void
graph_cancel(struct coord *c, struct graph *g)
{
	for (uint32_t r = 0; r < g->nranks; r++)
		call_cancel(c, &g->rank[r].call);
	g->waiting = 0;
}

void
graph_free(struct coord *c, struct graph *g)
{
	struct graph **p = &g->comm->graphs;

	while (*p != g)
		p = &(*p)->next;
	*p = g->next;
	keep_graph_gone(c, g);
	g->comm->ngraphs--;
	graph_cancel(c, g);
	parts_free(c, g->part);
	held_drop(c, g->held);
	free(g);
}

static struct graph *
graph_new(struct coord *c, struct comm *comm, uint64_t nops, struct err *err)
{
	size_t size = sizeof(struct graph) + comm->nranks * sizeof *((struct graph *)0)->rank;
	struct graph *g;

	if (comm->ngraphs >= COORD_MAX_GRAPHS) {
		err_set(err, RC_BUSY, "comm %" PRIu64 ": %u graphs exist, which is the limit",
			comm->id, COORD_MAX_GRAPHS);
		return NULL;
	}
	if (limit_check(c, comm, LIMIT_GRAPHS, 1, err) != RC_OK || !held_take(c, size, err))
		return NULL;
	g = alloc_zeroed(1, size);
	if (!g) {
		held_drop(c, size);
		err_set(err, RC_NOMEM, "comm %" PRIu64 ": out of memory", comm->id);
		return NULL;
	}
	g->comm = comm;
	g->nranks = comm->nranks;
	g->client_id = c->client_id;
	g->held = size;
	g->nops = nops;
	return g;
}

/* ---- dropping */

static void
graph_dropped(struct coord *c, struct call *call, const struct err *why, const GpuSim__Reply *reply)
{
	struct graph *g = call->owner;
	struct err err;

	(void)reply;
	g->waiting--;
	if (why->rc == RC_OK)
		return;
	call_blame(g->comm, call, why, &err);
	act_log(c, "graph %" PRIu64 ": drop: %s", g->id, err.text);
}

static void
drop_start(struct coord *c, struct graph *g)
{
	GpuSim__GraphDropRequest q = GPU_SIM__GRAPH_DROP_REQUEST__INIT;

	g->state = GRAPH_DROPPING;
	q.graphid = g->id;
	for (uint32_t r = 0; r < g->comm->nranks; r++) {
		const struct member *m = &g->comm->rank[r];
		struct call *call = &g->rank[r].call;
		struct buf body = {0};

		if (!g->rank[r].has_ops || !member_there(m))
			continue;
		pack_request(GPU_SIM__REQUEST__BODY_GRAPH_DROP, &q.base, NULL, &body);
		/* One that was read back from the journal has made no call yet. */
		call->owner = g;
		call->rank = r;
		call->done = graph_dropped;
		g->waiting++;
		call_start(c, call, m->dev, m->dev->address, call_timeout_ms(c), &body);
	}
}

/* ---- defining */

static void
graph_defined(struct coord *c, struct call *call, const struct err *why, const GpuSim__Reply *reply)
{
	struct graph *g = call->owner;

	(void)c;
	(void)reply;
	g->waiting--;
	if (why->rc == RC_OK)
		return;
	if (call->end == CALL_IDLE && why->rc != RC_TIMEOUT && why->rc != RC_UNREACHABLE)
		g->rank[call->rank].has_ops = false;
	if (g->failed.rc == RC_OK)
		call_blame(g->comm, call, why, &g->failed);
}

static void
define_start(struct coord *c, struct graph *g, struct buf *ops, call_done *done)
{
	GpuSim__GraphDefineRequest q = GPU_SIM__GRAPH_DEFINE_REQUEST__INIT;

	q.commid = g->comm->id;
	q.graphid = g->id;
	for (uint32_t r = 0; r < g->comm->nranks; r++) {
		struct call *call = &g->rank[r].call;
		struct device *d = g->comm->rank[r].dev;
		struct buf body = {0};

		call->owner = g;
		call->rank = r;
		call->done = done;
		g->rank[r].has_ops = false;
		if (!ops[r].data)
			continue;
		pack_request(GPU_SIM__REQUEST__BODY_GRAPH_DEFINE, &q.base, &ops[r], &body);
		g->rank[r].has_ops = true;
		g->waiting++;
		call_start(c, call, d, d->address, call_timeout_ms(c), &body);
	}
}

static enum rc
check_loose(const struct batch *b, struct err *err)
{
	uint32_t src, dst;
	enum p2p_dir dir;

	if (!batch_first_loose(b, &src, &dst, &dir))
		return RC_OK;
	return err_set(err, RC_INVAL, "rank %u: %s rank %u meets no %s; in a graph every one must",
		       dir == P2P_SEND ? src : dst, dir == P2P_SEND ? "send to" : "recv from",
		       dir == P2P_SEND ? dst : src, dir == P2P_SEND ? "recv" : "send");
}

/* Encode the batch and define it; the graph is new in comm->graphs. */
static enum rc
graph_make(struct coord *c, struct batch *b, const GpuSim__SubmitRequest *s, struct graph **out,
	   struct err *err)
{
	struct comm *comm = b->comm;
	struct graph *g = graph_new(c, comm, batch_numbered(b), err);
	struct buf *ops = g ? alloc_zeroed(comm->nranks, sizeof *ops) : NULL;
	enum rc rc;

	if (!g)
		return err->rc;
	rc = ops ? batch_encode(b, s, 3, ops, err)
		 : err_set(err, RC_NOMEM, "comm %" PRIu64 ": out of memory", comm->id);
	g->next = comm->graphs;
	comm->graphs = g;
	comm->ngraphs++;
	if (rc == RC_OK && comm_recovers(comm) && !(g->part = part_new(c, s, err)))
		rc = err->rc;
	if (rc == RC_OK) {
		g->id = ++c->runs->last_graph;
		define_start(c, g, ops, graph_defined);
		*out = g;
	} else {
		graph_free(c, g);
	}
	for (uint32_t r = 0; ops && r < comm->nranks; r++)
		buf_fini(&ops[r]);
	free(ops);
	return rc;
}

/* What the devices are told of graphs now would get lost among the epochs. */
static enum rc
check_settled(const struct comm *comm, struct err *err)
{
	if (!comm_busy(comm))
		return RC_OK;
	return err_set(err, RC_BUSY, "comm %" PRIu64 " is recovering; try again", comm->id);
}

enum rc
on_graph_create(struct coord *c, struct waiter *w, const GpuSim__Request *req, struct err *err)
{
	GpuSim__SubmitRequest s = GPU_SIM__SUBMIT_REQUEST__INIT;
	struct comm *comm;
	struct graph *g = NULL;
	struct batch b;
	enum rc rc = comm_usable(c, req->graphcreate->commid, &comm, err);

	if (rc == RC_OK)
		rc = check_settled(comm, err);
	if (rc == RC_OK)
		rc = batch_init(c, &b, comm, err);
	if (rc != RC_OK)
		return rc;
	s.commid = comm->id;
	s.n_ranks = req->graphcreate->n_ranks;
	s.ranks = req->graphcreate->ranks;
	rc = batch_add(&b, &s, err);
	if (rc == RC_OK)
		rc = check_loose(&b, err);
	if (rc == RC_OK)
		rc = graph_make(c, &b, &s, &g, err);
	if (rc == RC_OK)
		waiter_set(w, WAIT_GRAPH, g->id);
	batch_fini(&b);
	return rc;
}

static void
answer_created(struct coord *c, struct waiter *w, uint64_t id)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__GraphCreateResponse r = GPU_SIM__GRAPH_CREATE_RESPONSE__INIT;

	r.graphid = id;
	reply.body_case = GPU_SIM__REPLY__BODY_GRAPH_CREATE;
	reply.graphcreate = &r;
	answer(c, w, &reply);
}

/* All ranks have answered a definition or a drop. */
static void
graph_ended(struct coord *c, struct graph *g)
{
	struct waiter *w = waiter_find(c, WAIT_GRAPH, g->id);
	struct err failed;
	uint64_t id = g->id;

	if (g->state == GRAPH_DEFINING) {
		if (w && g->failed.rc == RC_OK) {
			g->state = GRAPH_READY;
			answer_created(c, w, g->id);
			return;
		}
		drop_start(c, g);
		if (g->waiting)
			return;
	}
	failed = g->failed;
	graph_free(c, g);
	while ((w = waiter_find(c, WAIT_GRAPH, id))) {
		if (failed.rc != RC_OK)
			answer_failure(c, w, &failed);
		else
			answer_done(c, w);
	}
}

void
graphs_reap(struct coord *c, struct comm *comm)
{
	struct graph *next;

	for (struct graph *g = comm->graphs; g; g = next) {
		next = g->next;
		if (g->state != GRAPH_READY && g->waiting == 0)
			graph_ended(c, g);
	}
}

/* ---- after a recovery */

void
graphs_settle(struct coord *c, struct comm *comm)
{
	struct graph *next;
	struct err err;

	err_set(&err, RC_RECOVERED, "comm %" PRIu64 " changed meanwhile%s%s", comm->id,
		comm->rec.cause.rc ? ": " : "", comm->rec.cause.text);
	for (struct graph *g = comm->graphs; g; g = next) {
		/* One whose definition has failed is being dropped. */
		struct err failed = g->state == GRAPH_DEFINING ? err : g->failed;
		struct waiter *w;
		uint64_t id = g->id;

		next = g->next;
		graph_cancel(c, g);
		if (g->state == GRAPH_READY)
			continue;
		/* A device that has it still drops it with the epoch, or with the communicator. */
		graph_free(c, g);
		while ((w = waiter_find(c, WAIT_GRAPH, id))) {
			if (failed.rc != RC_OK)
				answer_failure(c, w, &failed);
			else
				answer_done(c, w);
		}
	}
}

static void
defined_again(struct coord *c, struct call *call, const struct err *why, const GpuSim__Reply *reply)
{
	struct graph *g = call->owner;
	struct err err;

	(void)reply;
	g->comm->waiting--;
	g->waiting--;
	if (why->rc == RC_OK)
		return;
	call_blame(g->comm, call, why, &err);
	act_log(c, "graph %" PRIu64 ": define again: %s", g->id, err.text);
	if (g->failed.rc == RC_OK)
		g->failed = err;
	comm_blame(c, g->comm, call, why);
}

static enum rc
define_again(struct coord *c, struct graph *g, struct err *err)
{
	struct comm *comm = g->comm;
	GpuSim__SubmitRequest *s = g->part ? part_unpack(g->part) : NULL;
	struct buf *ops = alloc_zeroed(comm->nranks, sizeof *ops);
	struct batch b;
	enum rc rc =
	    s && ops ? batch_init(c, &b, comm, err) : err_set(err, RC_RECOVERED, "it is not kept");

	if (rc == RC_OK) {
		rc = batch_add(&b, s, err);
		g->nops = batch_numbered(&b);
		batch_rewind(&b);
		if (rc == RC_OK)
			rc = batch_encode(&b, s, 3, ops, err);
		batch_fini(&b);
	}
	if (rc == RC_OK) {
		define_start(c, g, ops, defined_again);
		comm->waiting += g->waiting;
	}
	for (uint32_t r = 0; ops && r < comm->nranks; r++)
		buf_fini(&ops[r]);
	free(ops);
	if (s)
		gpu_sim__submit_request__free_unpacked(s, NULL);
	return rc;
}

void
graphs_define_again(struct coord *c, struct comm *comm)
{
	for (struct graph *g = comm->graphs; g; g = g->next) {
		g->waiting = 0;
		g->failed = (struct err){0};
		define_again(c, g, &g->failed);
	}
}

void
graphs_drop_failed(struct coord *c, struct comm *comm)
{
	struct graph *next;

	for (struct graph *g = comm->graphs; g; g = next) {
		next = g->next;
		if (g->failed.rc == RC_OK)
			continue;
		act_log(c, "graph %" PRIu64 " is gone: %s", g->id, g->failed.text);
		runs_forget_graph(comm, g);
		graph_free(c, g);
	}
}

/* ---- using */

static enum rc
graph_usable(struct coord *c, uint64_t comm_id, uint64_t id, struct graph **out, struct err *err)
{
	struct comm *comm;
	enum rc rc = comm_usable(c, comm_id, &comm, err);

	if (rc != RC_OK)
		return rc;
	*out = find_in(comm, id, GRAPH_READY);
	return *out ? RC_OK
		    : err_set(err, RC_NOTFOUND, "comm %" PRIu64 " has no graph %" PRIu64, comm_id,
			      id);
}

static enum rc
check_there(const struct graph *g, struct err *err)
{
	for (uint32_t r = 0; r < g->comm->nranks; r++) {
		const struct device *d = g->comm->rank[r].dev;
		struct err why;

		if (!g->rank[r].has_ops || !d->lost || comm_recovers(g->comm))
			continue;
		device_lost(d, &why);
		return err_set(err, why.rc, "comm %" PRIu64 " rank %u (device %016" PRIx64 ") %s",
			       g->comm->id, r, d->id, why.text);
	}
	return RC_OK;
}

enum rc
on_graph_launch(struct coord *c, struct waiter *w, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__GraphLaunchRequest *q = req->graphlaunch;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__SubmitResponse r = GPU_SIM__SUBMIT_RESPONSE__INIT;
	struct graph *g;
	enum rc rc = graph_usable(c, q->commid, q->graphid, &g, err);

	if (rc != RC_OK)
		return rc;
	if (q->iterations == 0)
		return err_set(err, RC_INVAL, "graph %" PRIu64 ": 0 iterations", g->id);
	if (group_find(g->comm, w->client_id))
		return err_set(err, RC_INVAL,
			       "graph %" PRIu64 ": the client's group is open; end it first",
			       g->id);
	rc = check_there(g, err);
	if (rc == RC_OK)
		rc = run_graph(c, g, q, w, &r.operation, err);
	if (rc != RC_OK || w->on != WAIT_NOT)
		return rc;
	reply.body_case = GPU_SIM__REPLY__BODY_SUBMIT;
	reply.submit = &r;
	answer(c, w, &reply);
	return RC_OK;
}

enum rc
on_graph_destroy(struct coord *c, struct waiter *w, const GpuSim__Request *req, struct err *err)
{
	struct comm *comm = comm_find(c, req->graphdestroy->commid);
	struct graph *g;

	/* Also of a failed communicator: nothing is started. */
	if (!comm)
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64,
			       req->graphdestroy->commid);
	if (check_settled(comm, err) != RC_OK)
		return err->rc;
	g = find_in(comm, req->graphdestroy->graphid, GRAPH_READY);
	if (!g)
		return err_set(err, RC_NOTFOUND, "comm %" PRIu64 " has no graph %" PRIu64, comm->id,
			       req->graphdestroy->graphid);
	if (g->nruns)
		return err_set(err, RC_BUSY, "graph %" PRIu64 ": %u of its runs are pending", g->id,
			       g->nruns);
	waiter_set(w, WAIT_GRAPH, g->id);
	drop_start(c, g);
	return RC_OK;
}
