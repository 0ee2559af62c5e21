/*
 * lease.c - what belongs to a client ends when it has been away too long: leased communicators,
 * open groups.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>

void
comm_holder_is(const struct coord *c, struct comm *comm, uint64_t client_id, bool gone)
{
	bool mine = comm->nholders == 0 && comm->client_id == client_id, all = gone;

	for (uint32_t i = 0; i < comm->nholders; i++) {
		if (comm->holders[i].client_id == client_id) {
			comm->holders[i].gone = gone;
			mine = true;
		}
		all &= comm->holders[i].gone;
	}
	if (!mine)
		return;
	comm->gone = all;
	comm->gone_ms = c->now_ms;
}

static void
mark(struct coord *c, uint64_t client_id, bool gone)
{
	for (struct comm *comm = c->comms->first; comm; comm = comm->next) {
		comm_holder_is(c, comm, client_id, gone);
		for (struct group *g = comm->groups; g; g = g->next)
			if (g->client_id == client_id) {
				g->gone = gone;
				g->gone_ms = c->now_ms;
			}
	}
}

void
client_gone(struct coord *c, uint64_t client_id)
{
	mark(c, client_id, true);
	rendezvous_client_is(c, client_id, true);
	queue_client_is(c, client_id, true);
}

void
client_seen(struct coord *c, uint64_t client_id)
{
	mark(c, client_id, false);
	rendezvous_client_is(c, client_id, false);
	queue_client_is(c, client_id, false);
}

static bool
over(const struct coord *c, bool gone, uint64_t gone_ms)
{
	return gone && c->now_ms >= gone_ms + TIME_LEASE_MS;
}

void
comm_leases_tick(struct coord *c)
{
	for (struct comm *comm = c->comms->first; comm; comm = comm->next) {
		struct group *next;

		if (!comm->made || comm->state == COMM_DETACHING)
			continue;
		if (comm->lease && over(c, comm->gone, comm->gone_ms)) {
			act_log(c, "comm %" PRIu64 ": its client is gone", comm->id);
			comm_destroy(c, comm);
			continue;
		}
		for (struct group *g = comm->groups; g; g = next) {
			next = g->next;
			if (over(c, g->gone, g->gone_ms))
				group_free(c, comm, g);
		}
	}
}
