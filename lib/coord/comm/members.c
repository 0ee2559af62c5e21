/*
 * members.c - the calls to a communicator's ranks; ranks that leave it and ranks that come.
 *
 * They leave and come between epochs only: nobody runs anything, no rank's call is under way.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void
member_call(struct coord *c, struct comm *comm, uint32_t r, call_done *done, uint64_t timeout_ms,
	    struct buf *body)
{
	struct member *m = &comm->rank[r];

	comm->waiting++;
	call_start(c, &m->call, m->dev, done, comm, r, timeout_ms, body);
}

void
members_cancel(struct coord *c, struct comm *comm)
{
	for (uint32_t r = 0; r < comm->nranks; r++)
		call_cancel(c, &comm->rank[r].call);
	comm->waiting = 0;
}

void
member_release(struct member *m)
{
	if (m->from)
		device_release(m->from);
	m->from = NULL;
}

void
comm_pack_detach(const struct comm *comm, struct buf *body)
{
	GpuSim__CommDetachRequest q = GPU_SIM__COMM_DETACH_REQUEST__INIT;

	q.commid = comm->id;
	q.epoch = comm->epoch;
	pack_request(GPU_SIM__REQUEST__BODY_COMM_DETACH, &q.base, NULL, body);
}

void
members_abort(struct coord *c, struct comm *comm, const char *reason, call_done *done)
{
	GpuSim__CommAbortRequest q = GPU_SIM__COMM_ABORT_REQUEST__INIT;

	q.commid = comm->id;
	q.epoch = comm->epoch;
	q.reason = (char *)reason;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		const struct member *m = &comm->rank[r];
		struct buf body = {0};

		if (!member_there(m))
			continue;
		pack_request(GPU_SIM__REQUEST__BODY_COMM_ABORT, &q.base, NULL, &body);
		if (!done || (member_lost(m) && body.data))
			device_tell(c, m->dev, &body);
		else
			member_call(c, comm, r, done, c->cfg.abort_grace_ms, &body);
	}
}

/* ---- between epochs */

/* What was submitted and has lost its meaning is not run again: it keeps no parts. */
static void
remap_kept(struct coord *c, struct group_part **parts, const uint32_t *to, uint32_t from,
	   uint32_t left, const char *what, uint64_t id)
{
	struct err err;

	if (!*parts || remap_parts(*parts, to, from, left, &err) == RC_OK)
		return;
	act_log(c, "%s %" PRIu64 ": %s", what, id, err.text);
	parts_free(c, *parts);
	*parts = NULL;
}

void
members_leave(struct coord *c, struct comm *comm, const bool *lost)
{
	uint32_t to[WIRE_MAX_RANKS], left = 0, from = comm->nranks;

	for (uint32_t r = 0; r < from; r++)
		to[r] = lost[r] ? REMAP_LOST : left++;
	for (struct run *run = comm->runs; run; run = run->next)
		remap_kept(c, &run->parts, to, from, left, "run", run->id);
	for (struct graph *g = comm->graphs; g; g = g->next)
		remap_kept(c, &g->part, to, from, left, "graph", g->id);
	members_cancel(c, comm);
	for (uint32_t r = 0; r < from; r++) {
		struct member *m = &comm->rank[r];
		struct buf body = {0};

		if (!lost[r]) {
			if (to[r] != r)
				comm->rank[to[r]] = *m;
			continue;
		}
		comm_pack_detach(comm, &body);
		device_tell(c, m->dev, &body); /* nobody waits */
		free(m->mapped);
		device_release(m->dev);
	}
	comm->nranks = left;
	for (struct run *run = comm->runs; run; run = run->next)
		run_record(c, run);
	for (struct graph *g = comm->graphs; g; g = g->next)
		graph_record(c, g);
	/* What a group has gathered was checked against the ranks of then. */
	while (comm->groups)
		group_free(c, comm, comm->groups);
}

enum rc
members_come(struct coord *c, struct comm *comm, struct device *const *dev, uint32_t n,
	     struct err *err)
{
	struct member *v;

	members_cancel(c, comm);
	v = alloc_resize(comm->rank, comm->nranks + n, sizeof *v);
	if (!v)
		return err_set(err, RC_NOMEM, "comm %" PRIu64 ": out of memory", comm->id);
	comm->rank = v;
	/* They name every rank, but not these. */
	while (comm->graphs)
		graph_free(c, comm->graphs);
	while (comm->groups)
		group_free(c, comm, comm->groups);
	for (uint32_t k = 0; k < n; k++) {
		comm->rank[comm->nranks++] =
		    (struct member){.dev = dev[k],
				    .incarnation = device_incarnation(dev[k]),
				    .memories = device_memories(dev[k]),
				    .newcomer = true};
		device_reserve(dev[k]);
	}
	return RC_OK;
}
