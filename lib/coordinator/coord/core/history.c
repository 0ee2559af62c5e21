/*
 * history.c - events: devices that joined, were lost, returned; communicators that failed or recovered. A
 * ring holds the last 1024, here and as records. A client that follows them waits for a number that has
 * not been given yet.
 */
#include "coord/core/pending.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct happened {
	uint64_t number, at_ms; /* since 1970 */
	struct event what;
	char text[EVENT_TEXT_MAX];
};

struct history {
	uint64_t last; /* number of the newest */
	bool news;     /* events were added in this step */
	struct happened ring[COORD_EVENTS];
};

static struct happened *
slot(struct coord *c, uint64_t number)
{
	return &c->history->ring[number % COORD_EVENTS];
}

enum rc
history_init(struct coord *c)
{
	c->history = alloc_zeroed(1, sizeof *c->history);
	return c->history ? RC_OK : RC_NOMEM;
}

void
history_fini(struct coord *c)
{
	free(c->history);
}

static void
show(struct happened *e, GpuSim__HistoryEvent *m)
{
	gpu_sim__history_event__init(m);
	m->number = e->number;
	m->atms = e->at_ms;
	m->kind = e->what.kind;
	m->deviceid = e->what.device;
	m->ordinal = e->what.ordinal;
	m->commid = e->what.comm;
	m->rank = e->what.rank;
	m->text = e->text;
}

/* Note the event for the recorder. */
static void
note(struct coord *c, const struct happened *e)
{
	struct coord_action a = {.kind = COORD_NOTE,
				 .device_id = e->what.device,
				 .comm_id = e->what.comm,
				 .rank = e->what.rank,
				 .event = (uint32_t)e->what.kind + 1};

	if (buf_add(&a.body, e->text, strlen(e->text) + 1))
		act(c, &a);
}

void
event_add(struct coord *c, const struct event *what, const char *fmt, ...)
{
	struct happened *e;
	va_list ap;
	char key[RECORD_KEY_MAX];
	GpuSim__HistoryEvent m;

	if (!c->started)
		return;
	if (what->kind < COUNT_NUMBERS)
		c->counts.event[what->kind]++;
	e = slot(c, ++c->history->last);
	*e = (struct happened){.number = c->history->last, .at_ms = c->wall_ms, .what = *what};
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	show(e, &m);
	snprintf(key, sizeof key, "6/event/%04x", (unsigned)(e->number % COORD_EVENTS));
	record_put(c, key, &m.base, false);
	note(c, e);
	c->history->news = true;
}

/* ---- answers */

static void
answer_events(struct coord *c, struct pending *w)
{
	GpuSim__EventsResponse r = GPU_SIM__EVENTS_RESPONSE__INIT;
	uint64_t last = c->history->last, after = pending_id(w);
	uint64_t kept = last < COORD_EVENTS ? last : COORD_EVENTS;
	uint64_t n = after >= last ? 0 : last - after < kept ? last - after : kept;
	GpuSim__HistoryEvent **p = messages_new(n, &gpu_sim__history_event__descriptor);
	struct err err;

	if (p) {
		for (uint64_t i = last - n + 1; i <= last; i++)
			if (slot(c, i)->number == i) /* else its record was lost */
				show(slot(c, i), p[r.n_events++]);
		r.events = p;
		r.last = last;
		answer_body(c, w, GPU_SIM__REPLY__BODY_EVENTS, &r);
	} else {
		err_set(&err, RC_NOMEM, "events: out of memory");
		answer_failure(c, w, &err);
	}
	free(p);
}

static bool
answer_late(struct coord *c, struct pending *p, struct err *err)
{
	(void)err;
	answer_events(c, p);
	return true;
}

static const struct wait wait_events = {.late = answer_late};

enum rc
on_events(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__EventsRequest *q = req->events;

	(void)err;
	pending_wait(c, p, &wait_events, q->after, NULL);
	if (q->after != c->history->last || q->waitms == 0)
		answer_events(c, p);
	else
		pending_due_by(p, c->now_ms + q->waitms);
	return RC_OK;
}

void
events_tell(struct coord *c)
{
	struct pending *next;

	if (!c->history->news)
		return;
	c->history->news = false;
	for (struct pending *p = pending_next(c, NULL); p; p = next) {
		next = pending_next(c, p);
		if (pending_on(p) == &wait_events)
			answer_events(c, p);
	}
}

/* ---- after a restart */

enum rc
events_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__HistoryEvent *m = gpu_sim__history_event__unpack(NULL, n, value);
	struct happened *e;

	if (!m || m->number == 0 || m->number >= UINT64_MAX - COORD_EVENTS) {
		if (m)
			gpu_sim__history_event__free_unpacked(m, NULL);
		return err_set(err, RC_BADDATA, "record %s: malformed", key);
	}
	e = slot(c, m->number);
	if (e->number > m->number) { /* a ring of another size has left this record */
		gpu_sim__history_event__free_unpacked(m, NULL);
		return RC_OK;
	}
	*e = (struct happened){.number = m->number,
			       .at_ms = m->atms,
			       .what = {.kind = m->kind,
					.device = m->deviceid,
					.comm = m->commid,
					.ordinal = m->ordinal,
					.rank = m->rank}};
	snprintf(e->text, sizeof e->text, "%s", m->text);
	if (m->number > c->history->last)
		c->history->last = m->number;
	gpu_sim__history_event__free_unpacked(m, NULL);
	return RC_OK;
}
