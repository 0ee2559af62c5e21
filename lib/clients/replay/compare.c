/* Compares two recordings: the original and its replay. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "coll/fault.h"
#include "replay/replay.h"

/* The part of the story that an operation of the replay corresponds to. */
struct place {
	uint32_t proc, comm, op;
	uint64_t lane;
	bool by_queue;
};

struct match {
	const struct story *then, *now;
	const struct replay_map *map;
	uint32_t *of; /* by operation of the story: the replay's operation, or STORY_NONE */
	struct replay_result *out;
};

static int
order(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int
by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int d = order(x->proc, y->proc);

	if (!d)
		d = order(x->comm, y->comm);
	if (!d)
		d = order(x->by_queue, y->by_queue);
	if (!d)
		d = order(x->lane, y->lane);
	return d ? d : order(x->op, y->op);
}

static bool
same_place(const struct place *x, const struct place *y)
{
	return x->proc == y->proc && x->comm == y->comm && x->by_queue == y->by_queue &&
	       x->lane == y->lane;
}

static struct place *
places_then(const struct story *s)
{
	struct place *v = must_alloc(s->nops + 1, sizeof *v);

	for (size_t i = 0; i < s->nops; i++)
		v[i] = (struct place){.proc = s->op[i].proc,
				      .comm = s->op[i].comm,
				      .op = (uint32_t)i,
				      .lane = s->op[i].lane,
				      .by_queue = s->op[i].by_queue};
	qsort(v, s->nops, sizeof *v, by_place);
	return v;
}

/* The place of an operation of the replay: its communicators and queues are different ones, its
 * device K is process K. */
static struct place *
places_now(const struct match *m)
{
	const struct story *s = m->now;
	struct place *v = must_alloc(s->nops + 1, sizeof *v);

	for (size_t i = 0; i < s->nops; i++) {
		const struct story_op *o = &s->op[i];
		uint64_t id = s->comm[o->comm].id;

		v[i] = (struct place){.proc = s->proc[o->proc].ordinal,
				      .comm = STORY_NONE,
				      .op = (uint32_t)i,
				      .lane = o->lane,
				      .by_queue = o->by_queue};
		for (size_t c = 0; c < m->then->ncomms; c++)
			if (m->map->comm[c] == id)
				v[i].comm = (uint32_t)c;
		for (size_t q = 0; o->by_queue && q < m->map->nqueues; q++)
			if (m->map->queue[q].proc == v[i].proc && m->map->queue[q].now == o->lane)
				v[i].lane = m->map->queue[q].then;
	}
	qsort(v, s->nops, sizeof *v, by_place);
	return v;
}

/* Match the k-th operation of a place with the k-th of the same place in the replay. */
static void
pair_up(struct match *m)
{
	struct place *then = places_then(m->then), *now = places_now(m);
	size_t i = 0, k = 0;

	m->of = must_alloc(m->then->nops + 1, sizeof *m->of);
	for (size_t j = 0; j < m->then->nops; j++)
		m->of[j] = STORY_NONE;
	while (i < m->then->nops && k < m->now->nops) {
		if (same_place(&then[i], &now[k])) {
			m->of[then[i++].op] = now[k++].op;
		} else {
			struct place x = then[i], y = now[k];

			x.op = y.op = 0;
			if (by_place(&x, &y) < 0)
				i++;
			else
				k++;
		}
	}
	free(then);
	free(now);
}

static void __attribute__((format(printf, 3, 4)))
differs(struct match *m, const struct story_op *o, const char *fmt, ...)
{
	char what[512], where[256];
	va_list ap;

	if (m->out->differ++)
		return;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	story_say_op(m->then, o, where, sizeof where);
	snprintf(m->out->first, sizeof m->out->first, "%s (device %u): %s", where,
		 m->then->proc[o->proc].ordinal, what);
}

/* Compare an operation that succeeded both times. */
static void
compare_good(struct match *m, const struct story_op *o, const struct story_op *now)
{
	if (o->schedule != now->schedule || (!o->schedule && strcmp(o->algo, now->algo) != 0) ||
	    o->steps != now->steps)
		differs(m, o, "recorded algorithm %s in %u steps; replayed %s in %u", o->algo,
			o->steps, now->algo, now->steps);
	else if (o->in_bytes != now->in_bytes || o->out_bytes != now->out_bytes)
		differs(m, o,
			"recorded %" PRIu64 " bytes to %" PRIu64 "; replayed %" PRIu64
			" to %" PRIu64,
			o->in_bytes, o->out_bytes, now->in_bytes, now->out_bytes);
	else if (m->then->with_data && o->nin == o->in_bytes && o->in_crc != now->in_crc)
		differs(m, o, "recorded input checksum %08x; replayed %08x", o->in_crc,
			now->in_crc);
	else if (m->then->with_data && o->nin == o->in_bytes && o->out_crc != now->out_crc)
		differs(m, o, "recorded output checksum %08x; replayed %08x", o->out_crc,
			now->out_crc);
	else
		m->out->same++;
}

static const char *
outcome(const struct story_op *o)
{
	return !o			? "it did not begin"
	       : o->state == STORY_GOOD ? "it succeeded"
	       : o->state == STORY_OPEN ? "it did not end"
	       : o->text && *o->text	? o->text
					: "it failed";
}

static void
compare_unit(struct match *m, size_t unit)
{
	const struct story *s = m->then;
	uint32_t a = s->unit[unit], b = s->unit[unit + 1];
	bool failed = story_unit_failed(s, unit), fails = false;

	for (uint32_t i = a; i < b; i++) {
		uint32_t k = m->of[s->order[i]];

		fails |= k == STORY_NONE || m->now->op[k].state != STORY_GOOD;
	}
	if (failed && !fails && !story_unit_aborted(s, unit)) {
		for (uint32_t i = a; i < b; i++)
			if (s->op[s->order[i]].state != STORY_GOOD) {
				differs(m, &s->op[s->order[i]],
					"recorded: %s; replayed: it succeeded",
					outcome(&s->op[s->order[i]]));
				return;
			}
	}
	for (uint32_t i = a; i < b; i++) {
		const struct story_op *o = &s->op[s->order[i]], *now = NULL;

		if (m->of[s->order[i]] != STORY_NONE)
			now = &m->now->op[m->of[s->order[i]]];
		if (o->state == STORY_GOOD && now && now->state == STORY_GOOD)
			compare_good(m, o, now);
		else if (failed) /* ignore which ranks had ended before: that is a race */
			m->out->failed++;
		else
			differs(m, o, "recorded: it succeeded; replayed: %s", outcome(now));
	}
}

/* Return true if a fault happened in the same operation and step. */
static bool
met(const struct match *m, const struct story_fault *f)
{
	uint32_t op = m->of[f->op];

	for (size_t i = 0; op != STORY_NONE && i < m->now->nfaults; i++) {
		const struct story_fault *g = &m->now->fault[i];

		if (g->op == op && g->f.kind == f->f.kind && g->step == f->step)
			return true;
	}
	return false;
}

static void
compare_faults(struct match *m)
{
	for (size_t i = 0; i < m->then->nfaults; i++) {
		const struct story_fault *f = &m->then->fault[i];

		if (f->op == STORY_NONE)
			continue;
		m->out->nfaults++;
		if (met(m, f))
			m->out->met++;
		else
			differs(m, &m->then->op[f->op], "fault %s at step %u did not happen",
				fault_name(f->f.kind), f->step);
	}
}

void
replay_compare(const struct story *then, const struct story *now, const struct replay_map *map,
	       struct replay_result *out)
{
	struct match m = {.then = then, .now = now, .map = map, .out = out};

	*out = (struct replay_result){0};
	pair_up(&m);
	for (size_t u = 0; u < then->nunits; u++)
		compare_unit(&m, u);
	compare_faults(&m);
	free(m.of);
}
