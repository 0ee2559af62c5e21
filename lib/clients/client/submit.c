/* Sending lists of operations where they run: to one device, to a communicator, into graphs. */
#include <stdlib.h>
#include <string.h>

#include "client/ops.h"

static const struct gpusim_stream stream0 = {0};

/* Run a list of one rank, outside any communicator, on a device; and free the list. */
static enum gpusim_rc
run_once(struct gpusim *g, struct gpusim_device device, struct gpusim_ops *o, enum gpusim_wait wait)
{
	GpuSim__RunRequest m = GPU_SIM__RUN_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(RUN, run, m);
	GpuSim__RankOps **ranks;
	size_t n;
	enum rc rc = ops_ranks(o, &ranks, &n);

	if (rc == RC_OK) {
		m.iterations = 1;
		m.queued = wait == GPUSIM_ASYNC;
		if (m.queued)
			atomic_fetch_add(&g->submits, 1);
		ops_carry(&o->rank[0], o->field, &m.base);
		rc = client_call_device(
		    g, device, &req,
		    m.queued ? GPU_SIM__REPLY__BODY_DONE : GPU_SIM__REPLY__BODY_RUN, NULL);
	}
	gpusim_ops_free(o);
	return client_rc(rc);
}

enum gpusim_rc
gpusim_launch(struct gpusim *g, struct gpusim_device device, struct gpusim_stream stream,
	      const char *kernel, const struct gpusim_arg *args, size_t nargs,
	      enum gpusim_wait wait)
{
	struct gpusim_ops *o = ops_new(1, OPS_OF_RUN);

	gpusim_ops_launch(o, 0, stream, kernel, args, nargs);
	return run_once(g, device, o, wait);
}

enum gpusim_rc
gpusim_event_record(struct gpusim *g, struct gpusim_device device, struct gpusim_stream stream,
		    struct gpusim_event event)
{
	struct gpusim_ops *o = ops_new(1, OPS_OF_RUN);

	gpusim_ops_record(o, 0, stream, event);
	return run_once(g, device, o, GPUSIM_ASYNC);
}

enum gpusim_rc
gpusim_event_wait(struct gpusim *g, struct gpusim_device device, struct gpusim_stream stream,
		  struct gpusim_event event)
{
	struct gpusim_ops *o = ops_new(1, OPS_OF_RUN);

	gpusim_ops_wait(o, 0, stream, event);
	return run_once(g, device, o, GPUSIM_ASYNC);
}

enum gpusim_rc
client_copy_within(struct gpusim *g, struct gpusim_device device, struct gpusim_addr dst,
		   struct gpusim_addr src, uint64_t nbytes)
{
	struct gpusim_ops *o = ops_new(1, OPS_OF_RUN);

	gpusim_ops_copy(o, 0, stream0, dst, src, nbytes);
	return run_once(g, device, o, GPUSIM_SYNC);
}

enum gpusim_rc
gpusim_memset(struct gpusim *g, struct gpusim_device device, struct gpusim_addr addr, int value,
	      uint64_t nbytes)
{
	struct gpusim_ops *o = ops_new(1, OPS_OF_RUN);

	gpusim_ops_memset(o, 0, stream0, addr, value, nbytes);
	return run_once(g, device, o, GPUSIM_SYNC);
}

/* Wait until nothing of a communicator is in progress. A failed or ended one has no work. */
static enum rc
settle_one(struct gpusim *g, uint64_t comm)
{
	GpuSim__GetCommStatusRequest m = GPU_SIM__GET_COMM_STATUS_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(GET_COMM_STATUS, getcommstatus, m);
	GpuSim__Reply *reply;
	enum rc rc;

	m.commid = comm;
	m.wait = true;
	rc = client_call(g, &req, GPU_SIM__REPLY__BODY_GET_COMM_STATUS, &reply);
	if (rc == RC_NOTFOUND)
		return RC_OK;
	if (rc != RC_OK)
		return rc;
	if (reply->getcommstatus->status == GPU_SIM__STATUS__IN_PROGRESS)
		rc = err_set(client_err(), RC_TIMEOUT, "still in progress");
	wire_reply_free(reply);
	return rc;
}

void
client_submitted(struct gpusim *g, uint64_t comm)
{
	uint64_t *v;
	size_t i = 0;

	atomic_fetch_add(&g->submits, 1);
	pthread_mutex_lock(&g->lock);
	while (i < g->nunsynced && g->unsynced[i] != comm)
		i++;
	v = realloc(g->unsynced, (g->nunsynced + 1) * sizeof *v);
	if (v)
		g->unsynced = v;
	if (v && i == g->nunsynced)
		g->unsynced[g->nunsynced++] = comm;
	pthread_mutex_unlock(&g->lock);
	if (!v)
		settle_one(g, comm);
}

enum rc
client_await_submitted(struct gpusim *g)
{
	enum rc rc = RC_OK;

	while (rc == RC_OK) {
		uint64_t comm;

		pthread_mutex_lock(&g->lock);
		comm = g->nunsynced ? g->unsynced[--g->nunsynced] : 0;
		pthread_mutex_unlock(&g->lock);
		if (!comm)
			break;
		rc = settle_one(g, comm);
		if (rc != RC_OK)
			client_submitted(g, comm);
	}
	return rc;
}

/* Call for a SubmitResponse and copy the times, by rank. */
static enum rc
call_submit(struct gpusim_comm *comm, const GpuSim__Request *req, bool waited,
	    struct gpusim_times *times, uint32_t ntimes)
{
	GpuSim__Reply *reply;
	enum rc rc = client_call(comm->g, req, GPU_SIM__REPLY__BODY_SUBMIT, &reply);

	if (!waited)
		client_submitted(comm->g, comm->id);
	if (rc != RC_OK)
		return rc;
	for (size_t r = 0; times && r < reply->submit->n_ranks && r < ntimes; r++)
		times[r] = (struct gpusim_times){reply->submit->ranks[r]->computens,
						 reply->submit->ranks[r]->commns};
	client_note(reply->submit->note);
	wire_reply_free(reply);
	return RC_OK;
}

enum gpusim_rc
gpusim_submit(struct gpusim_comm *comm, const struct gpusim_ops *o, enum gpusim_wait wait,
	      struct gpusim_times *times)
{
	GpuSim__SubmitRequest m = GPU_SIM__SUBMIT_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(SUBMIT, submit, m);
	enum rc rc = ops_ranks(o, &m.ranks, &m.n_ranks);

	if (rc != RC_OK)
		return client_rc(rc);
	m.commid = comm->id;
	m.wait = wait == GPUSIM_SYNC;
	return client_rc(call_submit(comm, &req, m.wait, m.wait ? times : NULL, o->nranks));
}

enum gpusim_rc
client_submit_rank(struct gpusim_comm *comm, const struct gpusim_ops *o)
{
	GpuSim__SubmitRequest m = GPU_SIM__SUBMIT_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(SUBMIT, submit, m);
	enum rc rc = ops_ranks(o, &m.ranks, &m.n_ranks);

	if (rc != RC_OK)
		return client_rc(rc);
	m.commid = comm->id;
	m.meet = o->meets;
	return client_rc(call_submit(comm, &req, false, NULL, 0));
}

enum gpusim_rc
gpusim_graph_create(struct gpusim_comm *comm, const struct gpusim_ops *o,
		    struct gpusim_graph *graph)
{
	GpuSim__GraphCreateRequest m = GPU_SIM__GRAPH_CREATE_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(GRAPH_CREATE, graphcreate, m);
	GpuSim__Reply *reply;
	enum rc rc = ops_ranks(o, &m.ranks, &m.n_ranks);

	if (rc != RC_OK)
		return client_rc(rc);
	m.commid = comm->id;
	rc = client_call(comm->g, &req, GPU_SIM__REPLY__BODY_GRAPH_CREATE, &reply);
	if (rc != RC_OK)
		return client_rc(rc);
	graph->id = reply->graphcreate->graphid;
	wire_reply_free(reply);
	return GPUSIM_OK;
}

enum gpusim_rc
gpusim_graph_launch(struct gpusim_comm *comm, struct gpusim_graph graph, uint64_t first,
		    uint64_t iterations, enum gpusim_wait wait, struct gpusim_times *times)
{
	GpuSim__GraphLaunchRequest m = GPU_SIM__GRAPH_LAUNCH_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(GRAPH_LAUNCH, graphlaunch, m);

	m.commid = comm->id;
	m.graphid = graph.id;
	m.firstiteration = first;
	m.iterations = iterations;
	m.wait = wait == GPUSIM_SYNC;
	return client_rc(call_submit(comm, &req, m.wait, m.wait ? times : NULL, WIRE_MAX_RANKS));
}

enum gpusim_rc
gpusim_graph_destroy(struct gpusim_comm *comm, struct gpusim_graph graph)
{
	GpuSim__GraphDestroyRequest m = GPU_SIM__GRAPH_DESTROY_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(GRAPH_DESTROY, graphdestroy, m);

	m.commid = comm->id;
	m.graphid = graph.id;
	return client_rc(client_call(comm->g, &req, GPU_SIM__REPLY__BODY_DONE, NULL));
}
