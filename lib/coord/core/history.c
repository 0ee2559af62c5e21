/*
 * history.c - what has happened: devices that came, were lost, returned, communicators that failed or
 * recovered. The last 1024 events are kept, here and stored, in a ring of places: an event's record takes
 * that of the one 1024 before it. Who follows waits for a number that has not been given yet.
 */
#include "coord/top.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_ROOM 32

static struct event *
place(struct coord *c, uint64_t number)
{
	return &c->history.ring[number % COORD_EVENTS];
}

static bool
has_ring(struct coord *c)
{
	if (!c->history.ring)
		c->history.ring = alloc_zeroed(COORD_EVENTS, sizeof *c->history.ring);
	return c->history.ring;
}

static void
show(struct event *e, GpuSim__HistoryEvent *m)
{
	gpu_sim__history_event__init(m);
	m->number = e->number;
	m->atms = e->at_ms;
	m->kind = e->kind;
	m->deviceid = e->device;
	m->ordinal = e->ordinal;
	m->commid = e->comm;
	m->rank = e->rank;
	m->text = e->text;
}

static void
store(struct coord *c, struct event *e)
{
	char key[KEY_ROOM];
	GpuSim__HistoryEvent m;

	show(e, &m);
	snprintf(key, sizeof key, "6/event/%04x", (unsigned)(e->number % COORD_EVENTS));
	keep_put(c, key, &m.base, false);
}

static void __attribute__((format(printf, 3, 0)))
add(struct coord *c, const struct event *what, const char *fmt, va_list ap)
{
	struct event *e;

	if (!c->started || !has_ring(c))
		return;
	e = place(c, ++c->history.last);
	*e = *what;
	e->number = c->history.last;
	e->at_ms = c->wall_ms;
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	store(c, e);
	c->history.news = true;
}

void
event_device(struct coord *c, GpuSim__EventKind kind, const struct device *d, const char *fmt, ...)
{
	struct event e = {.kind = kind, .device = d->id, .ordinal = d->ordinal};
	char text[sizeof e.text / 2], who[64];
	const struct member *m = NULL;
	size_t at = 0;
	va_list ap;

	while (at < c->devices->n && c->devices->v[at] != d)
		at++;
	for (const struct comm *comm = d->ncomms ? c->comms->first : NULL; comm && !m;
	     comm = comm->next)
		for (uint32_t r = 0; r < comm->nranks && !m; r++)
			if (comm->rank[r].dev == d) {
				m = &comm->rank[r];
				e.comm = comm->id;
				e.rank = r + 1;
			}
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	snprintf(who, sizeof who, "device %zu (%016" PRIx64 ")", at, d->id);
	if (m)
		event_add(c, &e, "%s, rank %u of comm %" PRIu64 ", %s", who, e.rank - 1, e.comm,
			  text);
	else
		event_add(c, &e, "%s %s", who, text);
}

void
event_add(struct coord *c, const struct event *what, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(c, what, fmt, ap);
	va_end(ap);
}

/* ---- telling */

static void
answer_events(struct coord *c, struct waiter *w)
{
	GpuSim__EventsResponse r = GPU_SIM__EVENTS_RESPONSE__INIT;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	uint64_t last = c->history.last, after = w->id;
	uint64_t kept = last < COORD_EVENTS ? last : COORD_EVENTS;
	uint64_t n = after >= last ? 0 : last - after < kept ? last - after : kept;
	GpuSim__HistoryEvent *v = alloc_zeroed(n, sizeof *v), **p = alloc_zeroed(n, sizeof *p);
	struct err err;

	if (v && p) {
		for (uint64_t i = 0; i < n; i++) {
			struct event *e = place(c, last - n + 1 + i);

			if (e->number != last - n + 1 + i)
				continue; /* its record was lost */
			p[r.n_events] = &v[r.n_events];
			show(e, p[r.n_events++]);
		}
		r.events = p;
		r.last = last;
		reply.body_case = GPU_SIM__REPLY__BODY_EVENTS;
		reply.events = &r;
		answer(c, w, &reply);
	} else {
		err_set(&err, RC_NOMEM, "events: out of memory");
		answer_failure(c, w, &err);
	}
	free(v);
	free(p);
}

enum rc
on_events(struct coord *c, struct waiter *w, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__EventsRequest *q = req->events;

	(void)err;
	waiter_set(w, WAIT_EVENTS, q->after);
	if (q->after != c->history.last || q->waitms == 0)
		answer_events(c, w);
	else if (w->due_ms > c->now_ms + q->waitms)
		w->due_ms = c->now_ms + q->waitms;
	return RC_OK;
}

void
events_none(struct coord *c, struct waiter *w)
{
	answer_events(c, w);
}

void
events_tell(struct coord *c)
{
	struct waiter *next;

	if (!c->history.news)
		return;
	c->history.news = false;
	for (struct waiter *w = c->waiters; w; w = next) {
		next = w->next;
		if (w->on == WAIT_EVENTS)
			answer_events(c, w);
	}
}

/* ---- after a restart */

enum rc
events_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__HistoryEvent *m = gpu_sim__history_event__unpack(NULL, n, value);
	struct event *e;

	if (!m || m->number == 0 || m->number >= UINT64_MAX - COORD_EVENTS) {
		if (m)
			gpu_sim__history_event__free_unpacked(m, NULL);
		return err_set(err, RC_BADDATA, "the record %s makes no sense", key);
	}
	if (has_ring(c)) {
		e = place(c, m->number);
		*e = (struct event){.number = m->number,
				    .at_ms = m->atms,
				    .kind = m->kind,
				    .device = m->deviceid,
				    .ordinal = m->ordinal,
				    .comm = m->commid,
				    .rank = m->rank};
		snprintf(e->text, sizeof e->text, "%s", m->text);
		if (m->number > c->history.last)
			c->history.last = m->number;
	}
	gpu_sim__history_event__free_unpacked(m, NULL);
	return c->history.ring ? RC_OK
			       : err_set(err, RC_NOMEM, "the record %s: out of memory", key);
}
