/*
 * collective.c - an all-reduce in place, with its failures: it runs when all ranks have arrived and
 * reach each other; then each rank has its result at its own time; a rank that leaves before may
 * have garbage in its buffer, and may make the others lose their results.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define TRY_MS 50

static struct coll *
find(struct world *w, uint64_t comm, uint64_t instance, uint32_t epoch, uint64_t op)
{
	for (size_t i = w->ncolls; i-- > 0;) {
		struct coll *c = &w->coll[i];

		if (c->comm == comm && c->instance == instance && c->epoch == epoch && c->op == op)
			return c;
	}
	return NULL;
}

static struct coll *
coll_of(struct world *w, const struct drun *r)
{
	return find(w, r->comm, r->instance, r->epoch, r->at);
}

static struct coll *
make(struct world *w, const struct dcomm *m, uint64_t op, uint32_t buffer)
{
	struct coll *c;

	if (w->ncolls == w->coll_cap) {
		w->coll_cap = w->coll_cap ? 2 * w->coll_cap : 64;
		w->coll = alloc_resize(w->coll, w->coll_cap, sizeof *w->coll);
		if (!w->coll)
			abort();
	}
	c = &w->coll[w->ncolls++];
	*c = (struct coll){.comm = m->id,
			   .instance = m->instance,
			   .op = op,
			   .epoch = m->epoch,
			   .nranks = m->nranks,
			   .buffer = buffer};
	for (uint32_t r = 0; r < MAX_DEVICES; r++)
		c->dev[r] = NONE;
	return c;
}

void
coll_arrive(struct world *w, uint32_t d, struct drun *r, const GpuSim__Coll *k, uint64_t op)
{
	const struct dcomm *m = device_comm(&w->dev[d], r->comm);
	uint32_t buffer = (uint32_t)((k->recvaddr - MEM_MIN) / (WORDS * sizeof(uint64_t)));
	struct coll *c = find(w, r->comm, m->instance, r->epoch, op);
	uint32_t come = 0;
	struct event *e;

	if (!c)
		c = make(w, m, op, buffer);
	r->at = op;
	r->instance = m->instance;
	r->rank = m->rank;
	if (c->nranks != m->nranks || c->buffer != buffer || c->dev[m->rank] != NONE) {
		wrong(w,
		      "comm %" PRIu64 " epoch %u operation %" PRIu64
		      ": the ranks disagree, or rank %u comes twice",
		      r->comm, r->epoch, op, m->rank);
		return;
	}
	c->dev[m->rank] = d;
	c->start[m->rank] = r->start;
	c->generation[m->rank] = r->generation;
	for (uint32_t q = 0; q < c->nranks; q++)
		come += c->dev[q] != NONE;
	e = post(w, w->now + OP_TIMEOUT_MS * MS, EV_COLL_LATE, node_of_device(d));
	e->b = r->start;
	e->c = r->generation;
	e->d = op;
	if (come == c->nranks && !c->gone)
		post(w, w->now + between(w, 10, MS), EV_COLL_TRY, NONE)->a =
		    (uint32_t)(c - w->coll);
}

/* Return true if all ranks have arrived, are awake, and reach each other. */
static bool
can_move(const struct world *w, const struct coll *c)
{
	for (uint32_t r = 0; r < c->nranks; r++)
		if (!is_up(w, node_of_device(c->dev[r])) ||
		    !reaches(w, node_of_device(c->dev[0]), node_of_device(c->dev[r])))
			return false;
	return true;
}

void
coll_try(struct world *w, uint32_t i)
{
	struct coll *c = &w->coll[i];

	if (c->moving || c->gone)
		return;
	if (!can_move(w, c)) {
		post(w, w->now + TRY_MS * MS, EV_COLL_TRY, NONE)->a = i;
		return;
	}
	c->moving = true;
	memset(c->result, 0, sizeof c->result);
	for (uint32_t r = 0; r < c->nranks; r++)
		for (unsigned k = 0; k < WORDS; k++)
			c->result[k] += w->dev[c->dev[r]].mem.word[c->buffer][k];
	trace(w, "comm %" PRIu64 " epoch %u operation %" PRIu64 " moves: %" PRIu64 " %" PRIu64,
	      c->comm, c->epoch, c->op, c->result[0], c->result[1]);
	for (uint32_t r = 0; r < c->nranks; r++) {
		struct event *e = post(
		    w, w->now + between(w, 100, roll(w, 3) || w->calm ? 5 * MS : w->faults.slow_us),
		    EV_COLL, node_of_device(c->dev[r]));

		e->b = c->start[r];
		e->c = c->generation[r];
		e->d = c->op;
	}
}

bool
coll_finish(struct world *w, uint32_t d, struct drun *r)
{
	struct coll *c = coll_of(w, r);

	if (c->stuck)
		return false;
	memcpy(w->dev[d].mem.word[c->buffer], c->result, sizeof c->result);
	c->finished |= 1u << r->rank;
	return true;
}

void
coll_leave(struct world *w, uint32_t d, struct drun *r)
{
	struct coll *c = coll_of(w, r);
	bool dies = !w->node[node_of_device(d)].alive;

	c->gone |= 1u << r->rank;
	if (c->moving && roll(w, 2))
		for (unsigned k = 0; k < WORDS; k++)
			w->dev[d].mem.word[c->buffer][k] += 1000003;
	if (c->moving && roll(w, 2))
		c->stuck = true;
	/* The others learn of it, from the rank or by its connections. */
	for (uint32_t q = 0; q < c->nranks; q++) {
		uint32_t peer = c->dev[q];
		struct event *e;

		if (peer == NONE || (c->gone | c->finished) & 1u << q ||
		    !reaches(w, node_of_device(d), node_of_device(peer)) ||
		    (!c->stuck && c->moving))
			continue;
		e = post(w, w->now + between(w, 20, dies ? 500 * MS : 20 * MS), EV_REFUSED,
			 node_of_device(peer));
		e->b = c->start[q];
		e->c = c->generation[q];
		e->d = c->op;
	}
}

uint32_t
coll_missing(struct world *w, uint32_t d, const struct drun *r)
{
	const struct coll *c = coll_of(w, r);
	uint32_t bits = 0;

	for (uint32_t q = 0; q < c->nranks; q++)
		if (c->dev[q] == NONE || c->gone & 1u << q ||
		    !is_up(w, node_of_device(c->dev[q])) ||
		    !reaches(w, node_of_device(d), node_of_device(c->dev[q])))
			bits |= 1u << q;
	return bits & ~(1u << r->rank);
}
