/*
 * serve_protocol.c - carry out the protocol's actions (protocol.h).
 *
 * Design notes. Requests come as events from the server's thread, ends of runs from the streams' threads.
 * A thread that queues an event drains the queue, unless another thread already does; so the protocol and
 * the graphs' programs need no lock, and no thread waits. An action may end at once: that end is queued,
 * too. A request's `struct asked` exists from arrival to answer. It has room for the end of the run that
 * it may start, so nothing later can fail for lack of memory.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "dev/device_impl.h"

struct asked {
	struct device *device;
	struct rpc_call *call;
	struct fed request, ended;
	struct run_result result;
	uint64_t *waited;   /* target of result.waited_ns, or NULL */
	struct asked *next; /* of those answered in a step */
};

static struct asked *
asked_of(uint64_t caller)
{
	return (struct asked *)(uintptr_t)caller;
}

static void feed(struct device *d, struct fed *f);

/* ---- answers */

static void
answer_run(struct rpc_call *call, const struct run_result *res)
{
	GpuSim__RunResponse r = GPU_SIM__RUN_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(RUN, run, r);
	const struct failure *f = &res->failure;
	GpuSim__Failure m = GPU_SIM__FAILURE__INIT;
	uint32_t missing[PROGRESS_MISSING_MAX];

	if (res->err.rc != RC_OK) {
		memcpy(missing, f->missing, sizeof missing);
		m.operation = f->op;
		m.collective = (char *)f->coll;
		m.algo = (char *)f->algo;
		m.step = f->step;
		m.steps = f->steps;
		m.n_missing = f->nmissing;
		m.missing = missing;
		m.idlems = f->idle_ns / NS_PER_MS;
		rpc_reply_failure(call, &res->err, f->coll ? &m : NULL);
		return;
	}
	if (rpc_request(call)->run->queued) {
		rpc_reply_done(call);
		return;
	}
	if (res->waited_ns) {
		r.n_waitedns = res->nranks;
		r.waitedns = (uint64_t *)res->waited_ns;
	}
	r.computens = res->compute_ns;
	r.commns = res->comm_ns;
	rpc_reply(call, &reply);
}

static void
answer_other(struct device *d, struct rpc_call *call, const struct err *why)
{
	GpuSim__Request__BodyCase kind = rpc_request(call)->body_case;
	bool of_comm = kind == GPU_SIM__REQUEST__BODY_COMM_ATTACH ||
		       kind == GPU_SIM__REQUEST__BODY_COMM_JOIN ||
		       kind == GPU_SIM__REQUEST__BODY_COMM_DETACH ||
		       kind == GPU_SIM__REQUEST__BODY_COMM_ABORT;
	struct err err = *why;

	if (err.rc == RC_OK && kind == GPU_SIM__REQUEST__BODY_COMM_ATTACH) {
		answer_attach(d, call);
	} else if (err.rc == RC_OK) {
		rpc_reply_done(call);
	} else {
		if (of_comm)
			err_prefix(&err, "device %016" PRIx64, d->id);
		rpc_reply_err(call, &err);
	}
}

/* ---- actions */

/* A run has ended; arg is its caller. */
static void
tell_end(void *arg, const struct run_result *result)
{
	struct asked *k = arg;

	k->result = *result;
	k->result.waited_ns = k->waited = waits_copy(result->waited_ns, result->nranks);
	feed(k->device, &k->ended);
}

static void
start(struct device *d, const struct protocol_action *a)
{
	struct asked *k = asked_of(a->caller);
	const GpuSim__RunRequest *m = rpc_request(k->call)->run;
	struct run_result now = {0};

	k->ended.event = (struct protocol_event){
	    .kind = PROTOCOL_ENDED, .start = a->start, .result = &k->result};
	/* Once started it may end at any time. */
	if (carry_run(d, m, a, tell_end, k, &now.err) != RC_OK || m->queued)
		tell_end(k, &now);
}

/* Report the state of this device's rank in a communicator. */
static void
record(struct device *d, enum flight_mark_kind what, uint64_t comm, uint32_t epoch, uint32_t rank,
       const char *why)
{
	struct flight_mark m = {.what = (uint8_t)what, .epoch = epoch, .comm = comm, .rank = rank};

	device_recorder_mark(&d->recorder, &m, why);
}

/* Carry out one action; an answer frees nothing yet. *due: a due outcome. */
static void
carry_out(struct device *d, const struct protocol_action *a, struct asked **answered,
	  struct protocol_event *due, struct err *err)
{
	struct asked *k = asked_of(a->caller);
	const GpuSim__CommAttachRequest *attach;

	switch (a->kind) {
	case PROTOCOL_ANSWER:
		if (a->result)
			answer_run(k->call, a->result);
		else
			answer_other(d, k->call, a->err);
		k->next = *answered;
		*answered = k;
		return;
	case PROTOCOL_START:
		start(d, a);
		return;
	case PROTOCOL_ABORT:
		xport_abort(d->xport, a->comm, a->epoch, a->reason, NULL);
		cmdqs_comm_over(d->cmdqs, a->comm, a->epoch, a->code, a->reason);
		record(d, FLIGHT_MARK_ABORT, a->comm, a->epoch, 0, a->reason);
		return;
	case PROTOCOL_DETACH:
		xport_detach(d->xport, a->comm, NULL);
		cmdqs_comm_gone(d->cmdqs, a->comm);
		snapshot_drop(d->snapshots, a->comm, 0);
		record(d, FLIGHT_MARK_DETACH, a->comm, 0, 0, NULL);
		return;
	case PROTOCOL_DROP:
		streams_drop(d->streams, d->graph[a->graph]);
		d->graph[a->graph] = NULL;
		return;
	case PROTOCOL_ATTACH:
		carry_attach(d, attach = rpc_request(k->call)->commattach, err);
		if (err->rc == RC_OK)
			record(d, FLIGHT_MARK_ATTACH, attach->commid, attach->epoch,
			       attach->rank + 1, NULL);
		break;
	case PROTOCOL_JOIN:
		carry_join(d, rpc_request(k->call)->commjoin, err);
		break;
	case PROTOCOL_DEFINE:
		carry_define(d, rpc_request(k->call)->graphdefine, a->graph, err);
		break;
	}
	*due = (struct protocol_event){.kind = PROTOCOL_RESULT, .caller = a->caller, .err = err};
}

/* Feed one event and carry out the actions. At most one action of a step has a due outcome, which leads to no
 * other. */
static void
step(struct device *d, const struct protocol_event *ev)
{
	struct protocol_event due = {.kind = PROTOCOL_REQUEST};
	const struct protocol_action *a;
	struct asked *answered = NULL;
	struct err err = {0};
	size_t n = protocol_step(d->protocol, ev, &a);

	for (size_t i = 0; i < n; i++)
		carry_out(d, &a[i], &answered, &due, &err);
	if (due.kind == PROTOCOL_RESULT) {
		n = protocol_step(d->protocol, &due, &a);
		for (size_t i = 0; i < n; i++)
			carry_out(d, &a[i], &answered, &due, &err);
	}
	while (answered) {
		struct asked *k = answered;

		answered = k->next;
		free(k->waited);
		free(k);
	}
}

static void
feed(struct device *d, struct fed *f)
{
	pthread_mutex_lock(&d->feed_lock);
	f->next = NULL;
	*d->feed_tail = f;
	d->feed_tail = &f->next;
	while (!d->feeding && (f = d->feed_head)) {
		d->feed_head = f->next;
		if (!d->feed_head)
			d->feed_tail = &d->feed_head;
		d->feeding = true;
		pthread_mutex_unlock(&d->feed_lock);
		step(d, &f->event); /* frees f, perhaps */
		pthread_mutex_lock(&d->feed_lock);
		d->feeding = false;
	}
	pthread_mutex_unlock(&d->feed_lock);
}

void
serve_protocol(struct device *d, struct rpc_call *call)
{
	struct asked *k = malloc(sizeof *k);
	struct err err;

	if (!k) {
		err_set(&err, RC_NOMEM, "out of memory");
		rpc_reply_err(call, &err);
		return;
	}
	k->device = d;
	k->call = call;
	k->waited = NULL;
	k->request.event = (struct protocol_event){
	    .kind = PROTOCOL_REQUEST, .caller = (uintptr_t)k, .request = rpc_request(call)};
	feed(d, &k->request);
}
