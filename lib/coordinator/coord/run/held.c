/*
 * held.c - the memory of operations at the coordinator: bounded in all, and per client when near that bound.
 */
#include "coord/run/run_impl.h"

bool
held_take(struct coord *c, size_t nbytes, struct err *err)
{
	bool sums = c->runs->held + nbytes > COORD_CLIENT_HELD && c->client_id != 0;
	size_t held = nbytes;

	/* The bytes of one client's operations are summed only when they can be too many. */
	for (const struct comm *comm = comm_next(c, NULL); comm && sums;
	     comm = comm_next(c, comm)) {
		for (const struct run *run = comm_work(comm)->runs; run; run = run->next)
			held += run->client_id == c->client_id ? run->held : 0;
		for (const struct group *g = comm_work(comm)->groups; g; g = g->next)
			held += g->client_id == c->client_id ? g->held : 0;
		for (const struct graph *g = comm_work(comm)->graphs; g; g = g->next)
			held += g->client_id == c->client_id ? g->held : 0;
	}
	if (sums && held > COORD_CLIENT_HELD) {
		err_set(err, RC_BUSY,
			"this client's operations would take %zu MiB at the coordinator; the limit "
			"is %u; try again later",
			held >> 20, COORD_CLIENT_HELD >> 20);
		return false;
	}
	if (nbytes > COORD_MAX_HELD - c->runs->held) {
		err_set(
		    err, RC_BUSY,
		    "operations take %zu MiB at the coordinator; the limit is %u; try again later",
		    c->runs->held >> 20, COORD_MAX_HELD >> 20);
		return false;
	}
	c->runs->held += nbytes;
	return true;
}

void
held_drop(struct coord *c, size_t nbytes)
{
	c->runs->held -= nbytes;
}

void *
held_alloc(struct coord *c, size_t size, struct err *err)
{
	void *p;

	if (!held_take(c, size, err))
		return NULL;
	p = alloc_zeroed(1, size);
	if (!p) {
		held_drop(c, size);
		err_set(err, RC_NOMEM, "out of memory");
	}
	return p;
}
