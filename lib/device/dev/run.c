/* A run: its segments, the numbers of its events, and the execution of a segment. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "dev/stream_impl.h"

void
segment_free(struct segment *g)
{
	if (!g)
		return;
	free(g->at);
	free(g->turn);
	free(g->pair);
	free(g->waited_ns);
	free(g);
}

void
run_free(struct run *r)
{
	xport_unreserve(&r->tickets);
	free(r->event);
	free(r->waited_ns);
	free(r);
}

static struct segment *
segment_new(struct run *r, size_t n)
{
	struct segment *g = calloc(1, sizeof *g);

	if (!g)
		return NULL;
	g->run = r;
	g->at = alloc_zeroed(n, sizeof *g->at);
	if (r->waited_ns)
		g->waited_ns = alloc_zeroed(r->spec.program->nranks, sizeof *g->waited_ns);
	if (!g->at || (r->waited_ns && !g->waited_ns)) {
		segment_free(g);
		return NULL;
	}
	return g;
}

/* One segment for each stream that has instructions. */
static bool
make_segments(struct run *r, struct segment *by_stream[STREAM_MAX])
{
	const struct program *p = r->spec.program;
	size_t n[STREAM_MAX] = {0};

	for (size_t i = 0; i < p->ninst; i++)
		n[p->inst[i].stream]++;
	for (unsigned s = 0; s < STREAM_MAX; s++) {
		if (n[s] && !(by_stream[s] = segment_new(r, n[s])))
			return false;
		r->segments += n[s] != 0;
	}
	for (size_t i = 0; i < p->ninst; i++) {
		struct segment *g = by_stream[p->inst[i].stream];

		g->at[g->n++] = (uint32_t)i;
	}
	for (unsigned s = 0; s < STREAM_MAX; s++) {
		struct segment *g = by_stream[s];
		size_t row = 0, most = 0;

		/* Room for the longest row of sends and receives, so that running needs no memory. */
		for (size_t i = 0; g && i < g->n; i++) {
			row = p->inst[g->at[i]].kind == INST_SENDRECV ? row + 1 : 0;
			most = row > most ? row : most;
		}
		if (most && !(g->pair = alloc_zeroed(most, sizeof *g->pair)))
			return false;
	}
	return true;
}

struct run *
run_new(const struct run_spec *spec, struct segment *by_stream[STREAM_MAX])
{
	struct run *r = calloc(1, sizeof *r);

	for (unsigned s = 0; s < STREAM_MAX; s++)
		by_stream[s] = NULL;
	if (!r)
		return NULL;
	r->spec = *spec;
	r->queued = ticks_now();
	r->event = alloc_zeroed(spec->program->ninst + 1, sizeof *r->event);
	if (spec->program->comm)
		r->waited_ns = alloc_zeroed(spec->program->nranks, sizeof *r->waited_ns);
	r->result.waited_ns = r->waited_ns;
	r->result.nranks = r->waited_ns ? spec->program->nranks : 0;
	if (!r->event || (spec->program->comm && !r->waited_ns) || !make_segments(r, by_stream)) {
		for (unsigned s = 0; s < STREAM_MAX; s++) {
			segment_free(by_stream[s]);
			by_stream[s] = NULL;
		}
		run_free(r);
		return NULL;
	}
	return r;
}

/* These recordings (at NULL: the run's first n) will not be reached: end all waits for them. */
static void
pass_events(const struct run *r, const uint32_t *at, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t k = at ? at[i] : i;
		const struct inst *in = &r->spec.program->inst[k];

		if (in->kind == INST_RECORD)
			event_record(in->event.event, r->event[k].first + r->spec.iterations - 1);
	}
}

/*
 * A wait is for the recording queued before it. If this program records the event itself, that is the one
 * of its own iteration if it precedes the wait, and of the previous iteration if it follows.
 */
bool
run_number_events(struct run *r)
{
	const struct program *p = r->spec.program;

	for (size_t i = 0; i < p->ninst; i++)
		if (p->inst[i].kind == INST_WAIT && p->inst[i].event.record == INST_NONE)
			r->event[i].first = event_queued(p->inst[i].event.event);
	for (size_t i = 0; i < p->ninst; i++)
		if (p->inst[i].kind == INST_RECORD) {
			uint64_t first = event_queue(p->inst[i].event.event, r->spec.iterations);

			if (first == 0) {
				pass_events(r, NULL, i);
				return false;
			}
			r->event[i] = (struct event_number){first, 1};
		}
	for (size_t i = 0; i < p->ninst; i++) {
		size_t rec = p->inst[i].event.record;

		if (p->inst[i].kind == INST_WAIT && rec != INST_NONE)
			r->event[i] = (struct event_number){r->event[rec].first - (i < rec), 1};
	}
	return true;
}

/* Run the instructions; sum->err is the first failure, its times are ticks. True: to the end. */
static bool
run_all(struct stream *st, const struct segment *g, struct run_result *sum)
{
	struct streams *s = st->all;
	struct run *r = g->run;
	const struct program *p = r->spec.program;
	struct recorder *m = &st->recorder;

	m->clock = ticks_now();
	m->queued = r->queued;
	for (uint64_t it = 0; it < r->spec.iterations; it++)
		for (size_t i = 0, n; i < g->n; i += n) {
			const struct inst *in;
			uint64_t before;

			if (atomic_load(&r->over) || atomic_load(&s->stop))
				return false;
			before = m->clock;
			if (execute(st, g, it, i, &n, &sum->err) != RC_OK)
				return false;
			/* The first of the sends and receives that run together decides. Waiting for
			 * events is neither computing nor communicating. */
			in = &p->inst[g->at[i]];
			if (in->kind != INST_RECORD && in->kind != INST_WAIT)
				recorder_phase_goes_on(m);
			if (!in->untimed && (in->kind == INST_COLL || in->kind == INST_SENDRECV))
				sum->comm_ns += m->clock - before;
			else if (!in->untimed && in->kind != INST_RECORD && in->kind != INST_WAIT)
				sum->compute_ns += m->clock - before;
			for (size_t k = i; s->env.tell && k < i + n; k++) {
				in = &p->inst[g->at[k]];
				if (in->kind == INST_COLL || in->kind == INST_SENDRECV)
					collective_tell(s->env.tell, p, &in->coll,
							run_op(r, &in->coll, it),
							ticks_to_ns(m->clock - before, ticks_hz()));
			}
		}
	return true;
}

/* Lock held, released meanwhile. A failure ends the whole run. */
static void
start(struct streams *s, struct run *r)
{
	struct err err = {0};

	while (r->start == RUN_STARTING)
		pthread_cond_wait(&s->started, &s->lock);
	if (!r->spec.snapshots || r->start == RUN_STARTED)
		return;
	r->start = RUN_STARTING;
	pthread_mutex_unlock(&s->lock);
	if (r->spec.restore)
		snapshot_restore(r->spec.snapshots, &r->spec.snapshot_id, r->spec.program, &err);
	if (err.rc == RC_OK && r->spec.snapshot)
		snapshot_take(r->spec.snapshots, &r->spec.snapshot_id, r->spec.program, &err);
	pthread_mutex_lock(&s->lock);
	r->start = RUN_STARTED;
	if (err.rc != RC_OK) {
		r->result.err = err;
		atomic_store(&r->over, true);
	}
	pthread_cond_broadcast(&s->started);
}

void
segment_run(struct stream *st, struct segment *g)
{
	struct streams *s = st->all;
	struct run *r = g->run;
	struct run_result sum = {0};

	start(s, r);
	pthread_mutex_unlock(&s->lock);
	st->recorder.waited_ns = g->waited_ns;
	st->recorder.coll = NULL;
	g->failed = !run_all(st, g, &sum);
	recorder_phase(&st->recorder, 0, "");
	collective_failure(&st->recorder, sum.err.rc, &sum.failure);
	st->recorder.waited_ns = NULL;
	pthread_mutex_lock(&s->lock);
	if (g->failed && sum.err.rc == RC_OK)
		err_set(&sum.err, RC_ABORTED, "the device is shutting down");
	if (g->failed && r->result.err.rc == RC_OK) {
		r->result.err = sum.err;
		r->result.failure = sum.failure;
	}
	for (uint32_t q = 0; q < r->result.nranks; q++)
		r->waited_ns[q] += g->waited_ns[q];
	r->result.compute_ns += ticks_to_ns(sum.compute_ns, ticks_hz());
	r->result.comm_ns += ticks_to_ns(sum.comm_ns, ticks_hz());
	/* In this order: a segment that waited for this one's events must not continue in the same run. */
	if (g->failed) {
		atomic_store(&r->over, true);
		pass_events(r, g->at, g->n);
	}
}
