/*
 * init_rank.c - a communicator of ranks that meet by an id, as ncclCommInitRank.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coord/comm/rendezvous.h"

/* ---- used ids */

void
rendezvous_used(struct coord *c, const struct comm *comm)
{
	if (!comm->made || id_is_none(&comm->uid))
		return;
	c->comms->used[c->comms->nused++ % COORD_USED_IDS] = (struct used_id){comm->uid, comm->id};
}

uint64_t
rendezvous_used_by(const struct coord *c, const struct unique_id *uid)
{
	for (const struct comm *comm = c->comms->first; comm; comm = comm->next)
		if (same_id(&comm->uid, uid))
			return comm->id;
	for (size_t i = 0; i < COORD_USED_IDS && i < c->comms->nused; i++)
		if (same_id(&c->comms->used[i].uid, uid))
			return c->comms->used[i].comm;
	return 0;
}

/* ---- the request of one rank */

static enum rc make(struct coord *c, struct rendezvous *v, struct err *err);

/* "id 0123..." */
static void
name_id(const struct rendezvous *v, char *text, size_t room)
{
	snprintf(text, room, "id %016" PRIx64 "%016" PRIx64, v->uid.high, v->uid.low);
}

static bool waits(const struct coord *c, const struct rendezvous *v);

static const struct gathering by_id = {.complete = make, .waits = waits, .name = name_id};

static enum rc
check_call(const struct coord *c, const GpuSim__CommInitRankRequest *q, const struct unique_id *uid,
	   struct grid *grid, struct err *err)
{
	uint64_t comm;

	if (id_is_none(uid))
		return err_set(err, RC_INVAL, "the id is all zeros");
	if (q->numranks == 0 || q->numranks > WIRE_MAX_RANKS)
		return err_set(err, RC_INVAL, "%u ranks: a communicator has 1 to %u", q->numranks,
			       WIRE_MAX_RANKS);
	if (q->rank >= q->numranks)
		return err_set(err, RC_INVAL, "rank %u of %u ranks: ranks count from 0", q->rank,
			       q->numranks);
	if (check_policy((uint32_t)q->onfailure, err) != RC_OK ||
	    check_grid(q->grid, q->numranks, grid, err) != RC_OK)
		return err->rc;
	comm = rendezvous_used_by(c, uid);
	if (comm)
		return err_set(err, RC_INVAL, "used up: it made communicator %" PRIu64, comm);
	return RC_OK;
}

/* Check that the rank agrees with earlier ranks. */
static enum rc
check_agreement(const struct rendezvous *v, const GpuSim__CommInitRankRequest *q,
		const struct grid *grid, struct err *err)
{
	if (q->numranks != v->nranks)
		return err_set(err, RC_INVAL, "rank %u gives %u ranks, earlier ranks %u", q->rank,
			       q->numranks, v->nranks);
	if (q->lease != v->lease || q->onfailure != v->on_failure ||
	    q->optimeoutms != v->op_timeout_ms || memcmp(grid, &v->grid, sizeof *grid) != 0)
		return err_set(err, RC_INVAL,
			       "rank %u gives another lease, policy on failure, timeout or grid "
			       "than earlier ranks",
			       q->rank);
	return rendezvous_check_seat(v, q->rank, err);
}

/* Whoever names it waits until it has returned. */
static bool
device_is_awaited(const struct coord *c, uint64_t id)
{
	for (size_t i = 0; c->cfg.revive && i < devices_count(c); i++)
		if (device_id(device_at(c, i)) == id)
			return device_returns(c, device_at(c, i));
	return false;
}

/* A device that is named, or is to be chosen, is about to return; or is in use by a process that has ended. */
static bool
waits(const struct coord *c, const struct rendezvous *v)
{
	uint32_t want = 0, nfree = 0, later = 0;

	for (uint32_t r = 0; r < v->nranks; r++) {
		want += !v->seat[r].device_id;
		if (device_is_awaited(c, v->seat[r].device_id))
			return true;
	}
	for (size_t i = 0; c->cfg.revive && i < devices_count(c); i++) {
		const struct device *d = device_at(c, i);

		nfree += !device_is_spare(d) && device_is_free(d);
		later += !device_is_spare(d) && !device_is_free(d);
	}
	return later && want > nfree && want <= nfree + later;
}

enum rc
rendezvous_check_device(struct coord *c, const struct rendezvous *v, uint32_t rank,
			uint64_t device_id, struct err *err)
{
	struct device *d;

	if (!device_id || device_is_awaited(c, device_id))
		return RC_OK;
	if (device_named(c, device_id, &d, err) != RC_OK)
		return err->rc;
	for (uint32_t r = 0; v && r < v->nranks; r++)
		if (r != rank && v->seat[r].p && v->seat[r].device_id == device_id)
			return err_set(err, RC_INVAL,
				       "device %016" PRIx64
				       " is named twice, as rank %u and rank %u",
				       device_id, r, rank);
	return RC_OK;
}

/* ---- all ranks have joined */

/* Choose devices by rank: first the named ones, then the free one whose ordinal is the rank, then the next
 * free ones. */
enum rc
rendezvous_choose(struct coord *c, const struct rendezvous *v, struct device **dev, struct err *err)
{
	bool taken[COORD_MAX_DEVICES] = {false};
	uint32_t want = 0, nfree = 0;
	size_t next = 0;

	for (size_t i = 0; i < devices_count(c); i++)
		taken[i] = !device_is_free(device_at(c, i)) || device_is_spare(device_at(c, i));
	for (uint32_t r = 0; r < v->nranks; r++) {
		uint64_t named = v->seat[r].device_id;

		dev[r] = NULL;
		want += !named;
		if (rendezvous_check_device(c, v, r, named, err) != RC_OK)
			return err->rc;
		for (size_t i = 0; named && i < devices_count(c); i++)
			if (device_id(device_at(c, i)) == named) {
				dev[r] = device_at(c, i);
				taken[i] = true;
			}
	}
	for (size_t i = 0; i < devices_count(c); i++) {
		uint32_t r = device_ordinal(device_at(c, i));

		nfree += !taken[i];
		if (taken[i] || r >= v->nranks || dev[r])
			continue;
		dev[r] = device_at(c, i);
		taken[i] = true;
	}
	if (nfree < want || (want && queue_is_ready(c)))
		return supply_short(c, want, nfree, err);
	for (uint32_t r = 0; r < v->nranks; r++) {
		while (!dev[r] && taken[next])
			next++;
		if (!dev[r])
			dev[r] = device_at(c, next++);
	}
	return RC_OK;
}

enum rc
rendezvous_can_queue(const struct rendezvous *v, uint32_t from, struct device *const *dev,
		     struct err *err)
{
	for (uint32_t r = from; r < v->nranks; r++) {
		const struct seat *s = &v->seat[r];

		if (device_is_beside(dev[r], s->host, s->user))
			continue;
		return err_set(err, RC_INVAL,
			       s->host[0] ? "rank %u's process is on another host than its device "
					    "%016" PRIx64 ", or belongs to another user"
					  : "rank %u (device %016" PRIx64
					    ") does not enqueue operations itself",
			       r, device_id(dev[r]));
	}
	return RC_OK;
}

/* Decide whether its ranks enqueue operations themselves; RC_INVAL: one cannot, another insists. */
static enum rc
choose_queued(const struct coord *c, const struct rendezvous *v, struct device *const *dev,
	      bool *queued, struct err *err)
{
	enum rc rc = comm_can_queue(c, v->on_failure, err);
	bool must = false;

	if (rc == RC_OK)
		rc = rendezvous_can_queue(v, 0, dev, err);
	for (uint32_t r = 0; r < v->nranks; r++)
		must |= v->seat[r].must_queue;
	*queued = rc == RC_OK;
	return must ? rc : RC_OK;
}

enum rc
rendezvous_make(struct coord *c, const struct rendezvous *v, const GpuSim__CommInitRequest *q,
		bool queued, const uint32_t *rank, struct device **dev, uint32_t nranks,
		struct comm **out, struct err *err)
{
	struct owner *owners = alloc_zeroed(nranks, sizeof *owners);
	enum rc rc = RC_OK;

	if (!owners)
		rc = err_set(err, RC_NOMEM, "the coordinator is out of memory");
	for (uint32_t r = 0; owners && r < nranks; r++)
		owners[r].client_id = pending_asker(v->seat[rank ? rank[r] : r].p)->client_id;
	if (rc == RC_OK)
		rc = comm_make(c, q, queued, dev, nranks, owners[0].client_id, out, err);
	if (rc != RC_OK) {
		free(owners);
		return rc;
	}
	(*out)->owners = owners;
	(*out)->nowners = nranks;
	for (uint32_t r = 0; r < nranks; r++)
		pending_wait(c, v->seat[rank ? rank[r] : r].p, &wait_attach, (*out)->id, NULL);
	return RC_OK;
}

static enum rc
make(struct coord *c, struct rendezvous *v, struct err *err)
{
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;
	struct label label = v->seat[0].label;
	struct grid grid = v->grid;
	char text[GRID_TEXT];
	struct device *dev[WIRE_MAX_RANKS];
	struct unique_id uid = v->uid;
	struct comm *comm;
	bool queued = false;
	enum rc rc = rendezvous_choose(c, v, dev, err);

	if (rc == RC_OK)
		rc = choose_queued(c, v, dev, &queued, err);
	q.lease = v->lease;
	q.policy_case = GPU_SIM__COMM_INIT_REQUEST__POLICY_ON_FAILURE;
	q.onfailure = v->on_failure;
	q.optimeoutms = v->op_timeout_ms;
	q.program = label.program;
	q.pid = label.pid;
	if (grid.tp)
		q.grid = (char *)grid_print(&grid, text);
	if (rc == RC_OK)
		rc = rendezvous_make(c, v, &q, queued, NULL, dev, v->nranks, &comm, err);
	if (rc == RC_OK)
		comm->uid = uid;
	return rc;
}

/* ---- the call */

static struct rendezvous *
begin(struct coord *c, const GpuSim__CommInitRankRequest *q, const struct unique_id *uid,
      const struct grid *grid, struct err *err)
{
	struct rendezvous *v = rendezvous_new(c, &by_id, q->numranks, err);

	if (!v)
		return NULL;
	v->uid = *uid;
	v->lease = q->lease;
	v->on_failure = q->onfailure;
	v->op_timeout_ms = q->optimeoutms;
	v->grid = *grid;
	return v;
}

enum rc
on_comm_init_rank(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__CommInitRankRequest *q = req->comminitrank;
	const struct unique_id uid = {q->idhigh, q->idlow};
	struct rendezvous *v = c->comms->rendezvous;
	struct seat s = {.device_id = q->deviceid, .user = q->user, .must_queue = q->mustqueue};
	struct grid grid;
	enum rc rc = check_call(c, q, &uid, &grid, err);

	while (v && !(v->kind == &by_id && same_id(&v->uid, &uid)))
		v = v->next;
	if (rc == RC_OK && v)
		rc = check_agreement(v, q, &grid, err);
	if (rc == RC_OK)
		rc = rendezvous_check_device(c, v, q->rank, q->deviceid, err);
	if (rc == RC_OK && !v && !(v = begin(c, q, &uid, &grid, err)))
		rc = err->rc;
	if (rc != RC_OK)
		return err_prefix(err, "id %016" PRIx64 "%016" PRIx64, uid.high, uid.low);
	snprintf(s.host, sizeof s.host, "%s", q->host);
	label_set(&s.label, q->program, q->pid);
	rendezvous_arrive(c, v, q->rank, s, p);
	rendezvous_complete(c, v);
	return RC_OK;
}
