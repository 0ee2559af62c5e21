/*
 * A numbered stream and the command queues on it take turns.
 *
 * Design notes. A queue has its own thread. A run notes, when it is queued, how many commands each queue
 * of its stream has by then. The stream's thread waits for these commands; the queue's thread waits at
 * the first command after them (`gate`) until the run has ended. So both are in one order, and a command
 * with no run before it costs one load.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "dev/stream_impl.h"
#include "mem/cmdq.h"

#define SLICE_MS 100 /* between two checks for the end */

void
streams_attach(struct streams *s, uint32_t stream, struct stream_turns *t)
{
	struct stream *st = &s->numbered[stream];

	atomic_store(&t->gate, UINT64_MAX);
	pthread_mutex_lock(&s->lock);
	t->stream = st;
	t->next = st->turns;
	st->turns = t;
	pthread_mutex_unlock(&s->lock);
}

static void
forget(struct segment *g, const struct stream_turns *t)
{
	for (size_t i = 0; g && i < g->nturns; i++)
		if (g->turn[i].of == t)
			g->turn[i].of = NULL;
}

void
streams_detach(struct streams *s, struct stream_turns *t)
{
	struct stream *st = t->stream;
	struct stream_turns **at = &st->turns;

	pthread_mutex_lock(&s->lock);
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	for (struct segment *g = st->head; g; g = g->next)
		forget(g, t);
	forget(st->running, t);
	atomic_store(&t->over, true);
	cmdq_wake(t->head);
	while (st->waits_for == t)
		pthread_cond_wait(&s->started, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

bool
turns_note(const struct stream *st, struct segment *g)
{
	size_t n = 0;

	for (const struct stream_turns *t = st->turns; t; t = t->next)
		n++;
	if (n == 0)
		return true;
	g->turn = alloc_zeroed(n, sizeof *g->turn);
	if (!g->turn)
		return false;
	for (struct stream_turns *t = st->turns; t; t = t->next)
		g->turn[g->nturns++].of = t;
	return true;
}

void
turns_close(struct segment *g)
{
	for (size_t i = 0; i < g->nturns; i++) {
		struct stream_turns *t = g->turn[i].of;

		g->turn[i].tail = atomic_load(t->tail);
		if (atomic_load(&t->gate) > g->turn[i].tail)
			atomic_store(&t->gate, g->turn[i].tail);
	}
}

void
turns_await(struct stream *st, struct segment *g)
{
	struct streams *s = st->all;
	uint64_t begin = ticks_now();

	st->running = g;
	for (size_t i = 0; i < g->nturns; i++) {
		struct stream_turns *t = g->turn[i].of;

		if (!t)
			continue;
		st->waits_for = t;
		recorder_task(&st->recorder,
			      &(struct flight_now){.what = FLIGHT_TASK_TURN, .since = begin});
		pthread_mutex_unlock(&s->lock);
		while (!atomic_load(&t->over) && !atomic_load(&s->stop) &&
		       !cmdq_await(t->head, t->head_sleeps, g->turn[i].tail, NULL,
				   clock_now_ns() + SLICE_MS * NS_PER_MS))
			;
		pthread_mutex_lock(&s->lock);
		st->waits_for = NULL;
		pthread_cond_broadcast(&s->started);
	}
	if (g->nturns) {
		recorder_task(&st->recorder, NULL);
		recorder_clock(&st->recorder);
		recorder_pause(&st->recorder, FLIGHT_PAUSE_TURN, 0, begin);
	}
}

void
turns_open(struct stream *st)
{
	st->running = NULL;
	for (struct stream_turns *t = st->turns; t; t = t->next) {
		uint64_t gate = UINT64_MAX; /* the first of its commands that waits for a run */

		for (const struct segment *g = st->head; g && gate == UINT64_MAX; g = g->next)
			for (size_t i = 0; i < g->nturns; i++)
				if (g->turn[i].of == t)
					gate = g->turn[i].tail;
		cmdq_publish(&t->gate, &t->gate_sleeps, gate);
	}
}
