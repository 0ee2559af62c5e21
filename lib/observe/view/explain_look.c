/*
 * explain_look.c - collect what is known of each rank: from its device's recorder if that could be
 * read, else from the coordinator's answer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "coll/plan.h"
#include "view/explain_impl.h"

static bool
is_live(const struct world_ring *r)
{
	return flight_at_work(&r->ring.live) && atomic_load(&r->ring.state) == FLIGHT_RING_USED;
}

static void
take_live(const struct scene *s, const struct world_recorder *rec, const struct world_ring *ring,
	  struct seen *out)
{
	const struct flight_live *l = &ring->ring.live;

	out->here = out->known = true;
	out->ring = ring;
	out->op = l->op;
	out->step = atomic_load(&l->step);
	out->steps = atomic_load(&l->steps);
	out->waits_for = atomic_load(&l->waits_for);
	out->waits_ns = out->waits_for ? world_ns_since(s->w, rec, atomic_load(&l->since)) : 0;
	out->runs_ns = world_ns_since(s->w, rec, l->op.begin);
}

static void
take_mark(const struct scene *s, const struct world_recorder *rec, const struct world_ring *ring,
	  size_t i, struct seen *out, uint64_t *fault_at)
{
	const struct flight_mark *m = &ring->record[i].mark;
	uint64_t at = flight_time_ns(&rec->clock, m->at);

	if (m->what == FLIGHT_MARK_FAULT && m->at >= *fault_at) {
		*fault_at = m->at;
		flight_text(ring->record, ring->nrecords, i, out->fault_text,
			    sizeof out->fault_text);
	} else if (m->what == FLIGHT_MARK_GROUP && m->comm == s->comm->commid &&
		   m->epoch == s->comm->epoch) {
		out->grouped = m->value;
		out->grouped_ns = at;
	} else if (m->what == FLIGHT_MARK_NOMEM) {
		out->refused = m->value;
		out->refused_ns = at;
	}
}

/* The newest record of an operation of the communicator, and marks. */
static void
take_records(const struct scene *s, const struct world_recorder *rec, const struct world_ring *ring,
	     struct seen *out, uint64_t *fault_at)
{
	for (size_t i = 0; i < ring->nrecords; i++) {
		const union flight_record *r = &ring->record[i];

		if (r->kind == FLIGHT_OP && r->op.comm == s->comm->commid && r->op.end) {
			uint64_t at = flight_time_ns(&rec->clock, r->op.end);

			if (at >= out->last_ns) {
				out->own = ring;
				out->last = r->op;
				out->last_ns = at;
			}
		}
		if (r->kind == FLIGHT_MARK)
			take_mark(s, rec, ring, i, out, fault_at);
	}
}

/* Find a ring that does something else, or waits: the rank's own ring, else another one of its program. */
static const struct world_ring *
find_task(const struct world_recorder *rec, const struct seen *a)
{
	for (size_t i = 0; i <= rec->nrings; i++) {
		const struct world_ring *r = i ? &rec->ring[i - 1] : a->own;

		if (r && atomic_load(&r->ring.state) == FLIGHT_RING_USED &&
		    atomic_load(&r->ring.now.what) &&
		    (!a->own || a->own->ring.kind != FLIGHT_QUEUE ||
		     r->ring.pid == a->own->ring.pid))
			return r;
	}
	return NULL;
}

static void
look_at_recorder(const struct scene *s, const struct world_recorder *rec, struct seen *out)
{
	uint64_t fault_at = 0;

	for (size_t i = 0; i < rec->nrings; i++) {
		const struct world_ring *ring = &rec->ring[i];
		const struct flight_op *op = &ring->ring.live.op;

		take_records(s, rec, ring, out, &fault_at);
		if (!out->own && ring->ring.kind == FLIGHT_QUEUE &&
		    atomic_load(&ring->ring.state) == FLIGHT_RING_USED)
			out->own = ring;
		if (!is_live(ring))
			continue;
		if (op->comm != s->comm->commid) {
			out->away = &ring->ring.live;
			continue;
		}
		if (op->epoch != s->comm->epoch)
			continue;
		out->ways |= op->flags & (FLIGHT_SENDS | FLIGHT_RECEIVES);
		if (!out->here || op->seq < out->op.seq)
			take_live(s, rec, ring, out);
	}
	out->task = find_task(rec, out);
}

/* Use the progress that heartbeats reported to the coordinator. */
static void
look_at_progress(const struct scene *s, uint32_t r, struct seen *out)
{
	for (size_t i = 0; i < s->comm->n_progress; i++) {
		const GpuSim__Progress *p = s->comm->progress[i];

		if (p->rank != r)
			continue;
		out->here = true;
		out->op = (struct flight_op){.kind = FLIGHT_OP,
					     .comm = s->comm->commid,
					     .seq = p->operation,
					     .epoch = s->comm->epoch};
		out->step = p->step;
		out->steps = p->steps;
		out->waits_for = p->waitsfor;
		out->waits_ns = out->runs_ns = p->idlems * NS_PER_MS;
		return;
	}
}

static void
look_at_rank(const struct scene *s, uint32_t r, struct seen *out)
{
	out->dev = world_device(s->w, s->comm->deviceids[r]);
	for (size_t i = 0; i < s->comm->n_calls; i++)
		if (s->comm->calls[i]->rank == r)
			out->call = s->comm->calls[i];
	if (out->dev && out->dev->recorder)
		look_at_recorder(s, out->dev->recorder, out);
	if (!out->here && !(out->dev && out->dev->recorder))
		look_at_progress(s, r, out);
	if (out->waits_for > s->n)
		out->waits_for = 0;
	out->fault = strcmp(out->fault_text, "cleared") == 0 ? "" : out->fault_text;
}

/* Find the current operation: the first one, at the rank that has been in it for the longest. */
static void
find_head(struct scene *s)
{
	for (uint32_t r = 0; r < s->n; r++) {
		const struct seen *a = &s->rank[r], *b = &s->rank[s->head];

		if (!a->here)
			continue;
		s->nhere++;
		if (!s->at_hand || a->op.seq < b->op.seq ||
		    (a->op.seq == b->op.seq && a->runs_ns > b->runs_ns))
			s->head = r;
		s->at_hand = true;
	}
	if (s->at_hand)
		s->age_ns = s->rank[s->head].runs_ns;
}

void
scene_init(const struct world *w, const GpuSim__CommSummary *comm, struct scene *out)
{
	struct scene s = {.w = w, .comm = comm, .n = (uint32_t)comm->n_deviceids};

	s.rank = must_alloc(s.n + 1, sizeof *s.rank);
	for (size_t i = 0; i < w->status->n_comms; i++)
		if (w->status->comms[i] == comm &&
		    (w->holder[i].process == 'T' || w->holder[i].process == 't'))
			s.holder = &w->holder[i];
	for (uint32_t r = 0; r < s.n; r++)
		look_at_rank(&s, r, &s.rank[r]);
	find_head(&s);
	*out = s;
}

/* ---- finished operations */

/* The next record of an operation of the communicator that rank r finished; *ring and *k are 0 at first. */
static const struct flight_op *
next_finished(const struct scene *s, uint32_t r, size_t *ring, size_t *k, uint64_t *at)
{
	const struct world_recorder *rec = s->rank[r].dev ? s->rank[r].dev->recorder : NULL;

	for (; rec && *ring < rec->nrings; ++*ring, *k = 0)
		while (*k < rec->ring[*ring].nrecords) {
			const struct flight_op *op = &rec->ring[*ring].record[(*k)++].op;

			if (op->kind != FLIGHT_OP || op->comm != s->comm->commid || !op->end ||
			    op->result != RC_OK)
				continue;
			*at = flight_time_ns(&rec->clock, op->end);
			return op;
		}
	return NULL;
}

const struct flight_group *
scene_group(const struct scene *s, const struct flight_op *op)
{
	const struct world_device *d = op->rank < s->n ? s->rank[op->rank].dev : NULL;

	return d && d->recorder ? flight_group_of(&d->recorder->header, op) : NULL;
}

bool
takes_part(const struct scene *s, const struct flight_op *op, uint32_t r)
{
	const struct flight_group *g = scene_group(s, op);

	if (coll_is_sendrecv((enum gpusim_coll)op->coll))
		return r == op->rank || r == op->root;
	if (op->group && !g)
		return r == op->rank; /* nothing is known of the others */
	return !g || r >= FLIGHT_GROUP_RANKS || g->rank[r / 8] & 1u << r % 8;
}

bool
rank_finished(const struct scene *s, uint32_t r, const struct flight_op *op)
{
	const struct flight_op *q = NULL;
	size_t ring = 0, k = 0;
	uint64_t at;

	if (!s->rank[r].dev || !s->rank[r].dev->recorder || !takes_part(s, op, r))
		return true; /* unknown, or it takes no part */
	do
		q = next_finished(s, r, &ring, &k, &at);
	while (q && (q->seq != op->seq || q->epoch != op->epoch));
	return q;
}

#define LOOK_BACK 16 /* operations that some rank has finished and another has not */

const struct flight_op *
scene_last(const struct scene *s, bool all, uint64_t *ended_ns)
{
	const struct flight_op *best = NULL, *op;
	uint64_t before = UINT64_MAX, at = 0;
	bool good = false;

	for (int tries = 0; tries < LOOK_BACK && !good; tries++, before = *ended_ns) {
		best = NULL;
		*ended_ns = 0;
		for (uint32_t r = 0; r < s->n; r++)
			for (size_t ring = 0, k = 0; (op = next_finished(s, r, &ring, &k, &at));)
				if (at > *ended_ns && at < before) {
					*ended_ns = at;
					best = op;
				}
		good = best;
		for (uint32_t r = 0; all && best && r < s->n; r++)
			good &= rank_finished(s, r, best);
	}
	return good ? best : NULL;
}

void
scene_fini(struct scene *s)
{
	free(s->rank);
}
