/*
 * Answers; see rpc_server.c.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "net/rpc_server_impl.h"

#define SEQ_ROOM  16 /* Reply.seq, packed */
#define REPLY_MAX (WIRE_CONTROL_MAX - 64)

const GpuSim__Request *
rpc_request(const struct rpc_call *call)
{
	return call->req;
}

uint64_t
rpc_deadline_ns(const struct rpc_call *call)
{
	return call->deadline_ns;
}

void
server_call_free(struct server_call *call)
{
	wire_request_free(call->call.req);
	buf_fini(&call->again);
	free(call);
}

/* Reply.seq = 1 as a varint field: further fields may follow a packed message. */
static size_t
pack_seq(uint64_t seq, unsigned char out[SEQ_ROOM])
{
	GpuSim__Reply r = GPU_SIM__REPLY__INIT;

	r.seq = seq;
	return gpu_sim__reply__pack(&r, out);
}

void
rpc_reply_packed(struct rpc_call *call, const void *body, size_t nbytes)
{
	call->answer(call, body, nbytes);
}

void
server_call_answer(struct rpc_call *rpc, const void *body, size_t nbytes)
{
	struct server_call *call = (struct server_call *)rpc;
	struct rpc_server *s = call->server;
	struct buf out = {0};
	unsigned char seq[SEQ_ROOM];
	size_t nseq = pack_seq(rpc->req->seq, seq);
	bool good, last;

	if (nbytes > REPLY_MAX) {
		struct err err = {0};

		err_set(&err, RC_INTERNAL, "the answer of %zu bytes is too large for a message",
			nbytes);
		rpc_reply_err(rpc, &err);
		return;
	}
	/* Out of memory for the answer: forget the call, so that a repetition runs it again. */
	good = buf_reserve(&out, nbytes + nseq) && buf_add(&out, body, nbytes) &&
	       buf_add(&out, seq, nseq);
	pthread_mutex_lock(&s->lock);
	replycache_done(s->cache, rpc->req->clientid, rpc->req->seq, out.data,
			good ? out.len : REPLYCACHE_ANSWER + 1);
	pending_drop(call);
	pthread_mutex_unlock(&s->lock);
	/* The slot is ours alone now: the cache no longer refers to the call. */
	if (good)
		slot_send(call->slot, out.data, out.len);
	else
		slot_release(call->slot);
	server_call_free(call);
	buf_fini(&out);
	pthread_mutex_lock(&s->lock);
	last = --s->ncalls == 0 && s->closed;
	pthread_mutex_unlock(&s->lock);
	if (last)
		rpc_server_free(s);
}

void
rpc_server_remember(struct rpc_server *s, uint64_t client_id, uint64_t seq, const void *body,
		    size_t nbytes)
{
	unsigned char packed[SEQ_ROOM];
	size_t nseq = pack_seq(seq, packed), nold;
	struct buf out = {0};
	void *call = NULL;
	const void *old;

	if (!buf_add(&out, body, nbytes) || !buf_add(&out, packed, nseq)) {
		buf_fini(&out);
		return;
	}
	pthread_mutex_lock(&s->lock);
	switch (replycache_ask(s->cache, client_id, seq, &call, &old, &nold)) {
	case REPLYCACHE_NEW:
		replycache_done(s->cache, client_id, seq, out.data, out.len);
		break;
	case REPLYCACHE_RUNNING: /* repeated before the handler took the call */
		buf_fini(&((struct server_call *)call)->again);
		((struct server_call *)call)->again = out;
		out = (struct buf){0};
		break;
	default:
		break;
	}
	pthread_mutex_unlock(&s->lock);
	buf_fini(&out);
}

bool
rpc_reply_again(struct rpc_call *rpc)
{
	struct server_call *call = (struct server_call *)rpc;
	struct buf again;

	if (rpc->answer != server_call_answer)
		return false;
	pthread_mutex_lock(&call->server->lock);
	again = call->again;
	call->again = (struct buf){0};
	pthread_mutex_unlock(&call->server->lock);
	if (!again.data)
		return false;
	server_call_answer(rpc, again.data, again.len);
	buf_fini(&again);
	return true;
}

void
rpc_reply(struct rpc_call *call, const GpuSim__Reply *reply)
{
	size_t n = gpu_sim__reply__get_packed_size(reply);
	unsigned char small[512], *body = n <= sizeof small ? small : malloc(n);
	const struct err nomem = {RC_NOMEM, "out of memory"};

	if (!body) {
		rpc_reply_err(call, &nomem);
		return;
	}
	gpu_sim__reply__pack(reply, body);
	rpc_reply_packed(call, body, n);
	if (body != small)
		free(body);
}

void
rpc_reply_failure(struct rpc_call *call, const struct err *err, GpuSim__Failure *f)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;

	wire_reply_failure(&reply, err);
	reply.failure = f;
	rpc_reply(call, &reply);
}

void
rpc_reply_err(struct rpc_call *call, const struct err *err)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	unsigned char body[1024];

	wire_reply_failure(&reply, err);
	rpc_reply_packed(call, body, gpu_sim__reply__pack(&reply, body));
}

void
rpc_reply_done(struct rpc_call *call)
{
	GpuSim__Empty done = GPU_SIM__EMPTY__INIT;
	GpuSim__Reply reply = WIRE_REPLY(DONE, done, done);

	rpc_reply(call, &reply);
}
