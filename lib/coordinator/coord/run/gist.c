/*
 * gist.c - summaries of operations that wait or run: their number, and the first of them.
 */
#include "coord/run/run_impl.h"

#define SHOW_RUNS 4 /* runs shown of a communicator */

void
gist_add(struct gist *g, const GpuSim__SubmitRequest *s)
{
	for (size_t i = 0; i < s->n_ranks; i++) {
		const GpuSim__RankOps *r = s->ranks[i];

		g->nops += r->n_ops;
		for (size_t k = 0; k < r->n_ops && !g->known; k++) {
			const GpuSim__Coll *m = r->ops[k]->coll;

			if (r->ops[k]->kind_case != GPU_SIM__OP__KIND_COLL)
				continue;
			g->known = true;
			g->coll = m->coll;
			g->dtype = m->dtype;
			g->redop = m->redop;
			g->nelem = m->nelem;
			g->root = m->root;
		}
	}
}

/* The next message, filled in. NULL: no room. */
static GpuSim__Work *
show(struct work_room *room, const struct gist *g, uint64_t client, uint64_t for_ms)
{
	GpuSim__Work *m = room->n < room->nwork ? room->work[room->n] : NULL;

	if (!m)
		return NULL;
	room->n++;
	m->clientid = client;
	m->forms = for_ms;
	m->nops = g->nops;
	m->known = g->known;
	m->coll = g->coll;
	m->dtype = g->dtype;
	m->redop = g->redop;
	m->nelem = g->nelem;
	m->root = g->root;
	return m;
}

static void
show_calls(const struct coord *c, const struct comm *comm, struct work_room *room,
	   GpuSim__CommSummary *s)
{
	const struct seat *seat = comm_work(comm)->seat;

	s->calls = room->work + room->n;
	for (uint32_t r = 0; seat && r < comm_nranks(comm); r++) {
		const struct asker *a = seat[r].p ? pending_asker(seat[r].p) : NULL;
		GpuSim__Work *m =
		    a ? show(room, &seat[r].gist, a->client_id, c->now_ms - a->asked_ms) : NULL;

		if (!m)
			continue;
		m->rank = r;
		s->n_calls++;
	}
}

static void
show_runs(const struct coord *c, const struct comm *comm, struct work_room *room,
	  GpuSim__CommSummary *s)
{
	s->runs = room->work + room->n;
	for (const struct run *run = comm_work(comm)->runs; run && s->n_runs < SHOW_RUNS;
	     run = run->next) {
		uint64_t made = run->made_ms ? run->made_ms : c->start_ms; /* restored: unknown */
		uint64_t since = run->started ? run->started_ms : made;
		GpuSim__Work *m = show(room, &run->gist, run->client_id, c->now_ms - since);

		if (!m)
			break;
		s->n_runs++;
		m->operation = run->first_seq;
		m->started = run->started;
		m->tries = run->tries;
		if (run->started) {
			m->unanswered = room->rank + room->k;
			for (uint32_t r = 0; r < comm_nranks(run->comm) && room->k < room->nrank;
			     r++)
				if (!call_is_idle(&run->rank[r].call)) {
					room->rank[room->k++] = r;
					m->n_unanswered++;
				}
		}
	}
}

void
work_show(const struct coord *c, const struct comm *comm, struct work_room *room,
	  GpuSim__CommSummary *s)
{
	show_calls(c, comm, room, s);
	s->groups = room->work + room->n;
	for (const struct group *g = comm_work(comm)->groups; g; g = g->next)
		if (show(room, &g->batch.gist, g->client_id, c->now_ms - g->opened_ms))
			s->n_groups++;
	show_runs(c, comm, room, s);
}
