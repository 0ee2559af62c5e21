/*
 * graph.c - graphs: operations that devices keep under a number, to be launched many times.
 */
#include "coord/run/run_impl.h"

#include <inttypes.h>
#include <stdlib.h>

/* Cancel all its calls, also to ranks that have left the communicator. */
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
	struct graph **p = &comm_work(g->comm)->graphs;

	while (*p != g)
		p = &(*p)->next;
	*p = g->next;
	graph_unrecord(c, g);
	comm_work(g->comm)->ngraphs--;
	graph_cancel(c, g);
	parts_free(c, g->part);
	held_drop(c, g->held);
	free(g);
}

/* The first rank that has not answered. */
static bool
name_missing(struct coord *c, struct pending *p, struct err *err)
{
	for (const struct comm *comm = comm_next(c, NULL); comm; comm = comm_next(c, comm))
		for (const struct graph *g = comm_work(comm)->graphs; g; g = g->next)
			for (uint32_t r = 0; g->id == pending_id(p) && r < comm_nranks(comm); r++)
				if (call_is_live(&g->rank[r].call)) {
					err_set(err, RC_TIMEOUT,
						"graph %" PRIu64 ": rank %u (device %016" PRIx64
						") has not answered",
						g->id, r, device_id(comm_device(comm, r)));
					return false;
				}
	return false;
}

const struct wait wait_graph = {.late = name_missing};

/* ---- dropping */

static void
graph_dropped(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct graph *g = owner;
	struct err err;

	g->waiting--;
	if (o->err.rc == RC_OK)
		return;
	call_culprit(comm_id(g->comm), rank, o, &err);
	act_log(c, "graph %" PRIu64 ": drop: %s", g->id, err.text);
}

static void
drop_start(struct coord *c, struct graph *g)
{
	GpuSim__GraphDropRequest q = GPU_SIM__GRAPH_DROP_REQUEST__INIT;

	g->state = GRAPH_DROPPING;
	q.graphid = g->id;
	for (uint32_t r = 0; r < comm_nranks(g->comm); r++) {
		struct buf body = {0};

		if (!g->rank[r].has_ops || !comm_holds(g->comm, r))
			continue;
		pack_request(GPU_SIM__REQUEST__BODY_GRAPH_DROP, &q.base, NULL, &body);
		g->waiting++;
		call_start(c, &g->rank[r].call, comm_device(g->comm, r), graph_dropped, g, r,
			   call_timeout_ms(c), &body);
	}
}

/* ---- defining */

static void
graph_defined(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct graph *g = owner;

	(void)c;
	g->waiting--;
	if (o->err.rc == RC_OK)
		return;
	if (o->refused)
		g->rank[rank].has_ops = false;
	if (g->failed.rc == RC_OK)
		call_culprit(comm_id(g->comm), rank, o, &g->failed);
}

static void
define_start(struct coord *c, struct graph *g, struct buf *ops, call_done *done)
{
	GpuSim__GraphDefineRequest q = GPU_SIM__GRAPH_DEFINE_REQUEST__INIT;

	q.commid = comm_id(g->comm);
	q.graphid = g->id;
	for (uint32_t r = 0; r < comm_nranks(g->comm); r++) {
		struct buf body = {0};

		g->rank[r].has_ops = false;
		if (!ops[r].data)
			continue;
		pack_request(GPU_SIM__REQUEST__BODY_GRAPH_DEFINE, &q.base, &ops[r], &body);
		g->rank[r].has_ops = true;
		g->waiting++;
		call_start(c, &g->rank[r].call, comm_device(g->comm, r), done, g, r,
			   call_timeout_ms(c), &body);
	}
}

/* Encode the batch and define it as a new graph of the communicator. */
static enum rc
graph_make(struct coord *c, struct batch *b, const GpuSim__SubmitRequest *s, struct graph **out,
	   struct err *err)
{
	struct comm *comm = b->comm;
	/* The limit of a client on a communicator of another. */
	bool guest = c->client_id && comm_client(comm) != c->client_id;
	struct graph *g;
	struct buf *ops;
	uint32_t n = 0;
	enum rc rc;

	if (comm_work(comm)->ngraphs >= COORD_MAX_GRAPHS)
		return err_set(err, RC_BUSY,
			       "comm %" PRIu64 ": %u graphs exist, which is the limit",
			       comm_id(comm), COORD_MAX_GRAPHS);
	for (g = comm_work(comm)->graphs; g && guest; g = g->next)
		n += g->client_id == c->client_id;
	if (n >= COORD_GUEST_GRAPHS)
		return err_set(err, RC_BUSY,
			       "comm %" PRIu64 ": this client has %u graphs, which is its limit on "
			       "another client's communicator",
			       comm_id(comm), COORD_GUEST_GRAPHS);
	g = graph_alloc(c, comm, batch_numbered(b), err);
	if (!g)
		return err->rc;
	g->client_id = c->client_id;
	ops = alloc_zeroed(comm_nranks(comm), sizeof *ops);
	batch_rewind(b);
	rc = ops ? batch_encode(b, s, 3, ops, err) : comm_nomem(comm, err);
	if (rc == RC_OK && comm_recovers(comm) && !(g->part = part_new(c, s, err)))
		rc = err->rc;
	if (rc == RC_OK) {
		g->id = ++c->runs->last_graph;
		define_start(c, g, ops, graph_defined);
		*out = g;
	} else {
		graph_free(c, g);
	}
	bufs_free(ops, comm_nranks(comm));
	return rc;
}

/* Messages about graphs would be lost with the epoch now. */
static enum rc
check_settled(const struct comm *comm, struct err *err)
{
	if (!comm_busy(comm))
		return RC_OK;
	return err_set(err, RC_BUSY, "comm %" PRIu64 " is recovering; try again", comm_id(comm));
}

enum rc
on_graph_create(struct coord *c, struct pending *w, const GpuSim__Request *req, struct err *err)
{
	GpuSim__SubmitRequest s = GPU_SIM__SUBMIT_REQUEST__INIT;
	struct comm *comm;
	struct graph *g = NULL;
	struct batch b;
	uint32_t src, dst;
	enum sendrecv_dir dir;
	enum rc rc = comm_usable(c, req->graphcreate->commid, &comm, err);

	if (rc == RC_OK)
		rc = check_settled(comm, err);
	if (rc == RC_OK)
		rc = batch_init(c, &b, comm, err);
	if (rc != RC_OK)
		return rc;
	s.commid = comm_id(comm);
	s.n_ranks = req->graphcreate->n_ranks;
	s.ranks = req->graphcreate->ranks;
	rc = batch_add(&b, &s, err);
	if (rc == RC_OK && batch_first_loose(&b, &src, &dst, &dir))
		rc = err_set(err, RC_INVAL,
			     "rank %u: %s rank %u matches no %s; in a graph all must match",
			     dir == DIR_SEND ? src : dst, dir == DIR_SEND ? "send to" : "recv from",
			     dir == DIR_SEND ? dst : src, dir == DIR_SEND ? "recv" : "send");
	if (rc == RC_OK)
		rc = graph_make(c, &b, &s, &g, err);
	if (rc == RC_OK)
		pending_wait(c, w, &wait_graph, g->id, NULL);
	batch_fini(&b);
	return rc;
}

/* The graph has ended: it failed, or its client dropped it. */
static void
answer_gone(struct coord *c, uint64_t id, const struct err *failed)
{
	struct pending *p;

	while ((p = pending_find(c, &wait_graph, id))) {
		if (failed->rc != RC_OK)
			answer_failure(c, p, failed);
		else
			answer_done(c, p);
	}
}

/* All ranks have answered a definition or a drop. */
static void
graph_ended(struct coord *c, struct graph *g)
{
	struct pending *w = pending_find(c, &wait_graph, g->id);
	GpuSim__GraphCreateResponse created = GPU_SIM__GRAPH_CREATE_RESPONSE__INIT;
	struct err failed;
	uint64_t id = g->id;

	if (g->state == GRAPH_DEFINING) {
		if (w && g->failed.rc == RC_OK) {
			g->state = GRAPH_READY;
			created.graphid = g->id;
			answer_body(c, w, GPU_SIM__REPLY__BODY_GRAPH_CREATE, &created);
			return;
		}
		drop_start(c, g);
		if (g->waiting)
			return;
	}
	failed = g->failed;
	graph_free(c, g);
	answer_gone(c, id, &failed);
}

void
graphs_reap(struct coord *c, struct comm *comm)
{
	struct graph *next;

	for (struct graph *g = comm_work(comm)->graphs; g; g = next) {
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

	err_set(&err, RC_RECOVERED, "comm %" PRIu64 " changed meanwhile%s%s", comm_id(comm),
		comm_cause(comm)->rc ? ": " : "", comm_cause(comm)->text);
	for (struct graph *g = comm_work(comm)->graphs; g; g = next) {
		/* A graph whose definition has failed is being dropped. */
		struct err failed = g->state == GRAPH_DEFINING ? err : g->failed;
		uint64_t id = g->id;

		next = g->next;
		graph_cancel(c, g);
		if (g->state == GRAPH_READY)
			continue;
		/* A device that still has it drops it with the epoch or the communicator. */
		graph_free(c, g);
		answer_gone(c, id, &failed);
	}
}

static void
defined_again(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct graph *g = owner;
	struct err err;

	g->waiting--;
	if (o->err.rc == RC_OK)
		return;
	call_culprit(comm_id(g->comm), rank, o, &err);
	act_log(c, "graph %" PRIu64 ": define again: %s", g->id, err.text);
	if (g->failed.rc == RC_OK)
		g->failed = err;
	comm_call_failed(g->comm, rank, o);
}

void
graphs_define_again(struct coord *c, struct comm *comm)
{
	for (struct graph *g = comm_work(comm)->graphs; g; g = g->next) {
		GpuSim__SubmitRequest *s = g->part ? part_unpack(g->part) : NULL;
		struct buf *ops = alloc_zeroed(comm_nranks(comm), sizeof *ops);
		struct err err = {0};
		struct batch b;

		g->waiting = 0;
		if (!s || !ops)
			err_set(&err, RC_RECOVERED, "its definition was not kept");
		else if (batch_init(c, &b, comm, &err) == RC_OK) {
			enum rc rc = batch_add(&b, s, &err);

			g->nops = batch_numbered(&b);
			batch_rewind(&b);
			if (rc == RC_OK && batch_encode(&b, s, 3, ops, &err) == RC_OK)
				define_start(c, g, ops, defined_again);
			batch_fini(&b);
		}
		g->failed = err;
		bufs_free(ops, comm_nranks(comm));
		if (s)
			gpu_sim__submit_request__free_unpacked(s, NULL);
	}
}

void
graphs_drop_failed(struct coord *c, struct comm *comm)
{
	struct graph *next;

	for (struct graph *g = comm_work(comm)->graphs; g; g = next) {
		next = g->next;
		if (g->failed.rc == RC_OK)
			continue;
		act_log(c, "graph %" PRIu64 " was lost: %s", g->id, g->failed.text);
		runs_forget_graph(comm, g);
		graph_free(c, g);
	}
}

/* ---- using */

static enum rc
unknown(uint64_t comm_id, uint64_t id, struct err *err)
{
	return err_set(err, RC_NOTFOUND, "comm %" PRIu64 " has no graph %" PRIu64, comm_id, id);
}

enum rc
on_graph_launch(struct coord *c, struct pending *w, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__GraphLaunchRequest *q = req->graphlaunch;
	GpuSim__SubmitResponse r = GPU_SIM__SUBMIT_RESPONSE__INIT;
	struct comm *comm;
	struct graph *g;
	enum rc rc = comm_usable(c, q->commid, &comm, err);

	if (rc != RC_OK)
		return rc;
	g = graph_find(comm, q->graphid);
	if (!g || g->state != GRAPH_READY)
		return unknown(q->commid, q->graphid, err);
	if (q->iterations == 0)
		return err_set(err, RC_INVAL, "graph %" PRIu64 ": 0 iterations", g->id);
	if (group_find(comm, pending_asker(w)->client_id))
		return err_set(err, RC_INVAL,
			       "graph %" PRIu64 ": the client's group is open; end it first",
			       g->id);
	for (uint32_t i = 0; i < comm_nranks(comm); i++)
		if (g->rank[i].has_ops && device_is_lost(comm_device(comm, i)) &&
		    !comm_recovers(comm))
			return comm_rank_lost(comm, i, err);
	rc = run_graph(c, g, q, w, &r.operation, err);
	if (rc == RC_OK && !pending_on(w))
		answer_body(c, w, GPU_SIM__REPLY__BODY_SUBMIT, &r);
	return rc;
}

enum rc
on_graph_destroy(struct coord *c, struct pending *w, const GpuSim__Request *req, struct err *err)
{
	struct comm *comm = comm_find(c, req->graphdestroy->commid);
	struct graph *g;

	/* Legal on a failed communicator: starts nothing. */
	if (!comm)
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64,
			       req->graphdestroy->commid);
	if (check_settled(comm, err) != RC_OK)
		return err->rc;
	g = graph_find(comm, req->graphdestroy->graphid);
	if (!g || g->state != GRAPH_READY)
		return unknown(comm_id(comm), req->graphdestroy->graphid, err);
	if (g->nruns)
		return err_set(err, RC_BUSY, "graph %" PRIu64 ": %u of its launches are pending",
			       g->id, g->nruns);
	pending_wait(c, w, &wait_graph, g->id, NULL);
	drop_start(c, g);
	return RC_OK;
}
