/*
 * rendezvous.c - ranks that join one by one, each with its own request, until all have joined.
 *
 * A rank has its seat as long as its request is pending. The seat of a client that disconnected is free
 * at once. The first deadline ends the rendezvous for all, so that all learn who was missing; they may
 * try again. Nothing of this is stored: after a restart the clients repeat their requests.
 */
#include "coord/comm/rendezvous.h"

#include <inttypes.h>
#include <stdlib.h>

bool
same_id(const struct unique_id *a, const struct unique_id *b)
{
	return a->high == b->high && a->low == b->low;
}

bool
id_is_none(const struct unique_id *uid)
{
	return uid->high == 0 && uid->low == 0;
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

enum rc
rendezvous_refuse(const struct rendezvous *v, struct err *err)
{
	char name[GATHERING_NAME];

	v->kind->name(v, name, sizeof name);
	return err_prefix(err, "%s", name);
}

static void
rendezvous_answer(struct coord *c, struct rendezvous *v, const struct err *why)
{
	for (uint32_t r = 0; r < v->nranks; r++)
		if (v->seat[r].p)
			answer_failure(c, v->seat[r].p, why);
}

static void
end(struct coord *c, struct rendezvous *v, const struct err *why)
{
	rendezvous_answer(c, v, why);
	rendezvous_free(c, v);
}

static bool
is_missing(const struct rendezvous *v, uint32_t rank)
{
	const struct seat *s = &v->seat[rank];

	return !s->spared && (!s->p || s->gone);
}

/* "rank 3", "ranks 1, 3-5": the missing ranks, as far as they fit. Return their number. */
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
		if (!is_missing(v, r))
			continue;
		while (end < v->nranks && is_missing(v, end))
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

static uint64_t
since_ms(const struct coord *c, const struct rendezvous *v)
{
	uint64_t ms = c->now_ms;

	for (uint32_t r = 0; r < v->nranks; r++)
		if (v->seat[r].p && pending_asker(v->seat[r].p)->asked_ms < ms)
			ms = pending_asker(v->seat[r].p)->asked_ms;
	return ms;
}

size_t
rendezvous_show(const struct coord *c, GpuSim__Gathering **v, size_t room,
		char (*name)[COMM_GATHERING_NAME], uint32_t *rank, size_t nranks)
{
	const struct rendezvous *at = c->comms->rendezvous;
	size_t n = 0;

	for (; at && n < room; at = at->next, n++) {
		at->kind->name(at, name[n], sizeof name[n]);
		v[n]->name = name[n];
		v[n]->nranks = at->nranks;
		v[n]->commid = at->parent;
		v[n]->forms = c->now_ms - since_ms(c, at);
		v[n]->missing = rank;
		for (uint32_t r = 0; r < at->nranks && nranks > 0; r++)
			if (is_missing(at, r)) {
				*rank++ = r;
				nranks--;
				v[n]->n_missing++;
			}
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
	err_set(&err, RC_TIMEOUT, "rank%s %s of %u ha%s not joined while rank %u waited for %.1fs",
		n == 1 ? "" : "s", missing, v->nranks, n == 1 ? "s" : "ve", r,
		(double)(c->now_ms - pending_asker(v->seat[r].p)->asked_ms) / 1e3);
	rendezvous_refuse(v, &err);
	end(c, v, &err);
}

static bool
is_complete(const struct rendezvous *v)
{
	return v->nhere + v->nspared >= v->nranks && v->ngone == 0;
}

static bool
is_due(const struct coord *c, const struct rendezvous *v)
{
	for (uint32_t r = 0; r < v->nranks; r++)
		if (v->seat[r].p && c->now_ms >= pending_due_ms(v->seat[r].p))
			return true;
	return false;
}

void
rendezvous_complete(struct coord *c, struct rendezvous *v)
{
	struct err err;

	if (!is_complete(v) || (v->kind->waits && v->kind->waits(c, v) && !is_due(c, v)))
		return;
	if (v->kind->complete(c, v, &err) != RC_OK) {
		rendezvous_refuse(v, &err);
		rendezvous_answer(c, v, &err);
	}
	rendezvous_free(c, v);
}

/* ---- clients that disconnect and connect */

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
			rendezvous_complete(c, v);
	}
}

void
rendezvous_tick(struct coord *c)
{
	struct rendezvous *next;

	for (struct rendezvous *v = c->comms->rendezvous; v; v = next) {
		const struct err away = {RC_ABORTED, "the client disconnected"};

		next = v->next;
		for (uint32_t r = 0; r < v->nranks; r++) {
			const struct seat *s = &v->seat[r];

			if (s->gone && c->now_ms >= s->gone_ms + TIME_LEASE_MS)
				answer_failure(c, s->p, &away);
		}
		if (v->nhere == 0)
			rendezvous_free(c, v);
		else if (is_complete(v))
			rendezvous_complete(c, v);
		else if (is_due(c, v))
			expire(c, v);
	}
}

/* ---- joining */

/* The number of the client's rendezvous. */
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

struct rendezvous *
rendezvous_new(struct coord *c, const struct gathering *kind, uint32_t nranks, struct err *err)
{
	struct rendezvous *v;

	if (c->comms->nrendezvous == COORD_MAX_IDS) {
		err_set(err, RC_BUSY, "%u ids wait for ranks, which is the limit", COORD_MAX_IDS);
		return NULL;
	}
	if (check_limit(c, err) != RC_OK)
		return NULL;
	v = alloc_zeroed(1, sizeof *v + nranks * sizeof v->seat[0]);
	if (!v) {
		err_set(err, RC_NOMEM, "the coordinator is out of memory");
		return NULL;
	}
	v->kind = kind;
	v->client_id = c->client_id;
	v->nranks = nranks;
	v->next = c->comms->rendezvous;
	c->comms->rendezvous = v;
	c->comms->nrendezvous++;
	return v;
}

enum rc
rendezvous_check_seat(const struct rendezvous *v, uint32_t rank, struct err *err)
{
	if (v->seat[rank].p && !v->seat[rank].gone)
		return err_set(err, RC_INVAL, "rank %u has joined already", rank);
	return RC_OK;
}

void
rendezvous_arrive(struct coord *c, struct rendezvous *v, uint32_t rank, struct seat s,
		  struct pending *p)
{
	const struct err taken = {RC_ABORTED, "the client disconnected, and another took the rank"};
	char name[GATHERING_NAME];

	if (v->seat[rank].p)
		answer_failure(c, v->seat[rank].p, &taken);
	pending_wait(c, p, &wait_ranks, 0, v);
	pending_due_by(p, c->now_ms + c->cfg.comm_timeout_ms);
	s.p = p;
	v->seat[rank] = s;
	v->nhere++;
	v->kind->name(v, name, sizeof name);
	act_log(c, "%s: rank %u has joined, %u of %u", name, rank, v->nhere - v->ngone,
		v->nranks - v->nspared);
}

void
rendezvous_merge(struct coord *c, struct rendezvous *v, struct rendezvous *from)
{
	for (uint32_t r = 0; r < from->nranks; r++) {
		struct seat s = from->seat[r];

		if (!s.p)
			continue;
		pending_wait(c, s.p, &wait_ranks, 0, v); /* which empties its seat there */
		v->seat[r] = s;
		v->nhere++;
		v->ngone += s.gone;
	}
	rendezvous_free(c, from);
}

/* ---- the parent communicator */

void
rendezvous_parent_ends(struct coord *c, const struct comm *comm, const struct err *why, bool failed)
{
	struct rendezvous *next;

	for (struct rendezvous *v = c->comms->rendezvous; v; v = next) {
		next = v->next;
		if (v->parent == comm->id && !(failed && v->aborts))
			end(c, v, why);
	}
}

void
rendezvous_rank_leaves(struct coord *c, const struct comm *comm, uint32_t rank)
{
	struct rendezvous *next;
	struct err why;

	err_set(&why, RC_INVAL, "rank %u has left comm %" PRIu64, rank, comm->id);
	for (struct rendezvous *v = c->comms->rendezvous; v; v = next) {
		next = v->next;
		if (v->parent == comm->id && !v->seat[rank].p && !v->seat[rank].spared)
			end(c, v, &why);
	}
}
