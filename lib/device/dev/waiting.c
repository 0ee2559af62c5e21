/* Requests that wait for streams, and the streams' states. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "dev/stream_impl.h"

#define MAX_PENDING 4096 /* more than a client may have pending */

struct pending *
pending_take(struct stream *st)
{
	struct pending *w = st->pending;

	st->pending = NULL;
	for (struct pending *i = w; i; i = i->next)
		st->all->npending--;
	return w;
}

void
pending_tell(struct pending *w)
{
	struct pending *next;

	for (; w; w = next) {
		next = w->next;
		w->fn(w->arg);
		free(w);
	}
}

static struct stream *
find(struct streams *s, uint64_t id)
{
	return id < STREAM_MAX ? &s->numbered[id] : transfer_find(s, id);
}

enum rc
streams_status(struct streams *s, uint64_t id, enum stream_state *state, struct err *why,
	       struct err *err)
{
	struct stream *st;
	const struct finished *f;
	enum rc rc = RC_OK;

	pthread_mutex_lock(&s->lock);
	st = find(s, id);
	f = st ? NULL : transfer_find_finished(s, id);
	if (st && st->queued) {
		*state = STREAM_WORKING;
	} else if (st) {
		*state = st->why.rc == RC_OK ? STREAM_IDLE : STREAM_FAILED;
		*why = st->why;
		st->why = (struct err){0};
	} else if (f) {
		*state = f->why.rc == RC_OK ? STREAM_IDLE : STREAM_FAILED;
		*why = f->why;
	} else {
		rc = err_set(err, RC_NOTFOUND, "no stream %" PRIu64 " on this device", id);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

enum rc
streams_when_idle(struct streams *s, uint64_t id, uint64_t deadline_ns, stream_idle_fn fn,
		  void *arg, struct err *err)
{
	struct pending *w = calloc(1, sizeof *w);
	struct stream *st;
	bool now = false;
	enum rc rc = w ? RC_OK : err_set(err, RC_NOMEM, "out of memory");

	if (rc != RC_OK)
		return rc;
	*w = (struct pending){.fn = fn, .arg = arg, .deadline_ns = deadline_ns};
	pthread_mutex_lock(&s->lock);
	st = find(s, id);
	if (!st || !st->queued) {
		now = true; /* streams_status gives the result */
	} else if (s->npending == MAX_PENDING) {
		rc = err_set(err, RC_BUSY, "%d callers already wait for streams", MAX_PENDING);
	} else {
		w->next = st->pending;
		st->pending = w;
		s->npending++;
	}
	pthread_mutex_unlock(&s->lock);
	if (now)
		fn(arg);
	if (now || rc != RC_OK)
		free(w);
	return rc;
}

size_t
streams_progress(struct streams *s, struct progress *out, size_t max)
{
	size_t n = 0;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < STREAM_MAX && n < max; i++)
		n += recorder_read(&s->numbered[i].recorder, &out[n]);
	for (const struct stream *st = s->transfers; st && n < max; st = st->next)
		n += recorder_read(&st->recorder, &out[n]);
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* Lock held. Move the pending requests past their deadline to *late. */
static void
take_late(struct stream *st, uint64_t now, struct pending **late)
{
	struct pending **at = &st->pending, *w;

	while ((w = *at)) {
		if (now < w->deadline_ns) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		st->all->npending--;
		w->next = *late;
		*late = w;
	}
}

void
streams_tick(struct streams *s)
{
	uint64_t now = clock_now_ns();
	struct pending *late = NULL;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < STREAM_MAX; i++)
		take_late(&s->numbered[i], now, &late);
	for (struct stream *st = s->transfers; st; st = st->next)
		take_late(st, now, &late);
	pthread_mutex_unlock(&s->lock);
	pending_tell(late);
}
