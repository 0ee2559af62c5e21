/*
 * family.c - split, shrink and growth of a communicator, the parent, by a call of each rank, as ncclCommSplit,
 * ncclCommShrink and ncclCommGrow.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "coord/comm/rendezvous.h"

/* The parent that `rank` names. RC_NOTFOUND; RC_FAILED and RC_BUSY (it recovers), not with `aborts`; RC_INVAL
 * no such rank. */
static enum rc
parent_of(struct coord *c, uint64_t id, uint32_t rank, bool aborts, struct comm **out,
	  struct err *err)
{
	struct comm *comm = comm_find(c, id);

	if (!comm)
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64, id);
	if (!aborts && comm->state == COMM_FAILED)
		return err_set(err, RC_FAILED,
			       "comm %" PRIu64 " failed earlier: %s; its ranks may shrink it with "
			       "abort",
			       id, comm->failed.text);
	if (!aborts && comm_busy(comm))
		return err_set(err, RC_BUSY, "comm %" PRIu64 " is recovering; try again", id);
	if (rank >= comm->nranks)
		return err_set(err, RC_INVAL, "rank %u: comm %" PRIu64 " has %u ranks", rank, id,
			       comm->nranks);
	if (comm->queued && comm->owners[rank].left)
		return err_set(err, RC_INVAL, "rank %u has left comm %" PRIu64, rank, id);
	*out = comm;
	return RC_OK;
}

/* A child has its parent's settings, except those that its first rank gives. */
static void
inherit(const struct comm *parent, const struct seat *first, GpuSim__CommInitRequest *q)
{
	q->lease = parent->lease;
	q->policy_case = GPU_SIM__COMM_INIT_REQUEST__POLICY_ON_FAILURE;
	q->onfailure = (GpuSim__OnFailure)parent->on_failure;
	q->optimeoutms = first->op_timeout_ms ? first->op_timeout_ms : parent->op_timeout_ms;
	q->program = (char *)first->label.program;
	q->pid = first->label.pid;
}

/* Make a communicator of the parent's ranks rank[], in that order; on failure answer them. */
static void
make_child(struct coord *c, struct rendezvous *v, const uint32_t *rank, uint32_t n)
{
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;
	struct comm *parent = comm_any(c, v->parent), *comm;
	struct device *dev[WIRE_MAX_RANKS];
	struct err err = {0};

	inherit(parent, &v->seat[rank[0]], &q);
	for (uint32_t r = 0; r < n && err.rc == RC_OK; r++) {
		dev[r] = comm_device(parent, rank[r]);
		if (device_is_lost(dev[r]))
			comm_rank_lost(parent, rank[r], &err);
	}
	if (err.rc == RC_OK &&
	    rendezvous_make(c, v, &q, parent->queued, rank, dev, n, &comm, &err) == RC_OK)
		return;
	rendezvous_refuse(v, &err);
	for (uint32_t r = 0; r < n; r++)
		answer_failure(c, v->seat[rank[r]].p, &err);
}

/* A parent that has recovered may have other ranks. */
static enum rc
check_ranks(struct coord *c, const struct rendezvous *v, struct err *err)
{
	const struct comm *parent = comm_any(c, v->parent);

	return parent && parent->nranks == v->nranks
		   ? RC_OK
		   : err_set(err, RC_RECOVERED, "its ranks have changed");
}

/* ---- split */

struct colored {
	int color, key;
	uint32_t rank;
};

static int
by_color(const void *left, const void *right)
{
	const struct colored *a = left, *b = right;

	if (a->color != b->color)
		return a->color < b->color ? -1 : 1;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Sort the ranks with a color and answer the others. Return their number. */
static uint32_t
sort_ranks(struct coord *c, struct rendezvous *v, struct colored *m)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < v->nranks; r++) {
		const struct seat *s = &v->seat[r];
		GpuSim__CommInitResponse none = GPU_SIM__COMM_INIT_RESPONSE__INIT;

		if (s->color >= 0) {
			m[n++] = (struct colored){s->color, s->key, r};
			continue;
		}
		none.success = true;
		answer_body(c, s->p, GPU_SIM__REPLY__BODY_COMM_INIT, &none);
	}
	if (n)
		qsort(m, n, sizeof *m, by_color);
	return n;
}

static enum rc
complete_split(struct coord *c, struct rendezvous *v, struct err *err)
{
	struct colored m[WIRE_MAX_RANKS];
	uint32_t rank[WIRE_MAX_RANKS], n, many;

	if (check_ranks(c, v, err) != RC_OK)
		return err->rc;
	comm_any(c, v->parent)->splits = v->call + 1;
	n = sort_ranks(c, v, m);
	for (uint32_t i = 0; i < n; i += many) {
		for (many = 0; i + many < n && m[i + many].color == m[i].color; many++)
			rank[many] = m[i + many].rank;
		make_child(c, v, rank, many);
	}
	return RC_OK;
}

static void
name_split(const struct rendezvous *v, char *text, size_t room)
{
	snprintf(text, room, "split of comm %" PRIu64, v->parent);
}

static const struct gathering split = {.complete = complete_split, .name = name_split};

enum rc
on_comm_split_rank(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__CommSplitRankRequest *q = req->commsplitrank;
	struct rendezvous *v = c->comms->rendezvous;
	struct seat s = {.color = q->color, .key = q->key, .op_timeout_ms = q->optimeoutms};
	struct comm *parent;
	enum rc rc = parent_of(c, q->commid, q->rank, false, &parent, err);

	while (v && !(v->kind == &split && v->parent == q->commid && v->call == q->call))
		v = v->next;
	if (rc == RC_OK && q->call < parent->splits)
		rc = err_set(err, RC_INVAL,
			     "rank %u asks for split %u of comm %" PRIu64
			     ", which has been split %u times",
			     q->rank, q->call + 1, q->commid, parent->splits);
	if (rc == RC_OK && !v) {
		v = rendezvous_new(c, &split, parent->nranks, err);
		if (!v)
			return err_prefix(err, "split of comm %" PRIu64, q->commid);
		v->parent = q->commid;
		v->call = q->call;
	}
	if (rc == RC_OK && rendezvous_check_seat(v, q->rank, err) != RC_OK)
		rc = rendezvous_refuse(v, err);
	if (rc != RC_OK)
		return rc;
	label_set(&s.label, q->program, q->pid);
	rendezvous_arrive(c, v, q->rank, s, p);
	rendezvous_complete(c, v);
	return RC_OK;
}

/* ---- shrink */

static enum rc
complete_shrink(struct coord *c, struct rendezvous *v, struct err *err)
{
	uint32_t rank[WIRE_MAX_RANKS], n = 0;

	if (check_ranks(c, v, err) != RC_OK)
		return err->rc;
	for (uint32_t r = 0; r < v->nranks; r++)
		if (!v->seat[r].spared)
			rank[n++] = r;
	make_child(c, v, rank, n);
	return RC_OK;
}

static void
name_shrink(const struct rendezvous *v, char *text, size_t room)
{
	snprintf(text, room, "shrink of comm %" PRIu64, v->parent);
}

static const struct gathering shrink = {.complete = complete_shrink, .name = name_shrink};

static bool
spares(const struct rendezvous *v, const bool *spared, uint32_t nranks)
{
	for (uint32_t r = 0; r < v->nranks && r < nranks; r++)
		if (v->seat[r].spared != spared[r])
			return false;
	return v->nranks == nranks;
}

static struct rendezvous *
begin_shrink(struct coord *c, const GpuSim__CommShrinkRankRequest *q, const bool *spared,
	     uint32_t nranks, struct err *err)
{
	struct rendezvous *v = rendezvous_new(c, &shrink, nranks, err);

	if (!v)
		return NULL;
	v->parent = q->commid;
	v->aborts = q->abort;
	for (uint32_t r = 0; r < nranks; r++) {
		v->seat[r].spared = spared[r];
		v->nspared += spared[r];
	}
	return v;
}

static enum rc
take_excluded(const struct comm *parent, const GpuSim__CommShrinkRankRequest *q, bool *spared,
	      struct err *err)
{
	for (uint32_t r = 0; r < parent->nranks; r++)
		spared[r] = false;
	for (size_t i = 0; i < q->n_exclude; i++) {
		if (q->exclude[i] >= parent->nranks)
			return err_set(err, RC_INVAL,
				       "rank %u is to be excluded from comm %" PRIu64
				       ", which has %u",
				       q->exclude[i], parent->id, parent->nranks);
		spared[q->exclude[i]] = true;
	}
	if (q->n_exclude == 0)
		return err_set(err, RC_INVAL, "rank %u excludes no rank from comm %" PRIu64,
			       q->rank, parent->id);
	if (spared[q->rank])
		return err_set(err, RC_INVAL, "rank %u of comm %" PRIu64 " excludes itself",
			       q->rank, parent->id);
	return RC_OK;
}

enum rc
on_comm_shrink_rank(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__CommShrinkRankRequest *q = req->commshrinkrank;
	struct seat s = {.op_timeout_ms = q->optimeoutms};
	bool spared[WIRE_MAX_RANKS];
	struct rendezvous *v = NULL;
	struct comm *parent;
	enum rc rc = parent_of(c, q->commid, q->rank, q->abort, &parent, err);

	if (rc == RC_OK)
		rc = take_excluded(parent, q, spared, err);
	if (rc != RC_OK)
		return rc;
	v = c->comms->rendezvous;
	while (v &&
	       !(v->kind == &shrink && v->parent == q->commid && spares(v, spared, parent->nranks)))
		v = v->next;
	if (!v && !(v = begin_shrink(c, q, spared, parent->nranks, err)))
		return err_prefix(err, "shrink of comm %" PRIu64, q->commid);
	if (v->aborts != q->abort)
		rc = err_set(err, RC_INVAL, "rank %u shrinks %s abort, earlier ranks %s", q->rank,
			     q->abort ? "with" : "without", q->abort ? "without" : "with");
	if (rc == RC_OK)
		rc = rendezvous_check_seat(v, q->rank, err);
	if (rc != RC_OK)
		return rendezvous_refuse(v, err);
	label_set(&s.label, q->program, q->pid);
	rendezvous_arrive(c, v, q->rank, s, p);
	/* Abort the operations that its ranks may be in. */
	if (q->abort && !(parent->state & (COMM_FAILED | COMM_DRAINING))) {
		struct err why;

		err_set(&why, RC_ABORTED, "comm %" PRIu64 ": aborted by the shrink of rank %u",
			parent->id, q->rank);
		parent->rec.final = parent->rec.asked = true;
		comm_happens(c, parent, COMM_ABORTED, &why);
	}
	rendezvous_complete(c, v);
	return RC_OK;
}

/*
 * ---- grow: a communicator of a parent's ranks followed by new ranks, as ncclCommGrow
 *
 * The parent's ranks join by its number, the new ranks by an id. One of the parent's ranks names the id,
 * which connects the two; until then they wait apart.
 */

static void
name_grow(const struct rendezvous *v, char *text, size_t room)
{
	if (v->parent)
		snprintf(text, room, "grow of comm %" PRIu64, v->parent);
	else
		snprintf(text, room, "id %016" PRIx64 "%016" PRIx64, v->uid.high, v->uid.low);
}

static enum rc
complete_grow(struct coord *c, struct rendezvous *v, struct err *err)
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
	inherit(parent, &v->seat[0], &q);
	rc = rendezvous_make(c, v, &q, parent->queued, NULL, dev, v->nranks, &comm, err);
	if (rc == RC_OK)
		comm->uid = v->uid;
	return rc;
}

static const struct gathering grow = {.complete = complete_grow, .name = name_grow};

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
begin_grow(struct coord *c, const GpuSim__CommGrowRankRequest *q, struct err *err)
{
	struct rendezvous *v = rendezvous_new(c, &grow, q->numranks, err);

	if (v)
		v->uid = (struct unique_id){q->idhigh, q->idlow};
	return v;
}

static void
arrive_grow(struct coord *c, struct rendezvous *v, const GpuSim__CommGrowRankRequest *q,
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
	enum rc rc = parent_of(c, q->commid, q->rank, false, &parent, err);

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
	else if (!v && !(v = begin_grow(c, q, err)))
		return err_prefix(err, "grow of comm %" PRIu64, q->commid);
	else if (by_id && by_id != v)
		rendezvous_merge(c, v, by_id);
	v->parent = q->commid;
	if (!id_is_none(&uid))
		v->uid = uid;
	arrive_grow(c, v, q, device_id(comm_device(parent, q->rank)), p);
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
	if (rc == RC_OK && !v && !(v = begin_grow(c, q, err)))
		rc = err_prefix(err, "id %016" PRIx64 "%016" PRIx64, uid.high, uid.low);
	if (rc == RC_OK)
		arrive_grow(c, v, q, q->deviceid, p);
	return rc;
}

enum rc
on_comm_grow_rank(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__CommGrowRankRequest *q = req->commgrowrank;

	return q->commid ? come_old(c, p, q, err) : come_new(c, p, q, err);
}
