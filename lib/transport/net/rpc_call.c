/*
 * Design notes. One nng_ctx per call; calls are reused, because nng may hang when a context closes while
 * an answer arrives. A call has one aio, whose callback (on nng's threads) walks it through send,
 * receive, done. REQ's own resending is off: when a connection breaks, we send the call again under the
 * same sequence number, until its deadline or until the peer has been away for NET_CONNECT_MS. An
 * operation is started under the client's lock, so that either closing finds and aborts it, or it finds
 * the closing. The caller's callback runs without the lock, exactly once.
 */
#include <inttypes.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/rpc_client_impl.h"
#include "net/times.h"

#define ENVELOPE_ROOM 64 /* the envelope's own fields, packed, and nng's header */

static void step_send(struct call *call);

/* Lock held. When a call without a connection gives up; UINT64_MAX: there is a connection. */
static uint64_t
away_until_locked(const struct call *call)
{
	const struct rpc_client *c = call->client;
	uint64_t t = c->away_since + c->away_ms * NS_PER_MS;

	if (c->pipe)
		return UINT64_MAX;
	return t > call->grace_ns && !c->nobody_ns ? t : call->grace_ns;
}

static uint64_t
away_until(const struct call *call)
{
	uint64_t t;

	pthread_mutex_lock(&call->client->lock);
	t = away_until_locked(call);
	pthread_mutex_unlock(&call->client->lock);
	return t;
}

/* Finish the call and keep its context for the next one. */
static void
finish(struct call *call, enum rc rc, GpuSim__Reply *reply, const char *text)
{
	struct rpc_client *c = call->client;
	struct call **at;

	call->done(call->arg, rc, reply, text);
	pthread_mutex_lock(&c->lock);
	for (at = &c->running; *at != call; at = &(*at)->next)
		;
	*at = call->next;
	call->next = c->free;
	c->free = call;
	if (!c->running)
		pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void
fail(struct call *call, enum rc rc)
{
	struct rpc_client *c = call->client;
	char text[NET_ADDR_MAX + 64];
	uint64_t nobody_ns;

	pthread_mutex_lock(&c->lock);
	nobody_ns = rc == RC_UNREACHABLE ? c->nobody_ns : 0;
	pthread_mutex_unlock(&c->lock);
	if (nobody_ns && c->tell)
		c->tell(c->tell_arg, nobody_ns);
	snprintf(text, sizeof text, "%s: %s", c->addr,
		 nobody_ns		? "nothing listens there"
		 : rc == RC_UNREACHABLE ? "no answer from there"
		 : rc == RC_TIMEOUT	? "no answer in time"
		 : rc == RC_NOMEM	? "out of memory"
					: "closed");
	finish(call, rc, NULL, text);
}

/* nng returned rv: try again, or give up with the matching reason. */
static void
again_or_fail(struct call *call, int rv)
{
	uint64_t now = clock_now_ns(), until = away_until(call);

	if (rv == NNG_ECLOSED || rv == NNG_ECANCELED)
		fail(call, RC_ABORTED);
	else if (rv == NNG_ENOMEM)
		fail(call, RC_NOMEM);
	else if (now >= until)
		fail(call, RC_UNREACHABLE);
	else if (now >= call->deadline_ns)
		fail(call, until == UINT64_MAX ? RC_TIMEOUT : RC_UNREACHABLE);
	else
		step_send(call);
}

/* Note the connection of the call; lock held. nng does not say: it is the one that existed when sending
 * began, or the one that came since. If several came since, it is unknown, so that a later connection
 * does not end with this call. */
static void
note_pipe(struct call *call, enum call_phase phase)
{
	const struct rpc_client *c = call->client;

	if (phase == CALL_SENDING) {
		call->ncame0 = c->ncame;
		call->pipe = c->pipe;
	} else if (c->ncame != call->ncame0) {
		call->pipe = call->pipe == 0 && c->ncame == call->ncame0 + 1 ? c->pipe : 0;
	}
}

/* Start the aio for a phase, unless the client is closing, after which nothing aborts it. */
static bool
begin(struct call *call, enum call_phase phase, uint64_t until, nng_msg *msg)
{
	struct rpc_client *c = call->client;
	uint64_t away;
	bool closing;

	pthread_mutex_lock(&c->lock);
	closing = c->closing;
	/* Sending waits only for a connection, so it ends when the peer has been away for too long. */
	away = away_until_locked(call);
	if (phase == CALL_SENDING && away == UINT64_MAX)
		away = deadline_in_ms(c->away_ms);
	if (phase == CALL_SENDING && away < until)
		until = away;
	/* Check the dialer regularly (client_redial). */
	away = deadline_in_ms(client_stale_ms(c));
	if (phase == CALL_SENDING && away < until)
		until = away;
	if (!closing) {
		call->phase = phase;
		note_pipe(call, phase);
		nng_aio_set_msg(call->aio, msg);
		nng_aio_set_timeout(call->aio, deadline_left_ms(until));
		if (phase == CALL_SENDING)
			nng_ctx_send(call->ctx, call->aio);
		else
			nng_ctx_recv(call->ctx, call->aio);
	}
	pthread_mutex_unlock(&c->lock);
	if (closing)
		fail(call, RC_ABORTED);
	return !closing;
}

static void
step_done(struct call *call)
{
	nng_msg *msg = nng_aio_get_msg(call->aio);
	GpuSim__Reply *reply = NULL;
	struct err err = {0};
	enum rc rc;

	rc = wire_reply_unpack(nng_msg_body(msg), nng_msg_len(msg), &reply, &err);
	nng_msg_free(msg);
	if (rc != RC_OK)
		err_prefix(&err, "%s", call->client->addr);
	finish(call, rc, reply, err.text);
}

static void
on_aio(void *arg)
{
	struct call *call = arg;
	int rv = nng_aio_result(call->aio);

	if (call->phase == CALL_SENDING && rv != 0) {
		/* When sending fails, the message is still ours. */
		nng_msg_free(nng_aio_get_msg(call->aio));
		nng_aio_set_msg(call->aio, NULL);
	}
	if (rv == NNG_ECONNRESET)
		client_lost(call->client, call->pipe);
	if (rv != 0)
		again_or_fail(call, rv);
	else if (call->phase == CALL_SENDING)
		begin(call, CALL_RECEIVING, call->deadline_ns, NULL);
	else
		step_done(call);
}

/* Append our fields to a packed request. */
static bool
call_envelope(struct buf *b, const struct rpc_client *c, uint64_t seq, uint64_t deadline_ns)
{
	GpuSim__Request env = GPU_SIM__REQUEST__INIT;
	unsigned char out[ENVELOPE_ROOM];

	env.clientid = c->client_id;
	env.seq = seq;
	env.timeoutms = (uint32_t)deadline_left_ms(deadline_ns);
	env.version = WIRE_VERSION;
	return buf_add(b, out, gpu_sim__request__pack(&env, out));
}

static void
step_send(struct call *call)
{
	nng_msg *msg;
	int rv = nng_msg_alloc(&msg, 0);

	client_redial(call->client);
	if (rv == 0 && (rv = nng_msg_append(msg, call->body.data, call->body.len)) != 0)
		nng_msg_free(msg);
	if (rv != 0) {
		fail(call, RC_NOMEM);
		return;
	}
	if (!begin(call, CALL_SENDING, call->deadline_ns, msg))
		nng_msg_free(msg);
}

static struct call *
call_new(struct rpc_client *c)
{
	struct call *call = calloc(1, sizeof *call);

	if (!call)
		return NULL;
	call->client = c;
	if (nng_ctx_open(&call->ctx, c->sock) != 0) {
		free(call);
		return NULL;
	}
	if (nng_aio_alloc(&call->aio, on_aio, call) != 0) {
		nng_ctx_close(call->ctx);
		free(call);
		return NULL;
	}
	nng_ctx_set_ms(call->ctx, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
	return call;
}

static uint64_t
next_seq(struct rpc_client *c)
{
	uint64_t seq;

	pthread_mutex_lock(&c->lock);
	seq = ++c->seq;
	pthread_mutex_unlock(&c->lock);
	return seq;
}

/* Start a call with a complete request, whose memory it takes. */
static enum rc
start(struct rpc_client *c, struct buf *request, uint64_t deadline_ns, rpc_done_fn done, void *arg,
      struct err *err)
{
	enum rc rc = client_open_nng(c, err);
	struct call *call;

	if (rc != RC_OK)
		return rc;
	pthread_mutex_lock(&c->lock);
	call = c->free;
	if (call)
		c->free = call->next;
	pthread_mutex_unlock(&c->lock);
	if (!call)
		call = call_new(c);
	if (!call)
		return err_set(err, RC_NOMEM, "%s: out of memory", c->addr);
	call->deadline_ns = deadline_ns;
	call->grace_ns = deadline_in_ms(NET_RETURN_MS);
	call->done = done;
	call->arg = arg;
	buf_fini(&call->body);
	call->body = *request;
	*request = (struct buf){0};
	pthread_mutex_lock(&c->lock);
	call->next = c->running;
	c->running = call;
	pthread_mutex_unlock(&c->lock);
	step_send(call);
	return RC_OK;
}

enum rc
rpc_call_packed(struct rpc_client *c, const void *body, size_t nbytes, uint64_t deadline_ns,
		rpc_done_fn done, void *arg, struct err *err)
{
	struct buf b = {0};
	enum rc rc;

	if (nbytes > WIRE_CONTROL_MAX - ENVELOPE_ROOM)
		return err_set(err, RC_INVAL, "request of %zu bytes: the limit is %u", nbytes,
			       WIRE_CONTROL_MAX - ENVELOPE_ROOM);
	if (!buf_reserve(&b, nbytes + ENVELOPE_ROOM) || !buf_add(&b, body, nbytes) ||
	    !call_envelope(&b, c, next_seq(c), deadline_ns))
		rc = err_set(err, RC_NOMEM, "%s: out of memory", c->addr);
	else
		rc = start(c, &b, deadline_ns, done, arg, err);
	buf_fini(&b);
	return rc;
}

/* A request, packed and numbered. */
static enum rc
pack(struct rpc_client *c, const GpuSim__Request *req, uint64_t deadline_ns, struct buf *b,
     struct err *err)
{
	GpuSim__Request bare = *req;
	size_t n;

	bare.clientid = bare.seq = 0;
	bare.timeoutms = bare.version = 0;
	n = gpu_sim__request__get_packed_size(&bare);
	if (n > WIRE_CONTROL_MAX - ENVELOPE_ROOM)
		return err_set(err, RC_INVAL, "request of %zu bytes: the limit is %u", n,
			       WIRE_CONTROL_MAX - ENVELOPE_ROOM);
	if (!buf_reserve(b, n + ENVELOPE_ROOM))
		return err_set(err, RC_NOMEM, "%s: out of memory", c->addr);
	gpu_sim__request__pack(&bare, (uint8_t *)b->data);
	b->len = n;
	return call_envelope(b, c, next_seq(c), deadline_ns)
		   ? RC_OK
		   : err_set(err, RC_NOMEM, "%s: out of memory", c->addr);
}

enum rc
rpc_call_start(struct rpc_client *c, const GpuSim__Request *req, uint64_t deadline_ns,
	       rpc_done_fn done, void *arg, struct err *err)
{
	struct buf b = {0};
	enum rc rc = pack(c, req, deadline_ns, &b, err);

	if (rc == RC_OK)
		rc = start(c, &b, deadline_ns, done, arg, err);
	buf_fini(&b);
	return rc;
}

struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool ended;
	GpuSim__Reply *reply;
	struct err err;
};

static void
wake(void *arg, enum rc rc, GpuSim__Reply *reply, const char *text)
{
	struct waiting *w = arg;

	pthread_mutex_lock(&w->lock);
	w->reply = reply;
	if (rc != RC_OK)
		err_set(&w->err, rc, "%s", text);
	else
		wire_reply_rc(reply, &w->err);
	w->ended = true;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

/* Call by nng. */
static enum rc
call_and_wait(struct rpc_client *c, struct buf *request, uint64_t deadline_ns, GpuSim__Reply **out,
	      struct err *err)
{
	struct waiting w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
	enum rc rc = start(c, request, deadline_ns, wake, &w, err);

	if (rc != RC_OK)
		return rc;
	pthread_mutex_lock(&w.lock);
	while (!w.ended) /* the call ends by its deadline */
		pthread_cond_wait(&w.cond, &w.lock);
	pthread_mutex_unlock(&w.lock);
	if (w.err.rc != RC_OK) {
		wire_reply_free(w.reply);
		return err_set(err, w.err.rc, "%s", w.err.text);
	}
	*out = w.reply;
	return RC_OK;
}

enum rc
rpc_call(struct rpc_client *c, const GpuSim__Request *req, uint64_t deadline_ns,
	 GpuSim__Reply **out, struct err *err)
{
	struct buf b = {0};
	enum rc rc = pack(c, req, deadline_ns, &b, err);

	if (rc == RC_OK && !plain_call(c, &b, deadline_ns, out, &rc, err))
		rc = call_and_wait(c, &b, deadline_ns, out, err);
	buf_fini(&b);
	return rc;
}

enum rc
rpc_read_recorder(struct rpc_client *c, uint64_t offset, void *dst, size_t n, uint32_t each_ms,
		  uint64_t deadline_ns, struct err *err)
{
	GpuSim__RecorderReadRequest m = GPU_SIM__RECORDER_READ_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(RECORDER_READ, recorderread, m);
	enum rc rc = RC_OK;
	char *to = dst;

	for (; n && rc == RC_OK; to += m.nbytes, offset += m.nbytes, n -= m.nbytes) {
		uint64_t soon = deadline_in_ms(each_ms);
		GpuSim__Reply *reply;

		m.offset = offset;
		m.nbytes = n < WIRE_BULK_MAX ? (uint32_t)n : WIRE_BULK_MAX;
		rc = rpc_call(c, &req, soon < deadline_ns ? soon : deadline_ns, &reply, err);
		if (rc != RC_OK)
			break;
		if (reply->body_case == GPU_SIM__REPLY__BODY_READ &&
		    reply->read->data.len == m.nbytes)
			memcpy(to, reply->read->data.data, m.nbytes);
		else
			rc = err_set(err, RC_BADDATA, "%s: the recorder ends before byte %" PRIu64,
				     c->addr, offset + m.nbytes);
		wire_reply_free(reply);
	}
	return rc;
}
