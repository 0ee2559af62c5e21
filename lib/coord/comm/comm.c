/*
 * comm.c - communicators: found, failed as a whole, detached, told about.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdlib.h>

struct comm *
comm_find(struct coord *c, uint64_t id)
{
	struct comm *comm = c->comms->first;

	while (comm && comm->id != id)
		comm = comm->next;
	return comm && comm->made && comm->state != COMM_DETACHING ? comm : NULL;
}

enum rc
comm_usable(struct coord *c, uint64_t id, struct comm **out, struct err *err)
{
	struct comm *comm = comm_find(c, id);

	if (!comm)
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64, id);
	if (comm->failed.rc != RC_OK && !comm_busy(comm))
		return err_set(err, RC_FAILED,
			       "comm %" PRIu64 " failed earlier: %s; shrink or destroy it", id,
			       comm->failed.text);
	*out = comm;
	return RC_OK;
}

bool
member_there(const struct member *m)
{
	return device_incarnation(m->dev) == m->incarnation;
}

bool
member_lost(const struct member *m)
{
	return m->gone || device_is_lost(m->dev) || !member_there(m);
}

struct pair_count *
comm_pair(struct comm *comm, uint32_t src, uint32_t dst)
{
	struct pair_count *p;
	size_t i;

	if (pairs_index(&comm->pairs, src, dst, &i) != RC_OK)
		return NULL;
	p = pairs_beside(&comm->pairs, i, comm->pair, &comm->pair_cap, sizeof *p);
	if (!p)
		return NULL;
	comm->pair = p;
	return &p[i];
}

static const struct wait wait_idle;

/* The first rank that has not answered. */
static bool
name_missing(struct coord *c, struct pending *p, struct err *err)
{
	const struct comm *comm = c->comms->first;

	while (comm && comm->id != pending_id(p))
		comm = comm->next;
	for (uint32_t r = 0; comm && r < comm->nranks; r++)
		if (call_is_live(&comm->rank[r].call)) {
			err_set(err, RC_TIMEOUT,
				"comm %" PRIu64 ": rank %u (device %016" PRIx64
				") has not answered its %s",
				comm->id, r, device_id(comm->rank[r].dev),
				comm->state == COMM_ATTACHING ? "attach"
				: comm->state == COMM_JOINING ? "join"
							      : "detach");
			break;
		}
	return false;
}

const struct wait wait_attach = {.late = name_missing};
const struct wait wait_detach = {.late = name_missing};
const struct wait wait_abort;

/* ---- ending one */

static void
comm_detached(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct comm *comm = owner;
	struct err err;

	comm->waiting--;
	if (o->err.rc == RC_OK)
		return;
	call_culprit(comm->id, rank, o, &err);
	act_log(c, "detach: %s", err.text);
}

void
comm_detach(struct coord *c, struct comm *comm)
{
	members_cancel(c, comm);
	comm->state = COMM_DETACHING;
	comm->detach_ms = c->now_ms + c->cfg.abort_grace_ms;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		const struct member *m = &comm->rank[r];
		struct buf body = {0};

		if (!m->attached || !member_there(m))
			continue;
		comm_pack_detach(comm, &body);
		if (device_is_lost(m->dev) && body.data)
			device_tell(c, m->dev, &body);
		else
			member_call(c, comm, r, comm_detached, c->cfg.abort_grace_ms, &body);
	}
}

void
comm_destroy(struct coord *c, struct comm *comm)
{
	struct err err;

	err_set(&err, RC_ABORTED, "communicator %" PRIu64 " destroyed", comm->id);
	for (const struct run *run = comm->runs; run; run = run->next)
		if (run->started) {
			/* Nobody waits: the detach that follows tells. */
			members_abort(c, comm, err.text, NULL);
			break;
		}
	/* Detaching from here on: nothing that ends below may start anything new. */
	comm->state = COMM_DETACHING;
	runs_end_all(c, comm, &err);
	while (comm->groups)
		group_free(c, comm, comm->groups);
	while (comm->graphs) {
		pendings_fail(c, &wait_graph, comm->graphs->id, &err);
		graph_free(c, comm->graphs);
	}
	pendings_fail(c, &wait_idle, comm->id, &err);
	pendings_fail(c, &wait_attach, comm->id, &err);
	pendings_fail(c, &wait_abort, comm->id, &err);
	pendings_fail(c, &wait_devices, comm->id, &err);
	comm_detach(c, comm);
}

void
comm_free(struct coord *c, struct comm *comm)
{
	struct comm **p = &c->comms->first;

	while (*p != comm)
		p = &(*p)->next;
	*p = comm->next;
	if (!comm->next)
		c->comms->tail = p;
	c->comms->n--;
	comm_unrecord(c, comm);
	members_cancel(c, comm);
	rendezvous_used(c, comm);
	for (uint32_t r = 0; r < comm->nranks; r++) {
		member_release(&comm->rank[r]);
		free(comm->rank[r].mapped);
		device_release(comm->rank[r].dev);
	}
	pairs_fini(&comm->pairs);
	free(comm->pair);
	free(comm->holders);
	free(comm->rank);
	free(comm);
}

static void
detach_ended(struct coord *c, struct comm *comm)
{
	uint64_t id = comm->id;
	struct err failed = comm->failed;
	struct pending *w;

	comm_free(c, comm);
	while ((w = pending_find(c, &wait_detach, id))) {
		GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
		GpuSim__CommDestroyResponse r = GPU_SIM__COMM_DESTROY_RESPONSE__INIT;

		if (pending_asker(w)->kind == GPU_SIM__REQUEST__BODY_COMM_INIT ||
		    pending_asker(w)->kind == GPU_SIM__REQUEST__BODY_COMM_INIT_RANK) {
			answer_failure(c, w, &failed);
			continue;
		}
		r.success = true;
		reply.body_case = GPU_SIM__REPLY__BODY_COMM_DESTROY;
		reply.commdestroy = &r;
		answer(c, w, &reply);
	}
}

void
comms_reap(struct coord *c)
{
	struct comm *next;

	for (struct comm *comm = c->comms->first; comm; comm = next) {
		next = comm->next;
		graphs_reap(c, comm);
		comm_recover_step(c, comm);
		if ((comm->state == COMM_ATTACHING || comm->state == COMM_JOINING) &&
		    comm->waiting == 0)
			comm_attach_ended(c, comm);
		if (comm->state == COMM_DETACHING &&
		    (comm->waiting == 0 || c->now_ms >= comm->detach_ms))
			detach_ended(c, comm);
	}
}

enum rc
on_comm_destroy(struct coord *c, struct pending *w, const GpuSim__Request *req, struct err *err)
{
	uint64_t id = req->commdestroy->commid;
	struct comm *comm = c->comms->first;

	while (comm && comm->id != id)
		comm = comm->next;
	if (!comm || (!comm->made && comm->state != COMM_DETACHING))
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64, id);
	if (comm->state != COMM_DETACHING)
		comm_destroy(c, comm);
	pending_wait(c, w, &wait_detach, id, NULL);
	return RC_OK;
}

/* ---- telling of one */

uint64_t
comms_seat(const struct coord *c, const struct device *d, uint32_t *rank)
{
	const struct comm *comm = device_is_reserved(d) ? c->comms->first : NULL;

	for (; comm; comm = comm->next)
		for (*rank = 0; *rank < comm->nranks; ++*rank)
			if (comm->rank[*rank].dev == d)
				return comm->id;
	return 0;
}

bool
device_msgs_of_comm(struct coord *c, const struct comm *comm, struct device_msgs *out)
{
	struct device *dev[WIRE_MAX_RANKS];

	for (uint32_t r = 0; r < comm->nranks; r++)
		dev[r] = comm->rank[r].dev;
	return device_msgs_init(c, dev, comm->nranks, out);
}

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

uint64_t
comm_operations(const struct comm *comm)
{
	return comm->next_op - comm->skipped;
}

/* Its failure, if it is one for good: not that of an attempt to attach, which is not the last. */
const struct err *
comm_failure(const struct comm *comm)
{
	static const struct err none;

	if (comm->state == COMM_DRAINING && !comm_recovers(comm))
		return &comm->rec.cause;
	return comm->state == COMM_LIVE || comm->state == COMM_DETACHING ? &comm->failed : &none;
}

GpuSim__Status
comm_state(const struct comm *comm)
{
	if (comm_failure(comm)->rc != RC_OK)
		return GPU_SIM__STATUS__FAILED;
	return comm->nruns || comm->state != COMM_LIVE ? GPU_SIM__STATUS__IN_PROGRESS
						       : GPU_SIM__STATUS__SUCCESS;
}

/* What a status tells beside the rest. */
struct show {
	bool paths, lateness;
};

static const struct show shows[2][2] = {{{false, false}, {false, true}},
					{{true, false}, {true, true}}};

static void
comm_status_answer(struct coord *c, struct comm *comm, struct pending *w, const struct show *show)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__GetCommStatusResponse r = GPU_SIM__GET_COMM_STATUS_RESPONSE__INIT;
	struct device_msgs msgs = {0};
	GpuSim__Lateness *late = NULL;
	const struct err *why;
	struct err err;

	if (!device_msgs_of_comm(c, comm, &msgs) || (show->paths && !show_paths(comm, &r.paths)) ||
	    (show->lateness && !late_show(comm, &late, &r.lateness))) {
		free(late);
		free(r.lateness);
		free(r.paths.data);
		device_msgs_fini(&msgs);
		err_set(&err, RC_NOMEM, "comm %" PRIu64 ": out of memory", comm->id);
		answer_failure(c, w, &err);
		return;
	}
	why = comm_failure(comm);
	r.status = comm_state(comm);
	r.reason = (char *)why->text;
	r.code = why->rc;
	r.pending = comm->nruns;
	r.epoch = comm->epoch;
	r.onfailure = (GpuSim__OnFailure)comm->on_failure;
	r.recoveries = comm->recoveries;
	r.recovered = comm->recovered.text;
	r.n_devices = msgs.n;
	r.devices = msgs.p;
	r.n_lateness = late ? comm->nranks : 0;
	reply.body_case = GPU_SIM__REPLY__BODY_GET_COMM_STATUS;
	reply.getcommstatus = &r;
	answer(c, w, &reply);
	free(late);
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

static const struct wait wait_idle = {.late = idle_late};

void
comm_idle(struct coord *c, struct comm *comm)
{
	struct pending *w;

	while (comm->nruns == 0 && !comm_busy(comm) && (w = pending_find(c, &wait_idle, comm->id)))
		comm_status_answer(c, comm, w, pending_own(w));
}

enum rc
on_comm_status(struct coord *c, struct pending *w, const GpuSim__Request *req, struct err *err)
{
	struct comm *comm = comm_find(c, req->getcommstatus->commid);
	const struct show *show;

	if (!comm)
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64,
			       req->getcommstatus->commid);
	show = &shows[req->getcommstatus->paths][req->getcommstatus->lateness];
	if (show->paths && comm->nranks > WIRE_MAX_PATHS)
		return err_set(err, RC_INVAL,
			       "comm %" PRIu64 " has %u ranks; paths are told of at most %u",
			       comm->id, comm->nranks, WIRE_MAX_PATHS);
	if (req->getcommstatus->wait && (comm->nruns || comm_busy(comm)))
		pending_wait(c, w, &wait_idle, comm->id, (void *)show);
	else
		comm_status_answer(c, comm, w, show);
	return RC_OK;
}
