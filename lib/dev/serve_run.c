/* Run, GraphDefine, GraphDrop. */
#include <inttypes.h>
#include <stdlib.h>

#include "dev/device_impl.h"

/* Lock held. */
static struct graph *
find_graph(struct device *d, uint64_t id)
{
	for (unsigned i = 0; i < d->ngraphs; i++)
		if (d->graph[i].id == id)
			return &d->graph[i];
	return NULL;
}

/* Lock held. */
static enum rc
check_room(const struct device *d, uint64_t client, struct err *err)
{
	unsigned n = 0;

	if (d->ngraphs == MAX_GRAPHS)
		return err_set(err, RC_BUSY, "a device keeps at most %d graphs", MAX_GRAPHS);
	for (unsigned i = 0; i < d->ngraphs; i++)
		n += d->graph[i].client == client;
	if (n >= MAX_CLIENT_GRAPHS)
		return err_set(err, RC_BUSY, "%d graphs are this client's, which is its limit",
			       MAX_CLIENT_GRAPHS);
	return RC_OK;
}

static enum rc
define(struct device *d, const GpuSim__GraphDefineRequest *m, uint64_t client, struct err *err)
{
	struct program *p;
	enum rc rc;

	if (m->graphid == 0)
		return err_set(err, RC_INVAL, "a graph needs a number");
	rc = program_build(&d->env, m->commid, m->ops, m->n_ops, &p, err);
	if (rc != RC_OK)
		return rc;
	pthread_mutex_lock(&d->lock);
	if (find_graph(d, m->graphid))
		rc = err_set(err, RC_INVAL, "graph %" PRIu64 " is defined already", m->graphid);
	else
		rc = check_room(d, client, err);
	if (rc == RC_OK)
		d->graph[d->ngraphs++] = (struct graph){m->graphid, client, p};
	pthread_mutex_unlock(&d->lock);
	if (rc != RC_OK)
		program_free(p);
	return rc;
}

static enum rc
drop(struct device *d, uint64_t id, struct err *err)
{
	struct program *p = NULL;
	struct graph *g;

	pthread_mutex_lock(&d->lock);
	g = find_graph(d, id);
	if (g) {
		p = g->program;
		*g = d->graph[--d->ngraphs];
	}
	pthread_mutex_unlock(&d->lock);
	if (!p)
		return err_set(err, RC_NOTFOUND, "no graph %" PRIu64 " here", id);
	streams_drop(d->streams, p);
	return RC_OK;
}

void
device_drop_graphs(struct device *d, uint64_t comm)
{
	for (;;) {
		struct xport_membership m;
		uint64_t id = 0;

		pthread_mutex_lock(&d->lock);
		for (unsigned i = 0; i < d->ngraphs; i++) {
			uint64_t of = d->graph[i].program->comm;

			if (of && (of == comm || xport_member(d->xport, of, &m, NULL) != RC_OK))
				id = d->graph[i].id;
		}
		pthread_mutex_unlock(&d->lock);
		if (id == 0)
			return;
		drop(d, id, NULL);
	}
}

/* The program of a run: a graph's, held once more, or a new one. */
static enum rc
find_program(struct device *d, const GpuSim__RunRequest *m, struct program **out, struct err *err)
{
	struct graph *g;
	enum rc rc = RC_OK;

	if (m->graphid == 0)
		return program_build(&d->env, m->commid, m->ops, m->n_ops, out, err);
	pthread_mutex_lock(&d->lock);
	g = find_graph(d, m->graphid);
	if (!g)
		rc = err_set(err, RC_NOTFOUND, "no graph %" PRIu64 " here", m->graphid);
	else
		*out = g->program;
	if (rc == RC_OK)
		streams_hold(d->streams, *out);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

/* Answer when the run is over; arg is the call. */
static void
answer(void *arg, const struct run_result *res)
{
	GpuSim__RunResponse r = GPU_SIM__RUN_RESPONSE__INIT;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;

	if (res->err.rc != RC_OK) {
		rpc_reply_err(arg, &res->err);
		return;
	}
	r.computens = res->compute_ns;
	r.commns = res->comm_ns;
	reply.body_case = GPU_SIM__REPLY__BODY_RUN;
	reply.run = &r;
	rpc_reply(arg, &reply);
}

static void
run(struct device *d, struct rpc_call *call, const GpuSim__RunRequest *m)
{
	struct run_spec spec = {.iterations = m->iterations,
				.first_iteration = m->firstiteration,
				.first_op = m->firstop,
				.stride = m->stride,
				.done = m->queued ? NULL : answer,
				.arg = call};
	bool queued = m->queued;
	struct err err = {0};
	enum rc rc;

	rc = find_program(d, m, &spec.program, &err);
	if (rc == RC_OK) {
		struct program *p = spec.program;

		if (p->comm != m->commid)
			rc = err_set(&err, RC_INVAL,
				     "graph %" PRIu64 " is of communicator %" PRIu64
				     ", not %" PRIu64,
				     m->graphid, p->comm, m->commid);
		else if (p->epoch != m->epoch)
			rc = err_set(&err, RC_ABORTED, "epoch %u, the communicator is at %u",
				     m->epoch, p->epoch);
		else /* from here the call may be answered at any time */
			rc = streams_run(d->streams, &spec, &err);
		streams_drop(d->streams, p);
		if (rc == RC_OK && !queued)
			return;
	}
	if (rc == RC_OK)
		rpc_reply_done(call);
	else
		rpc_reply_err(call, &err);
}

void
serve_run(struct device *d, struct rpc_call *call)
{
	const GpuSim__Request *req = rpc_request(call);
	struct err err = {0};
	enum rc rc;

	if (req->body_case == GPU_SIM__REQUEST__BODY_RUN) {
		run(d, call, req->run);
		return;
	}
	if (req->body_case == GPU_SIM__REQUEST__BODY_GRAPH_DEFINE)
		rc = define(d, req->graphdefine, req->clientid, &err);
	else
		rc = drop(d, req->graphdrop->graphid, &err);
	if (rc == RC_OK)
		rpc_reply_done(call);
	else
		rpc_reply_err(call, &err);
}
