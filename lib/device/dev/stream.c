/* Streams: their queues, their threads, and how runs get into them. Design notes: stream_impl.h. */
#include "dev/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dev/stream_impl.h"

void
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

enum rc
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

void
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
