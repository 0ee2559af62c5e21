/*
 * Design notes. One REQ socket a server; the calls are in rpc_call.c. `lock` guards the lists of
 * calls and what is known of the connection. A connection that was up and closes is replaced by us,
 * with a new dialer, and not by nng: that would do it from the thread that clears connections away,
 * which may hang (closing.h). Its end is learnt from nng's event or from a call that it broke,
 * whichever comes first.
 *
 * Closing: abort the calls; when answers are owed that may come at any moment, say goodbye (an
 * empty message) and let the server close the connection; then close the socket, on a thread of its
 * own.
 */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/closing.h"
#include "net/rpc_client_impl.h"
#include "net/tls.h"

static int
make_dialer(struct rpc_client *c, nng_dialer *out)
{
	int rv = nng_dialer_create(out, c->sock, c->addr);

	if (rv == 0 && (rv = tls_dialer(*out, c->addr)) != 0)
		nng_dialer_close(*out);
	return rv;
}

/* A dialer that keeps trying; lock not held, dialing claimed by the caller. */
static void
start_dialing(struct rpc_client *c)
{
	nng_dialer d;
	int rv = make_dialer(c, &d);

	pthread_mutex_lock(&c->lock);
	c->dialing = rv == 0;
	if (rv == 0)
		c->dialer = d;
	pthread_mutex_unlock(&c->lock);
	if (rv == 0)
		nng_dialer_start(d, NNG_FLAG_NONBLOCK);
}

void
client_redial(struct rpc_client *c)
{
	bool missing;

	pthread_mutex_lock(&c->lock);
	missing = !c->dialing && !c->closing;
	c->dialing |= missing;
	pthread_mutex_unlock(&c->lock);
	if (missing)
		start_dialing(c);
}

void
client_lost(struct rpc_client *c, int pipe)
{
	nng_dialer old;
	bool mine;

	pthread_mutex_lock(&c->lock);
	mine = pipe != 0 && c->pipe == pipe;
	old = c->dialer;
	if (mine) {
		c->pipe = 0;
		c->pipe_gone = pipe;
		c->away_since = clock_now_ns();
		c->dialing = false;
		pthread_cond_broadcast(&c->changed);
	}
	pthread_mutex_unlock(&c->lock);
	if (!mine)
		return;
	nng_dialer_close(old);
	client_redial(c);
}

/* A connection's last event may overtake its first, so each is judged by the pipe's number. */
static void
on_pipe(nng_pipe p, nng_pipe_ev ev, void *arg)
{
	struct rpc_client *c = arg;
	int id = nng_pipe_id(p);

	if (ev == NNG_PIPE_EV_REM_POST)
		client_lost(c, id);
	pthread_mutex_lock(&c->lock);
	c->ncame += ev == NNG_PIPE_EV_ADD_POST;
	if (ev == NNG_PIPE_EV_REM_POST)
		c->pipe_gone = id;
	else if (id != c->pipe_gone)
		c->pipe = id;
	pthread_mutex_unlock(&c->lock);
}

/* The dialer of a client that has waited long enough. */
struct patience {
	nng_aio *timer;
	nng_dialer dialer;
	bool over;
};

static void
on_patience(void *arg)
{
	struct patience *p = arg;

	if (nng_aio_result(p->timer) != 0)
		return;
	p->over = true;
	nng_dialer_close(p->dialer);
}

/* Connect now, in bounded time: nng alone would wait for the kernel, or 10 s for a handshake. */
static int
dial(struct rpc_client *c)
{
	struct patience p = {.dialer = c->dialer};
	int rv = nng_aio_alloc(&p.timer, on_patience, &p);

	if (rv != 0)
		return rv;
	nng_sleep_aio(NET_CONNECT_MS, p.timer);
	rv = nng_dialer_start(c->dialer, 0);
	nng_aio_cancel(p.timer);
	nng_aio_free(p.timer);
	return p.over ? NNG_ETIMEDOUT : rv;
}

/* The limit and the resending must be set (README.md); the rest is for the better. */
static int
set_options(struct rpc_client *c)
{
	int rv = nng_setopt_size(c->sock, NNG_OPT_RECVMAXSZ, WIRE_CONTROL_MAX);

	if (rv == 0)
		rv = nng_setopt_ms(c->sock, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
	if (rv == 0)
		rv = nng_pipe_notify(c->sock, NNG_PIPE_EV_ADD_POST, on_pipe, c);
	if (rv == 0)
		rv = nng_pipe_notify(c->sock, NNG_PIPE_EV_REM_POST, on_pipe, c);
	nng_setopt_ms(c->sock, NNG_OPT_RECONNMINT, 10);
	nng_setopt_ms(c->sock, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS);
	nng_setopt_bool(c->sock, NNG_OPT_TCP_KEEPALIVE, true);
	return rv;
}

enum rc
rpc_client_open(const char *addr, enum rpc_connect how, struct rpc_client **out, struct err *err)
{
	struct rpc_client *c;
	enum rc rc = net_addr_check(addr, NET_ANY_HOST, err);
	int rv;

	if (rc != RC_OK)
		return rc;
	c = calloc(1, sizeof *c);
	if (!c)
		return err_set(err, RC_NOMEM, "%s: out of memory", addr);
	snprintf(c->addr, sizeof c->addr, "%s", addr);
	c->client_id = net_random();
	c->away_since = clock_now_ns();
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	rv = nng_req0_open(&c->sock);
	if (rv != 0) {
		rc = err_set(err, RC_FAILED, "%s: %s", addr, nng_strerror(rv));
		goto out;
	}
	rv = set_options(c);
	if (rv == 0)
		rv = make_dialer(c, &c->dialer);
	c->dialing = rv == 0;
	if (rv != 0) {
		rc = err_set(err, RC_FAILED, "%s: %s", addr, nng_strerror(rv));
		goto close;
	}
	rv = how == RPC_CONNECT_NOW ? dial(c) : nng_dialer_start(c->dialer, NNG_FLAG_NONBLOCK);
	if (rv != 0) {
		rc = err_set(err, RC_UNREACHABLE, "%s: nobody answers there (%s)", addr,
			     nng_strerror(rv));
		goto close;
	}
	*out = c;
	return RC_OK;
close:
	nng_close(c->sock);
out:
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
	return rc;
}

/*
 * Free the calls before their contexts go with the socket: nng's timer thread may still be about to
 * cancel in one what has ended, and only nng_aio_free waits for that. Then have the server close
 * the connection if that is not quiet.
 */
static bool
quiet_down(void *arg)
{
	struct rpc_client *c = arg;
	struct timespec ts = deadline_timespec(deadline_in_ms(CLOSING_WAIT_MS));
	struct call *call;
	nng_msg *msg = NULL;
	bool quiet;

	while ((call = c->free)) {
		c->free = call->next;
		call_free(call);
	}
	pthread_mutex_lock(&c->lock);
	quiet = c->pipe == 0 || c->pipe != c->pipe_owing;
	pthread_mutex_unlock(&c->lock);
	if (quiet)
		return true;
	if (nng_msg_alloc(&msg, 0) != 0 || nng_sendmsg(c->sock, msg, NNG_FLAG_NONBLOCK) != 0)
		nng_msg_free(msg);
	pthread_mutex_lock(&c->lock);
	while (c->pipe != 0 &&
	       pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &ts) == 0)
		;
	quiet = c->pipe == 0;
	pthread_mutex_unlock(&c->lock);
	return quiet;
}

static void
client_free(void *arg)
{
	struct rpc_client *c = arg;

	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

void
rpc_client_close(struct rpc_client *c)
{
	struct call *call;
	bool owing;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->closing = true;
	for (call = c->running; call; call = call->next)
		nng_aio_abort(call->aio, NNG_ECANCELED);
	while (c->running)
		pthread_cond_wait(&c->changed, &c->lock);
	owing = c->pipe != 0 && c->pipe == c->pipe_owing;
	pthread_mutex_unlock(&c->lock);
	closing_start(c->sock, quiet_down, client_free, c, owing ? 0 : CLOSING_WAIT_MS);
}
