/*
 * rpc.c - calls as in lib/transport/net: repeated under their number until they are answered, too late, or
 * the server was unreachable for a while; executed once, by the server's reply cache.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t
latency(struct world *w)
{
	return between(w, 20, w->faults.latency_us);
}

struct buf
pack_message(const ProtobufCMessage *m)
{
	struct buf b = {0};
	size_t n = protobuf_c_message_get_packed_size(m);

	if (!buf_reserve(&b, n + 1))
		abort();
	b.len = protobuf_c_message_pack(m, (uint8_t *)b.data);
	return b;
}

/* The fields that lib/transport/net adds to a body. */
static void
add_envelope(const struct sim_call *c, struct buf *body)
{
	GpuSim__Request envelope = GPU_SIM__REQUEST__INIT;
	struct buf b;

	envelope.clientid = c->client_id;
	envelope.seq = c->seq;
	envelope.timeoutms = (uint32_t)((c->deadline - c->since) / MS);
	envelope.version = WIRE_VERSION;
	b = pack_message(&envelope.base);
	if (!buf_add(body, b.data, b.len))
		abort();
	buf_fini(&b);
}

static void
send_request(struct world *w, uint32_t i)
{
	const struct sim_call *c = &w->call[i];
	unsigned copies = 1 + chance(w, w->faults.repeat);

	if (!reaches(w, c->from, c->to) || !w->node[c->to].alive || chance(w, w->faults.lose))
		return;
	while (copies--) {
		struct event *e = post(w, w->now + latency(w), EV_REQUEST, c->to);

		e->a = i;
		e->b = c->deadline - w->now; /* the remaining time of its caller */
	}
}

static void
retry_later(struct world *w, uint32_t i)
{
	uint64_t at = w->now + between(w, 100 * MS, 400 * MS);

	if (at > w->call[i].deadline)
		at = w->call[i].deadline;
	post(w, at, EV_RETRY, w->call[i].from)->a = i;
}

static void
digest_request(struct world *w, const struct buf *body)
{
	GpuSim__Request *req =
	    gpu_sim__request__unpack(NULL, body->len, (const uint8_t *)body->data);

	if (!req)
		abort();
	digest_message(&w->digest, &req->base);
	gpu_sim__request__free_unpacked(req, NULL);
}

uint32_t
rpc_start(struct world *w, enum call_kind kind, uint32_t from, uint32_t to, uint64_t client_id,
	  uint64_t seq, uint64_t arg, uint64_t timeout_us, struct buf *body)
{
	uint32_t i = (uint32_t)w->ncalls++;

	if (w->ncalls > w->call_cap) {
		w->call_cap = w->call_cap ? 2 * w->call_cap : 256;
		w->call = alloc_resize(w->call, w->call_cap, sizeof *w->call);
		if (!w->call)
			abort();
	}
	w->call[i] = (struct sim_call){.kind = kind,
				       .from = from,
				       .to = to,
				       .from_life = w->node[from].life,
				       .arg = arg,
				       .client_id = client_id,
				       .seq = seq,
				       .since = w->now,
				       .deadline = w->now + timeout_us,
				       .body = *body};
	*body = (struct buf){0};
	digest_request(w, &w->call[i].body);
	add_envelope(&w->call[i], &w->call[i].body);
	send_request(w, i);
	retry_later(w, i);
	return i;
}

/* The caller is notified of its end. */
static void
finish(struct world *w, uint32_t i, enum rc rc, const GpuSim__Reply *reply, const char *text)
{
	struct sim_call c = w->call[i];

	w->call[i].done = true; /* its body stays: a repetition may yet arrive */
	if (c.kind == CALL_OF_COORD && c.arg)
		coordinator_result(w, c.arg, rc, reply, text);
	else if (c.kind == CALL_OF_CLIENT)
		client_answer(w, w->node[c.from].index, (GpuSim__Request__BodyCase)c.arg, rc, reply,
			      text);
}

void
rpc_retry(struct world *w, const struct event *e)
{
	const struct sim_call *c = &w->call[e->a];
	const struct node *to = &w->node[c->to];

	if (c->done)
		return;
	if (w->now >= c->deadline) {
		finish(w, e->a, RC_TIMEOUT, NULL, "no answer in time");
	} else if (!to->alive && w->now >= to->died + CONNECT_MS * MS &&
		   w->now >= c->since + CONNECT_MS * MS) {
		finish(w, e->a, RC_UNREACHABLE, NULL, "nobody answers there");
	} else {
		send_request(w, e->a);
		retry_later(w, e->a);
	}
}

static void
send_reply(struct world *w, uint32_t call, const void *body, size_t nbytes)
{
	const struct sim_call *c = &w->call[call];
	struct event *e;

	if (!reaches(w, c->from, c->to) || !w->node[c->from].alive ||
	    w->node[c->from].life != c->from_life || chance(w, w->faults.lose))
		return;
	e = post(w, w->now + latency(w), EV_REPLY, c->from);
	e->a = call;
	e->body = malloc(nbytes + 1);
	if (!e->body)
		abort();
	memcpy(e->body, body, nbytes);
	e->nbytes = nbytes;
}

static uint32_t
served_new(struct world *w, uint32_t call)
{
	const struct sim_call *c = &w->call[call];
	uint32_t s = (uint32_t)w->nserved++;

	if (w->nserved > w->served_cap) {
		w->served_cap = w->served_cap ? 2 * w->served_cap : 256;
		w->served = alloc_resize(w->served, w->served_cap, sizeof *w->served);
		if (!w->served)
			abort();
	}
	w->served[s] = (struct served){.call = call,
				       .node = c->to,
				       .life = w->node[c->to].life,
				       .client_id = c->client_id,
				       .seq = c->seq};
	return s;
}

void
rpc_request_arrives(struct world *w, const struct event *e)
{
	struct sim_call *c = &w->call[e->a];
	struct node *to = &w->node[c->to];
	void *call = (void *)(uintptr_t)(w->nserved + 1);
	const void *answer;
	size_t nbytes;
	struct err err;
	uint32_t s;

	switch (replycache_ask(to->cache, c->client_id, c->seq, &call, &answer, &nbytes)) {
	case REPLYCACHE_NEW:
		c->served_in = to->life;
		break;
	case REPLYCACHE_DONE:
		send_reply(w, e->a, answer, nbytes);
		if (to->kind == NODE_COORD && c->served_in != to->life) {
			c->served_in = to->life;
			coordinator_seen(w, c->client_id);
		}
		return;
	default: /* its answer comes */
		return;
	}
	s = served_new(w, e->a);
	w->served[s].until = w->now + e->b;
	if (wire_request_unpack(c->body.data, c->body.len, &w->served[s].req, &err) != RC_OK) {
		wrong(w, "a request cannot be unpacked: %s", err.text);
		return;
	}
	if (to->kind == NODE_COORD)
		coordinator_serve(w, s);
	else
		device_serve(w, s);
}

void
rpc_answer_packed(struct world *w, uint32_t s, const void *body, size_t nbytes)
{
	struct served *v = &w->served[s];

	if (!v->req) {
		wrong(w, "a request is answered twice");
		return;
	}
	replycache_done(w->node[v->node].cache, v->client_id, v->seq, body, nbytes);
	send_reply(w, v->call, body, nbytes);
	wire_request_free(v->req);
	v->req = NULL;
}

void
rpc_remember(struct world *w, uint64_t client_id, uint64_t seq, const void *body, size_t nbytes)
{
	struct replycache *cache = w->node[0].cache;
	const void *old;
	void *call = NULL;
	size_t nold;

	switch (replycache_ask(cache, client_id, seq, &call, &old, &nold)) {
	case REPLYCACHE_NEW:
		replycache_done(cache, client_id, seq, body, nbytes);
		break;
	case REPLYCACHE_DONE: /* its deadline passed before the restart: that is its answer */
		break;
	default:
		wrong(w, "the coordinator remembers an answer for a request that it is at");
	}
}

void
rpc_answer(struct world *w, uint32_t s, const GpuSim__Reply *reply)
{
	struct buf b = pack_message(&reply->base);

	rpc_answer_packed(w, s, b.data, b.len);
	buf_fini(&b);
}

void
rpc_answer_err(struct world *w, uint32_t s, const struct err *err)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;

	wire_reply_failure(&reply, err);
	rpc_answer(w, s, &reply);
}

void
rpc_reply_arrives(struct world *w, const struct event *e)
{
	GpuSim__Reply *reply;
	struct err err = {0};

	if (w->call[e->a].done)
		return;
	if (wire_reply_unpack(e->body, e->nbytes, &reply, &err) != RC_OK) {
		wrong(w, "a reply cannot be unpacked: %s", err.text);
		return;
	}
	reply->seq = 0; /* which the server adds; a remembered answer has it */
	digest_message(&w->digest, &reply->base);
	finish(w, e->a, RC_OK, reply, "");
	wire_reply_free(reply);
}
