/* Streams: their queues, their threads, how runs get into them, and who waits for them. Design notes: stream_impl.h. */
#include "dev/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "dev/stream_impl.h"

#define MAX_PENDING 4096 /* more than a client may have pending */

static void
stream_init(struct stream *st, struct streams *all, uint64_t id)
{
	*st = (struct stream){.all = all, .id = id};
	recorder_init(&st->recorder);
	st->tail = &st->head;
	pthread_cond_init(&st->work, NULL);
}

enum rc
streams_new(const struct program_env *env, struct streams **out, struct err *err)
{
	struct streams *s = calloc(1, sizeof *s);

	if (!s)
		return err_set(err, RC_NOMEM, "out of memory");
	s->env = *env;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->ended, NULL);
	pthread_cond_init(&s->started, NULL);
	for (unsigned i = 0; i < STREAM_MAX; i++)
		stream_init(&s->numbered[i], s, i);
	*out = s;
	return RC_OK;
}

void
streams_hold(struct streams *s, struct program *p)
{
	pthread_mutex_lock(&s->lock);
	p->refs++;
	pthread_mutex_unlock(&s->lock);
}

void
streams_drop(struct streams *s, struct program *p)
{
	bool last;

	pthread_mutex_lock(&s->lock);
	last = --p->refs == 0;
	pthread_mutex_unlock(&s->lock);
	if (last)
		program_free(p);
}

/* Take the pending requests of an idle stream. */
static struct pending *
pending_take(struct stream *st)
{
	struct pending *w = st->pending;

	st->pending = NULL;
	for (struct pending *i = w; i; i = i->next)
		st->all->npending--;
	return w;
}

/* Without the lock. */
static void
pending_tell(struct pending *w)
{
	struct pending *next;

	for (; w; w = next) {
		next = w->next;
		w->fn(w->arg);
		free(w);
	}
}

/* A transfer has ended: remember its result, free the rest. */
static void
transfer_retire(struct stream *st, const struct err *why)
{
	struct streams *s = st->all;
	struct stream **at = &s->transfers;

	while (*at != st)
		at = &(*at)->next;
	*at = st->next;
	s->ntransfers--;
	s->finished[s->nfinished++ % FINISHED_TRANSFERS] =
	    (struct finished){st->id, *why, st->receive};
	pthread_cond_destroy(&st->work);
	free(st);
}

/*
 * Lock held, released for the callback. A failure without a caller stays with each stream that did not
 * reach its end. A transfer's stream is freed when its pending requests are answered.
 */
static void
end_segment(struct stream *st, struct segment *g)
{
	struct streams *s = st->all;
	struct run *r = g->run;
	struct pending *w;
	bool last = --r->segments == 0;

	if (g->failed && !r->spec.done && st->why.rc == RC_OK)
		st->why = r->result.err;
	segment_free(g);
	st->queued--;
	w = st->queued ? NULL : pending_take(st);
	if (st->transfer)
		transfer_retire(st, &r->result.err);
	pthread_mutex_unlock(&s->lock);
	if (last) {
		if (r->spec.done)
			r->spec.done(r->spec.arg, &r->result);
		streams_drop(s, r->spec.program);
		run_free(r);
	}
	pending_tell(w);
	pthread_mutex_lock(&s->lock);
}

static void *
stream_main(void *arg)
{
	struct stream *st = arg;
	struct streams *s = st->all;
	bool transfer = st->transfer, over = false;

	pthread_mutex_lock(&s->lock);
	recorder_open(&st->recorder, s->env.flight, transfer ? FLIGHT_TRANSFER : FLIGHT_STREAM,
		      st->id, st->id, 0, transfer ? "transfer" : "stream");
	while (!over) {
		struct segment *g;

		while (!st->head && !s->stop)
			pthread_cond_wait(&st->work, &s->lock);
		g = st->head;
		if (!g)
			break;
		st->head = g->next;
		if (!st->head)
			st->tail = &st->head;
		turns_await(st, g);
		segment_run(st, g);
		turns_open(st);
		if (transfer)
			recorder_close(&st->recorder);
		end_segment(st, g);
		over = transfer;
	}
	if (!transfer)
		recorder_close(&st->recorder);
	s->threads--;
	pthread_cond_broadcast(&s->ended);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* Lock held. Start the stream's thread if needed; RC_ABORTED when the streams are stopped. */
static enum rc
stream_start(struct stream *st, struct err *err)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rv;

	if (st->all->stop)
		return err_set(err, RC_ABORTED, "the device is shutting down");
	if (st->started)
		return RC_OK;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rv = pthread_create(&thread, &attr, stream_main, st);
	pthread_attr_destroy(&attr);
	if (rv != 0)
		return err_set(err, RC_BUSY, "cannot start stream %" PRIu64 ": %s", st->id,
			       strerror(rv));
	st->started = true;
	st->all->threads++;
	return RC_OK;
}

void
streams_stop(struct streams *s)
{
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	for (unsigned i = 0; i < STREAM_MAX; i++)
		pthread_cond_broadcast(&s->numbered[i].work);
	/* Each thread ends its queued runs, which now fail at once, and notifies their callers. */
	while (s->threads)
		pthread_cond_wait(&s->ended, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

void
streams_free(struct streams *s)
{
	if (!s)
		return;
	streams_stop(s);
	for (unsigned i = 0; i < STREAM_MAX; i++)
		pthread_cond_destroy(&s->numbered[i].work);
	pthread_cond_destroy(&s->started);
	pthread_cond_destroy(&s->ended);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Lock held. */
static void
stream_enqueue(struct stream *st, struct segment *g)
{
	g->next = NULL;
	*st->tail = g;
	st->tail = &g->next;
	st->queued++;
	pthread_cond_signal(&st->work);
}

/* Lock held. All segments, or none. */
static enum rc
enqueue_all(struct streams *s, struct run *r, struct segment *const g[STREAM_MAX], struct err *err)
{
	enum rc rc = RC_OK;

	for (uint32_t i = 0; i < STREAM_MAX && rc == RC_OK; i++)
		if (g[i] && s->numbered[i].queued >= STREAM_MAX_QUEUED)
			rc = err_set(err, RC_BUSY, "stream %u has %d runs queued", i,
				     STREAM_MAX_QUEUED);
		else if (g[i])
			rc = stream_start(&s->numbered[i], err);
	for (uint32_t i = 0; i < STREAM_MAX && rc == RC_OK; i++)
		if (g[i] && !turns_note(&s->numbered[i], g[i]))
			rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK && !run_number_events(r))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc != RC_OK)
		return rc;
	r->spec.program->refs++;
	for (uint32_t i = 0; i < STREAM_MAX; i++)
		if (g[i]) {
			turns_close(g[i]);
			stream_enqueue(&s->numbered[i], g[i]);
		}
	return RC_OK;
}

enum rc
streams_run(struct streams *s, const struct run_spec *spec, struct err *err)
{
	struct segment *g[STREAM_MAX];
	struct run *r;
	enum rc rc = RC_OK;

	if (spec->iterations == 0 || spec->iterations > RUN_MAX_ITERATIONS)
		return err_set(err, RC_INVAL, "a run of %" PRIu64 " iterations: must be 1 to %llu",
			       spec->iterations, (unsigned long long)RUN_MAX_ITERATIONS);
	rc = program_check_numbers(spec->program, spec->first_op, spec->stride, spec->iterations,
				   err);
	if (rc != RC_OK)
		return rc;
	r = run_new(spec, g);
	if (!r)
		return err_set(err, RC_NOMEM, "out of memory");
	if (r->segments == 0) {
		if (spec->done)
			spec->done(spec->arg, &r->result); /* an empty run has ended */
		run_free(r);
		return RC_OK;
	}
	if (spec->program->ncoll)
		rc = xport_reserve(s->env.xport, spec->program->comm, spec->program->epoch,
				   spec->program->ncoll * spec->iterations, &r->tickets, err);
	pthread_mutex_lock(&s->lock);
	if (rc == RC_OK)
		rc = enqueue_all(s, r, g, err);
	pthread_mutex_unlock(&s->lock);
	if (rc == RC_OK)
		return RC_OK;
	for (uint32_t i = 0; i < STREAM_MAX; i++)
		segment_free(g[i]);
	run_free(r);
	return rc;
}

/* ---- what waits for streams, and their states */

/* A transfer at work, or NULL. */
static struct stream *
transfer_find(struct streams *s, uint64_t id)
{
	struct stream *st = s->transfers;

	while (st && st->id != id)
		st = st->next;
	return st;
}

static const struct finished *
transfer_find_finished(const struct streams *s, uint64_t id)
{
	unsigned n = s->nfinished < FINISHED_TRANSFERS ? s->nfinished : FINISHED_TRANSFERS;

	for (unsigned i = 0; i < n; i++)
		if (s->finished[i].id == id)
			return &s->finished[i];
	return NULL;
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

/* ---- the lab's transfers: streams of one operation, each with a thread that ends with it */

/* Lock held. */
static enum rc
begin(struct streams *s, struct stream *st, struct segment *g, struct err *err)
{
	enum rc rc = RC_OK;

	if (st->id < STREAM_MAX || transfer_find(s, st->id) || transfer_find_finished(s, st->id))
		rc = err_set(err, RC_BUSY, "stream %" PRIu64 " is already in use", st->id);
	else if (s->ntransfers == STREAM_MAX_TRANSFER)
		rc = err_set(err, RC_BUSY, "%d transfers are already in progress",
			     STREAM_MAX_TRANSFER);
	else
		rc = stream_start(st, err);
	if (rc != RC_OK)
		return rc;
	g->run->spec.program->refs++;
	st->next = s->transfers;
	s->transfers = st;
	s->ntransfers++;
	stream_enqueue(st, g);
	return RC_OK;
}

static bool
is_that(const struct transfer_receive *r, uint64_t stream, uint64_t comm)
{
	return r->nbytes && (stream == 0 || r->stream == stream) && (comm == 0 || r->comm == comm);
}

/* Lock held. The last successful receive, if not reported before. */
static bool
take_finished(struct streams *s, uint64_t stream, uint64_t comm, struct transfer_receive *out)
{
	for (unsigned i = 1; i <= s->nfinished && i <= FINISHED_TRANSFERS; i++) {
		struct finished *f = &s->finished[(s->nfinished - i) % FINISHED_TRANSFERS];

		if (f->why.rc != RC_OK || !is_that(&f->receive, stream, comm))
			continue;
		*out = f->receive;
		out->over = true;
		f->receive = (struct transfer_receive){0};
		return !out->told;
	}
	return false;
}

bool
streams_at_work(struct streams *s, uint64_t stream)
{
	bool found;

	pthread_mutex_lock(&s->lock);
	found = transfer_find(s, stream) != NULL;
	pthread_mutex_unlock(&s->lock);
	return found;
}

enum rc
streams_receive(struct streams *s, uint64_t stream, uint64_t comm, struct transfer_receive *out,
		struct err *err)
{
	struct stream *found = NULL;
	unsigned n = 0;

	pthread_mutex_lock(&s->lock);
	for (struct stream *st = s->transfers; st; st = st->next)
		if (is_that(&st->receive, stream, comm)) {
			found = st;
			n++;
		}
	if (n == 1) {
		*out = found->receive;
		found->receive.told = true;
	} else if (n == 0) {
		n = take_finished(s, stream, comm, out);
	}
	pthread_mutex_unlock(&s->lock);
	if (n == 0)
		return err_set(err, RC_FAILED,
			       "no receive waits for a chunk: call BeginReceive first");
	if (n > 1)
		return err_set(err, RC_FAILED,
			       "%u receives have begun, and a chunk without a stream id "
			       "could be for any",
			       n);
	return RC_OK;
}

enum rc
streams_transfer(struct streams *s, uint64_t id, struct program *p, uint64_t addr, struct err *err)
{
	struct run_spec spec = {.program = p, .iterations = 1};
	const struct inst_coll *c = &p->inst[0].coll;
	struct segment *g[STREAM_MAX];
	struct stream *st = calloc(1, sizeof *st);
	struct run *r = st ? run_new(&spec, g) : NULL;
	enum rc rc;

	if (!r) {
		free(st);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	stream_init(st, s, id);
	st->transfer = true;
	if (c->args.coll == GPUSIM_RECV && c->plan.nstep) /* the chunks that it waits for */
		st->receive = (struct transfer_receive){.stream = id,
							.comm = p->comm,
							.src = c->plan.step[0].peer,
							.addr = addr,
							.nbytes = c->args.nelem * c->elem,
							.chunk = c->plan.step[0].count * c->elem};
	pthread_mutex_lock(&s->lock);
	rc = begin(s, st, g[0], err);
	pthread_mutex_unlock(&s->lock);
	if (rc == RC_OK)
		return RC_OK;
	pthread_cond_destroy(&st->work);
	free(st);
	segment_free(g[0]);
	run_free(r);
	return rc;
}
