/*
 * Design notes. nng's REP with one context (a "slot") for each request that is being received, run or
 * answered: raw REP would drop answers beyond 64 that a connection has not yet taken; a context waits.
 * One thread receives, unpacks, asks the reply cache and calls the handler; answers are sent from any
 * thread, without waiting. A slot belongs to one of: the free list, the receiving thread, a call, the
 * sending aio (whose callback frees it). A repeated request that is still running gives its slot to the
 * call and takes the call's: the answer goes to the connection that asked last.
 *
 * `lock` guards the cache, the peers, the slot lists and each call's slot; nng is never called with it
 * held. A call is answered exactly once, by its owner; the server lives until it is stopped and all calls
 * are answered.
 */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/closing.h"
#include "net/listener.h"
#include "net/net.h"
#include "net/replycache.h"
#include "net/rpc_server_impl.h"

#define SEQ_ROOM  16 /* Reply.seq, packed */
#define REPLY_MAX (WIRE_CONTROL_MAX - 64)

/* Stopped, and no call is left. */
static void
server_free(struct rpc_server *s)
{
	slots_free(s);
	replycache_free(s->cache);
	free(s->peers);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- answers */

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

static void
call_free(struct server_call *call)
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

/* struct rpc_call.answer */
static void
answer_call(struct rpc_call *rpc, const void *body, size_t nbytes)
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
	call_free(call);
	buf_fini(&out);
	pthread_mutex_lock(&s->lock);
	last = --s->ncalls == 0 && s->closed;
	pthread_mutex_unlock(&s->lock);
	if (last)
		server_free(s);
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

	if (rpc->answer != answer_call)
		return false;
	pthread_mutex_lock(&call->server->lock);
	again = call->again;
	call->again = (struct buf){0};
	pthread_mutex_unlock(&call->server->lock);
	if (!again.data)
		return false;
	answer_call(rpc, again.data, again.len);
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

/* ---- requests */

const char *
rpc_server_address(const struct rpc_server *s)
{
	return listener_address(s->listener);
}

const char *
rpc_server_self(const struct rpc_server *s)
{
	return listener_self(s->listener);
}

/* Lock held, so that no callback runs once stopping has begun. client_id 0: none. */
static void
tell_gone(struct rpc_server *s, uint64_t client_id)
{
	if (client_id && s->handler.gone && !s->stopping)
		s->handler.gone(s->handler.arg, client_id);
}

static void
tell_back(struct rpc_server *s, uint64_t client_id)
{
	if (s->handler.back && !s->stopping)
		s->handler.back(s->handler.arg, client_id);
}

static void
on_peer(void *arg, int pipe, enum listener_event event)
{
	struct rpc_server *s = arg;
	nng_pipe surplus = NNG_PIPE_INITIALIZER;
	uint64_t lost = 0;

	pthread_mutex_lock(&s->lock);
	if (event == LISTENER_CAME) {
		peer_add(s, pipe);
		surplus.id = (uint32_t)peer_surplus(s, pipe);
	} else {
		lost = peer_remove(s, pipe);
	}
	tell_gone(s, lost);
	pthread_mutex_unlock(&s->lock);
	if (surplus.id)
		nng_pipe_close(surplus);
}

/* The number of connections, which leaves descriptors for other uses. */
static size_t
most_peers(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur / 4 * 3 > NET_MAX_PEERS)
		return NET_MAX_PEERS;
	return files.rlim_cur / 4 * 3;
}

/* Answer a request that did not become a call. */
static void
refuse(struct slot *slot, const struct err *err)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	unsigned char out[1024];

	wire_reply_failure(&reply, err);
	slot_send(slot, out, gpu_sim__reply__pack(&reply, out));
}

/* Ask the cache about a request; lock held. *again: the packed answer of a request that has run. */
static struct err
judge(struct rpc_server *s, struct server_call *call, bool *is_new, struct buf *again)
{
	struct err err = {0};
	void *known = call;
	const void *answer;
	size_t nbytes;
	struct slot *asked = call->slot;

	if (pending_check(call, &err) != RC_OK)
		return err;
	switch (replycache_ask(s->cache, call->call.req->clientid, call->call.req->seq, &known,
			       &answer, &nbytes)) {
	case REPLYCACHE_NEW:
		s->ncalls++;
		pending_add(call);
		*is_new = true;
		break;
	case REPLYCACHE_RUNNING:
		call->slot = ((struct server_call *)known)->slot;
		((struct server_call *)known)->slot = asked;
		tell_back(s, call->call.req->clientid);
		break;
	case REPLYCACHE_DONE:
		tell_back(s, call->call.req->clientid);
		if (!buf_add(again, answer, nbytes))
			err_set(&err, RC_NOMEM, "out of memory");
		break;
	case REPLYCACHE_STALE:
		err_set(&err, RC_BADDATA,
			"request %llu is too old to be distinguished from a repetition",
			(unsigned long long)call->call.req->seq);
		break;
	case REPLYCACHE_FULL:
		err_set(&err, RC_BUSY, "too many pending requests");
		break;
	}
	return err;
}

/* Handle one message: it becomes a call, or is answered at once. */
static void
take_message(struct rpc_server *s, struct slot *slot, nng_msg *msg)
{
	struct server_call *call = calloc(1, sizeof *call);
	struct buf again = {0};
	struct err err = {0};
	bool is_new = false;
	uint64_t client_id;
	struct peer *p;
	int pipe = nng_pipe_id(nng_msg_get_pipe(msg));

	slot->pipe = pipe;
	if (!call)
		err_set(&err, RC_NOMEM, "out of memory");
	else
		wire_request_unpack_sized(nng_msg_body(msg), nng_msg_len(msg), &call->call.req,
					  &call->taken, &err);
	nng_msg_free(msg);
	if (err.rc != RC_OK) {
		free(call);
		refuse(slot, &err);
		return;
	}
	call->call.answer = answer_call;
	call->server = s;
	call->slot = slot;
	call->pipe = pipe;
	call->call.deadline_ns = deadline_in_ms(call->call.req->timeoutms);
	client_id = call->call.req->clientid;
	pthread_mutex_lock(&s->lock);
	p = peer_find(s, pipe);
	if (p) {
		p->client_id = client_id;
		p->heard_ns = clock_now_ns();
	}
	err = judge(s, call, &is_new, &again);
	pthread_mutex_unlock(&s->lock);
	if (is_new) {
		s->handler.call(s->handler.arg, &call->call);
	} else {
		if (err.rc != RC_OK)
			refuse(call->slot, &err);
		else if (again.len)
			slot_send(call->slot, again.data, again.len);
		else
			slot_release(call->slot);
		call_free(call);
	}
	buf_fini(&again);
	/* The client may have disconnected before this message, or before the handler saw it: then it
	 * disconnects after. */
	pthread_mutex_lock(&s->lock);
	if (!peer_find(s, pipe) && !client_connected(s, client_id))
		tell_gone(s, client_id);
	pthread_mutex_unlock(&s->lock);
}

/* Register the receiving slot, so that stopping can end it; false: stopping. */
static bool
receiving(struct rpc_server *s, struct slot *slot)
{
	bool go;

	pthread_mutex_lock(&s->lock);
	go = !s->stopping;
	s->receiving = slot;
	pthread_mutex_unlock(&s->lock);
	return go;
}

/* Receive one message and handle it; false: the end. */
static bool
serve_one(struct rpc_server *s, struct slot *slot)
{
	int rv = NNG_ECANCELED;

	if (receiving(s, slot)) {
		nng_ctx_recv(slot->ctx, slot->aio);
		nng_aio_wait(slot->aio);
		rv = nng_aio_result(slot->aio);
	}
	receiving(s, NULL);
	if (rv == 0)
		take_message(s, slot, nng_aio_get_msg(slot->aio));
	else
		slot_release(slot);
	return rv != NNG_ECLOSED && rv != NNG_ECANCELED;
}

static void *
serve(void *arg)
{
	const struct timespec pause = {.tv_nsec = 10 * NS_PER_MS};
	struct rpc_server *s = arg;
	bool go = true;

	while (go) {
		struct slot *slot = slot_take(s);

		if (slot)
			go = serve_one(s, slot);
		else
			nanosleep(&pause, NULL); /* for memory */
	}
	return NULL;
}

enum rc
rpc_server_start(const char *addr, const struct rpc_handler *h, struct rpc_server **out,
		 struct err *err)
{
	struct rpc_server *s = calloc(1, sizeof *s);
	enum rc rc;
	int rv;

	if (!s || !(s->cache = replycache_new())) {
		free(s);
		return err_set(err, RC_NOMEM, "%s: out of memory", addr);
	}
	s->handler = *h;
	s->most_peers = most_peers();
	pthread_mutex_init(&s->lock, NULL);
	rv = nng_rep0_open(&s->sock);
	if (rv != 0) {
		rc = err_set(err, RC_FAILED, "%s: %s", addr, nng_strerror(rv));
		goto out;
	}
	rc = listener_open(s->sock, addr, WIRE_CONTROL_MAX, on_peer, s, &s->listener, err);
	if (rc != RC_OK)
		goto close;
	rv = pthread_create(&s->thread, NULL, serve, s);
	if (rv != 0) {
		rc = err_set(err, RC_FAILED, "%s: %s", addr, strerror(rv));
		listener_stop(s->listener);
		goto close;
	}
	*out = s;
	return RC_OK;
close:
	nng_close(s->sock);
	listener_free(s->listener);
out:
	server_free(s);
	return rc;
}

/* nng has released the socket: no callback runs any more. */
static void
closed(void *arg)
{
	struct rpc_server *s = arg;
	bool last;

	listener_free(s->listener);
	pthread_mutex_lock(&s->lock);
	s->closed = true;
	last = s->ncalls == 0;
	pthread_mutex_unlock(&s->lock);
	if (last)
		server_free(s);
}

void
rpc_server_stop(struct rpc_server *s)
{
	struct slot *slot;

	if (!s)
		return;
	listener_stop(s->listener);
	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	slot = s->receiving;
	pthread_mutex_unlock(&s->lock);
	if (slot)
		nng_aio_stop(slot->aio);
	pthread_join(s->thread, NULL);
	closing_start(s->sock, NULL, closed, s, NET_CLOSE_MS);
}
