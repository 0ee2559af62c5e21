/*
 * comms.c - what happens to communicators from outside: steps of the coordinator, failures of devices, clients
 * that destroy them or stay disconnected. Nothing else in this room calls it, but for the table of life.c.
 *
 * A leased communicator ends when its clients have been disconnected for too long; a queued one also when
 * each rank has left.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- a step: the events that a state waits for */

static bool
is_drained(const struct coord *c, const struct comm *comm)
{
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (!comm_is_settled(c, comm, r))
			return false;
	return true;
}

static bool
any_gone(const struct comm *comm)
{
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (comm->rank[r].gone)
			return true;
	return false;
}

static bool
is_due(struct coord *c, const struct comm *comm, enum comm_event *e)
{
	bool ended = comm->waiting == 0;
	bool good = comm->failed.rc == RC_OK && (comm->made || comm_is_wanted(c, comm));

	switch (comm->state) {
	case COMM_MAKING:
	case COMM_ATTACHING:
		*e = good ? COMM_ATTACHED : COMM_BROKEN;
		return ended;
	case COMM_MEETING:
	case COMM_JOINING:
		*e = good ? COMM_JOINED : COMM_BROKEN;
		return ended;
	case COMM_DEFINING:
		*e = any_gone(comm) ? COMM_BROKEN : COMM_DEFINED;
		return c->comms->hooks->defined(comm);
	case COMM_DRAINING:
		*e = COMM_DRAINED;
		return c->now_ms >= comm->rec.until_ms || is_drained(c, comm);
	case COMM_DETACHING:
		*e = COMM_DETACHED;
		return ended || c->now_ms >= comm->detach_ms;
	default:
		return false;
	}
}

static void
comm_step(struct coord *c, struct comm *comm)
{
	enum comm_event e;

	c->comms->hooks->step(c, comm);
	if (comm->state == COMM_REPLACING)
		replace_step(c, comm);
	while (is_due(c, comm, &e)) {
		comm_happens(c, comm, e, NULL);
		if (e == COMM_DETACHED)
			return; /* it is freed */
	}
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

/* ---- their devices */

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

static bool
holds(const struct coord *c, const struct device *d)
{
	for (const struct comm *comm = c->comms->first; comm; comm = comm->next)
		for (uint32_t r = 0; r < comm->nranks && comm->state != COMM_FAILED; r++)
			if (comm->rank[r].dev == d || comm->rank[r].from == d)
				return true;
	return false;
}

const struct device_hooks comm_device_hooks = {
    .lost = device_is_gone, .restarted = device_restarted, .seat = seat_of, .holds = holds};

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

static void
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

/* ---- their clients */

/* An owner has disconnected, or connected again. */
static void
comm_owner_is(const struct coord *c, struct comm *comm, uint64_t client_id, bool gone)
{
	bool mine = comm->nowners == 0 && comm->client_id == client_id;
	bool all = gone || comm->nowners;

	for (uint32_t i = 0; i < comm->nowners; i++) {
		if (comm->owners[i].client_id == client_id) {
			if (gone && !comm->owners[i].gone)
				comm->owners[i].gone_ms = c->now_ms;
			comm->owners[i].gone = gone;
			mine = true;
		}
		all &= comm->owners[i].gone || comm->owners[i].left;
	}
	if (!mine)
		return;
	comm->gone = all;
	comm->gone_ms = c->now_ms;
}

static bool
all_left(const struct comm *comm)
{
	for (uint32_t i = 0; i < comm->nowners; i++)
		if (!comm->owners[i].left)
			return false;
	return true;
}

static enum rc
comm_leave(struct coord *c, struct comm *comm, uint32_t rank, struct pending *p, struct err *err)
{
	GpuSim__CommDestroyResponse r = GPU_SIM__COMM_DESTROY_RESPONSE__INIT;
	struct owner *o;

	if (!comm->queued)
		return err_set(err, RC_INVAL,
			       "comm %" PRIu64
			       ": ranks leave only communicators whose ranks enqueue "
			       "operations themselves",
			       comm->id);
	if (rank >= comm->nowners)
		return err_set(err, RC_INVAL, "rank %u: comm %" PRIu64 " has %u ranks", rank,
			       comm->id, comm->nranks);
	o = &comm->owners[rank];
	o->left = true;
	comm_owner_is(c, comm, o->client_id, o->gone);
	if (all_left(comm) && comm->state != COMM_DETACHING)
		comm_happens(c, comm, COMM_DESTROYED, NULL);
	if (comm->state == COMM_DETACHING) {
		pending_wait(c, p, &wait_detach, comm->id, NULL);
		return RC_OK;
	}
	act_log(c, "comm %" PRIu64 ": rank %u has left", comm->id, rank);
	rendezvous_rank_leaves(c, comm, rank);
	r.success = true;
	answer_body(c, p, GPU_SIM__REPLY__BODY_COMM_DESTROY, &r);
	return RC_OK;
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

void
comms_client_is(struct coord *c, uint64_t client_id, bool gone)
{
	for (struct comm *comm = c->comms->first; comm; comm = comm->next)
		comm_owner_is(c, comm, client_id, gone);
	rendezvous_client_is(c, client_id, gone);
	queue_client_is(c, client_id, gone);
}

void
comms_client_lost(struct coord *c, uint64_t client_id)
{
	for (struct comm *comm = c->comms->first; comm; comm = comm->next)
		if (!comm->gone)
			comm_owner_is(c, comm, client_id, true);
}

/* The process of a queued communicator's rank has ended: its client stays disconnected, and its device
 * does not report the process. A process that only enqueues says nothing to a restarted coordinator; its
 * device does. */
static bool
is_deserted(const struct coord *c, const struct comm *comm, uint32_t rank)
{
	const struct owner *o = &comm->owners[rank];
	const struct member *m = &comm->rank[rank];

	if (!o->gone || o->left || c->now_ms < o->gone_ms + TIME_LEASE_MS)
		return false;
	return device_is_lost(m->dev) || !m->counted || m->counted != device_reports(m->dev);
}

/* Fail the communicator: the other ranks would wait for the ended process forever. */
static void
queued_tick(struct coord *c, struct comm *comm)
{
	uint32_t n = 0, first = 0;
	struct err why;

	for (uint32_t r = comm->nowners; r-- > 0;) {
		bool deserted = is_deserted(c, comm, r);

		n += deserted || comm->owners[r].left;
		first = deserted ? r : first;
	}
	if (n == comm->nowners) {
		act_log(c, "comm %" PRIu64 ": all its ranks have left or ended", comm->id);
		comm_happens(c, comm, COMM_DESTROYED, NULL);
	} else if (comm->state == COMM_LIVE && is_deserted(c, comm, first)) {
		err_set(&why, RC_FAILED, "comm %" PRIu64 ": rank %u's process has ended", comm->id,
			first);
		comm_fail(c, comm, &why);
	}
}

void
comm_leases_tick(struct coord *c)
{
	for (struct comm *comm = c->comms->first; comm; comm = comm->next) {
		if (!comm->made || comm->state == COMM_DETACHING || !comm->lease)
			continue;
		if (comm->queued) {
			queued_tick(c, comm);
		} else if (comm->gone && c->now_ms >= comm->gone_ms + TIME_LEASE_MS) {
			act_log(c, "comm %" PRIu64 ": its client disconnected", comm->id);
			comm_happens(c, comm, COMM_DESTROYED, NULL);
		}
	}
}

/* ---- the coordinator begins, and ends */

void
comm_resume(struct coord *c, struct comm *comm)
{
	/* Its client may have disconnected while no coordinator ran. */
	comm->gone = true;
	comm->gone_ms = c->now_ms + TIME_RETURN_MS - TIME_LEASE_MS;
	for (uint32_t i = 0; i < comm->nowners; i++)
		comm->owners[i].gone_ms = comm->gone_ms;
	comm_happens(c, comm, COMM_RESUMED, NULL);
}

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
