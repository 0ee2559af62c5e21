/*
 * explain_look.c - what a world says of each rank: from its device's recorder where that could be read, else from
 * the coordinator's answer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
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

/* The newest record of an operation of the communicator, and of a fault. */
static void
take_records(const struct scene *s, const struct world_recorder *rec, const struct world_ring *ring,
	     struct seen *out, uint64_t *fault_at)
{
	for (size_t i = 0; i < ring->nrecords; i++) {
		const union flight_record *r = &ring->record[i];

		if (r->kind == FLIGHT_OP && r->op.comm == s->comm->commid && r->op.end) {
			uint64_t at = flight_time_ns(&rec->clock, r->op.end);

			out->own = ring;
			if (at >= out->last_ns) {
				out->last = r->op;
				out->last_ns = at;
			}
		}
		if (r->kind == FLIGHT_MARK && r->mark.what == FLIGHT_MARK_FAULT &&
		    r->mark.at >= *fault_at) {
			*fault_at = r->mark.at;
			flight_text(ring->record, ring->nrecords, i, out->fault_text,
				    sizeof out->fault_text);
		}
	}
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
		if (op->comm != s->comm->commid)
			out->away = &ring->ring.live;
		else if (op->epoch == s->comm->epoch && (!out->here || op->seq < out->op.seq))
			take_live(s, rec, ring, out);
	}
}

/* As the heartbeats told the coordinator. */
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

/* The operation at hand: the first of those that are, and of its ranks the one that has been in it for longest. */
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

enum rc
scene_init(const struct world *w, const GpuSim__CommSummary *comm, struct scene *out,
	   struct err *err)
{
	struct scene s = {.w = w, .comm = comm, .n = (uint32_t)comm->n_deviceids};

	s.rank = alloc_zeroed(s.n + 1, sizeof *s.rank);
	if (!s.rank)
		return err_set(err, RC_NOMEM, "out of memory");
	for (uint32_t r = 0; r < s.n; r++)
		look_at_rank(&s, r, &s.rank[r]);
	find_head(&s);
	*out = s;
	return RC_OK;
}

void
scene_fini(struct scene *s)
{
	free(s->rank);
}
