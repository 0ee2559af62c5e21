/*
 * rendezvous.c - ranks that come one by one, each with a call of its own, and find each other by an
 * id: ncclCommInitRank. When all are there, a communicator is made as for one call, and each hears
 * of it.
 *
 * A rank is here as long as its waiter waits (WAIT_RANKS). Of one whose client has gone the place is
 * free at once: whoever comes for it has it. The first deadline of a rank that is here ends the
 * rendezvous for all of them, so that all hear who was missing then; the id may be used again.
 * Nothing of this is stored: after a restart the clients ask again, and so begin it again.
 */
#include "coord/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool
same_id(const struct unique_id *a, const struct unique_id *b)
{
	return a->high == b->high && a->low == b->low;
}

static struct rendezvous *
find(const struct coord *c, const struct unique_id *uid)
{
	struct rendezvous *v = c->comms->rendezvous;

	while (v && !same_id(&v->uid, uid))
		v = v->next;
	return v;
}

static struct waiter *
waiter_of(struct coord *c, const struct rendezvous *v, uint32_t rank)
{
	struct waiter *w = c->waiters;

	while (w && (w->on != WAIT_RANKS || w->id != v->number || w->rank != rank))
		w = w->next;
	return w;
}

static void
rendezvous_free(struct coord *c, struct rendezvous *v)
{
	struct rendezvous **p = &c->comms->rendezvous;

	while (*p != v)
		p = &(*p)->next;
	*p = v->next;
	c->comms->nrendezvous--;
	free(v);
}

void
rendezvous_fini(struct coord *c)
{
	while (c->comms->rendezvous)
		rendezvous_free(c, c->comms->rendezvous);
}

/* ---- used ids */

void
rendezvous_used(struct coord *c, const struct comm *comm)
{
	if (!comm->made || (comm->uid.high == 0 && comm->uid.low == 0))
		return;
	c->comms->used[c->comms->nused++ % COORD_USED_IDS] = (struct used_id){comm->uid, comm->id};
}

/* The communicator that the id has made; 0: none. */
static uint64_t
used_by(const struct coord *c, const struct unique_id *uid)
{
	for (const struct comm *comm = c->comms->first; comm; comm = comm->next)
		if (same_id(&comm->uid, uid))
			return comm->id;
	for (size_t i = 0; i < COORD_USED_IDS && i < c->comms->nused; i++)
		if (same_id(&c->comms->used[i].uid, uid))
			return c->comms->used[i].comm;
	return 0;
}

/* ---- what one rank says */

/* "id 0123...", which begins a sentence. */
static enum rc
refuse(struct err *err, const struct unique_id *uid)
{
	return err_prefix(err, "id %016" PRIx64 "%016" PRIx64, uid->high, uid->low);
}

static enum rc
check_call(const struct coord *c, const GpuSim__CommInitRankRequest *q, const struct unique_id *uid,
	   struct err *err)
{
	uint64_t comm;

	if (uid->high == 0 && uid->low == 0)
		return err_set(err, RC_INVAL, "an id of zeros, which no unique-id is");
	if (q->numranks == 0 || q->numranks > WIRE_MAX_RANKS)
		return err_set(err, RC_INVAL, "%u ranks; a communicator has 1 to %u", q->numranks,
			       WIRE_MAX_RANKS);
	if (q->rank >= q->numranks)
		return err_set(err, RC_INVAL, "rank %u of %u ranks, which are counted from 0",
			       q->rank, q->numranks);
	if (check_policy((uint32_t)q->onfailure, err) != RC_OK)
		return err->rc;
	comm = used_by(c, uid);
	if (comm)
		return err_set(err, RC_INVAL,
			       "it is used up: communicator %" PRIu64 " was made by it", comm);
	return RC_OK;
}

/* Whether it agrees with those who came before. */
static enum rc
check_agreement(const struct rendezvous *v, const GpuSim__CommInitRankRequest *q, struct err *err)
{
	if (q->numranks != v->nranks)
		return err_set(err, RC_INVAL, "rank %u says %u ranks, who came before says %u",
			       q->rank, q->numranks, v->nranks);
	if (q->lease != v->lease || q->onfailure != v->on_failure ||
	    q->optimeoutms != v->op_timeout_ms)
		return err_set(err, RC_INVAL,
			       "rank %u wants another lease, policy on failure or timeout than who "
			       "came before",
			       q->rank);
	if (v->place[q->rank].here && !v->place[q->rank].gone)
		return err_set(err, RC_INVAL, "rank %u has come already", q->rank);
	return RC_OK;
}

static enum rc
check_device(struct coord *c, const struct rendezvous *v, const GpuSim__CommInitRankRequest *q,
	     struct err *err)
{
	struct device *d = q->deviceid ? device_find(c, q->deviceid) : NULL;
	struct err why;

	if (!q->deviceid)
		return RC_OK;
	if (!d)
		return err_set(err, RC_NOTFOUND, "no device %016" PRIx64, q->deviceid);
	if (d->lost) {
		device_lost(d, &why);
		return err_set(err, why.rc, "device %016" PRIx64 " %s", d->id, why.text);
	}
	for (uint32_t r = 0; v && r < v->nranks; r++)
		if (r != q->rank && v->place[r].here && v->place[r].device_id == d->id)
			return err_set(err, RC_INVAL,
				       "device %016" PRIx64
				       " is named twice, as rank %u and rank %u",
				       d->id, r, q->rank);
	return RC_OK;
}

/* ---- the end of waiting */

static void
leave(struct rendezvous *v, uint32_t rank)
{
	struct place *p = &v->place[rank];

	v->nhere -= p->here;
	v->ngone -= p->gone;
	*p = (struct place){0};
}

/* The rank's caller hears why it waits no longer. Nothing has begun, so nothing is stored. */
static void
dismiss(struct coord *c, struct rendezvous *v, uint32_t rank, const struct err *why)
{
	struct waiter *w = waiter_of(c, v, rank);

	leave(v, rank);
	if (!w)
		return;
	waiter_set(w, WAIT_NOT, 0);
	answer_failure(c, w, why);
}

/* All hear the same. */
static void
end_all(struct coord *c, struct rendezvous *v, const struct err *why)
{
	for (uint32_t r = 0; r < v->nranks; r++)
		if (v->place[r].here)
			dismiss(c, v, r, why);
	rendezvous_free(c, v);
}

/* "rank 3", "ranks 1, 3-5": who is not there, as far as there is room; how many. */
static uint32_t
name_missing(const struct rendezvous *v, char *text, size_t room)
{
	bool full = false;
	uint32_t n = 0;
	size_t len = 0;

	*text = '\0';
	for (uint32_t r = 0, end; r < v->nranks; r = end) {
		const char *comma = n ? ", " : "";

		end = r + 1;
		if (v->place[r].here && !v->place[r].gone)
			continue;
		while (end < v->nranks && (!v->place[end].here || v->place[end].gone))
			end++;
		n += end - r;
		if (full)
			continue;
		full = len + 32 > room; /* two numbers take less */
		if (full)
			snprintf(text + len, room - len, "%s...", comma);
		else if (end - r == 1)
			len += (size_t)snprintf(text + len, room - len, "%s%u", comma, r);
		else
			len +=
			    (size_t)snprintf(text + len, room - len, "%s%u-%u", comma, r, end - 1);
	}
	return n;
}

static void
expire(struct coord *c, struct rendezvous *v)
{
	char missing[256];
	uint32_t n = name_missing(v, missing, sizeof missing);
	uint32_t r = 0;
	struct err err;

	while (r < v->nranks && (!v->place[r].here || v->place[r].due_ms > c->now_ms))
		r++;
	err_set(&err, RC_TIMEOUT, "rank%s %s of %u ha%s not come while rank %u waited for %.1fs",
		n == 1 ? "" : "s", missing, v->nranks, n == 1 ? "s" : "ve", r,
		(double)(c->now_ms - waiter_of(c, v, r)->asked_ms) / 1e3);
	refuse(&err, &v->uid);
	end_all(c, v, &err);
}

/* ---- all are there */

/* Devices by rank: those named, then for the others the free one whose ordinal is the rank, then
 * the next free ones. */
static enum rc
choose(struct coord *c, const struct rendezvous *v, struct device **dev, struct err *err)
{
	bool taken[COORD_MAX_DEVICES] = {false};
	uint32_t want = 0, nfree = 0;
	size_t next = 0;

	for (size_t i = 0; i < c->devices->n; i++)
		taken[i] = !device_is_free(c->devices->v[i]) || c->devices->v[i]->spare;
	for (uint32_t r = 0; r < v->nranks; r++) {
		GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;

		dev[r] = NULL;
		q.rank = r;
		q.deviceid = v->place[r].device_id;
		want += !q.deviceid;
		if (check_device(c, v, &q, err) != RC_OK)
			return err->rc;
		for (size_t i = 0; q.deviceid && i < c->devices->n; i++)
			if (c->devices->v[i]->id == q.deviceid) {
				dev[r] = c->devices->v[i];
				taken[i] = true;
			}
	}
	for (size_t i = 0; i < c->devices->n; i++) {
		uint32_t r = c->devices->v[i]->ordinal;

		nfree += !taken[i];
		if (taken[i] || r >= v->nranks || dev[r])
			continue;
		dev[r] = c->devices->v[i];
		taken[i] = true;
	}
	if (nfree < want || (want && queue_first(c)))
		return supply_short(c, want, nfree, err);
	for (uint32_t r = 0; r < v->nranks; r++) {
		while (!dev[r] && taken[next])
			next++;
		if (!dev[r])
			dev[r] = c->devices->v[next++];
	}
	return RC_OK;
}

static enum rc
make(struct coord *c, const struct rendezvous *v, struct comm **out, struct err *err)
{
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;
	struct holder *holders = alloc_zeroed(v->nranks, sizeof *holders);
	struct device *dev[WIRE_MAX_RANKS];
	enum rc rc = choose(c, v, dev, err);

	q.lease = v->lease;
	q.onfailure = v->on_failure;
	q.optimeoutms = v->op_timeout_ms;
	q.program = (char *)v->label.program;
	q.pid = v->label.pid;
	if (!holders)
		rc = err_set(err, RC_NOMEM, "the coordinator is out of memory");
	if (rc == RC_OK)
		rc = comm_make(c, &q, dev, v->nranks, v->place[0].client_id, out, err);
	if (rc != RC_OK) {
		free(holders);
		return rc;
	}
	for (uint32_t r = 0; r < v->nranks; r++)
		holders[r].client_id = v->place[r].client_id;
	(*out)->holders = holders;
	(*out)->nholders = v->nranks;
	(*out)->uid = v->uid;
	return RC_OK;
}

/* If all ranks are there: they wait for their communicator from now on. */
static void
complete(struct coord *c, struct rendezvous *v)
{
	struct comm *comm;
	struct err err;

	if (v->nhere < v->nranks || v->ngone)
		return;
	if (make(c, v, &comm, &err) != RC_OK) {
		refuse(&err, &v->uid);
		end_all(c, v, &err);
		return;
	}
	for (uint32_t r = 0; r < v->nranks; r++)
		waiter_set(waiter_of(c, v, r), WAIT_ATTACH, comm->id);
	rendezvous_free(c, v);
}

/* ---- clients that go and come */

void
rendezvous_client_is(struct coord *c, uint64_t client_id, bool gone)
{
	struct rendezvous *next;

	for (struct rendezvous *v = c->comms->rendezvous; v; v = next) {
		next = v->next;
		for (uint32_t r = 0; (gone || v->ngone) && r < v->nranks; r++) {
			struct place *p = &v->place[r];

			if (!p->here || p->client_id != client_id || p->gone == gone)
				continue;
			p->gone = gone;
			p->gone_ms = c->now_ms;
			v->ngone = gone ? v->ngone + 1 : v->ngone - 1;
		}
		if (!gone)
			complete(c, v);
	}
}

void
rendezvous_dismiss(struct coord *c, const struct waiter *w, const struct err *why)
{
	struct rendezvous *v = c->comms->rendezvous;

	while (v && v->number != w->id)
		v = v->next;
	if (v)
		dismiss(c, v, w->rank, why);
}

void
rendezvous_tick(struct coord *c)
{
	struct rendezvous *next;

	for (struct rendezvous *v = c->comms->rendezvous; v; v = next) {
		const struct err away = {RC_ABORTED, "its client has gone"};
		bool due = false;

		next = v->next;
		for (uint32_t r = 0; r < v->nranks; r++) {
			const struct place *p = &v->place[r];

			if (p->gone && c->now_ms >= p->gone_ms + COORD_LEASE_MS)
				dismiss(c, v, r, &away);
			due |= p->here && c->now_ms >= p->due_ms;
		}
		if (v->nhere == 0)
			rendezvous_free(c, v);
		else if (due)
			expire(c, v);
	}
}

/* ---- the call */

static struct rendezvous *
rendezvous_new(struct coord *c, const GpuSim__CommInitRankRequest *q, const struct unique_id *uid,
	       struct err *err)
{
	struct rendezvous *v;

	if (c->comms->nrendezvous == COORD_MAX_IDS) {
		err_set(err, RC_BUSY, "%u ids wait for ranks, which is the limit", COORD_MAX_IDS);
		return NULL;
	}
	if (limit_check(c, NULL, LIMIT_IDS, 1, err) != RC_OK)
		return NULL;
	v = alloc_zeroed(1, sizeof *v + q->numranks * sizeof v->place[0]);
	if (!v) {
		err_set(err, RC_NOMEM, "the coordinator is out of memory");
		return NULL;
	}
	v->number = ++c->comms->last_rendezvous;
	v->uid = *uid;
	v->client_id = c->client_id;
	v->nranks = q->numranks;
	v->lease = q->lease;
	v->on_failure = q->onfailure;
	v->op_timeout_ms = q->optimeoutms;
	label_set(&v->label, q->program, q->pid);
	v->next = c->comms->rendezvous;
	c->comms->rendezvous = v;
	c->comms->nrendezvous++;
	return v;
}

/* The rank is here: who had its place and has gone is told so. */
static void
arrive(struct coord *c, struct rendezvous *v, struct waiter *w,
       const GpuSim__CommInitRankRequest *q)
{
	const struct err taken = {RC_ABORTED, "its client had gone, and another came in its place"};
	struct place *p = &v->place[q->rank];
	uint64_t longest = c->now_ms + c->cfg.comm_timeout_ms;

	if (p->here)
		dismiss(c, v, q->rank, &taken);
	w->rank = q->rank;
	waiter_set(w, WAIT_RANKS, v->number);
	if (w->due_ms > longest)
		w->due_ms = longest;
	*p = (struct place){
	    .here = true, .client_id = w->client_id, .device_id = q->deviceid, .due_ms = w->due_ms};
	v->nhere++;
	act_log(c, "id %016" PRIx64 "%016" PRIx64 ": rank %u is there, %u of %u", v->uid.high,
		v->uid.low, q->rank, v->nhere - v->ngone, v->nranks);
}

enum rc
on_comm_init_rank(struct coord *c, struct waiter *w, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__CommInitRankRequest *q = req->comminitrank;
	const struct unique_id uid = {q->idhigh, q->idlow};
	struct rendezvous *v = find(c, &uid);
	enum rc rc = check_call(c, q, &uid, err);

	if (rc == RC_OK && v)
		rc = check_agreement(v, q, err);
	if (rc == RC_OK)
		rc = check_device(c, v, q, err);
	if (rc == RC_OK && !v && !(v = rendezvous_new(c, q, &uid, err)))
		rc = err->rc;
	if (rc != RC_OK)
		return refuse(err, &uid);
	arrive(c, v, w, q);
	complete(c, v);
	return RC_OK;
}
