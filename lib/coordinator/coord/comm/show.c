/*
 * show.c - status of communicators for clients.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdlib.h>

static bool
show_paths(const struct comm *comm, ProtobufCBinaryData *out)
{
	uint32_t n = comm->nranks;
	uint8_t *path = alloc_zeroed((size_t)n * n, 1);

	for (uint32_t r = 0; path && r < n; r++)
		for (uint32_t q = 0; q < n; q++)
			path[r * n + q] =
			    r == q || comm_reaches(comm, r, q) ? GPUSIM_PATH_P2P : GPUSIM_PATH_NET;
	*out = (ProtobufCBinaryData){path ? (size_t)n * n : 0, path};
	return path != NULL;
}

/* Its failure, if permanent; not the failure of an attempt to attach. */
static const struct err *
failure_of(const struct comm *comm)
{
	static const struct err none;

	if (comm->state == COMM_DRAINING && !comm_recovers(comm))
		return &comm->rec.told;
	return comm->state & (COMM_LIVE | COMM_FAILED | COMM_DETACHING) ? &comm->failed : &none;
}

static GpuSim__Status
status_of(const struct comm *comm)
{
	if (failure_of(comm)->rc != RC_OK)
		return GPU_SIM__STATUS__FAILED;
	return comm->nruns || comm->state != COMM_LIVE ? GPU_SIM__STATUS__IN_PROGRESS
						       : GPU_SIM__STATUS__SUCCESS;
}

/* In a queued communicator: the longest wait for this rank, less its own wait. */
static uint64_t
late_ns(const struct comm *comm, uint32_t rank)
{
	uint64_t held = 0, waited = 0;

	for (uint32_t r = 0; r < comm->nranks; r++) {
		const uint64_t *by = comm->rank[r].waited_ns, *own = comm->rank[rank].waited_ns;

		held = by && by[rank] > held ? by[rank] : held;
		waited += own ? own[r] : 0;
	}
	return held > waited ? held - waited : 0;
}

static bool
show_lateness(const struct comm *comm, GpuSim__GetCommStatusResponse *out)
{
	GpuSim__Lateness **p = messages_new(comm->nranks, &gpu_sim__lateness__descriptor);

	for (uint32_t r = 0; p && r < comm->nranks; r++) {
		const struct lateness *late = &comm->rank[r].late;

		p[r]->rank = r;
		p[r]->deviceid = device_id(comm->rank[r].dev);
		p[r]->operations = comm->queued ? comm->rank[r].operations : late->operations;
		p[r]->sumns = comm->queued ? late_ns(comm, r) : late->sum_ns;
		p[r]->maxns = late->max_ns;
	}
	out->lateness = p;
	out->n_lateness = p ? comm->nranks : 0;
	return p;
}

void
comm_late(struct comm *comm, uint32_t rank, uint64_t nops, uint64_t ns)
{
	struct lateness *late = &comm->rank[rank].late;

	late->operations += nops;
	late->sum_ns += ns;
	if (ns > late->max_ns)
		late->max_ns = ns;
}

/* The fields of a status besides the summary. */
struct show {
	bool paths, lateness;
};

static const struct show shows[2][2] = {{{false, false}, {false, true}},
					{{true, false}, {true, true}}};

static void
comm_status_answer(struct coord *c, struct comm *comm, struct pending *p, const struct show *show)
{
	GpuSim__GetCommStatusResponse r = GPU_SIM__GET_COMM_STATUS_RESPONSE__INIT;
	struct device_msgs msgs = {0};
	bool unheard = failure_of(comm)->rc == RC_OK && comm->unheard.rc != RC_OK && !comm->nruns;
	const struct err *why = unheard ? &comm->unheard : failure_of(comm);
	struct err err;

	if (device_msgs_of_comm(c, comm, &msgs) && (!show->paths || show_paths(comm, &r.paths)) &&
	    (!show->lateness || show_lateness(comm, &r))) {
		r.status = unheard ? GPU_SIM__STATUS__FAILED : status_of(comm);
		r.reason = (char *)why->text;
		r.code = why->rc;
		r.pending = comm->nruns;
		r.epoch = comm->epoch;
		r.queued = comm->queued;
		r.onfailure = (GpuSim__OnFailure)comm->on_failure;
		r.recoveries = comm->recoveries;
		r.recovered = comm->recovered.text;
		r.n_devices = msgs.n;
		r.devices = msgs.p;
		answer_body(c, p, GPU_SIM__REPLY__BODY_GET_COMM_STATUS, &r);
	} else {
		comm_nomem(comm, &err);
		answer_failure(c, p, &err);
	}
	free(r.lateness);
	free(r.paths.data);
	device_msgs_fini(&msgs);
}

static bool
idle_late(struct coord *c, struct pending *p, struct err *err)
{
	struct comm *comm = comm_find(c, pending_id(p));

	(void)err;
	if (comm)
		comm_status_answer(c, comm, p, pending_own(p));
	return comm;
}

const struct wait wait_idle = {.late = idle_late};

void
comm_works_for_lab(struct comm *comm)
{
	comm->by_lab = true;
	if (comm->nruns == 0)
		comm->unheard = (struct err){0};
}

void
comm_unheard(struct comm *comm, const struct err *why)
{
	if (comm->by_lab)
		comm->unheard = *why;
}

void
comm_idle(struct coord *c, struct comm *comm)
{
	struct pending *p;

	while (comm->nruns == 0 && comm->state & (COMM_LIVE | COMM_FAILED) &&
	       (p = pending_find(c, &wait_idle, comm->id)))
		comm_status_answer(c, comm, p, pending_own(p));
}

void
comm_summary(const struct comm *comm, uint64_t *ids, GpuSim__CommSummary *out)
{
	out->commid = comm->id;
	out->epoch = comm->epoch;
	out->status = status_of(comm);
	out->reason = (char *)failure_of(comm)->text;
	out->onfailure = (GpuSim__OnFailure)comm->on_failure;
	out->recoveries = comm->recoveries;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		ids[r] = device_id(comm->rank[r].dev);
		if (comm->rank[r].operations > out->operations)
			out->operations = comm->rank[r].operations;
	}
	out->deviceids = ids;
	out->n_deviceids = comm->nranks;
	out->pending = comm->nruns;
	out->queued = comm->queued;
	out->program = (char *)comm->label.program;
	out->pid = comm->label.pid;
	out->clientid = comm->client_id;
	out->optimeoutms = comm->op_timeout_ms;
	out->recovered = (char *)comm->recovered.text;
	out->grid = (char *)comm->grid_text;
	if (comm->state & (COMM_DRAINING | COMM_DECIDING | COMM_REPLACING | COMM_ATTACHING |
			   COMM_JOINING | COMM_DEFINING))
		out->cause = (char *)comm->rec.cause.text;
}

size_t
comm_counts(const struct comm *comm, uint64_t *operations)
{
	for (uint32_t r = 0; r < comm->nranks && comm->queued; r++)
		operations[r] = comm->rank[r].operations;
	return comm->queued ? comm->nranks : 0;
}

enum rc
on_comm_status(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	struct comm *comm = comm_find(c, req->getcommstatus->commid);
	const struct show *show;

	if (!comm)
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64,
			       req->getcommstatus->commid);
	show = &shows[req->getcommstatus->paths][req->getcommstatus->lateness];
	if (show->paths && comm->nranks > WIRE_MAX_PATHS)
		return err_set(err, RC_INVAL,
			       "comm %" PRIu64 " has %u ranks; paths are reported for at most %u",
			       comm->id, comm->nranks, WIRE_MAX_PATHS);
	if (req->getcommstatus->wait && (comm->nruns || comm_busy(comm)))
		pending_wait(c, p, &wait_idle, comm->id, (void *)show);
	else
		comm_status_answer(c, comm, p, show);
	return RC_OK;
}

void
answer_init(struct coord *c, struct comm *comm, struct pending *p)
{
	GpuSim__CommInitResponse r = GPU_SIM__COMM_INIT_RESPONSE__INIT;
	struct device_msgs msgs;
	struct err err;

	if (!device_msgs_of_comm(c, comm, &msgs)) {
		comm_nomem(comm, &err);
		answer_failure(c, p, &err);
		return;
	}
	r.success = true;
	r.commid = comm->id;
	r.epoch = comm->epoch;
	r.queued = comm->queued;
	r.n_devices = msgs.n;
	r.devices = msgs.p;
	answer_body(c, p, GPU_SIM__REPLY__BODY_COMM_INIT, &r);
	device_msgs_fini(&msgs);
}
