/*
 * rerun.c - repeats runs after a recovery, on the ranks that the communicator then has.
 */
#include "coord/run/run_impl.h"

#include <inttypes.h>

/* Drop requests that were packed for its ranks and not sent. */
static void
drop_bodies(struct coord *c, struct run *run)
{
	for (uint32_t r = 0; r < comm_nranks(run->comm); r++) {
		struct buf *body = &run->rank[r].body;

		held_drop(c, body->len);
		run->held -= body->len;
		buf_fini(body);
	}
}

void
runs_stop(struct coord *c, struct comm *comm)
{
	for (struct run *run = comm_work(comm)->runs; run; run = run->next) {
		for (uint32_t r = 0; r < comm_nranks(comm); r++)
			call_cancel(c, &run->rank[r].call);
		drop_bodies(c, run);
		run->waiting = 0;
		if (run->started && run->tries++ == 0)
			run->failed_ms = c->now_ms;
	}
}

void
runs_forget_graph(struct comm *comm, struct graph *g)
{
	for (struct run *run = comm_work(comm)->runs; run; run = run->next)
		if (run->graph == g) {
			run->graph = NULL;
			g->nruns--;
		}
}

/* Why a run cannot be repeated; RC_OK: it can. `after`: the failure of the first that could not. */
static enum rc
check_again(const struct run *run, const struct err *after, struct err *err)
{
	const struct comm *comm = run->comm;
	const struct err *cause = run->cause.rc ? &run->cause : comm_cause(comm);

	if (run->hopeless)
		return (*err = run->cause).rc;
	if (run->tries >= COORD_MAX_TRIES)
		return err_set(err, cause->rc, "%s; %u attempts failed", cause->text, run->tries);
	if (after->rc != RC_OK)
		return err_set(err, RC_RECOVERED, "an earlier submit could not be repeated");
	if (run->tries && (!run->pure || comm_is_blank(comm)))
		return err_set(
		    err, RC_RECOVERED, "comm %" PRIu64 " has recovered: %s; %s", comm_id(comm),
		    comm_recovered(comm),
		    run->pure ? "fill the lost memory again"
			      : "the run had other operations than collectives: submit it again");
	if (!run->graph && !run->parts)
		return err_set(
		    err, RC_RECOVERED,
		    "comm %" PRIu64
		    " has recovered: %s; the operation is meaningless without the lost rank",
		    comm_id(comm), comm_recovered(comm));
	return RC_OK;
}

/* Number and encode it for the current ranks. */
static enum rc
run_renew(struct coord *c, struct run *run, struct err *err)
{
	struct comm *comm = run->comm;
	struct batch b;
	enum rc rc;

	drop_bodies(c, run); /* of a run submitted while the communicator was not live */
	run->started = false;
	run->cause = (struct err){0};
	run->first_seq = comm_work(comm)->next_seq;
	if (run->graph) {
		run->nops = run->graph->nops * run->iterations;
		rc = run_encode_graph(c, run, err);
		comm_work(comm)->next_seq += run->nops;
		return rc;
	}
	rc = batch_init(c, &b, comm, err);
	if (rc != RC_OK)
		return rc;
	rc = batch_add_parts(&b, run->parts, err);
	run->nops = batch_numbered(&b);
	if (rc == RC_OK)
		rc = run_encode(c, run, &b, NULL, run->parts, err);
	comm_work(comm)->next_seq += run->nops;
	batch_fini(&b);
	return rc;
}

void
runs_resume(struct coord *c, struct comm *comm)
{
	struct err after = {0};
	struct run *next;

	for (struct run *run = comm_work(comm)->runs; run; run = next) {
		struct err err = {0};
		bool good =
		    check_again(run, &after, &err) == RC_OK && run_renew(c, run, &err) == RC_OK;
		uint32_t r = 0;

		next = run->next;
		while (good && r < comm_nranks(comm) && !run->rank[r].body.data)
			r++;
		if (good && r < comm_nranks(comm))
			continue;
		if (good)
			err_set(&err, RC_RECOVERED,
				"comm %" PRIu64 ": all ranks of the run were lost", comm_id(comm));
		if (after.rc == RC_OK)
			after = err;
		run->cause = (struct err){0};
		run->started = false;
		run_end_quietly(c, run, &err);
	}
	for (struct run *run = comm_work(comm)->runs; run; run = run->next)
		run_record(c, run);
	runs_resume_live(c, comm);
}

void
runs_resume_live(struct coord *c, struct comm *comm)
{
	struct run *next;

	for (struct run *run = comm_work(comm)->runs; run; run = next) {
		next = run->next;
		if (!run->serial)
			run_start(c, run);
	}
	runs_start_next(c, comm);
}
