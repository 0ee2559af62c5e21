/*
 * Design notes. Three threads: the HTTP server's, which only queues and never waits; the sampler; the
 * answerer. `lock` guards what they share, and is never held while a world is observed. The sampler owns
 * the worlds that rates are computed from: only it changes them, under `worlds`, which the answerer holds
 * while it reads them.
 */
#include "watch.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "coord/curves.h"
#include "view/state_json.h"
#include "view/timeline.h"

#define OBSERVE_MS 2000
#define METRICS_MS 4000	      /* a scrape times out after 10 s by default */
#define RATES_NS   NS_PER_SEC /* rates are over at least this time */
#define RECORDS	   64	      /* of each ring, for the operation that ended last */

enum what { STATUS, TRACE, METRICS };

struct waiting {
	struct http_ask *ask;
	enum what what;
	uint64_t last_ns;	/* of a trace */
	enum metrics_form form; /* of metrics */
};

struct point {
	uint64_t at_ms;
	struct rates rates;
};

struct watch {
	struct observer *observer;
	struct http_server *server;
	pthread_t sampler, answerer;
	bool started[2];
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stops;
	bool comes; /* a client has just requested events */
	struct waiting waiting[HTTP_SERVER_MAX_CONNS];
	size_t nwaiting;
	struct point point[WATCH_POINTS];
	uint64_t npoints; /* number n at n modulo this */
	struct curves *curves;
	bool curves_changed; /* since the sampler published them */
	uint64_t event;	     /* id of the last event */
	pthread_mutex_t worlds;
	struct world *old, *newer; /* rates are computed from old; newer will replace it */
	struct metrics *sums;	   /* the answerer's */
};

/* ---- points: throughput and latency of a second */

static bool
add_point(struct buf *out, const struct point *p)
{
	return buf_addf(out, "[%" PRIu64 ",%.6g,%.6g,%.4g,%.4g,%.4g]", p->at_ms, p->rates.bytes,
			p->rates.ops, p->rates.p50_us, p->rates.p99_us, p->rates.waiting);
}

static bool
add_points(struct buf *out, const struct watch *w)
{
	uint64_t n = w->npoints < WATCH_POINTS ? w->npoints : WATCH_POINTS;
	bool good = buf_add(out, "[", 1);

	for (uint64_t i = w->npoints - n; good && i < w->npoints; i++)
		good = (i == w->npoints - n || buf_add(out, ",", 1)) &&
		       add_point(out, &w->point[i % WATCH_POINTS]);
	return good && buf_add(out, "]", 1);
}

/* ---- the sampler */

/* The world from which rates are computed; NULL: none yet. */
static const struct world *
before(const struct watch *w)
{
	return w->old ? w->old : w->newer;
}

/* Lock held. */
static uint64_t
next_event(struct watch *w)
{
	return ++w->event;
}

/* A second has passed: publish its rates as a point. */
static void
tell_point(struct watch *w, uint64_t now_ns, const struct rates *r)
{
	struct point p = {now_ns / 1000000, *r};
	struct buf text = {0};
	uint64_t id;

	pthread_mutex_lock(&w->lock);
	w->point[w->npoints++ % WATCH_POINTS] = p;
	id = next_event(w);
	pthread_mutex_unlock(&w->lock);
	if (buf_add(&text, "[", 1) && add_point(&text, &p) && buf_add(&text, "]", 1))
		http_publish(w->server, "points", id, text.data, text.len);
	buf_fini(&text);
}

/* Keep the world for rates of later ones. */
static void
keep(struct watch *w, struct world *now, const struct rates *r)
{
	struct world *gone;

	if (w->newer && now->now_ns - w->newer->now_ns < RATES_NS) {
		world_free(now);
		return;
	}
	if (w->newer)
		tell_point(w, now->now_ns, r);
	pthread_mutex_lock(&w->worlds);
	gone = w->old;
	w->old = w->newer;
	w->newer = now;
	pthread_mutex_unlock(&w->worlds);
	world_free(gone);
}

static void
tell_curves(struct watch *w)
{
	struct buf text = {0};
	struct err err = {0};
	uint64_t id = 0;

	pthread_mutex_lock(&w->lock);
	if (w->curves_changed && curves_json(w->curves, &text, &err) == RC_OK)
		id = next_event(w);
	w->curves_changed = false;
	pthread_mutex_unlock(&w->lock);
	if (id)
		http_publish(w->server, "training", id, text.data, text.len);
	buf_fini(&text);
}

/* Take a sample; without listeners only for a point. */
static void
sample(struct watch *w, bool listened)
{
	struct world *now = NULL;
	struct buf text = {0};
	struct rates rates;
	struct err err = {0};
	uint64_t id;

	if (observe_world(w->observer, listened ? RECORDS : 0, deadline_in_ms(OBSERVE_MS), &now,
			  &err) != RC_OK) {
		http_heartbeat(w->server);
		return;
	}
	if (listened) {
		tell_curves(w);
		pthread_mutex_lock(&w->lock);
		id = next_event(w);
		pthread_mutex_unlock(&w->lock);
		if (state_json(now, before(w), &text, &rates, &err) == RC_OK)
			http_publish(w->server, "status", id, text.data, text.len);
		buf_fini(&text);
	} else {
		rates_between(now, before(w), &rates);
	}
	keep(w, now, &rates);
}

/* Wait until it is time for a sample: due_ns, or without listeners idle_ns. False: the watch ends. */
static bool
await_turn(struct watch *w, uint64_t due_ns, uint64_t idle_ns, bool *listened)
{
	bool stops;

	pthread_mutex_lock(&w->lock);
	while (!w->stops && !w->comes &&
	       deadline_left_ms(http_listeners(w->server) ? due_ns : idle_ns) > 0) {
		struct timespec ts =
		    deadline_timespec(http_listeners(w->server) ? due_ns : idle_ns);

		pthread_cond_clockwait(&w->changed, &w->lock, CLOCK_MONOTONIC, &ts);
	}
	*listened = w->comes || http_listeners(w->server);
	w->comes = false;
	stops = w->stops;
	pthread_mutex_unlock(&w->lock);
	return !stops;
}

static void *
sample_all(void *arg)
{
	struct watch *w = arg;
	uint64_t due_ns = 0, idle_ns = 0;
	bool listened;

	while (await_turn(w, due_ns, idle_ns, &listened)) {
		uint64_t began = clock_now_ns(), took, period = WATCH_PERIOD_MS * NS_PER_MS;

		sample(w, listened);
		took = clock_now_ns() - began;
		due_ns = began + (took * 10 > period ? took * 10 : period);
		period = WATCH_IDLE_MS * NS_PER_MS;
		idle_ns = began + (took * 20 > period ? took * 20 : period);
	}
	return NULL;
}

/* ---- the answerer */

static enum rc
trace_add(void *arg, const void *data, size_t n, struct err *err)
{
	struct buf *b = arg;

	if (b->len + n > WATCH_TRACE_MAX)
		return err_set(err, RC_BUSY,
			       "the trace is longer than %u MiB: request a shorter time, such as "
			       "/trace.json?last=1s",
			       WATCH_TRACE_MAX >> 20);
	return buf_add(b, data, n) ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

static enum rc
make(struct watch *w, const struct waiting *q, struct buf *out, struct err *err)
{
	static const size_t records[] = {[STATUS] = RECORDS, [TRACE] = SIZE_MAX, [METRICS] = 0};
	struct metrics_process self = watch_self();
	struct world *now = NULL;
	enum rc rc =
	    observe_world(w->observer, records[q->what],
			  deadline_in_ms(q->what == METRICS ? METRICS_MS : OBSERVE_MS), &now, err);

	if (rc == RC_OK && q->what == STATUS) {
		pthread_mutex_lock(&w->worlds);
		rc = state_json(now, before(w), out, NULL, err);
		pthread_mutex_unlock(&w->worlds);
		if (rc == RC_OK && !buf_add(out, "\n", 1))
			rc = err_set(err, RC_NOMEM, "out of memory");
	} else if (rc == RC_OK && q->what == METRICS) {
		rc = metrics_text(w->sums, now, &self, q->form, out, err);
	} else if (rc == RC_OK) {
		rc = timeline_of_world(now, q->last_ns, trace_add, out, NULL, err);
	}
	world_free(now);
	return rc;
}

static void
answer_one(struct watch *w, const struct waiting *q)
{
	struct http_answer answer = {0};
	struct buf text = {0};
	struct err err = {0};

	if (make(w, q, &text, &err) == RC_OK) {
		http_answer_text(&answer, 200,
				 q->what == METRICS ? metrics_type(q->form) : "application/json",
				 &text);
	} else {
		buf_fini(&text);
		http_answer_error(&answer, 503, err.text);
	}
	if (q->what == TRACE)
		snprintf(answer.headers, sizeof answer.headers,
			 "Content-Disposition: inline; filename=\"gpusim-trace.json\"\r\n");
	http_reply(q->ask, &answer);
}

/* Take the next request. False: the watch ends, and all waiting requests are answered. */
static bool
next_waiting(struct watch *w, struct waiting *q)
{
	const struct http_answer ends = {.status = 503};
	bool any;

	pthread_mutex_lock(&w->lock);
	while (!w->stops && w->nwaiting == 0)
		pthread_cond_wait(&w->changed, &w->lock);
	while (w->stops && w->nwaiting)
		http_reply(w->waiting[--w->nwaiting].ask, &ends);
	any = w->nwaiting != 0;
	if (any) {
		*q = w->waiting[0];
		memmove(w->waiting, w->waiting + 1, --w->nwaiting * sizeof *w->waiting);
	}
	pthread_mutex_unlock(&w->lock);
	return any;
}

static void *
answer_all(void *arg)
{
	struct waiting q;

	while (next_waiting(arg, &q))
		answer_one(arg, &q);
	return NULL;
}

/* ---- on the server's thread */

static void
put_off(struct watch *w, const struct waiting *q, struct http_answer *out)
{
	pthread_mutex_lock(&w->lock);
	if (w->nwaiting < HTTP_SERVER_MAX_CONNS && !w->stops) {
		w->waiting[w->nwaiting++] = *q;
		out->status = HTTP_LATER;
		pthread_cond_broadcast(&w->changed);
	}
	pthread_mutex_unlock(&w->lock);
	if (out->status != HTTP_LATER)
		http_answer_error(out, 503,
				  "too many requests are waiting for an answer: try again");
}

/* Begin a listener's stream: the points of the last minutes and the curves; the status follows at once. */
static void
begin_events(struct watch *w, struct http_answer *out)
{
	struct buf points = {0}, curves = {0}, text = {0};
	struct err err = {0};
	bool good;

	pthread_mutex_lock(&w->lock);
	good = buf_addf(&text, "retry: 1000\n\n") && add_points(&points, w) &&
	       curves_json(w->curves, &curves, &err) == RC_OK &&
	       http_event(&text, "points", w->event, points.data, points.len) &&
	       http_event(&text, "training", w->event, curves.data, curves.len);
	w->comes = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	buf_fini(&points);
	buf_fini(&curves);
	if (good) {
		http_answer_text(out, HTTP_STREAM, NULL, &text);
	} else {
		buf_fini(&text);
		out->status = 503;
	}
}

static void
begin_trace(struct watch *w, struct http_ask *ask, struct http_answer *out)
{
	struct waiting q = {.ask = ask, .what = TRACE, .last_ns = WATCH_TRACE_S * NS_PER_SEC};
	const char *last = http_ask_argument(ask, "last");
	struct err err = {0};

	if (last && strcmp(last, "all") == 0)
		q.last_ns = 0;
	else if (last && parse_duration(last, &q.last_ns, &err) != RC_OK) {
		err_prefix(&err, "?last=");
		http_answer_error(out, 400, err.text);
		return;
	}
	put_off(w, &q, out);
}

bool
watch_answer(struct watch *w, struct http_ask *ask, struct http_answer *out)
{
	const char *path = http_ask_path(ask);

	if (strcmp(path, "/events") == 0)
		begin_events(w, out);
	else if (strcmp(path, "/trace.json") == 0)
		begin_trace(w, ask, out);
	else if (strcmp(path, "/status.json") == 0)
		put_off(w, &(struct waiting){.ask = ask, .what = STATUS}, out);
	else if (strcmp(path, "/metrics") == 0)
		put_off(w,
			&(struct waiting){.ask = ask,
					  .what = METRICS,
					  .form = metrics_form_of(http_ask_header(ask, "Accept"))},
			out);
	else
		return false;
	return true;
}

/* ---- beginning and end */

enum rc
watch_training(struct watch *w, const GpuSim__TrainingPutRequest *m, struct err *err)
{
	enum rc rc;

	pthread_mutex_lock(&w->lock);
	rc = curves_put(w->curves, m, clock_wall_ms(), err);
	w->curves_changed = true;
	pthread_mutex_unlock(&w->lock);
	return rc;
}

enum rc
watch_new(struct observer *o, struct watch **out, struct err *err)
{
	struct watch *w = calloc(1, sizeof *w);

	if (!w || !(w->curves = curves_new()) || !(w->sums = metrics_new())) {
		if (w)
			curves_free(w->curves);
		free(w);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	w->observer = o;
	pthread_mutex_init(&w->lock, NULL);
	pthread_mutex_init(&w->worlds, NULL);
	pthread_cond_init(&w->changed, NULL);
	*out = w;
	return RC_OK;
}

enum rc
watch_serves(struct watch *w, struct http_server *s, struct err *err)
{
	w->server = s;
	w->started[0] = pthread_create(&w->sampler, NULL, sample_all, w) == 0;
	w->started[1] = pthread_create(&w->answerer, NULL, answer_all, w) == 0;
	return w->started[0] && w->started[1]
		   ? RC_OK
		   : err_set(err, RC_FAILED, "cannot start the threads of the live page");
}

void
watch_stop(struct watch *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stops = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	if (w->started[0])
		pthread_join(w->sampler, NULL);
	if (w->started[1])
		pthread_join(w->answerer, NULL);
	w->started[0] = w->started[1] = false;
}

void
watch_free(struct watch *w)
{
	if (!w)
		return;
	curves_free(w->curves);
	metrics_free(w->sums);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	pthread_mutex_destroy(&w->worlds);
	world_free(w->old);
	world_free(w->newer);
	free(w);
}
