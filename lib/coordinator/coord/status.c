/*
 * status.c - the status of the coordinator, its devices and communicators.
 */
#include "coord/top.h"

#include <stdlib.h>

#define PROGRESS_MAX 1024u /* ranks with progress, of all communicators */
#define WORK_MAX     1024u /* operations that wait or run, of all communicators */
#define RANKS_MAX    1024u /* ranks without an answer, or missing, of all communicators */
#define GATHER_MAX   64u   /* rendezvous, and requests that wait for devices */

struct tally {
	GpuSim__RequestCount **request;
	GpuSim__FailureCount **recovered, **failed;
};

static void
tally_fini(struct tally *t)
{
	free(t->request);
	free(t->recovered);
	free(t->failed);
}

/* Collect the counts that are not 0. */
static size_t
tally_failures(const uint64_t counts[COUNT_POLICIES][COUNT_CODES], GpuSim__FailureCount **out)
{
	size_t n = 0;

	for (unsigned policy = 0; policy < COUNT_POLICIES; policy++)
		for (unsigned code = 0; code < COUNT_CODES; code++)
			if (counts[policy][code]) {
				out[n]->onfailure = (GpuSim__OnFailure)policy;
				out[n]->code = code;
				out[n++]->count = counts[policy][code];
			}
	return n;
}

#define SHOW(name, reply) r->reply = c->counts.name;
#define SHOW_EACH(name, reply, numbers) \
	r->reply = c->counts.name;      \
	r->n_##reply = gpu_sim__##numbers##__descriptor.n_values;

/* Add the coordinator's counts to the answer, which borrows them. False: out of memory. */
static bool
tally_show(struct coord *c, struct tally *t, GpuSim__StatusResponse *r)
{
	const size_t nfailures = (size_t)COUNT_POLICIES * COUNT_CODES;

	*t = (struct tally){
	    messages_new(COUNT_REQUESTS, &gpu_sim__request_count__descriptor),
	    messages_new(nfailures, &gpu_sim__failure_count__descriptor),
	    messages_new(nfailures, &gpu_sim__failure_count__descriptor),
	};
	if (!t->request || !t->recovered || !t->failed)
		return false;
	r->requests = t->request;
	for (uint32_t kind = 0; kind < COUNT_REQUESTS; kind++)
		if (c->counts.request[kind]) {
			t->request[r->n_requests]->kind = kind;
			t->request[r->n_requests++]->count = c->counts.request[kind];
		}
	r->recoveries = t->recovered;
	r->n_recoveries = tally_failures(c->counts.recovered, t->recovered);
	r->failures = t->failed;
	r->n_failures = tally_failures(c->counts.failed, t->failed);
	COUNTERS(SHOW, SHOW_EACH)
	return true;
}

struct summaries {
	GpuSim__CommSummary **comm;
	GpuSim__Progress **progress;
	GpuSim__Work **work;
	uint64_t *ids, *counts;
	uint32_t *ranks;
};

static void
summaries_fini(struct summaries *s)
{
	free(s->comm);
	free(s->ids);
	free(s->counts);
	free(s->ranks);
	free(s->progress);
	free(s->work);
}

static bool
summaries_init(const struct coord *c, struct summaries *out)
{
	size_t nids = 0, nprogress = 0, n = 0;
	struct work_room room = {.nwork = WORK_MAX, .nrank = RANKS_MAX};

	for (const struct comm *comm = comm_next(c, NULL); comm; comm = comm_next(c, comm))
		nids += comm_nranks(comm);
	*out = (struct summaries){
	    messages_new(comms_count(c), &gpu_sim__comm_summary__descriptor),
	    messages_new(PROGRESS_MAX, &gpu_sim__progress__descriptor),
	    messages_new(WORK_MAX, &gpu_sim__work__descriptor),
	    alloc_zeroed(nids, sizeof *out->ids),
	    alloc_zeroed(nids, sizeof *out->counts),
	    alloc_zeroed(RANKS_MAX, sizeof *out->ranks),
	};
	if (!out->comm || !out->ids || !out->counts || !out->ranks || !out->progress || !out->work)
		return false;
	room.work = out->work;
	room.rank = out->ranks;
	nids = 0;
	for (const struct comm *comm = comm_next(c, NULL); comm; comm = comm_next(c, comm)) {
		GpuSim__CommSummary *s = out->comm[n++];

		comm_summary(comm, out->ids + nids, s);
		if (!comm_is_queued(comm))
			s->operations = runs_operations(comm);
		s->progress = out->progress + nprogress;
		s->n_progress = progress_show(c, comm, s->progress, PROGRESS_MAX - nprogress);
		nprogress += s->n_progress;
		s->rankoperations = out->counts + nids;
		s->n_rankoperations = comm_counts(comm, s->rankoperations);
		work_show(c, comm, &room, s);
		nids += comm_nranks(comm);
	}
	return true;
}

/* Rendezvous, and requests that wait for devices. */
struct queues {
	GpuSim__Gathering **gathering;
	GpuSim__WaitingRequest **request;
	char (*name)[COMM_GATHERING_NAME];
	uint32_t *rank;
};

static void
queues_fini(struct queues *q)
{
	free(q->gathering);
	free(q->request);
	free(q->name);
	free(q->rank);
}

/* Add them to the answer, which borrows them. False: out of memory. */
static bool
queues_show(const struct coord *c, struct queues *q, GpuSim__StatusResponse *r)
{
	*q = (struct queues){
	    messages_new(GATHER_MAX, &gpu_sim__gathering__descriptor),
	    messages_new(GATHER_MAX, &gpu_sim__waiting_request__descriptor),
	    alloc_zeroed(GATHER_MAX, sizeof *q->name),
	    alloc_zeroed(RANKS_MAX, sizeof *q->rank),
	};
	if (!q->gathering || !q->request || !q->name || !q->rank)
		return false;
	r->gatherings = q->gathering;
	r->n_gatherings = rendezvous_show(c, q->gathering, GATHER_MAX, q->name, q->rank, RANKS_MAX);
	r->queue = q->request;
	r->n_queue = queue_show(c, q->request, GATHER_MAX);
	return true;
}

/* Shorten the answer to the size of a control message: drop the communicators' lists of ranks first, then the
 * reasons. */
static void
trim(GpuSim__Reply *reply)
{
	GpuSim__StatusResponse *r = reply->status;
	size_t max = WIRE_CONTROL_MAX - 1024;

	for (size_t i = 0; i < r->n_comms && gpu_sim__reply__get_packed_size(reply) > max; i += 64)
		for (size_t k = i; k < r->n_comms && k < i + 64; k++)
			r->comms[k]->n_deviceids = r->comms[k]->n_progress =
			    r->comms[k]->n_rankoperations = r->comms[k]->n_calls = 0;
	for (size_t i = 0; i < r->n_comms && gpu_sim__reply__get_packed_size(reply) > max; i += 64)
		for (size_t k = i; k < r->n_comms && k < i + 64; k++)
			r->comms[k]->reason = (char *)protobuf_c_empty_string;
}

enum rc
on_status(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__StatusResponse r = GPU_SIM__STATUS_RESPONSE__INIT;
	struct device_msgs devices = {0};
	struct summaries comms = {0};
	struct tally tally = {0};
	struct queues queues = {0};
	char version[] = GPUSIM_VERSION;
	enum rc rc = RC_OK;

	(void)req;
	if (device_msgs_all(c, &devices) && summaries_init(c, &comms) &&
	    queues_show(c, &queues, &r) && tally_show(c, &tally, &r)) {
		r.instance = c->cfg.instance;
		r.pid = c->cfg.pid;
		r.uptimems = c->now_ms - c->start_ms;
		r.version = version;
		r.address = c->cfg.address;
		r.n_devices = devices.n;
		r.devices = devices.p;
		r.n_comms = comms_count(c);
		r.comms = comms.comm;
		r.commsmade = comms_last(c);
		r.waiting = queue_length(c);
		reply.body_case = GPU_SIM__REPLY__BODY_STATUS;
		reply.status = &r;
		trim(&reply);
		answer(c, p, &reply);
	} else {
		rc = err_set(err, RC_NOMEM, "status: out of memory");
	}
	tally_fini(&tally);
	queues_fini(&queues);
	summaries_fini(&comms);
	device_msgs_fini(&devices);
	return rc;
}
