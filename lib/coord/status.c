/*
 * status.c - what the coordinator tells about itself, its devices and communicators.
 */
#include "coord/top.h"

#include <stdlib.h>

#define PROGRESS_MAX 1024u /* ranks whose progress is told, of all communicators */

struct summaries {
	GpuSim__CommSummary *v, **p;
	GpuSim__Progress *progress, **progress_p;
	uint64_t *ids;
	size_t n;
};

static void
summaries_fini(struct summaries *s)
{
	free(s->v);
	free(s->p);
	free(s->ids);
	free(s->progress);
	free(s->progress_p);
}

/* The progress of a communicator's ranks, behind the `used` that are there. */
static size_t
summary_progress(const struct coord *c, const struct comm *comm, struct summaries *s, size_t used)
{
	size_t n = progress_show(c, comm, s->progress + used, PROGRESS_MAX - used);

	for (size_t i = 0; i < n; i++)
		s->progress_p[used + i] = &s->progress[used + i];
	s->v[s->n].n_progress = n;
	s->v[s->n].progress = s->progress_p + used;
	return used + n;
}

static bool
summaries_init(const struct coord *c, struct summaries *out)
{
	size_t nids = 0, nprogress = 0;

	for (const struct comm *comm = comm_next(c, NULL); comm; comm = comm_next(c, comm))
		nids += comm_nranks(comm);
	*out = (struct summaries){.v = alloc_zeroed(comms_count(c), sizeof *out->v),
				  .p = alloc_zeroed(comms_count(c), sizeof(void *)),
				  .ids = alloc_zeroed(nids, sizeof *out->ids),
				  .progress = alloc_zeroed(PROGRESS_MAX, sizeof *out->progress),
				  .progress_p = alloc_zeroed(PROGRESS_MAX, sizeof(void *))};
	if (!out->v || !out->p || !out->ids || !out->progress || !out->progress_p) {
		summaries_fini(out);
		return false;
	}
	nids = 0;
	for (const struct comm *comm = comm_next(c, NULL); comm; comm = comm_next(c, comm)) {
		comm_summary(comm, out->ids + nids, &out->v[out->n]);
		out->v[out->n].operations = runs_operations(comm);
		nprogress = summary_progress(c, comm, out, nprogress);
		nids += comm_nranks(comm);
		out->p[out->n] = &out->v[out->n];
		out->n++;
	}
	return true;
}

/* What a control message can hold: of the comms the progress and the lists of devices go first, then
 * the reasons. */
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
on_status(struct coord *c, struct pending *w, const GpuSim__Request *req, struct err *err)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__StatusResponse r = GPU_SIM__STATUS_RESPONSE__INIT;
	struct device_msgs devices;
	struct summaries comms;
	char version[] = GPUSIM_VERSION;

	(void)req;
	if (!device_msgs_all(c, &devices))
		return err_set(err, RC_NOMEM, "status: out of memory");
	if (!summaries_init(c, &comms)) {
		device_msgs_fini(&devices);
		return err_set(err, RC_NOMEM, "status: out of memory");
	}
	r.instance = c->cfg.instance;
	r.pid = c->cfg.pid;
	r.uptimems = c->now_ms - c->start_ms;
	r.version = version;
	r.address = c->cfg.address;
	r.n_devices = devices.n;
	r.devices = devices.p;
	r.n_comms = comms.n;
	r.comms = comms.p;
	r.waiting = queue_length(c);
	reply.body_case = GPU_SIM__REPLY__BODY_STATUS;
	reply.status = &r;
	trim(&reply);
	answer(c, w, &reply);
	summaries_fini(&comms);
	device_msgs_fini(&devices);
	return RC_OK;
}
