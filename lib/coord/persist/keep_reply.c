/*
 * keep_reply.c - answers that are stored: a client that asks again after a restart gets the first
 * one, and what it asked for is done once.
 */
#include "coord/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool
has_effect(GpuSim__Request__BodyCase kind)
{
	switch (kind) {
	case GPU_SIM__REQUEST__BODY_COMM_INIT:
	case GPU_SIM__REQUEST__BODY_COMM_INIT_RANK:
	case GPU_SIM__REQUEST__BODY_COMM_DESTROY:
	case GPU_SIM__REQUEST__BODY_COMM_ABORT:
	case GPU_SIM__REQUEST__BODY_COMM_SHRINK:
	case GPU_SIM__REQUEST__BODY_COMM_GROW:
	case GPU_SIM__REQUEST__BODY_SUBMIT:
	case GPU_SIM__REQUEST__BODY_GROUP_END:
	case GPU_SIM__REQUEST__BODY_GRAPH_CREATE:
	case GPU_SIM__REQUEST__BODY_GRAPH_LAUNCH:
	case GPU_SIM__REQUEST__BODY_GRAPH_DESTROY:
	case GPU_SIM__REQUEST__BODY_ALL_REDUCE_RING:
		return true;
	default:
		return false;
	}
}

/* ---- clients */

struct keep_client *
keep_client(struct coord *c, uint64_t id, bool make)
{
	struct keep_client **p = &c->persist->client[id % KEEP_BUCKETS], *k;

	for (k = *p; k; k = k->next)
		if (k->id == id)
			return k;
	k = make ? alloc_zeroed(1, sizeof *k) : NULL;
	if (!k)
		return NULL;
	k->id = id;
	k->next = *p;
	*p = k;
	return k;
}

static void
drop_oldest(struct coord *c, struct keep_client *k)
{
	char key[80];

	snprintf(key, sizeof key, "5/reply/%016" PRIx64 "/%016" PRIx64, k->id, k->reply[0].seq);
	record_put(c, key, NULL, false);
	buf_fini(&k->reply[0].body);
	k->n--;
	for (uint32_t i = 0; i < k->n; i++)
		k->reply[i] = k->reply[i + 1];
}

void
keep_client_is(struct coord *c, uint64_t client_id, bool gone)
{
	struct keep_client *k = keep_client(c, client_id, false);

	if (!k)
		return;
	k->gone = gone;
	k->gone_ms = c->now_ms;
}

/* A client that did not come back after our restart has left what it leased. */
static void
end_leases(struct coord *c, const struct keep_client *k)
{
	for (struct comm *comm = c->comms->first; comm; comm = comm->next)
		if (!comm->gone)
			comm_holder_is(c, comm, k->id, true);
}

void
keep_tick(struct coord *c)
{
	for (size_t b = 0; c->cfg.keeps && b < KEEP_BUCKETS; b++) {
		struct keep_client **p = &c->persist->client[b], *k;

		while ((k = *p)) {
			if (!k->gone || c->now_ms - k->gone_ms < COORD_KEEP_MS) {
				p = &k->next;
				continue;
			}
			end_leases(c, k);
			while (k->n)
				drop_oldest(c, k);
			*p = k->next;
			free(k);
		}
	}
}

void
keep_fini(struct coord *c)
{
	for (size_t b = 0; b < KEEP_BUCKETS; b++) {
		struct keep_client *k, *next;

		for (k = c->persist->client[b]; k; k = next) {
			next = k->next;
			for (uint32_t i = 0; i < k->n; i++)
				buf_fini(&k->reply[i].body);
			free(k);
		}
		c->persist->client[b] = NULL;
	}
}

/* ---- answers */

/* It is the failure of something that had not begun: it fails again. */
static bool
is_refusal(const struct pending *w, const GpuSim__Reply *reply)
{
	return reply->code != RC_OK && (!pending_on(w) || pending_on(w)->idle);
}

void
keep_reply(struct coord *c, const struct pending *w, GpuSim__Reply *reply, struct coord_action *a)
{
	struct keep_client *k;
	struct buf body = {0};
	char key[80];

	if (!c->cfg.keeps || !has_effect(pending_asker(w)->kind) || is_refusal(w, reply))
		return;
	a->promise = true;
	if (reply->code == RC_OK &&
	    (pending_asker(w)->kind == GPU_SIM__REQUEST__BODY_COMM_INIT ||
	     pending_asker(w)->kind == GPU_SIM__REQUEST__BODY_COMM_INIT_RANK))
		a->made = reply->comminit->commid;
	if (!pending_asker(w)->client_id || !pending_asker(w)->seq ||
	    !buf_pack(&body, &reply->base))
		return;
	k = keep_client(c, pending_asker(w)->client_id, true);
	if (k && k->n == COORD_KEEP_REPLIES)
		drop_oldest(c, k);
	if (k) {
		snprintf(key, sizeof key, "5/reply/%016" PRIx64 "/%016" PRIx64, k->id,
			 pending_asker(w)->seq);
		record_put_bytes(c, key, &body, false);
		k->reply[k->n].seq = pending_asker(w)->seq;
		k->reply[k->n].body = (struct buf){0};
		if (pending_is_absent(w)) {
			k->reply[k->n].body = body;
			body = (struct buf){0};
		}
		k->n++;
	}
	buf_fini(&body);
}

bool
keep_asked_before(struct coord *c, struct pending *w)
{
	const struct keep_client *k;
	struct pending *old;

	if (!c->persist->restored || !pending_asker(w)->seq)
		return false;
	k = keep_client(c, pending_asker(w)->client_id, false);
	for (uint32_t i = 0; k && i < k->n; i++)
		if (k->reply[i].seq == pending_asker(w)->seq && k->reply[i].body.data) {
			answer_packed(c, w, &k->reply[i].body);
			return true;
		}
	old = pending_repeated(c, w);
	if (!old)
		return false;
	pending_wait(c, w, pending_on(old), pending_id(old), NULL);
	pending_free(c, old);
	return true;
}

/* ---- when nothing can be stored */

enum rc
keep_check(const struct coord *c, const struct pending *w, struct err *err)
{
	if (c->refuse.rc == RC_OK || !has_effect(pending_asker(w)->kind))
		return RC_OK;
	return err_set(err, RC_FAILED, "%s: the coordinator cannot store its state now: %s",
		       pending_asker(w)->name, c->refuse.text);
}

/* Take the records out. */
static void
drop_stores(struct coord_actions *a)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n; i++)
		if (a->v[i].kind == COORD_STORE)
			buf_fini(&a->v[i].body);
		else
			a->v[n++] = a->v[i];
	a->n = n;
}

static void
fail_answer(struct coord_action *a, const struct err *why)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	struct buf body = {0};
	struct err err;

	err_set(&err, RC_FAILED, "the coordinator cannot store its state: %s", why->text);
	wire_reply_failure(&reply, &err);
	if (!buf_pack(&body, &reply.base))
		return;
	buf_fini(&a->body);
	a->body = body;
}

void
persist_uncommitted(struct coord *c, const struct err *why, struct coord_actions *out)
{
	size_t n;

	c->refuse = *why;
	drop_stores(out);
	n = out->n;
	for (size_t i = 0; i < n; i++) {
		struct comm *comm;

		if (out->v[i].kind != COORD_ANSWER || !out->v[i].promise)
			continue;
		fail_answer(&out->v[i], why);
		/* Its client will never know that it is there. */
		comm = out->v[i].made ? comm_find(c, out->v[i].made) : NULL;
		if (comm)
			comm_destroy(c, comm);
	}
}
