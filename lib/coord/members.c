/*
 * members.c - ranks that leave a communicator and ranks that come.
 *
 * Between epochs only: nobody runs anything, no rank's call is under way.
 */
#include "coord/coord_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Tell a device that it is out. It may be dead or frozen: nobody waits. */
static void
send_detach(struct coord *c, const struct comm *comm, const struct device *d)
{
	GpuSim__CommDetachRequest q = GPU_SIM__COMM_DETACH_REQUEST__INIT;
	struct buf body = {0};

	q.commid = comm->id;
	q.epoch = comm->epoch;
	if (pack_request(GPU_SIM__REQUEST__BODY_COMM_DETACH, &q.base, NULL, &body))
		act_call(c, 0, d->id, d->address, c->cfg.abort_grace_ms, &body);
}

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
	for (uint32_t r = 0; r < from; r++) {
		struct member *m = &comm->rank[r];

		call_cancel(c, &m->call);
		if (!lost[r]) {
			if (to[r] != r)
				comm->rank[to[r]] = *m;
			continue;
		}
		send_detach(c, comm, m->dev);
		free(m->mapped);
		m->dev->ncomms--;
	}
	comm->nranks = left;
	for (struct run *run = comm->runs; run; run = run->next)
		keep_run(c, run);
	for (struct graph *g = comm->graphs; g; g = g->next)
		keep_graph(c, g);
	/* What a group has gathered was checked against the ranks of then. */
	while (comm->groups)
		group_free(c, comm, comm->groups);
}

enum rc
members_come(struct coord *c, struct comm *comm, struct device *const *dev, uint32_t n,
	     struct err *err)
{
	struct member *v;

	for (uint32_t r = 0; r < comm->nranks; r++)
		call_cancel(c, &comm->rank[r].call);
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
		comm->rank[comm->nranks++] = (struct member){
		    .dev = dev[k], .incarnation = dev[k]->incarnation, .newcomer = true};
		dev[k]->ncomms++;
	}
	return RC_OK;
}
