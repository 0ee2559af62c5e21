/*
 * device.c - the shell around protocol_step: in place of lib/device/dev's serve_*.c, the transport and the
 * streams. A run executes its operations one by one; memory and its kept copies outlive the process.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The failure in answers to a run that has just failed. */
static const GpuSim__Failure *failure;

static struct sim_device *
dev_of(struct world *w, uint32_t d)
{
	return &w->dev[d];
}

struct dcomm *
device_comm(struct sim_device *d, uint64_t comm)
{
	for (unsigned i = 0; i < d->ncomms; i++)
		if (d->comm[i].id == comm)
			return &d->comm[i];
	return NULL;
}

struct drun *
run_by_start(struct sim_device *d, uint64_t start)
{
	for (unsigned i = 0; i < d->nruns; i++)
		if (d->run[i].start == start)
			return &d->run[i];
	return NULL;
}

/* Deliver aborts soon to a communicator's runs below an epoch. */
void
device_fail_runs(struct world *w, uint32_t d, uint64_t comm, uint32_t epoch_below)
{
	struct sim_device *dev = dev_of(w, d);

	for (unsigned i = 0; i < dev->nruns; i++)
		if (dev->run[i].comm == comm && dev->run[i].epoch < epoch_below) {
			struct event *e =
			    post(w, w->now + between(w, 10, roll(w, 6) ? 30 * MS : 900 * MS),
				 EV_ABORTED, node_of_device(d));

			e->b = dev->run[i].start;
			e->c = dev->run[i].generation;
		}
}

/* ---- answers */

static void
answer_run(struct world *w, uint32_t s, const struct run_result *res)
{
	GpuSim__RunResponse r = GPU_SIM__RUN_RESPONSE__INIT;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;

	if (res->err.rc != RC_OK) {
		wire_reply_failure(&reply, &res->err);
		reply.failure = (GpuSim__Failure *)failure;
	} else {
		reply.body_case = GPU_SIM__REPLY__BODY_RUN;
		reply.run = &r;
	}
	rpc_answer(w, s, &reply);
}

static void
answer(struct world *w, uint32_t d, const struct protocol_action *a)
{
	GpuSim__CommAttachResponse r = GPU_SIM__COMM_ATTACH_RESPONSE__INIT;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__Empty done = GPU_SIM__EMPTY__INIT;
	uint32_t s = (uint32_t)a->caller - 1;

	if (a->caller == 0 || a->caller > w->nserved || !w->served[s].req) {
		wrong(w, "device %u answers a caller that waits for nothing", d);
		return;
	}
	if (a->result) {
		answer_run(w, s, a->result);
	} else if (a->err->rc != RC_OK) {
		trace(w, "device %u refuses %s: %s", d, wire_request_name(w->served[s].req),
		      a->err->text);
		rpc_answer_err(w, s, a->err);
	} else {
		reply.body_case = GPU_SIM__REPLY__BODY_DONE;
		reply.done = &done;
		if (w->served[s].req->body_case == GPU_SIM__REQUEST__BODY_COMM_ATTACH) {
			reply.body_case = GPU_SIM__REPLY__BODY_COMM_ATTACH;
			reply.commattach = &r;
		}
		rpc_answer(w, s, &reply);
	}
}

/* ---- actions of the protocol */

static void
attach(struct world *w, uint32_t d, const GpuSim__CommAttachRequest *m)
{
	struct sim_device *dev = dev_of(w, d);
	struct dcomm *c = device_comm(dev, m->commid);

	if (!c) {
		if (dev->ncomms == sizeof dev->comm / sizeof *dev->comm) {
			wrong(w, "device %u is in too many communicators", d);
			return;
		}
		c = &dev->comm[dev->ncomms++];
	}
	*c = (struct dcomm){.id = m->commid,
			    .instance = m->instance,
			    .epoch = m->epoch,
			    .rank = m->rank,
			    .nranks = (uint32_t)m->n_ranks};
	for (size_t r = 0; r < m->n_ranks; r++)
		c->dev[r] = (uint32_t)m->ranks[r]->deviceid->value - 1;
	device_fail_runs(w, d, m->commid, m->epoch);
}

static void
detach(struct world *w, uint32_t d, uint64_t comm)
{
	struct sim_device *dev = dev_of(w, d);
	struct dcomm *c = device_comm(dev, comm);

	if (!c)
		return;
	device_fail_runs(w, d, comm, UINT32_MAX);
	*c = dev->comm[--dev->ncomms];
	for (unsigned i = 0; i < BUFFERS; i++)
		if (dev->mem.kept[i].comm == comm)
			dev->mem.kept[i].comm = 0;
}

static void
graph_forget(struct sim_device *dev, uint32_t slot)
{
	if (dev->graph[slot].def)
		gpu_sim__graph_define_request__free_unpacked(dev->graph[slot].def, NULL);
	dev->graph[slot].def = NULL;
}

static GpuSim__GraphDefineRequest *
copy_def(const GpuSim__GraphDefineRequest *m)
{
	struct buf b = pack_message(&m->base);
	GpuSim__GraphDefineRequest *copy =
	    gpu_sim__graph_define_request__unpack(NULL, b.len, (const uint8_t *)b.data);

	buf_fini(&b);
	if (!copy)
		abort();
	return copy;
}

static uint32_t
buffer_of(const GpuSim__Coll *k)
{
	return (uint32_t)((k->recvaddr - MEM_MIN) / (WORDS * sizeof(uint64_t))) % BUFFERS;
}

/* Restore the run's kept data, and keep the data that it will overwrite. */
static void
keep(struct world *w, uint32_t d, const struct protocol_action *a, uint64_t run,
     const struct drun *r)
{
	struct memory *m = &dev_of(w, d)->mem;
	unsigned at = 0;

	for (unsigned i = 0; i < BUFFERS; i++) /* the communicator's, else an empty one */
		if (m->kept[i].comm == a->comm)
			at = i;
		else if (m->kept[at].comm != a->comm && m->kept[at].comm && !m->kept[i].comm)
			at = i;
	if (a->restore && m->kept[at].comm == a->comm && m->kept[at].run == run) {
		for (uint32_t b = 0; b < BUFFERS; b++)
			if (m->kept[at].buffers & 1u << b)
				memcpy(m->word[b], m->kept[at].word[b], sizeof m->word[b]);
		trace(w, "device %u restores what run %" PRIu64 " kept", d, run);
		return;
	}
	if (!a->snapshot)
		return;
	m->kept[at].comm = a->comm;
	m->kept[at].run = run;
	m->kept[at].buffers = 0;
	for (size_t i = 0; i < r->nops; i++)
		if (r->ops[i]->kind_case == GPU_SIM__OP__KIND_COLL)
			m->kept[at].buffers |= 1u << buffer_of(r->ops[i]->coll);
	memcpy(m->kept[at].word, m->word, sizeof m->word);
}

static void
start(struct world *w, uint32_t d, const struct protocol_action *a)
{
	struct sim_device *dev = dev_of(w, d);
	const GpuSim__RunRequest *m = w->served[a->caller - 1].req->run;
	struct drun *r = &dev->run[dev->nruns++];
	struct event *e;

	if (dev->nruns > sizeof dev->run / sizeof *dev->run) {
		wrong(w, "device %u has too many runs", d);
		dev->nruns--;
		return;
	}
	*r = (struct drun){.start = a->start,
			   .comm = a->comm,
			   .epoch = a->epoch,
			   .served = (uint32_t)a->caller - 1,
			   .req = m,
			   .ops = m->ops,
			   .nops = m->n_ops,
			   .generation = ++dev->generation};
	if (a->graph != PROTOCOL_NO_GRAPH) {
		r->def = copy_def(dev->graph[a->graph].def);
		r->ops = r->def->ops;
		r->nops = r->def->n_ops;
	}
	keep(w, d, a, m->run, r);
	trace(w, "device %u starts run %" PRIu64 " of comm %" PRIu64 " epoch %u", d, m->run,
	      a->comm, a->epoch);
	e = post(w, w->now + between(w, 10, 2 * MS), EV_RUN, node_of_device(d));
	e->b = r->start;
	e->c = r->generation;
}

/* False: a result must be fed back. */
static bool
carry_out(struct world *w, uint32_t d, const struct protocol_action *a)
{
	struct sim_device *dev = dev_of(w, d);
	const GpuSim__Request *req =
	    a->caller && a->caller <= w->nserved ? w->served[a->caller - 1].req : NULL;
	struct dcomm *c;

	switch (a->kind) {
	case PROTOCOL_ANSWER:
		answer(w, d, a);
		return true;
	case PROTOCOL_START:
		start(w, d, a);
		return true;
	case PROTOCOL_ABORT:
		c = device_comm(dev, a->comm);
		if (c && c->epoch == a->epoch) {
			c->aborted = true;
			device_fail_runs(w, d, a->comm, a->epoch + 1);
		}
		return true;
	case PROTOCOL_DETACH:
		detach(w, d, a->comm);
		return true;
	case PROTOCOL_DROP:
		graph_forget(dev, a->graph);
		return true;
	case PROTOCOL_ATTACH:
		attach(w, d, req->commattach);
		return false;
	case PROTOCOL_JOIN:
		return false;
	case PROTOCOL_DEFINE:
		if (a->graph >= sizeof dev->graph / sizeof *dev->graph)
			wrong(w, "device %u has too many graphs", d);
		else
			dev->graph[a->graph].def = copy_def(req->graphdefine);
		return false;
	}
	return true;
}

static void
feed(struct world *w, uint32_t d, const struct protocol_event *ev)
{
	static const struct err good;
	const struct protocol_action *a;
	struct protocol_event due = {.kind = PROTOCOL_RESULT, .err = &good};
	size_t n = protocol_step(dev_of(w, d)->protocol, ev, &a);

	for (size_t i = 0; i < n && !w->wrong[0]; i++)
		if (!carry_out(w, d, &a[i]))
			due.caller = a[i].caller;
	if (due.caller && !w->wrong[0])
		feed(w, d, &due);
}

/* ---- runs */

static void
run_end(struct world *w, uint32_t d, struct drun *r, const struct err *err,
	const GpuSim__Failure *f)
{
	struct sim_device *dev = dev_of(w, d);
	struct run_result result = {.err = *err};
	struct protocol_event ev = {.kind = PROTOCOL_ENDED, .start = r->start, .result = &result};

	trace(w, "device %u ends run %" PRIu64 " of comm %" PRIu64 " epoch %u: %s %s", d,
	      r->req->run, r->comm, r->epoch, rc_name(err->rc), err->text);
	if (r->def)
		gpu_sim__graph_define_request__free_unpacked(r->def, NULL);
	*r = dev->run[--dev->nruns];
	failure = f;
	feed(w, d, &ev);
	failure = NULL;
}

/* The kernel of the world: it counts how often it was executed. */
static void
launch(struct world *w, uint32_t d, const GpuSim__Launch *l)
{
	uint64_t tag = l->n_args ? l->args[0]->u : 0;

	if (tag >= w->tags) {
		wrong(w, "device %u: a kernel nobody launched", d);
		return;
	}
	if (++dev_of(w, d)->mem.count[tag] > w->tag_max[tag])
		wrong(w,
		      "device %u has executed kernel %" PRIu64
		      " %u times, at most %u were asked for",
		      d, tag, dev_of(w, d)->mem.count[tag], w->tag_max[tag]);
}

static bool
is_over(const struct sim_device *dev, const struct drun *r)
{
	const struct dcomm *c = device_comm((struct sim_device *)dev, r->comm);

	return !c || c->aborted || c->epoch != r->epoch;
}

/* Run as far as possible without waiting. */
static void
run_go_on(struct world *w, uint32_t d, struct drun *r)
{
	static const struct err good;
	struct sim_device *dev = dev_of(w, d);
	struct err err;

	while (!w->wrong[0]) {
		const GpuSim__Op *op;

		if (is_over(dev, r)) {
			err_set(&err, RC_ABORTED, "aborted");
			run_end(w, d, r, &err, NULL);
			return;
		}
		if (r->op == r->nops) {
			r->op = 0;
			if (++r->iteration >= r->req->iterations) {
				run_end(w, d, r, &good, NULL);
				return;
			}
			continue;
		}
		op = r->ops[r->op];
		if (op->kind_case == GPU_SIM__OP__KIND_COLL) {
			r->waits = true;
			coll_arrive(w, d, r, op->coll,
				    r->req->firstop + r->iteration * r->req->stride +
					op->coll->opoffset);
			return;
		}
		launch(w, d, op->launch);
		r->op++;
	}
}

/* It has waited too long: find the rank that it waits for. */
static void
too_late(struct world *w, uint32_t d, struct drun *r)
{
	GpuSim__Failure f = GPU_SIM__FAILURE__INIT;
	uint32_t missing[MAX_DEVICES], bits = coll_missing(w, d, r);
	char coll[] = "allreduce", algo[] = "ring";
	struct err err;

	f.operation = r->req->firstop;
	f.collective = coll;
	f.algo = algo;
	f.step = 1;
	f.steps = 2;
	f.idlems = OP_TIMEOUT_MS;
	f.missing = missing;
	for (uint32_t q = 0; q < MAX_DEVICES; q++)
		if (bits & 1u << q)
			missing[f.n_missing++] = q;
	err_set(&err, RC_TIMEOUT, "no progress for %.1fs", OP_TIMEOUT_MS / 1e3);
	coll_leave(w, d, r);
	run_end(w, d, r, &err, &f);
}

void
device_run_event(struct world *w, const struct event *e)
{
	uint32_t d = w->node[e->node].index;
	struct drun *r = run_by_start(dev_of(w, d), e->b);
	struct err err;

	if (!r || r->generation != e->c)
		return;
	switch (e->kind) {
	case EV_RUN:
		run_go_on(w, d, r);
		return;
	case EV_COLL:
		if (r->waits && r->at == e->d) {
			if (coll_finish(w, d, r)) {
				r->waits = false;
				r->op++;
				run_go_on(w, d, r);
			}
		}
		return;
	case EV_COLL_LATE:
		if (r->waits && r->at == e->d)
			too_late(w, d, r);
		return;
	case EV_REFUSED:
		if (!r->waits || r->at != e->d)
			return;
		err_set(&err, RC_ABORTED, "a peer gave up");
		break;
	default:
		err_set(&err, RC_ABORTED, "aborted");
	}
	if (r->waits)
		coll_leave(w, d, r);
	run_end(w, d, r, &err, NULL);
}

/* ---- reports about itself */

struct metadata {
	GpuSim__DeviceMetadata m;
	GpuSim__DeviceId id;
	GpuSim__MemAddr min, max;
	char address[32], data[32], path[32], host[8];
};

static void
describe(struct world *w, uint32_t d, struct metadata *out)
{
	gpu_sim__device_metadata__init(&out->m);
	gpu_sim__device_id__init(&out->id);
	gpu_sim__mem_addr__init(&out->min);
	gpu_sim__mem_addr__init(&out->max);
	snprintf(out->address, sizeof out->address, "sim:%u", d);
	snprintf(out->data, sizeof out->data, "data:%u", d);
	snprintf(out->path, sizeof out->path, "/mem/%u", d);
	snprintf(out->host, sizeof out->host, "host");
	out->id.value = d + 1;
	out->min.value = MEM_MIN;
	out->max.value = MEM_MAX;
	out->m.deviceid = &out->id;
	out->m.minmemaddr = &out->min;
	out->m.maxmemaddr = &out->max;
	out->m.address = out->address;
	out->m.dataaddress = out->data;
	out->m.mempath = out->path;
	out->m.memkept = true;
	out->m.host = out->host;
	out->m.pid = pid_of_device(d, w->node[node_of_device(d)].life);
	out->m.ordinal = d;
	out->m.incarnation = dev_of(w, d)->incarnation;
	out->m.spare = dev_of(w, d)->spare;
}

void
device_register(struct world *w, uint32_t d)
{
	struct sim_device *dev = dev_of(w, d);
	GpuSim__RegisterRequest q = GPU_SIM__REGISTER_REQUEST__INIT;
	struct metadata me;
	struct buf body;

	describe(w, d, &me);
	q.metadata = &me.m;
	body = PACK(w, REGISTER_DEVICE, registerdevice, &q);
	rpc_start(w, CALL_REGISTER, node_of_device(d), 0, dev->client_id, ++dev->seq, 0, 2000 * MS,
		  &body);
	post(w, w->now + HEARTBEAT_MS * MS, EV_REGISTER, node_of_device(d));
}

static void
answer_metadata(struct world *w, uint32_t d, uint32_t s)
{
	GpuSim__GetDeviceMetadataResponse r = GPU_SIM__GET_DEVICE_METADATA_RESPONSE__INIT;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	struct metadata me;

	describe(w, d, &me);
	r.metadata = &me.m;
	reply.body_case = GPU_SIM__REPLY__BODY_GET_DEVICE_METADATA;
	reply.getdevicemetadata = &r;
	rpc_answer(w, s, &reply);
}

/* ---- requests */

/* A copy of the lost device's file becomes this one's memory. */
static void
adopt(struct world *w, uint32_t d, uint32_t s)
{
	const GpuSim__AdoptRequest *m = w->served[s].req->adopt;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__Empty done = GPU_SIM__EMPTY__INIT;
	struct err err;

	if (m->incarnation != dev_of(w, d)->incarnation) {
		err_set(&err, RC_ABORTED, "meant for another process");
		rpc_answer_err(w, s, &err);
		return;
	}
	if (m->deviceid == 0 || m->deviceid > w->ndevices) {
		err_set(&err, RC_NOTFOUND, "no such memory file");
		rpc_answer_err(w, s, &err);
		return;
	}
	trace(w, "device %u adopts the memory of device %" PRIu64, d, m->deviceid - 1);
	if (dev_of(w, (uint32_t)m->deviceid - 1)->discarded)
		wrong(w, "device %u adopts memory that was removed", d);
	dev_of(w, d)->mem = dev_of(w, (uint32_t)m->deviceid - 1)->mem;
	dev_of(w, (uint32_t)m->deviceid - 1)->adopted = dev_of(w, d)->adopted = w->now;
	reply.body_case = GPU_SIM__REPLY__BODY_DONE;
	reply.done = &done;
	rpc_answer(w, s, &reply);
}

void
device_serve(struct world *w, uint32_t s)
{
	uint32_t d = w->node[w->served[s].node].index;
	struct protocol_event ev = {
	    .kind = PROTOCOL_REQUEST, .caller = s + 1ull, .request = w->served[s].req};

	trace(w, "device %u is asked %s", d, wire_request_name(w->served[s].req));
	if (ev.request->body_case == GPU_SIM__REQUEST__BODY_ADOPT)
		adopt(w, d, s);
	else if (ev.request->body_case == GPU_SIM__REQUEST__BODY_GET_DEVICE_METADATA)
		answer_metadata(w, d, s);
	else
		feed(w, d, &ev);
}

/* ---- the process */

void
device_start(struct world *w, uint32_t d)
{
	struct sim_device *dev = dev_of(w, d);

	dev->protocol = protocol_new(d + 1);
	if (!dev->protocol)
		abort();
	dev->incarnation = roll64(w) | 1;
	dev->discarded = false;
	dev->client_id = roll64(w) | 1;
	dev->seq = 0;
	device_register(w, d);
}

void
device_kill(struct world *w, uint32_t d)
{
	struct sim_device *dev = dev_of(w, d);

	while (dev->nruns) {
		struct drun *r = &dev->run[dev->nruns - 1];

		if (r->waits)
			coll_leave(w, d, r);
		if (r->def)
			gpu_sim__graph_define_request__free_unpacked(r->def, NULL);
		dev->nruns--;
	}
	for (uint32_t i = 0; i < sizeof dev->graph / sizeof *dev->graph; i++)
		graph_forget(dev, i);
	dev->ncomms = 0;
	protocol_free(dev->protocol);
	dev->protocol = NULL;
}
