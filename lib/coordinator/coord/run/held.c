/*
 * held.c - the memory of operations at the coordinator: bounded in all, and per client when near that bound; what
 * is made of it.
 */
#include "coord/run/run_impl.h"

#include <stdlib.h>

bool
held_take(struct coord *c, size_t nbytes, struct err *err)
{
	bool sums = c->runs->held + nbytes > COORD_CLIENT_HELD && c->client_id != 0;
	size_t held = nbytes;

	/* The bytes of one client's operations are summed only when they can be too many. */
	for (const struct comm *comm = comm_next(c, NULL); comm && sums;
	     comm = comm_next(c, comm)) {
		for (const struct run *run = comm_work(comm)->runs; run; run = run->next)
			held += run->client_id == c->client_id ? run->held : 0;
		for (const struct group *g = comm_work(comm)->groups; g; g = g->next)
			held += g->client_id == c->client_id ? g->held : 0;
		for (const struct graph *g = comm_work(comm)->graphs; g; g = g->next)
			held += g->client_id == c->client_id ? g->held : 0;
	}
	if (sums && held > COORD_CLIENT_HELD) {
		err_set(err, RC_BUSY,
			"this client's operations would take %zu MiB at the coordinator; the limit "
			"is %u; try again later",
			held >> 20, COORD_CLIENT_HELD >> 20);
		return false;
	}
	if (nbytes > COORD_MAX_HELD - c->runs->held) {
		err_set(
		    err, RC_BUSY,
		    "operations take %zu MiB at the coordinator; the limit is %u; try again later",
		    c->runs->held >> 20, COORD_MAX_HELD >> 20);
		return false;
	}
	c->runs->held += nbytes;
	return true;
}

void
held_drop(struct coord *c, size_t nbytes)
{
	c->runs->held -= nbytes;
}

void *
held_alloc(struct coord *c, size_t size, struct err *err)
{
	void *p;

	if (!held_take(c, size, err))
		return NULL;
	p = alloc_zeroed(1, size);
	if (!p) {
		held_drop(c, size);
		err_set(err, RC_NOMEM, "out of memory");
	}
	return p;
}

/* ---- runs and graphs */

struct run *
run_alloc(struct coord *c, struct comm *comm, struct err *err)
{
	size_t size = sizeof(struct run) + comm_nranks(comm) * sizeof(struct run_rank);
	struct run *run = held_alloc(c, size, err);

	if (run) {
		run->comm = comm;
		run->held = size;
	}
	return run;
}

struct graph *
graph_alloc(struct coord *c, struct comm *comm, uint64_t nops, struct err *err)
{
	size_t size = sizeof(struct graph) + comm_nranks(comm) * sizeof *((struct graph *)0)->rank;
	struct graph *g = held_alloc(c, size, err);

	if (!g)
		return NULL;
	g->comm = comm;
	g->nranks = comm_nranks(comm);
	g->held = size;
	g->nops = nops;
	g->next = comm_work(comm)->graphs;
	comm_work(comm)->graphs = g;
	comm_work(comm)->ngraphs++;
	return g;
}

struct graph *
graph_find(struct comm *comm, uint64_t id)
{
	struct graph *g = comm_work(comm)->graphs;

	while (g && g->id != id)
		g = g->next;
	return g;
}

void
work_append(struct comm *comm, struct run *run)
{
	struct work *work = comm_work(comm);

	*work->runs_tail = run;
	work->runs_tail = &run->next;
	comm_count_runs(comm, ++work->nruns);
}

uint64_t
runs_operations(const struct comm *comm)
{
	return comm_work(comm)->next_seq - comm_work(comm)->skipped;
}

/* ---- submits, packed */

void
parts_free(struct coord *c, struct group_part *parts)
{
	struct group_part *next;

	for (; parts; parts = next) {
		next = parts->next;
		held_drop(c, parts->held);
		buf_fini(&parts->packed);
		free(parts);
	}
}

struct group_part *
part_copy(struct coord *c, const void *packed, size_t n, struct err *err)
{
	struct group_part *part = NULL;

	if (!held_take(c, n + sizeof *part, err))
		return NULL;
	part = alloc_zeroed(1, sizeof *part);
	if (!part || !buf_add(&part->packed, packed, n)) {
		free(part);
		held_drop(c, n + sizeof *part);
		err_set(err, RC_NOMEM, "out of memory");
		return NULL;
	}
	part->held = n + sizeof *part;
	return part;
}

struct group_part *
part_new(struct coord *c, const GpuSim__SubmitRequest *s, struct err *err)
{
	struct group_part *part = NULL;
	struct buf packed = {0};

	if (buf_pack(&packed, &s->base))
		part = part_copy(c, packed.data, packed.len, err);
	else
		err_set(err, RC_NOMEM, "out of memory");
	buf_fini(&packed);
	return part;
}

GpuSim__SubmitRequest *
part_unpack(const struct group_part *part)
{
	return gpu_sim__submit_request__unpack(NULL, part->packed.len,
					       (const uint8_t *)part->packed.data);
}

enum rc
parts_copy(struct coord *c, const GpuSim__SubmitRequest *one, const struct group_part *parts,
	   struct group_part **out, struct err *err)
{
	struct group_part **tail = out;

	if (one)
		return (*out = part_new(c, one, err)) ? RC_OK : err->rc;
	for (; parts; parts = parts->next, tail = &(*tail)->next)
		if (!(*tail = part_copy(c, parts->packed.data, parts->packed.len, err)))
			return err->rc;
	return RC_OK;
}
