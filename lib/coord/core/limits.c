/*
 * limits.c - what one client may have of what all share, so that it keeps nobody else out.
 *
 * Nothing is counted as it comes and goes: only where a shared thing runs short, which is when what
 * all have together is past what one may have, is it looked up how much of that is the client's. So
 * it costs nothing as long as there is enough.
 */
#include "coord/top.h"

#include <inttypes.h>

static enum rc
check_requests(const struct coord *c, struct err *err)
{
	uint32_t n = 0;

	if (c->nwaiters <= COORD_CLIENT_WAITERS)
		return RC_OK;
	for (const struct waiter *w = c->waiters; w; w = w->next)
		n += w->client_id == c->client_id;
	if (n <= COORD_CLIENT_WAITERS) /* with the one at hand */
		return RC_OK;
	return err_set(err, RC_BUSY,
		       "%u of this client's requests wait for an answer, which is its limit",
		       COORD_CLIENT_WAITERS);
}

static enum rc
check_comms(const struct coord *c, struct err *err)
{
	uint32_t n = 0;

	if (c->comms->n < COORD_CLIENT_COMMS)
		return RC_OK;
	for (const struct comm *comm = c->comms->first; comm; comm = comm->next)
		n += comm->client_id == c->client_id;
	if (n < COORD_CLIENT_COMMS)
		return RC_OK;
	return err_set(err, RC_BUSY, "this client has %u communicators, which is its limit",
		       COORD_CLIENT_COMMS);
}

static enum rc
check_ids(const struct coord *c, struct err *err)
{
	uint32_t n = 0;

	if (c->comms->nrendezvous < COORD_CLIENT_IDS)
		return RC_OK;
	for (const struct rendezvous *v = c->comms->rendezvous; v; v = v->next)
		n += v->client_id == c->client_id;
	if (n < COORD_CLIENT_IDS)
		return RC_OK;
	return err_set(err, RC_BUSY, "%u ids of this client wait for ranks, which is its limit",
		       COORD_CLIENT_IDS);
}

/* Who made the communicator may fill it, others a part of it. */
static enum rc
check_runs(const struct coord *c, const struct comm *comm, struct err *err)
{
	uint32_t n = 0;

	if (comm->client_id == c->client_id || comm->nruns < COORD_GUEST_RUNS)
		return RC_OK;
	for (const struct run *run = comm->runs; run; run = run->next)
		n += run->client_id == c->client_id;
	if (n < COORD_GUEST_RUNS)
		return RC_OK;
	return err_set(err, RC_BUSY,
		       "comm %" PRIu64
		       ": %u runs of this client are pending, which is its limit on "
		       "another's communicator",
		       comm->id, COORD_GUEST_RUNS);
}

static enum rc
check_graphs(const struct coord *c, const struct comm *comm, struct err *err)
{
	uint32_t n = 0;

	if (comm->client_id == c->client_id || comm->ngraphs < COORD_GUEST_GRAPHS)
		return RC_OK;
	for (const struct graph *g = comm->graphs; g; g = g->next)
		n += g->client_id == c->client_id;
	if (n < COORD_GUEST_GRAPHS)
		return RC_OK;
	return err_set(err, RC_BUSY,
		       "comm %" PRIu64 ": %u graphs are this client's, which is its limit on "
		       "another's communicator",
		       comm->id, COORD_GUEST_GRAPHS);
}

static enum rc
check_held(const struct coord *c, size_t more, struct err *err)
{
	size_t held = more;

	if (c->runs->held + more <= COORD_CLIENT_HELD)
		return RC_OK;
	for (const struct comm *comm = c->comms->first; comm; comm = comm->next) {
		for (const struct run *run = comm->runs; run; run = run->next)
			held += run->client_id == c->client_id ? run->held : 0;
		for (const struct group *g = comm->groups; g; g = g->next)
			held += g->client_id == c->client_id ? g->held : 0;
		for (const struct graph *g = comm->graphs; g; g = g->next)
			held += g->client_id == c->client_id ? g->held : 0;
	}
	if (held <= COORD_CLIENT_HELD)
		return RC_OK;
	return err_set(
	    err, RC_BUSY,
	    "the coordinator would hold %zu MiB of this client's operations, at most %u; "
	    "try again later",
	    held >> 20, COORD_CLIENT_HELD >> 20);
}

enum rc
limit_check(const struct coord *c, const struct comm *comm, enum limit what, size_t more,
	    struct err *err)
{
	if (c->client_id == 0)
		return RC_OK;
	switch (what) {
	case LIMIT_REQUESTS:
		return check_requests(c, err);
	case LIMIT_COMMS:
		return check_comms(c, err);
	case LIMIT_IDS:
		return check_ids(c, err);
	case LIMIT_RUNS:
		return check_runs(c, comm, err);
	case LIMIT_GRAPHS:
		return check_graphs(c, comm, err);
	case LIMIT_HELD:
		break;
	}
	return check_held(c, more, err);
}
