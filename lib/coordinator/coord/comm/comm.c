/*
 * comm.c - find, query and end communicators.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdlib.h>

enum rc
comms_init(struct coord *c, const struct comm_hooks *hooks)
{
	c->comms = alloc_zeroed(1, sizeof *c->comms);
	if (!c->comms)
		return RC_NOMEM;
	c->comms->tail = &c->comms->first;
	c->comms->hooks = hooks;
	return RC_OK;
}

void
comms_fini(struct coord *c)
{
	while (c->comms && c->comms->first) {
		comm_happens(c, c->comms->first, COMM_DESTROYED, NULL);
		comm_free(c, c->comms->first);
	}
	if (c->comms)
		rendezvous_fini(c);
	free(c->comms);
}

void
comms_step(struct coord *c)
{
	struct comm *next;

	for (struct comm *comm = c->comms->first; comm; comm = next) {
		next = comm->next;
		comm_step(c, comm);
	}
}

struct comm *
comm_next(const struct coord *c, const struct comm *comm)
{
	return comm ? comm->next : c->comms->first;
}

uint32_t
comms_count(const struct coord *c)
{
	return c->comms->n;
}

struct comm *
comm_any(const struct coord *c, uint64_t id)
{
	struct comm *comm = c->comms->first;

	while (comm && comm->id != id)
		comm = comm->next;
	return comm;
}

struct comm *
comm_find(const struct coord *c, uint64_t id)
{
	struct comm *comm = comm_any(c, id);

	return comm && comm->made && comm->state != COMM_DETACHING ? comm : NULL;
}

enum rc
comm_usable(struct coord *c, uint64_t id, struct comm **out, struct err *err)
{
	struct comm *comm = comm_find(c, id);

	if (!comm)
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64, id);
	if (comm->state == COMM_FAILED)
		return err_set(err, RC_FAILED,
			       "comm %" PRIu64 " failed earlier: %s; shrink or destroy it", id,
			       comm->failed.text);
	if (comm->queued)
		return err_set(err, RC_INVAL,
			       "comm %" PRIu64 ": its ranks enqueue operations themselves", id);
	*out = comm;
	return RC_OK;
}

/* ---- queries */

GETTER(uint64_t, comm_id, comm, id)
GETTER(uint64_t, comm_client, comm, client_id)
GETTER(uint32_t, comm_epoch, comm, epoch)
GETTER(uint32_t, comm_nranks, comm, nranks)

struct device *
comm_device(const struct comm *comm, uint32_t rank)
{
	return comm->rank[rank].dev;
}

bool
comm_holds(const struct comm *comm, uint32_t rank)
{
	return device_incarnation(comm->rank[rank].dev) == comm->rank[rank].incarnation;
}

bool
comm_is_lost(const struct comm *comm, uint32_t rank)
{
	return comm->rank[rank].gone || device_is_lost(comm->rank[rank].dev) ||
	       !comm_holds(comm, rank);
}

GETTER(bool, comm_is_queued, comm, queued)
GETTER(bool, comm_by_memory, comm, by_memory)

struct link_shape
comm_links(const struct comm *comm)
{
	struct link_shape s = {0};

	for (uint32_t r = 0; !comm->by_memory && r < comm->nranks; r++) {
		struct link_shape one = device_link(comm->rank[r].dev);

		if (one.latency_us > s.latency_us)
			s.latency_us = one.latency_us;
		if (one.bits_per_s > 0 && (s.bits_per_s <= 0 || one.bits_per_s < s.bits_per_s))
			s.bits_per_s = one.bits_per_s;
	}
	return s;
}

bool
comm_recovers(const struct comm *comm)
{
	return comm->on_failure != GPUSIM_ON_FAILURE_ABORT && !comm->rec.final;
}

bool
comm_is_live(const struct comm *comm)
{
	return comm->state == COMM_LIVE;
}

const struct err *
comm_failed(const struct comm *comm)
{
	return &comm->failed;
}

bool
comm_busy(const struct comm *comm)
{
	return comm->made && !(comm->state & (COMM_LIVE | COMM_FAILED | COMM_DETACHING));
}

GETTER(uint32_t, comm_recoveries, comm, recoveries)
GETTER(uint32_t, comm_first_nranks, comm, first_nranks)

uint32_t
comm_first_rank(const struct comm *comm, uint32_t rank)
{
	return comm->rank[rank].first;
}

bool
comm_has_shrunk(const struct comm *comm)
{
	return comm->on_failure == GPUSIM_ON_FAILURE_SHRINK &&
	       (comm->recoveries > 0 || comm_busy(comm));
}

GETTER(const char *, comm_recovered, comm, recovered.text)

const struct err *
comm_cause(const struct comm *comm)
{
	return &comm->rec.cause;
}

GETTER(bool, comm_is_blank, comm, rec.blank)
GETTER(struct work *, comm_work, comm, work)

void
comm_set_work(struct comm *comm, struct work *work)
{
	comm->work = work;
}

void
comm_count_runs(struct comm *comm, uint32_t n)
{
	comm->nruns = n;
}

enum rc
comm_nomem(const struct comm *comm, struct err *err)
{
	return err_set(err, RC_NOMEM, "comm %" PRIu64 ": out of memory", comm->id);
}

enum rc
comm_rank_lost(const struct comm *comm, uint32_t rank, struct err *err)
{
	const struct device *d = comm->rank[rank].dev;
	struct err why;

	device_lost(d, &why);
	return err_set(err, why.rc, "comm %" PRIu64 " rank %u (device %016" PRIx64 ") %s", comm->id,
		       rank, device_id(d), why.text);
}

/* ---- its devices */

static uint64_t
seat_of(const struct coord *c, const struct device *d, uint32_t *rank)
{
	const struct comm *comm = device_is_reserved(d) ? c->comms->first : NULL;

	for (; comm; comm = comm->next)
		for (*rank = 0; *rank < comm->nranks; ++*rank)
			if (comm->rank[*rank].dev == d)
				return comm->id;
	return 0;
}

static void
device_restarted(struct coord *c, const struct device *d)
{
	struct err err;

	for (struct comm *comm = c->comms->first; comm; comm = comm->next)
		for (uint32_t r = 0; r < comm->nranks && comm->state == COMM_LIVE; r++)
			if (comm->rank[r].dev == d && !comm_holds(comm, r)) {
				err_set(&err, RC_FAILED,
					"comm %" PRIu64 " rank %u (device %016" PRIx64
					") restarted",
					comm->id, r, device_id(d));
				comm_fail(c, comm, &err);
			}
}

static void
device_is_gone(struct coord *c, const struct device *d)
{
	struct err err;

	for (struct comm *comm = c->comms->first; comm; comm = comm->next)
		for (uint32_t r = 0; r < comm->nranks && comm->state == COMM_LIVE; r++)
			if (comm->rank[r].dev == d) {
				comm_rank_lost(comm, r, &err);
				comm_fail(c, comm, &err);
			}
}

const struct device_hooks comm_device_hooks = {
    .lost = device_is_gone, .restarted = device_restarted, .seat = seat_of};

bool
device_msgs_of_comm(struct coord *c, const struct comm *comm, struct device_msgs *out)
{
	struct device *dev[WIRE_MAX_RANKS];

	for (uint32_t r = 0; r < comm->nranks; r++)
		dev[r] = comm->rank[r].dev;
	return device_msgs_init(c, dev, comm->nranks, out);
}

/* ---- requests that wait for a communicator */

/* The first rank that has not answered. */
static bool
name_missing(struct coord *c, struct pending *p, struct err *err)
{
	const struct comm *comm = comm_any(c, pending_id(p));

	for (uint32_t r = 0; comm && r < comm->nranks; r++)
		if (call_is_live(&comm->rank[r].call)) {
			err_set(err, RC_TIMEOUT,
				"comm %" PRIu64 ": rank %u (device %016" PRIx64
				") has not answered its %s",
				comm->id, r, device_id(comm->rank[r].dev),
				comm->state & (COMM_MAKING | COMM_ATTACHING)  ? "attach"
				: comm->state & (COMM_MEETING | COMM_JOINING) ? "join"
									      : "detach");
			break;
		}
	return false;
}

const struct wait wait_attach = {.late = name_missing};
const struct wait wait_detach = {.late = name_missing};
const struct wait wait_abort;

bool
comm_is_wanted(struct coord *c, const struct comm *comm)
{
	return pending_find(c, &wait_attach, comm->id);
}

/* ---- ends */

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
comm_detach(struct coord *c, struct comm *comm, const struct err *why)
{
	(void)why;
	members_cancel(c, comm);
	comm->detach_ms = c->now_ms + c->cfg.abort_grace_ms;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		const struct member *m = &comm->rank[r];
		struct buf body = {0};

		if (!m->attached || !comm_holds(comm, r))
			continue;
		comm_pack_detach(comm, &body);
		if (device_is_lost(m->dev) && body.data)
			device_tell(c, m->dev, &body);
		else
			member_call(c, comm, r, comm_detached, c->cfg.abort_grace_ms, &body);
	}
}

/* Requests that wait for the communicator to be made get their failure after the detach. */
void
comm_refuse(struct coord *c, struct comm *comm, const struct err *why)
{
	struct pending *p;

	while ((p = pending_find(c, &wait_attach, comm->id)))
		pending_wait(c, p, &wait_detach, comm->id, NULL);
	comm_detach(c, comm, why);
}

void
comm_end(struct coord *c, struct comm *comm, const struct err *why)
{
	const struct wait *const waits[] = {&wait_idle, &wait_attach, &wait_abort, &wait_devices};
	struct err err;

	comm_report_ready(c, comm, comm->rec.cause.text);
	err_set(&err, RC_ABORTED, "communicator %" PRIu64 " destroyed", comm->id);
	if (c->comms->hooks->begun(comm))
		members_abort(c, comm, &err, NULL); /* the detach that follows reports */
	c->comms->hooks->end(c, comm, &err);
	rendezvous_parent_ends(c, comm, &err, false);
	for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
		pendings_fail(c, waits[i], comm->id, &err);
	comm_detach(c, comm, why);
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
	c->comms->hooks->freed(c, comm);
	members_cancel(c, comm);
	rendezvous_used(c, comm);
	for (uint32_t r = 0; r < comm->nranks; r++) {
		member_release(&comm->rank[r]);
		free(comm->rank[r].mapped);
		free(comm->rank[r].waited_ns);
		device_release(comm->rank[r].dev);
	}
	free(comm->owners);
	free(comm->rank);
	free(comm);
}

void
comm_free_detached(struct coord *c, struct comm *comm, const struct err *why)
{
	uint64_t id = comm->id;
	struct err failed = comm->failed;
	struct pending *p;

	(void)why;
	comm_free(c, comm);
	while ((p = pending_find(c, &wait_detach, id))) {
		GpuSim__CommDestroyResponse r = GPU_SIM__COMM_DESTROY_RESPONSE__INIT;

		if (pending_asker(p)->kind != GPU_SIM__REQUEST__BODY_COMM_DESTROY) {
			answer_failure(c, p, &failed);
			continue;
		}
		r.success = true;
		answer_body(c, p, GPU_SIM__REPLY__BODY_COMM_DESTROY, &r);
	}
}

void
comm_disown(struct coord *c, uint64_t id)
{
	struct comm *comm = comm_find(c, id);

	if (comm)
		comm_happens(c, comm, COMM_DESTROYED, NULL);
}

enum rc
on_comm_destroy(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	uint64_t id = req->commdestroy->commid;
	struct comm *comm = comm_any(c, id);

	if (!comm || (!comm->made && comm->state != COMM_DETACHING))
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64, id);
	if (req->commdestroy->leave)
		return comm_leave(c, comm, req->commdestroy->rank, p, err);
	comm_happens(c, comm, COMM_DESTROYED, NULL);
	pending_wait(c, p, &wait_detach, id, NULL);
	return RC_OK;
}
