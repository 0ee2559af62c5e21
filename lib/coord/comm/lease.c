/*
 * lease.c - a leased communicator ends when its clients have been away for too long.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>

void
comm_owner_is(const struct coord *c, struct comm *comm, uint64_t client_id, bool gone)
{
	bool mine = comm->nowners == 0 && comm->client_id == client_id, all = gone;

	for (uint32_t i = 0; i < comm->nowners; i++) {
		if (comm->owners[i].client_id == client_id) {
			comm->owners[i].gone = gone;
			mine = true;
		}
		all &= comm->owners[i].gone;
	}
	if (!mine)
		return;
	comm->gone = all;
	comm->gone_ms = c->now_ms;
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

void
comm_leases_tick(struct coord *c)
{
	for (struct comm *comm = c->comms->first; comm; comm = comm->next)
		if (comm->made && comm->state != COMM_DETACHING && comm->lease && comm->gone &&
		    c->now_ms >= comm->gone_ms + TIME_LEASE_MS) {
			act_log(c, "comm %" PRIu64 ": its client is gone", comm->id);
			comm_happens(c, comm, COMM_DESTROYED, NULL);
		}
}
