/*
 * members.c - calls to the ranks of a communicator, and what failed calls tell; ranks that leave it and ranks that
 * join. They do so between epochs only, while nothing runs and no call to a rank is in flight.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/frame.h"

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

/* Note the step of the first rank that reported, and the ranks that it waited for. */
static void
take_failure(struct comm *comm, const GpuSim__Failure *f)
{
	struct recovery *rec = &comm->rec;

	/* Progress says more than a peer's report: the peer may have waited for a third rank. */
	for (size_t i = 0; i < f->n_missing && !rec->stuck[0]; i++)
		if (f->missing[i] < comm->nranks)
			comm->rank[f->missing[i]].accused = true;
	if (rec->where[0])
		return;
	snprintf(rec->where, sizeof rec->where, "%s #%" PRIu64 " (%s), step %u of %u",
		 f->collective, frame_op_shown(f->operation), f->algo, f->step, f->steps);
	rec->idle_ms = f->idlems;
}

void
comm_call_failed(struct comm *comm, uint32_t rank, const struct outcome *o)
{
	struct member *m = &comm->rank[rank];

	if (o->answered || o->nomem) {
		m->heard = true;
	} else if (!m->gone) {
		m->gone = true;
		snprintf(m->why, sizeof m->why, "%.*s", (int)sizeof m->why - 1, o->err.text);
	}
	if (o->failure)
		take_failure(comm, o->failure);
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
members_abort(struct coord *c, struct comm *comm, const struct err *why, call_done *done)
{
	GpuSim__CommAbortRequest q = GPU_SIM__COMM_ABORT_REQUEST__INIT;

	q.commid = comm->id;
	q.epoch = comm->epoch;
	q.reason = (char *)why->text;
	q.code = why->rc;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		const struct member *m = &comm->rank[r];
		struct buf body = {0};

		if (!comm_holds(comm, r))
			continue;
		pack_request(GPU_SIM__REQUEST__BODY_COMM_ABORT, &q.base, NULL, &body);
		if (!done || (comm_is_lost(comm, r) && body.data))
			device_tell(c, m->dev, &body);
		else
			member_call(c, comm, r, done, c->cfg.abort_grace_ms, &body);
	}
}

/* ---- between epochs */

void
comm_regrid(struct comm *comm)
{
	struct grid *g = &comm->grid;

	g->dp = g->tp ? comm->nranks / (g->tp * g->pp) : 0;
	comm->grid_text[0] = '\0';
	if (g->dp)
		grid_print(g, comm->grid_text);
}

void
members_leave(struct coord *c, struct comm *comm, const bool *lost)
{
	uint32_t to[WIRE_MAX_RANKS], left = 0, from = comm->nranks;

	for (uint32_t r = 0; r < from; r++)
		to[r] = lost[r] ? RANK_LEAVES : left++;
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
		free(m->waited_ns);
		device_release(m->dev);
	}
	comm->nranks = left;
	comm_regrid(comm);
	c->comms->hooks->ranks(c, comm, to, from);
}

enum rc
members_come(struct coord *c, struct comm *comm, struct device *const *dev, uint32_t n,
	     struct err *err)
{
	struct member *v;

	members_cancel(c, comm);
	v = alloc_resize(comm->rank, comm->nranks + n, sizeof *v);
	if (!v)
		return comm_nomem(comm, err);
	comm->rank = v;
	for (uint32_t k = 0; k < n; k++) {
		comm->rank[comm->nranks++] =
		    (struct member){.dev = dev[k],
				    .incarnation = device_incarnation(dev[k]),
				    .memories = device_memories(dev[k]),
				    .first = UINT32_MAX,
				    .newcomer = true};
		device_reserve(dev[k]);
	}
	comm_regrid(comm);
	c->comms->hooks->ranks(c, comm, NULL, comm->nranks - n);
	return RC_OK;
}
