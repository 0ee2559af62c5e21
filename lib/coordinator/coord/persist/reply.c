/*
 * reply.c - stored answers, so that a client that repeats a request after a restart gets the first answer.
 *
 * The server's reply cache remembers answers. This file decides which of them must outlive the process, and
 * stores them: a client's answers take turns in COORD_CLIENT_REPLIES slots, so a new one replaces the oldest.
 */
#include "coord/persist/persist_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
has_effect(GpuSim__Request__BodyCase kind)
{
	switch (kind) {
	case GPU_SIM__REQUEST__BODY_COMM_INIT:
	case GPU_SIM__REQUEST__BODY_COMM_INIT_RANK:
	case GPU_SIM__REQUEST__BODY_COMM_SPLIT_RANK:
	case GPU_SIM__REQUEST__BODY_COMM_SHRINK_RANK:
	case GPU_SIM__REQUEST__BODY_COMM_GROW_RANK:
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
	case GPU_SIM__REQUEST__BODY_ALGO_PUT:
	case GPU_SIM__REQUEST__BODY_ALGO_REMOVE:
		return true;
	default:
		return false;
	}
}

/* The answer reports a new communicator. */
static bool
makes(GpuSim__Request__BodyCase kind)
{
	return kind == GPU_SIM__REQUEST__BODY_COMM_INIT ||
	       kind == GPU_SIM__REQUEST__BODY_COMM_INIT_RANK ||
	       kind == GPU_SIM__REQUEST__BODY_COMM_SPLIT_RANK ||
	       kind == GPU_SIM__REQUEST__BODY_COMM_SHRINK_RANK ||
	       kind == GPU_SIM__REQUEST__BODY_COMM_GROW_RANK;
}

/* ---- clients */

static struct persist_client *
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
slot_key(char key[RECORD_KEY_MAX], const struct persist_client *k, uint32_t slot)
{
	snprintf(key, RECORD_KEY_MAX, "5/reply/%016" PRIx64 "/%02x", k->id, (unsigned)slot);
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
			char key[RECORD_KEY_MAX];

			if (!k->gone || c->now_ms - k->gone_ms < COORD_REPLIES_MS) {
				p = &k->next;
				continue;
			}
			comms_client_lost(c, k->id);
			for (uint32_t slot = 0; slot < COORD_CLIENT_REPLIES; slot++)
				if (k->used >> slot & 1) {
					slot_key(key, k, slot);
					record_put(c, key, NULL, false);
				}
			*p = k->next;
			free(k);
		}
	}
}

void
persist_fini(struct coord *c)
{
	for (size_t b = 0; c->persist && b < PERSIST_BUCKETS; b++) {
		struct persist_client *k, *next;

		for (k = c->persist->client[b]; k; k = next) {
			next = k->next;
			free(k);
		}
	}
	if (c->persist)
		buf_fini(&c->persist->stale);
	free(c->persist);
}

/* ---- answers */

/* The request failed before anything began: a repetition fails again. */
static bool
is_refusal(const struct pending *w, const GpuSim__Reply *reply)
{
	return reply->code != RC_OK && (!pending_on(w) || pending_on(w)->idle);
}

static void
store(struct coord *c, const struct asker *asker, GpuSim__Reply *reply)
{
	struct persist_client *k = persist_client(c, asker->client_id, true);
	uint32_t slot = k ? k->n++ % COORD_CLIENT_REPLIES : 0;
	char key[RECORD_KEY_MAX];

	if (!k)
		return;
	k->used |= 1u << slot;
	slot_key(key, k, slot);
	reply->seq = asker->seq;
	record_put(c, key, &reply->base, false);
	reply->seq = 0;
}

void
persist_reply(struct coord *c, const struct pending *p, GpuSim__Reply *reply,
	      struct coord_action *a)
{
	const struct asker *asker = pending_asker(p);

	if (!c->cfg.persists || !has_effect(asker->kind) || is_refusal(p, reply))
		return;
	a->promise = true;
	if (reply->code == RC_OK && makes(asker->kind))
		a->made = reply->comminit->commid;
	if (asker->client_id && asker->seq)
		store(c, asker, reply);
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

/* ---- after a restart */

/* gpusim 0.1 stored an answer under its request's number. */
static bool
is_stale(struct coord *c, const char *key, uint64_t *client, uint64_t *seq)
{
	return strlen(key) == strlen("5/reply/") + 16 + 1 + 16 &&
	       sscanf(key, "5/reply/%" SCNx64 "/%" SCNx64, client, seq) == 2 &&
	       buf_add(&c->persist->stale, key, strlen(key) + 1);
}

enum rc
reply_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	struct coord_action a = {.kind = COORD_ANSWER};
	bool stale = is_stale(c, key, &a.client_id, &a.seq);
	GpuSim__Reply *reply = gpu_sim__reply__unpack(NULL, n, value);
	struct persist_client *k;
	uint32_t slot = 0;

	if (!reply ||
	    (!stale && (sscanf(key, "5/reply/%" SCNx64 "/%" SCNx32, &a.client_id, &slot) != 2 ||
			slot >= COORD_CLIENT_REPLIES))) {
		if (reply)
			gpu_sim__reply__free_unpacked(reply, NULL);
		return record_nonsense(key, err);
	}
	if (!stale)
		a.seq = reply->seq;
	gpu_sim__reply__free_unpacked(reply, NULL);
	if (!buf_reserve(&a.body, n + 1) || !buf_add(&a.body, value, n) || !act(c, &a))
		return record_nomem(key, err);
	if (stale)
		return RC_OK;
	k = persist_client(c, a.client_id, true);
	if (!k)
		return record_nomem(key, err);
	k->gone = true;
	k->used |= 1u << slot;
	if (a.seq >= k->newest) {
		k->newest = a.seq;
		k->n = slot + 1;
	}
	return RC_OK;
}

void
replies_resume(struct coord *c)
{
	for (size_t b = 0; b < PERSIST_BUCKETS; b++)
		for (struct persist_client *k = c->persist->client[b]; k; k = k->next)
			k->gone_ms = c->now_ms;
}
