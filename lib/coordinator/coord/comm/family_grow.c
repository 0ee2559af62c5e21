/*
 * family_grow.c - a communicator of a parent's ranks followed by new ranks, as ncclCommGrow.
 *
 * The parent's ranks join by its number, the new ranks by an id. One of the parent's ranks names the id,
 * which connects the two; until then they wait apart.
 */
#include <inttypes.h>
#include <stdio.h>

#include "coord/comm/rendezvous.h"

static void
name_grow(const struct rendezvous *v, char *text, size_t room)
{
	if (v->parent)
		snprintf(text, room, "grow of comm %" PRIu64, v->parent);
	else
		snprintf(text, room, "id %016" PRIx64 "%016" PRIx64, v->uid.high, v->uid.low);
}

static enum rc
make(struct coord *c, struct rendezvous *v, struct err *err)
{
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;
	const struct comm *parent = comm_any(c, v->parent);
	struct device *dev[WIRE_MAX_RANKS];
	struct comm *comm;
	enum rc rc;

	if (!parent)
		return err_set(err, RC_INVAL,
			       "no rank of a communicator has named this id to grow with");
	rc = rendezvous_choose(c, v, dev, err);
	if (rc == RC_OK && parent->queued)
		rc = rendezvous_can_queue(v, parent->nranks, dev, err);
	if (rc != RC_OK)
		return rc;
	family_inherit(parent, &v->seat[0], &q);
	rc = rendezvous_make(c, v, &q, parent->queued, NULL, dev, v->nranks, &comm, err);
	if (rc == RC_OK)
		comm->uid = v->uid;
	return rc;
}

static const struct gathering grow = {.complete = make, .name = name_grow};

static struct rendezvous *
find_id(const struct coord *c, const struct unique_id *uid)
{
	struct rendezvous *v = id_is_none(uid) ? NULL : c->comms->rendezvous;

	while (v && !(v->kind == &grow && same_id(&v->uid, uid)))
		v = v->next;
	return v;
}

static enum rc
check_id(const struct coord *c, const struct unique_id *uid, struct err *err)
{
	uint64_t comm = rendezvous_used_by(c, uid);

	if (comm)
		return err_set(err, RC_INVAL,
			       "id %016" PRIx64 "%016" PRIx64
			       " is used up: it made communicator %" PRIu64,
			       uid->high, uid->low, comm);
	return RC_OK;
}

static enum rc
check_size_said(const struct rendezvous *v, const GpuSim__CommGrowRankRequest *q, struct err *err)
{
	if (q->numranks == v->nranks)
		return RC_OK;
	err_set(err, RC_INVAL, "rank %u gives %u ranks, earlier ranks %u", q->rank, q->numranks,
		v->nranks);
	return rendezvous_refuse(v, err);
}

/* Check that the rank agrees with earlier ranks. */
static enum rc
check_fits(const struct rendezvous *v, const GpuSim__CommGrowRankRequest *q, struct err *err)
{
	if (check_size_said(v, q, err) != RC_OK)
		return err->rc;
	if (rendezvous_check_seat(v, q->rank, err) != RC_OK)
		return rendezvous_refuse(v, err);
	return RC_OK;
}

static struct rendezvous *
begin(struct coord *c, const GpuSim__CommGrowRankRequest *q, struct err *err)
{
	struct rendezvous *v = rendezvous_new(c, &grow, q->numranks, err);

	if (v)
		v->uid = (struct unique_id){q->idhigh, q->idlow};
	return v;
}

static void
arrive(struct coord *c, struct rendezvous *v, const GpuSim__CommGrowRankRequest *q,
       uint64_t device_id, struct pending *p)
{
	struct seat s = {.device_id = device_id, .user = q->user, .op_timeout_ms = q->optimeoutms};

	snprintf(s.host, sizeof s.host, "%s", q->host);
	label_set(&s.label, q->program, q->pid);
	rendezvous_arrive(c, v, q->rank, s, p);
	rendezvous_complete(c, v);
}

/* ---- ranks of the parent */

static enum rc
check_old(const struct comm *parent, const struct rendezvous *v, const struct rendezvous *by_id,
	  const GpuSim__CommGrowRankRequest *q, struct err *err)
{
	const struct unique_id uid = {q->idhigh, q->idlow};

	if (q->numranks <= parent->nranks || q->numranks > WIRE_MAX_RANKS)
		return err_set(err, RC_INVAL,
			       "comm %" PRIu64 " of %u ranks: can grow to at most %u, not %u",
			       parent->id, parent->nranks, WIRE_MAX_RANKS, q->numranks);
	if (by_id && by_id->parent && by_id->parent != parent->id)
		return err_set(err, RC_INVAL,
			       "id %016" PRIx64 "%016" PRIx64 " is to grow comm %" PRIu64
			       " already",
			       uid.high, uid.low, by_id->parent);
	if (v && !id_is_none(&uid) && !id_is_none(&v->uid) && !same_id(&uid, &v->uid))
		return err_set(err, RC_INVAL,
			       "grow of comm %" PRIu64
			       ": rank %u names another id than earlier ranks",
			       parent->id, q->rank);
	return RC_OK;
}

static enum rc
come_old(struct coord *c, struct pending *p, const GpuSim__CommGrowRankRequest *q, struct err *err)
{
	const struct unique_id uid = {q->idhigh, q->idlow};
	struct rendezvous *v = c->comms->rendezvous, *by_id = find_id(c, &uid);
	struct comm *parent;
	enum rc rc = family_parent(c, q->commid, q->rank, false, &parent, err);

	while (v && !(v->kind == &grow && v->parent == q->commid))
		v = v->next;
	if (rc == RC_OK && !id_is_none(&uid))
		rc = check_id(c, &uid, err);
	if (rc == RC_OK)
		rc = check_old(parent, v, by_id, q, err);
	if (rc == RC_OK && by_id)
		rc = check_size_said(by_id, q, err);
	if (rc == RC_OK && v)
		rc = check_fits(v, q, err);
	if (rc != RC_OK)
		return rc;
	if (by_id && by_id != v) { /* refuse new ranks that have numbers of the parent's ranks */
		for (uint32_t r = 0; r < parent->nranks; r++) {
			struct err why;

			if (!by_id->seat[r].p)
				continue;
			err_set(&why, RC_INVAL, "rank %u is not new: comm %" PRIu64 " has %u ranks",
				r, parent->id, parent->nranks);
			answer_failure(c, by_id->seat[r].p, &why);
		}
	}
	if (!v && by_id)
		v = by_id;
	else if (!v && !(v = begin(c, q, err)))
		return err_prefix(err, "grow of comm %" PRIu64, q->commid);
	else if (by_id && by_id != v)
		rendezvous_merge(c, v, by_id);
	v->parent = q->commid;
	if (!id_is_none(&uid))
		v->uid = uid;
	arrive(c, v, q, device_id(comm_device(parent, q->rank)), p);
	return RC_OK;
}

/* ---- new ranks */

static enum rc
come_new(struct coord *c, struct pending *p, const GpuSim__CommGrowRankRequest *q, struct err *err)
{
	const struct unique_id uid = {q->idhigh, q->idlow};
	struct rendezvous *v = find_id(c, &uid);
	const struct comm *parent = v ? comm_any(c, v->parent) : NULL;
	enum rc rc;

	if (id_is_none(&uid))
		rc = err_set(err, RC_INVAL, "rank %u is new but names no id", q->rank);
	else if (q->numranks > WIRE_MAX_RANKS || q->rank >= q->numranks)
		rc = err_set(err, RC_INVAL, "rank %u of %u ranks: the limit is %u", q->rank,
			     q->numranks, WIRE_MAX_RANKS);
	else
		rc = check_id(c, &uid, err);
	if (rc == RC_OK && parent && q->rank < parent->nranks)
		rc = err_set(err, RC_INVAL, "rank %u is not new: comm %" PRIu64 " has %u ranks",
			     q->rank, parent->id, parent->nranks);
	if (rc == RC_OK && v)
		rc = check_fits(v, q, err);
	if (rc == RC_OK)
		rc = rendezvous_check_device(c, v, q->rank, q->deviceid, err);
	if (rc == RC_OK && !v && !(v = begin(c, q, err)))
		rc = err_prefix(err, "id %016" PRIx64 "%016" PRIx64, uid.high, uid.low);
	if (rc == RC_OK)
		arrive(c, v, q, q->deviceid, p);
	return rc;
}

enum rc
on_comm_grow_rank(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__CommGrowRankRequest *q = req->commgrowrank;

	return q->commid ? come_old(c, p, q, err) : come_new(c, p, q, err);
}
