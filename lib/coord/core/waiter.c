/*
 * waiter.c - callers that have not been answered yet, and their deadlines.
 */
#include "coord/top.h"

#include <inttypes.h>
#include <stdlib.h>

struct waiter *
waiter_new(struct coord *c, const struct coord_event *ev)
{
	struct waiter *w = alloc_zeroed(1, sizeof *w);
	uint64_t left = ev->deadline_ms > c->now_ms ? ev->deadline_ms - c->now_ms : 0;

	if (!w)
		return NULL;
	w->token = ev->token;
	w->client_id = ev->client_id;
	w->seq = ev->request->seq;
	w->asked_ms = c->now_ms;
	w->due_ms =
	    c->now_ms + left - (left / 4 < COORD_ANSWER_MARGIN ? left / 4 : COORD_ANSWER_MARGIN);
	w->kind = ev->request->body_case;
	w->name = wire_request_name(ev->request);
	w->prev = c->waiters_last;
	if (c->waiters_last)
		c->waiters_last->next = w;
	else
		c->waiters = w;
	c->waiters_last = w;
	c->nwaiters++;
	return w;
}

void
waiter_free(struct coord *c, struct waiter *w)
{
	call_cancel(c, &w->call);
	if (w->prev)
		w->prev->next = w->next;
	else
		c->waiters = w->next;
	if (w->next)
		w->next->prev = w->prev;
	else
		c->waiters_last = w->prev;
	if (w->on == WAIT_DEVICES)
		queue_leave(c, w);
	c->nwaiters--;
	c->persist->nabsent -= w->token == 0;
	free(w);
}

void
waiter_set(struct waiter *w, enum waiting on, uint64_t id)
{
	w->on = on;
	w->id = id;
}

struct waiter *
waiter_find(struct coord *c, enum waiting on, uint64_t id)
{
	struct waiter *w = c->waiters;

	while (w && (w->on != on || w->id != id))
		w = w->next;
	return w;
}

void
waiters_fail(struct coord *c, enum waiting on, uint64_t id, const struct err *err)
{
	struct waiter *w;

	while ((w = waiter_find(c, on, id)))
		answer_failure(c, w, err);
}

void
waiter_cancel(struct coord *c, uint64_t client_id, uint64_t seq)
{
	struct waiter *w = c->waiters;
	struct err err;

	while (w && (w->client_id != client_id || w->seq != seq || w->token == 0))
		w = w->next;
	if (!w)
		return; /* it has been answered */
	err_set(&err, RC_ABORTED, "%s: the client has cancelled it", w->name);
	if (w->on == WAIT_RANKS)
		rendezvous_dismiss(c, w, &err);
	else
		answer_failure(c, w, &err);
}

/* Which rank of a communicator has not answered. */
static void
describe_comm(struct coord *c, const struct waiter *w, struct err *err)
{
	const struct comm *comm = c->comms->first;

	while (comm && comm->id != w->id)
		comm = comm->next;
	for (uint32_t r = 0; comm && r < comm->nranks; r++)
		if (comm->rank[r].call.state == CALL_LIVE) {
			err_set(err, RC_TIMEOUT,
				"comm %" PRIu64 ": rank %u (device %016" PRIx64
				") has not answered its %s",
				comm->id, r, comm->rank[r].dev->id,
				comm->state == COMM_ATTACHING ? "attach"
				: comm->state == COMM_JOINING ? "join"
							      : "detach");
			return;
		}
}

static void
describe_graph(struct coord *c, const struct waiter *w, struct err *err)
{
	for (const struct comm *comm = c->comms->first; comm; comm = comm->next)
		for (const struct graph *g = comm->graphs; g; g = g->next)
			for (uint32_t r = 0; g->id == w->id && r < comm->nranks; r++)
				if (g->rank[r].call.state == CALL_LIVE) {
					err_set(err, RC_TIMEOUT,
						"graph %" PRIu64 ": rank %u (device %016" PRIx64
						") has not answered",
						g->id, r, comm->rank[r].dev->id);
					return;
				}
}

static void
waiter_expire(struct coord *c, struct waiter *w)
{
	const struct comm *comm;
	const struct run *run;
	struct err err;

	err_set(&err, RC_TIMEOUT, "%s: not done after %.1fs", w->name,
		(double)(c->now_ms - w->asked_ms) / 1e3);
	switch (w->on) {
	case WAIT_IDLE:
		comm = comm_find(c, w->id);
		if (comm) {
			comm_status_answer(c, comm_find(c, w->id), w);
			return;
		}
		break;
	case WAIT_EVENTS:
		events_none(c, w);
		return;
	case WAIT_ATTACH:
	case WAIT_DETACH:
		describe_comm(c, w, &err);
		break;
	case WAIT_GRAPH:
		describe_graph(c, w, &err);
		break;
	case WAIT_RUN:
		run = run_find(c, w->id);
		if (run)
			run_describe(c, run, &err);
		break;
	case WAIT_CALL:
		err_set(&err, RC_TIMEOUT, "device %016" PRIx64 " has not answered for %.1fs",
			w->call.dev->id, (double)(c->now_ms - w->asked_ms) / 1e3);
		break;
	default:
		break;
	}
	answer_failure(c, w, &err);
}

void
waiters_tick(struct coord *c)
{
	struct waiter *next;
	struct err err;

	err_set(&err, RC_NOMEM, "the coordinator is out of memory");
	for (struct waiter *w = c->waiters; w; w = next) {
		next = w->next;
		if (w->on == WAIT_MEMORY)
			answer_failure(c, w, &err);
		else if (c->now_ms >= w->due_ms)
			waiter_expire(c, w);
	}
}
