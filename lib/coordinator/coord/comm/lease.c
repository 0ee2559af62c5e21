/*
 * lease.c - a leased communicator ends when its clients have been disconnected for too long; a queued one
 * also when each rank has left.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>

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

enum rc
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
