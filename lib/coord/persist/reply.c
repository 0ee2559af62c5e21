/*
 * reply.c - answers that are stored: a client that asks again after a restart gets the first
 * one, and what it asked for is done once.
 */
#include "coord/persist/persist.h"

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

struct persist_client *
persist_client(struct coord *c, uint64_t id, bool make)
{
	struct persist_client **p = &c->persist->client[id % PERSIST_BUCKETS], *k;

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
drop_oldest(struct coord *c, struct persist_client *k)
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
persist_client_is(struct coord *c, uint64_t client_id, bool gone)
{
	struct persist_client *k = persist_client(c, client_id, false);

	if (!k)
		return;
	k->gone = gone;
	k->gone_ms = c->now_ms;
}

void
persist_tick(struct coord *c)
{
	for (size_t b = 0; c->cfg.persists && b < PERSIST_BUCKETS; b++) {
		struct persist_client **p = &c->persist->client[b], *k;

		while ((k = *p)) {
			if (!k->gone || c->now_ms - k->gone_ms < COORD_REPLIES_MS) {
				p = &k->next;
				continue;
			}
			comms_client_lost(c, k->id);
			while (k->n)
				drop_oldest(c, k);
			*p = k->next;
			free(k);
		}
	}
}

void
persist_fini(struct coord *c)
{
	for (size_t b = 0; b < PERSIST_BUCKETS; b++) {
		struct persist_client *k, *next;

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
persist_reply(struct coord *c, const struct pending *w, GpuSim__Reply *reply,
	      struct coord_action *a)
{
	struct persist_client *k;
	struct buf body = {0};
	char key[80];

	if (!c->cfg.persists || !has_effect(pending_asker(w)->kind) || is_refusal(w, reply))
		return;
	a->promise = true;
	if (reply->code == RC_OK &&
	    (pending_asker(w)->kind == GPU_SIM__REQUEST__BODY_COMM_INIT ||
	     pending_asker(w)->kind == GPU_SIM__REQUEST__BODY_COMM_INIT_RANK))
		a->made = reply->comminit->commid;
	if (!pending_asker(w)->client_id || !pending_asker(w)->seq ||
	    !buf_pack(&body, &reply->base))
		return;
	k = persist_client(c, pending_asker(w)->client_id, true);
	if (k && k->n == COORD_CLIENT_REPLIES)
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
persist_asked_before(struct coord *c, struct pending *w)
{
	const struct persist_client *k;
	struct pending *old;

	if (!c->persist->restored || !pending_asker(w)->seq)
		return false;
	k = persist_client(c, pending_asker(w)->client_id, false);
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
persist_check(const struct coord *c, const struct pending *w, struct err *err)
{
	if (c->refuse.rc == RC_OK || !has_effect(pending_asker(w)->kind))
		return RC_OK;
	return err_set(err, RC_FAILED, "%s: the coordinator cannot store its state now: %s",
		       pending_asker(w)->name, c->refuse.text);
}

enum rc
reply_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	struct persist_client *k;
	uint64_t client, seq;

	if (sscanf(key, "5/reply/%" SCNx64 "/%" SCNx64, &client, &seq) != 2)
		return record_nonsense(key, err);
	k = persist_client(c, client, true);
	if (!k)
		return record_nomem(key, err);
	k->gone = true;
	if (k->n == COORD_CLIENT_REPLIES)
		return record_nonsense(key, err);
	if (!buf_add(&k->reply[k->n].body, value, n))
		return record_nomem(key, err);
	k->reply[k->n++].seq = seq;
	return RC_OK;
}
