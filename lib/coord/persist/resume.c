/*
 * resume.c - a restored coordinator goes on: it asks the devices who they are, and begins again what had not
 * ended.
 */
#include "coord/top.h"

#include <inttypes.h>

/* The making, or the change, had not ended: once more, under the next epoch. */
static void
make_again(struct coord *c, struct comm *comm)
{
	struct err err;

	if (!pending_find(c, &wait_attach, comm->id)) {
		comm_detach(c, comm);
		return;
	}
	comm->epoch++;
	comm->failed = (struct err){0};
	if (comm_attach(c, comm, &err) != RC_OK)
		comm->failed = err; /* and so it ends */
}

/* It was dealing with a failure: so it does again, from the beginning. */
static void
recover_again(struct coord *c, struct comm *comm)
{
	struct err cause = comm->rec.cause;
	bool final = comm->rec.final, first = true;

	comm->state = COMM_LIVE;
	comm->rec = (struct recovery){.final = final};
	if (cause.rc == RC_OK) {
		comm_renew(c, comm);
		return;
	}
	/* What may have begun at some ranks has had a try. */
	for (struct run *run = comm->runs; run; run = run->next) {
		run->started = !run->serial || first;
		first &= !run->serial;
	}
	comm->failed = (struct err){0};
	comm_fail(c, comm, &cause);
}

static void
start_runs(struct coord *c, struct comm *comm)
{
	struct run *next;

	for (struct run *run = comm->runs; run; run = next) {
		next = run->next;
		if (!run->serial)
			run_start(c, run);
	}
	runs_start_next(c, comm);
}

void
resume(struct coord *c)
{
	struct comm *next;

	c->persist->resumes = false;
	devices_resume(c);
	for (size_t b = 0; b < KEEP_BUCKETS; b++)
		for (struct keep_client *k = c->persist->client[b]; k; k = k->next)
			k->gone_ms = c->now_ms;
	pendings_resume(c);
	for (struct comm *comm = c->comms->first; comm; comm = next) {
		next = comm->next;
		comm->keep.resumes = false;
		/* Its client may have gone while nobody listened. */
		comm->gone = true;
		comm->gone_ms = c->now_ms + TIME_RETURN_MS - TIME_LEASE_MS;
		if (comm->state == COMM_DETACHING)
			comm_detach(c, comm);
		else if (!comm->made)
			make_again(c, comm);
		else if (comm->state != COMM_LIVE)
			recover_again(c, comm);
		else if (comm->failed.rc == RC_OK)
			start_runs(c, comm);
	}
	event_add(c, &(struct event){.kind = GPU_SIM__EVENT_KIND__STARTED},
		  "the coordinator was started again, with %zu device%s and %u communicator%s",
		  devices_count(c), devices_count(c) == 1 ? "" : "s", c->comms->n,
		  c->comms->n == 1 ? "" : "s");
	act_log(c, "went on: %zu devices, %u communicators", devices_count(c), c->comms->n);
}
