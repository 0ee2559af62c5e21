/*
 * rendezvous.c - ranks that come one by one, each with a request of its own, and find each other by an id, as
 * ncclCommInitRank. When all are there, they become a communicator, and each hears of it.
 *
 * A rank has its seat as long as its request is pending. The seat of a client that has gone is free at once for the
 * next that comes. The first deadline ends the rendezvous for all, so that all hear who was missing; the id may be used
 * again. Nothing of this is stored: after a restart the clients repeat their requests.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A rank's seat. */
struct seat {
	struct pending *p; /* NULL: the seat is free */
	bool gone;	   /* its client is away since gone_ms */
	uint64_t gone_ms;
	uint64_t device_id;	/* 0: any */
	char host[HOST_ID_MAX]; /* of its process; "": the rank enqueues nothing itself */
	uint32_t user;		/* the same, + 1 */
	bool must_queue;
};

/* Ranks that come by an id, each with a call of its own, until all are there. */
struct rendezvous {
	struct rendezvous *next;
	struct unique_id uid;
	uint64_t client_id; /* of the first */
	uint32_t nranks;
	uint32_t nhere, ngone; /* of them */
	bool lease;
	GpuSim__OnFailure on_failure;
	uint32_t op_timeout_ms;
	struct label label; /* of the first */
	struct seat seat[];
};

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
	if (v->seat[q->rank].p && !v->seat[q->rank].gone)
		return err_set(err, RC_INVAL, "rank %u has come already", q->rank);
	return RC_OK;
}

static enum rc
check_device(struct coord *c, const struct rendezvous *v, const GpuSim__CommInitRankRequest *q,
	     struct err *err)
{
	struct device *d;

	if (!q->deviceid)
		return RC_OK;
	if (device_named(c, q->deviceid, &d, err) != RC_OK)
		return err->rc;
	for (uint32_t r = 0; v && r < v->nranks; r++)
		if (r != q->rank && v->seat[r].p && v->seat[r].device_id == q->deviceid)
			return err_set(err, RC_INVAL,
				       "device %016" PRIx64
				       " is named twice, as rank %u and rank %u",
				       q->deviceid, r, q->rank);
	return RC_OK;
}

/* ---- the end of waiting */

static void
left(struct coord *c, struct pending *p)
{
	struct rendezvous *v = pending_own(p);
	uint32_t r = 0;

	(void)c;
	while (v->seat[r].p != p)
		r++;
	v->nhere--;
	v->ngone -= v->seat[r].gone;
	v->seat[r] = (struct seat){0};
}

static const struct wait wait_ranks = {.idle = true, .left = left};

/* All hear the same. */
static void
end_all(struct coord *c, struct rendezvous *v, const struct err *why)
{
	for (uint32_t r = 0; r < v->nranks; r++)
		if (v->seat[r].p)
			answer_failure(c, v->seat[r].p, why);
	rendezvous_free(c, v);
}

/* "rank 3", "ranks 1, 3-5": the missing ranks, as far as there is room; their number. */
static uint32_t
name_missing(const struct rendezvous *v, char *text, size_t room)
{
	struct text t = {text, room};
	bool full = false;
	uint32_t n = 0;

	*text = '\0';
	for (uint32_t r = 0, end; r < v->nranks; r = end) {
		const char *comma = n ? ", " : "";

		end = r + 1;
		if (v->seat[r].p && !v->seat[r].gone)
			continue;
		while (end < v->nranks && (!v->seat[end].p || v->seat[end].gone))
			end++;
		n += end - r;
		if (full)
			continue;
		full = t.room < 32; /* two numbers take less */
		if (full)
			text_add(&t, "%s...", comma);
		else if (end - r == 1)
			text_add(&t, "%s%u", comma, r);
		else
			text_add(&t, "%s%u-%u", comma, r, end - 1);
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

	while (r < v->nranks && (!v->seat[r].p || pending_due_ms(v->seat[r].p) > c->now_ms))
		r++;
	err_set(&err, RC_TIMEOUT, "rank%s %s of %u ha%s not come while rank %u waited for %.1fs",
		n == 1 ? "" : "s", missing, v->nranks, n == 1 ? "s" : "ve", r,
		(double)(c->now_ms - pending_asker(v->seat[r].p)->asked_ms) / 1e3);
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

	for (size_t i = 0; i < devices_count(c); i++)
		taken[i] = !device_is_free(device_at(c, i)) || device_is_spare(device_at(c, i));
	for (uint32_t r = 0; r < v->nranks; r++) {
		GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;

		dev[r] = NULL;
		q.rank = r;
		q.deviceid = v->seat[r].device_id;
		want += !q.deviceid;
		if (check_device(c, v, &q, err) != RC_OK)
			return err->rc;
		for (size_t i = 0; q.deviceid && i < devices_count(c); i++)
			if (device_id(device_at(c, i)) == q.deviceid) {
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

/* Whether its ranks can enqueue operations themselves; RC_INVAL: one cannot, and another insists. */
static enum rc
choose_queued(const struct coord *c, const struct rendezvous *v, struct device *const *dev,
	      bool *queued, struct err *err)
{
	bool must = false;

	*queued = comm_can_queue(c, v->on_failure, err) == RC_OK;
	for (uint32_t r = 0; r < v->nranks; r++) {
		const struct seat *s = &v->seat[r];

		must |= s->must_queue;
		if (!*queued || device_is_beside(dev[r], s->host, s->user))
			continue;
		*queued = false;
		err_set(err, RC_INVAL,
			s->host[0] ? "rank %u's process is not on the host of its device "
				     "%016" PRIx64 ", or of another user"
				   : "rank %u (device %016" PRIx64
				     ") does not enqueue operations itself",
			r, device_id(dev[r]));
	}
	return *queued || !must ? RC_OK : err->rc;
}

static enum rc
make(struct coord *c, const struct rendezvous *v, struct comm **out, struct err *err)
{
	GpuSim__CommInitRequest q = GPU_SIM__COMM_INIT_REQUEST__INIT;
	struct owner *owners = alloc_zeroed(v->nranks, sizeof *owners);
	struct device *dev[WIRE_MAX_RANKS];
	bool queued = false;
	enum rc rc = choose(c, v, dev, err);

	if (rc == RC_OK)
		rc = choose_queued(c, v, dev, &queued, err);
	q.lease = v->lease;
	q.onfailure = v->on_failure;
	q.optimeoutms = v->op_timeout_ms;
	q.program = (char *)v->label.program;
	q.pid = v->label.pid;
	if (!owners)
		rc = err_set(err, RC_NOMEM, "the coordinator is out of memory");
	if (rc == RC_OK)
		rc = comm_make(c, &q, queued, dev, v->nranks,
			       pending_asker(v->seat[0].p)->client_id, out, err);
	if (rc != RC_OK) {
		free(owners);
		return rc;
	}
	for (uint32_t r = 0; r < v->nranks; r++)
		owners[r].client_id = pending_asker(v->seat[r].p)->client_id;
	(*out)->owners = owners;
	(*out)->nowners = v->nranks;
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
		pending_wait(c, v->seat[r].p, &wait_attach, comm->id, NULL);
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
			struct seat *s = &v->seat[r];

			if (!s->p || pending_asker(s->p)->client_id != client_id || s->gone == gone)
				continue;
			s->gone = gone;
			s->gone_ms = c->now_ms;
			v->ngone = gone ? v->ngone + 1 : v->ngone - 1;
		}
		if (!gone)
			complete(c, v);
	}
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
			const struct seat *s = &v->seat[r];

			if (s->gone && c->now_ms >= s->gone_ms + TIME_LEASE_MS)
				answer_failure(c, s->p, &away);
			due |= s->p && c->now_ms >= pending_due_ms(s->p);
		}
		if (v->nhere == 0)
			rendezvous_free(c, v);
		else if (due)
			expire(c, v);
	}
}

/* ---- the call */

/* Of one client. */
static enum rc
check_limit(const struct coord *c, struct err *err)
{
	uint32_t n = 0;

	for (const struct rendezvous *v = c->comms->rendezvous; v && c->client_id; v = v->next)
		n += v->client_id == c->client_id;
	if (n < COORD_CLIENT_IDS)
		return RC_OK;
	return err_set(err, RC_BUSY, "%u ids of this client wait for ranks, which is its limit",
		       COORD_CLIENT_IDS);
}

static struct rendezvous *
rendezvous_new(struct coord *c, const GpuSim__CommInitRankRequest *q, const struct unique_id *uid,
	       struct err *err)
{
	struct rendezvous *v;

	if (c->comms->nrendezvous == COORD_MAX_IDS) {
		err_set(err, RC_BUSY, "%u ids wait for ranks, which is the limit", COORD_MAX_IDS);
		return NULL;
	}
	if (check_limit(c, err) != RC_OK)
		return NULL;
	v = alloc_zeroed(1, sizeof *v + q->numranks * sizeof v->seat[0]);
	if (!v) {
		err_set(err, RC_NOMEM, "the coordinator is out of memory");
		return NULL;
	}
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
arrive(struct coord *c, struct rendezvous *v, struct pending *p,
       const GpuSim__CommInitRankRequest *q)
{
	const struct err taken = {RC_ABORTED, "its client had gone, and another came in its place"};
	struct seat *s = &v->seat[q->rank];

	if (s->p)
		answer_failure(c, s->p, &taken);
	pending_wait(c, p, &wait_ranks, 0, v);
	pending_due_by(p, c->now_ms + c->cfg.comm_timeout_ms);
	*s = (struct seat){
	    .p = p, .device_id = q->deviceid, .user = q->user, .must_queue = q->mustqueue};
	snprintf(s->host, sizeof s->host, "%s", q->host);
	v->nhere++;
	act_log(c, "id %016" PRIx64 "%016" PRIx64 ": rank %u is there, %u of %u", v->uid.high,
		v->uid.low, q->rank, v->nhere - v->ngone, v->nranks);
}

enum rc
on_comm_init_rank(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
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
	arrive(c, v, p, q);
	complete(c, v);
	return RC_OK;
}
