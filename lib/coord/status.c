/*
 * status.c - what the coordinator tells about itself, its devices and communicators.
 */
#include "coord/top.h"

#include <stdlib.h>

#define PROGRESS_MAX 1024u /* ranks whose progress is told, of all communicators */

struct summaries {
	GpuSim__CommSummary **comm;
	GpuSim__Progress **progress;
	uint64_t *ids;
};

static void
summaries_fini(struct summaries *s)
{
	free(s->comm);
	free(s->ids);
	free(s->progress);
}

static bool
summaries_init(const struct coord *c, struct summaries *out)
{
	size_t nids = 0, nprogress = 0, n = 0;

	for (const struct comm *comm = comm_next(c, NULL); comm; comm = comm_next(c, comm))
		nids += comm_nranks(comm);
	*out = (struct summaries){
	    messages_new(comms_count(c), &gpu_sim__comm_summary__descriptor),
	    messages_new(PROGRESS_MAX, &gpu_sim__progress__descriptor),
	    alloc_zeroed(nids, sizeof *out->ids),
	};
	if (!out->comm || !out->ids || !out->progress)
		return false;
	nids = 0;
	for (const struct comm *comm = comm_next(c, NULL); comm; comm = comm_next(c, comm)) {
		GpuSim__CommSummary *s = out->comm[n++];

		comm_summary(comm, out->ids + nids, s);
		if (!comm_is_queued(comm))
			s->operations = runs_operations(comm);
		s->progress = out->progress + nprogress;
		s->n_progress = progress_show(c, comm, s->progress, PROGRESS_MAX - nprogress);
		nprogress += s->n_progress;
		nids += comm_nranks(comm);
	}
	return true;
}

/* Cut to the size of a control message: first the communicators' progress and device lists go,
 * then the reasons. */
static void
trim(GpuSim__Reply *reply)
{
	GpuSim__StatusResponse *r = reply->status;
	size_t max = WIRE_CONTROL_MAX - 1024;

	for (size_t i = 0; i < r->n_comms && gpu_sim__reply__get_packed_size(reply) > max; i += 64)
		for (size_t k = i; k < r->n_comms && k < i + 64; k++)
			r->comms[k]->n_deviceids = r->comms[k]->n_progress = 0;
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
	char version[] = GPUSIM_VERSION;
	enum rc rc = RC_OK;

	(void)req;
	if (device_msgs_all(c, &devices) && summaries_init(c, &comms)) {
		r.instance = c->cfg.instance;
		r.pid = c->cfg.pid;
		r.uptimems = c->now_ms - c->start_ms;
		r.version = version;
		r.address = c->cfg.address;
		r.n_devices = devices.n;
		r.devices = devices.p;
		r.n_comms = comms_count(c);
		r.comms = comms.comm;
		r.waiting = queue_length(c);
		reply.body_case = GPU_SIM__REPLY__BODY_STATUS;
		reply.status = &r;
		trim(&reply);
		answer(c, p, &reply);
	} else {
		rc = err_set(err, RC_NOMEM, "status: out of memory");
	}
	summaries_fini(&comms);
	device_msgs_fini(&devices);
	return rc;
}
