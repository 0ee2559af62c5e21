/*
 * Peers and slots of a server; see rpc_server.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/rpc_server_impl.h"

#define UNSENT_MAX \
	(64ull << 20)	/* bytes of answers a peer may leave lying before it gets no more \
			 */
#define UNSENT_MIN 1024 /* the size that the smallest answer counts for */

#define PENDING_PEER (128u << 20) /* memory of pending requests: of one connection, */
#define PENDING_ALL  (512u << 20) /* of all */

struct peer *
peer_find(struct rpc_server *s, int pipe)
{
	for (size_t i = 0; i < s->npeers; i++)
		if (s->peers[i].pipe == pipe)
			return &s->peers[i];
	return NULL;
}

void
peer_add(struct rpc_server *s, int pipe)
{
	if (!alloc_room(&s->peers, s->npeers, &s->peers_cap, sizeof *s->peers))
		return; /* its client disconnects after each request */
	s->peers[s->npeers++] = (struct peer){.pipe = pipe, .heard_ns = clock_now_ns()};
}

/* a is closed before b: first a peer that has never sent anything, then the one that has been silent
 * longest. */
static bool
is_idler(const struct peer *a, const struct peer *b)
{
	if ((a->client_id == 0) != (b->client_id == 0))
		return a->client_id == 0;
	return a->heard_ns < b->heard_ns;
}

/* Peers that wait for an answer, or have not read one, stay: else close the newest. */
int
peer_surplus(struct rpc_server *s, int newest)
{
	struct peer *idle = NULL;

	if (s->npeers - s->nclosing <= s->most_peers)
		return 0;
	for (size_t i = 0; i < s->npeers; i++) {
		struct peer *p = &s->peers[i];

		if (p->pipe != newest && !p->closing && p->ncalls == 0 && p->unsent == 0 &&
		    (!idle || is_idler(p, idle)))
			idle = p;
	}
	if (!idle)
		idle = peer_find(s, newest);
	if (!idle)
		return newest;
	idle->closing = true;
	s->nclosing++;
	return idle->pipe;
}

bool
client_connected(const struct rpc_server *s, uint64_t client_id)
{
	for (size_t i = 0; i < s->npeers; i++)
		if (s->peers[i].client_id == client_id)
			return true;
	return false;
}

uint64_t
peer_remove(struct rpc_server *s, int pipe)
{
	struct peer *p = peer_find(s, pipe);
	uint64_t client_id;

	if (!p)
		return 0;
	client_id = p->client_id;
	s->nclosing -= p->closing;
	*p = s->peers[--s->npeers];
	return client_id != 0 && !client_connected(s, client_id) ? client_id : 0;
}

void
slot_release(struct slot *slot)
{
	struct rpc_server *s = slot->server;

	pthread_mutex_lock(&s->lock);
	slot->next_free = s->free;
	s->free = slot;
	pthread_mutex_unlock(&s->lock);
}

/* The answer is sent, or lost: the slot is free. */
static void
sent(struct slot *slot)
{
	struct rpc_server *s = slot->server;
	struct peer *p;

	pthread_mutex_lock(&s->lock);
	p = peer_find(s, slot->pipe);
	if (p)
		p->unsent -= p->unsent < slot->nbytes ? p->unsent : slot->nbytes;
	slot->next_free = s->free;
	s->free = slot;
	pthread_mutex_unlock(&s->lock);
}

/* The aio's callback. After a receive the receiving thread continues. */
static void
on_slot(void *arg)
{
	struct slot *slot = arg;

	if (!slot->sending)
		return;
	if (nng_aio_result(slot->aio) != 0) {
		nng_msg_free(nng_aio_get_msg(slot->aio));
		nng_aio_set_msg(slot->aio, NULL);
	}
	slot->sending = false;
	sent(slot);
}

static struct slot *
slot_new(struct rpc_server *s)
{
	struct slot *slot = calloc(1, sizeof *slot);

	if (!slot)
		return NULL;
	slot->server = s;
	if (nng_ctx_open(&slot->ctx, s->sock) != 0) {
		free(slot);
		return NULL;
	}
	if (nng_aio_alloc(&slot->aio, on_slot, slot) != 0) {
		nng_ctx_close(slot->ctx);
		free(slot);
		return NULL;
	}
	pthread_mutex_lock(&s->lock);
	slot->next = s->slots;
	s->slots = slot;
	pthread_mutex_unlock(&s->lock);
	return slot;
}

struct slot *
slot_take(struct rpc_server *s)
{
	struct slot *slot;

	pthread_mutex_lock(&s->lock);
	slot = s->free;
	if (slot)
		s->free = slot->next_free;
	pthread_mutex_unlock(&s->lock);
	return slot ? slot : slot_new(s);
}

enum rc
pending_check(const struct server_call *call, struct err *err)
{
	const struct rpc_server *s = call->server;
	const struct peer *p = peer_find(call->server, call->pipe);

	if (p && p->pending + call->taken > PENDING_PEER)
		return err_set(
		    err, RC_BUSY,
		    "pending requests on this connection already take %zu MiB; the limit "
		    "is %u",
		    p->pending >> 20, PENDING_PEER >> 20);
	if (s->pending + call->taken > PENDING_ALL)
		return err_set(err, RC_BUSY,
			       "pending requests already take %zu MiB; the limit is %u",
			       s->pending >> 20, PENDING_ALL >> 20);
	return RC_OK;
}

void
pending_add(const struct server_call *call)
{
	struct peer *p = peer_find(call->server, call->pipe);

	call->server->pending += call->taken;
	if (!p)
		return;
	p->pending += call->taken;
	p->ncalls++;
}

void
pending_drop(const struct server_call *call)
{
	struct peer *p = peer_find(call->server, call->pipe);

	call->server->pending -= call->taken;
	if (!p)
		return;
	p->pending -= call->taken;
	p->ncalls--;
}

/* Count nbytes as in flight to the slot's peer; false: too many are unread. */
static bool
peer_owe(struct slot *slot, size_t nbytes)
{
	struct rpc_server *s = slot->server;
	bool good = true;
	struct peer *p;

	slot->nbytes = nbytes + UNSENT_MIN;
	pthread_mutex_lock(&s->lock);
	p = peer_find(s, slot->pipe);
	if (p) {
		good = p->unsent + slot->nbytes <= UNSENT_MAX;
		p->unsent += good ? slot->nbytes : 0;
	}
	pthread_mutex_unlock(&s->lock);
	return good;
}

void
slot_send(struct slot *slot, const void *body, size_t nbytes)
{
	nng_msg *msg;

	if (!peer_owe(slot, nbytes)) {
		slot_release(slot);
		return;
	}
	if (nng_msg_alloc(&msg, nbytes) != 0) {
		sent(slot);
		return;
	}
	memcpy(nng_msg_body(msg), body, nbytes);
	slot->sending = true;
	nng_aio_set_msg(slot->aio, msg);
	nng_ctx_send(slot->ctx, slot->aio);
}

void
slots_free(struct rpc_server *s)
{
	struct slot *slot;

	while ((slot = s->slots)) {
		s->slots = slot->next;
		nng_aio_free(slot->aio);
		free(slot);
	}
}
