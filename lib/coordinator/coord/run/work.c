/*
 * work.c - the operations of each communicator, and their fate when it changes.
 */
#include "coord/run/run_impl.h"

#include <inttypes.h>
#include <stdlib.h>

enum rc
runs_init(struct coord *c)
{
	c->runs = alloc_zeroed(1, sizeof *c->runs);
	return c->runs ? RC_OK : RC_NOMEM;
}

void
runs_fini(struct coord *c)
{
	free(c->runs);
}

static void
forget_pairs(struct work *work)
{
	pairs_fini(&work->pairs);
	free(work->pair);
	work->pair = NULL;
	work->pair_cap = 0;
}

/* ---- hooks of the communicator */

static bool
made(struct comm *comm)
{
	struct work *work = alloc_zeroed(1, sizeof *work);

	if (work)
		work->runs_tail = &work->runs;
	comm_set_work(comm, work);
	return work;
}

static void
freed(struct coord *c, struct comm *comm)
{
	work_unrecord(c, comm);
	meet_forget(comm);
	forget_pairs(comm_work(comm));
	free(comm_work(comm));
}

static bool
defined(const struct comm *comm)
{
	for (const struct graph *g = comm_work(comm)->graphs; g; g = g->next)
		if (g->waiting)
			return false;
	return true;
}

static void
stop(struct coord *c, struct comm *comm)
{
	runs_stop(c, comm);
	graphs_settle(c, comm);
}

static void
failed(struct coord *c, struct comm *comm, const struct err *why)
{
	meet_fail(c, comm, why);
	runs_end_failed(c, comm, why);
	graphs_settle(c, comm);
}

static void
live(struct coord *c, struct comm *comm)
{
	forget_pairs(comm_work(comm));
	comm_work(comm)->recorded.pairs_new = true;
	graphs_drop_failed(c, comm);
	runs_resume(c, comm);
}

static void
end(struct coord *c, struct comm *comm, const struct err *why)
{
	struct work *work = comm_work(comm);

	meet_fail(c, comm, why);
	runs_end_all(c, comm, why);
	while (comm_work(comm)->groups)
		group_free(c, comm, comm_work(comm)->groups);
	while (work->graphs) {
		pendings_fail(c, &wait_graph, work->graphs->id, why);
		graph_free(c, work->graphs);
	}
}

/* A submit that is meaningless for the remaining ranks is not repeated: drop its parts. */
static void
remap(struct coord *c, struct group_part **parts, const uint32_t *to, uint32_t from, uint32_t left,
      const char *what, uint64_t id)
{
	struct err err;

	if (!*parts || remap_parts(*parts, to, from, left, &err) == RC_OK)
		return;
	act_log(c, "%s %" PRIu64 ": %s", what, id, err.text);
	parts_free(c, *parts);
	*parts = NULL;
}

static void
ranks(struct coord *c, struct comm *comm, const uint32_t *to, uint32_t from)
{
	uint32_t left = comm_nranks(comm);
	struct work *work = comm_work(comm);
	struct err changed;

	err_set(&changed, RC_RECOVERED, "comm %" PRIu64 ": its ranks have changed", comm_id(comm));
	meet_fail(c, comm, &changed);
	meet_forget(comm);
	for (struct run *run = work->runs; to && run; run = run->next) {
		remap(c, &run->parts, to, from, left, "run", run->id);
		run_record(c, run);
	}
	for (struct graph *g = work->graphs; to && g; g = g->next) {
		remap(c, &g->part, to, from, left, "graph", g->id);
		graph_record(c, g);
	}
	if (to) { /* no record may name a rank that has left */
		forget_pairs(work);
		work->recorded.pairs_new = true;
	}
	/* Graphs have no operations for new ranks. */
	while (!to && work->graphs)
		graph_free(c, work->graphs);
	groups_remap(c, comm, to, from);
}

const struct comm_hooks run_comm_hooks = {
    .made = made,
    .owes = runs_wait_for,
    .begun = runs_begun,
    .overdue = runs_overdue,
    .defined = defined,
    .step = graphs_reap,
    .failing = runs_end_unstarted,
    .failed = failed,
    .stop = stop,
    .ranks = ranks,
    .define = graphs_define_again,
    .live = live,
    .end = end,
    .freed = freed,
};
