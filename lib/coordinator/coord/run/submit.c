/*
 * submit.c - submits of all ranks; and those of single ranks (SubmitRequest.meet) that run as one when all
 * ranks have submitted: used by gpusim_allreduce and its siblings.
 *
 * A rank has one seat, so its submits match the others' in order. Nothing is recorded: until all ranks
 * have submitted nothing has begun, and after a restart the clients repeat their requests. Then all are
 * answered at once, and the run is like any other.
 */
#include "coord/run/run_impl.h"

#include <inttypes.h>
#include <stdlib.h>

static void
answer_submitted(struct coord *c, struct pending *w, uint64_t operation)
{
	GpuSim__SubmitResponse r = GPU_SIM__SUBMIT_RESPONSE__INIT;

	r.operation = operation;
	answer_body(c, w, GPU_SIM__REPLY__BODY_SUBMIT, &r);
}

enum rc
comm_submit(struct coord *c, struct comm *comm, const GpuSim__SubmitRequest *s, struct pending *w,
	    bool wait, uint64_t *operation, struct err *err)
{
	struct group *g = group_find(comm, pending_asker(w)->client_id);
	struct batch b;
	enum rc rc;

	*operation = 0;
	if (g)
		return group_append(c, comm, g, s, err);
	rc = batch_init(c, &b, comm, err);
	if (rc != RC_OK)
		return rc;
	rc = batch_add(&b, s, err);
	*operation = comm_work(comm)->next_seq;
	if (rc == RC_OK && b.nops)
		rc = run_submit(c, &b, s, NULL, w, wait, operation, err);
	batch_fini(&b);
	return rc;
}

/* ---- of single ranks */

/* The request is answered. */
static void
left(struct coord *c, struct pending *p)
{
	struct work *work = comm_work(pending_own(p));
	uint32_t r = 0;

	while (work->seat[r].p != p)
		r++;
	parts_free(c, work->seat[r].part);
	work->seat[r] = (struct seat){0};
	work->nseated--;
}

static bool
late(struct coord *c, struct pending *p, struct err *err)
{
	const struct comm *comm = pending_own(p);
	uint32_t r = 0;

	(void)c;
	while (comm_work(comm)->seat[r].p)
		r++;
	err_set(err, RC_TIMEOUT,
		"comm %" PRIu64 ": rank %u has not submitted its part; %u of %u have",
		comm_id(comm), r, comm_work(comm)->nseated, comm_nranks(comm));
	return false;
}

static const struct wait wait_meet = {.idle = true, .late = late, .left = left};

void
meet_fail(struct coord *c, struct comm *comm, const struct err *why)
{
	pendings_fail(c, &wait_meet, comm_id(comm), why);
}

void
meet_forget(struct comm *comm)
{
	free(comm_work(comm)->seat);
	comm_work(comm)->seat = NULL;
}

/* All ranks have submitted: submit their parts as one, and answer all. */
static void
meet(struct coord *c, struct comm *comm)
{
	uint32_t n = comm_nranks(comm);
	struct seat *seat = comm_work(comm)->seat;
	GpuSim__SubmitRequest s = GPU_SIM__SUBMIT_REQUEST__INIT;
	GpuSim__SubmitRequest **one = alloc_zeroed(n, sizeof *one);
	uint64_t operation = 0;
	struct err err = {0};
	enum rc rc = RC_OK;

	s.commid = comm_id(comm);
	s.ranks = alloc_zeroed(n, sizeof *s.ranks);
	for (uint32_t r = 0; r < n && rc == RC_OK; r++)
		if (!one || !s.ranks || !(one[r] = part_unpack(seat[r].part)))
			rc = err_set(&err, RC_NOMEM, "comm %" PRIu64 ": out of memory", s.commid);
		else
			s.ranks[s.n_ranks++] = one[r]->ranks[0];
	if (rc == RC_OK)
		rc = comm_submit(c, comm, &s, seat[0].p, false, &operation, &err);
	for (uint32_t r = 0; r < n; r++) {
		if (rc == RC_OK)
			answer_submitted(c, seat[r].p, operation);
		else
			answer_failure(c, seat[r].p, &err);
		if (one && one[r])
			gpu_sim__submit_request__free_unpacked(one[r], NULL);
	}
	free(s.ranks);
	free(one);
}

static enum rc
meet_submit(struct coord *c, struct comm *comm, const GpuSim__SubmitRequest *s, struct pending *p,
	    struct err *err)
{
	struct work *work = comm_work(comm);
	uint32_t n = comm_nranks(comm), r = s->n_ranks == 1 ? s->ranks[0]->rank : n;
	struct group_part *part;

	if (r >= n || s->wait)
		return err_set(err, RC_INVAL,
			       "comm %" PRIu64 ": a submit with meet must be of one rank of %u, "
			       "and must not wait for the end",
			       comm_id(comm), n);
	if (work->seat && work->seat[r].p)
		return err_set(err, RC_BUSY,
			       "comm %" PRIu64
			       ": rank %u already has a submit that waits for other ranks",
			       comm_id(comm), r);
	if (!work->seat && !(work->seat = alloc_zeroed(n, sizeof *work->seat)))
		return err_set(err, RC_NOMEM, "comm %" PRIu64 ": out of memory", comm_id(comm));
	part = part_new(c, s, err);
	if (!part)
		return err->rc;
	work->seat[r] = (struct seat){.p = p, .part = part};
	gist_add(&work->seat[r].gist, s);
	pending_wait(c, p, &wait_meet, comm_id(comm), comm);
	if (++work->nseated == n)
		meet(c, comm);
	return RC_OK;
}

/* ---- the request */

enum rc
on_submit(struct coord *c, struct pending *w, const GpuSim__Request *req, struct err *err)
{
	struct comm *comm;
	uint64_t operation;
	enum rc rc = comm_usable(c, req->submit->commid, &comm, err);

	if (rc == RC_OK && req->submit->meet)
		return meet_submit(c, comm, req->submit, w, err);
	if (rc == RC_OK)
		rc = comm_submit(c, comm, req->submit, w, req->submit->wait, &operation, err);
	if (rc == RC_OK && !pending_on(w))
		answer_submitted(c, w, operation);
	return rc;
}
