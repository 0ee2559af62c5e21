/*
 * change.c - requests of clients that change a communicator: abort, shrink, grow.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>

enum rc
on_comm_abort(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__CommAbortRequest *q = req->commabort;
	struct comm *comm = comm_find(c, q->commid);
	struct err why;

	if (!comm)
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64, q->commid);
	if (q->epoch && q->epoch != comm->epoch)
		return err_set(err, RC_INVAL, "comm %" PRIu64 " is at epoch %u, not %u", comm->id,
			       comm->epoch, q->epoch);
	if (comm->failed.rc != RC_OK) {
		answer_done(c, p);
		return RC_OK;
	}
	err_set(&why, q->code && q->code <= RC_RECOVERED ? (enum rc)q->code : RC_ABORTED,
		"comm %" PRIu64 ": %s", comm->id, *q->reason ? q->reason : "aborted by a client");
	pending_wait(c, p, &wait_abort, comm->id, NULL);
	comm->rec.final = true;
	comm->rec.asked |= q->code == 0; /* a device gives the reason */
	comm_happens(c, comm, COMM_ABORTED, &why);
	return RC_OK;
}

/* Find a communicator whose ranks can be changed now. */
static enum rc
find_idle(struct coord *c, uint64_t id, struct comm **out, struct err *err)
{
	struct comm *comm = comm_find(c, id);

	if (!comm)
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64, id);
	if (comm->queued)
		return err_set(err, RC_INVAL,
			       "comm %" PRIu64
			       ": its ranks enqueue operations themselves, so each rank must call "
			       "shrink or grow itself",
			       id);
	if (comm_busy(comm))
		return err_set(err, RC_BUSY, "comm %" PRIu64 " is recovering; try again", id);
	if (comm->nruns)
		return err_set(err, RC_BUSY, "comm %" PRIu64 ": %u runs are in progress", id,
			       comm->nruns);
	*out = comm;
	return RC_OK;
}

/* Mark the ranks that are named, or lost; *n is their number. */
static enum rc
choose_lost(struct comm *comm, const GpuSim__CommShrinkRequest *q, bool *lost, uint32_t *n,
	    struct err *err)
{
	*n = 0;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		lost[r] = q->n_ranks == 0 && comm_is_lost(comm, r);
	}
	for (size_t i = 0; i < q->n_ranks; i++) {
		if (q->ranks[i] >= comm->nranks)
			return err_set(err, RC_INVAL, "rank %u: comm %" PRIu64 " has %u ranks",
				       q->ranks[i], comm->id, comm->nranks);
		lost[q->ranks[i]] = true;
	}
	for (uint32_t r = 0; r < comm->nranks; r++)
		*n += lost[r];
	return RC_OK;
}

enum rc
on_comm_shrink(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__CommShrinkRequest *q = req->commshrink;
	bool lost[WIRE_MAX_RANKS];
	struct comm *comm;
	uint32_t n;
	enum rc rc = find_idle(c, q->commid, &comm, err);

	if (rc == RC_OK)
		rc = choose_lost(comm, q, lost, &n, err);
	if (rc != RC_OK)
		return rc;
	if (n == comm->nranks)
		return err_set(err, RC_INVAL, "comm %" PRIu64 ": no rank would be left", comm->id);
	if (n == 0 && comm->failed.rc == RC_OK) {
		answer_init(c, comm, p);
		return RC_OK;
	}
	pending_wait(c, p, &wait_attach, comm->id, NULL);
	c->comms->hooks->stop(c, comm);
	if (n)
		members_leave(c, comm, lost);
	comm_happens(c, comm, COMM_CHANGED, NULL);
	return RC_OK;
}

enum rc
on_comm_grow(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__CommGrowRequest *q = req->commgrow;
	struct device *dev[WIRE_MAX_RANKS];
	struct comm *comm;
	uint32_t n = 0;
	bool queued = false;
	enum rc rc = find_idle(c, q->commid, &comm, err);

	if (rc == RC_OK && comm->failed.rc != RC_OK)
		rc = err_set(err, RC_FAILED, "comm %" PRIu64 " failed earlier: %s; shrink it first",
			     comm->id, comm->failed.text);
	if (rc == RC_OK)
		rc = check_size(q->numdevices, q->n_deviceids, &n, err);
	if (rc == RC_OK && n > WIRE_MAX_RANKS - comm->nranks)
		rc = err_set(err, RC_INVAL, "%u more devices: a communicator has at most %u", n,
			     WIRE_MAX_RANKS);
	if (rc == RC_OK && q->n_deviceids)
		rc = choose_named(c, q->deviceids, n, dev, err);
	else if (rc == RC_OK)
		rc = queue_devices(c, p, req, on_comm_grow, n, q->waitms, dev, &queued, err);
	if (queued)
		return RC_OK;
	for (uint32_t k = 0; k < n && rc == RC_OK; k++)
		for (uint32_t r = 0; r < comm->nranks; r++)
			if (comm->rank[r].dev == dev[k])
				rc = err_set(err, RC_INVAL,
					     "device %016" PRIx64 " is rank %u of comm %" PRIu64
					     " already",
					     device_id(dev[k]), r, comm->id);
	if (rc == RC_OK)
		c->comms->hooks->stop(c, comm);
	if (rc == RC_OK)
		rc = members_come(c, comm, dev, n, err);
	if (rc != RC_OK)
		return rc;
	pending_wait(c, p, &wait_attach, comm->id, NULL);
	comm_happens(c, comm, COMM_CHANGED, NULL);
	return RC_OK;
}
