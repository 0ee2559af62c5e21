/*
 * Design notes. One REQ socket per server, opened when needed; the calls are in rpc_call.c. `lock` guards
 * the lists of calls and the state of the connection. When a connection closes, we replace it with a new
 * dialer, not nng: nng would do it from the thread that reaps connections, which may hang (closing.h). We
 * learn of the end from nng's event or from a broken call, whichever comes first.
 *
 * nng_dialer_close waits for work that nng runs on a few threads, and nng_close miscounts a dialer that is
 * being closed. So a thread of ours, a redialer, closes a dialer that may be dialing: never one of nng's
 * threads, nor under a lock that a callback takes; and closing a client waits for its redialers first. If a
 * dialer is closed while another thread starts it, that thread hangs: so the thread that started it closes it.
 *
 * A redialer closes the dialer of a lost connection, and lets nng dial again in the background. nng does
 * not say why such a dial fails; so the redialer of a watching client dials itself, until it has a
 * connection or knows that nothing listens. Each try has its own dialer.
 *
 * A restarting server is away for tens of milliseconds. So refusals count when they have lasted, and on
 * ipc only while the lock beside the path is free.
 *
 * Closing: abort the calls. Then, on a separate thread: let the redialers end, and close the socket.
 */
#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/closing.h"
#include "net/ipcpath.h"
#include "net/rpc_client_impl.h"
#include "net/times.h"
#include "net/tls.h"

/* ---- dialers */

/* A dialer for the client's address, not started. */
static int
make_dialer(struct rpc_client *c, nng_dialer *out)
{
	int rv = nng_dialer_create(out, c->sock, c->addr);

	if (rv == 0 && (rv = tls_dialer(*out, c->addr)) != 0)
		nng_dialer_close(*out);
	return rv;
}

/* A time limit on a dial: at its end a thread closes the dialer. */
struct dial_timer {
	nng_aio *timer;
	nng_dialer dialer;
	pthread_t closer;
	bool over;
};

static void *
closer_main(void *arg)
{
	struct dial_timer *p = arg;

	nng_dialer_close(p->dialer);
	return NULL;
}

/* On a thread of nng's, which must not wait for another one. */
static void
on_dial_timer(void *arg)
{
	struct dial_timer *p = arg;

	if (nng_aio_result(p->timer) == 0)
		p->over = pthread_create(&p->closer, NULL, closer_main, p) == 0;
}

/* Connect by this dialer within the time, else close it. nng alone would wait for the kernel, or 10 s for a
 * handshake. */
static int
dial_by(nng_dialer d, int within_ms)
{
	struct dial_timer p = {.dialer = d};
	int rv = nng_aio_alloc(&p.timer, on_dial_timer, &p);

	if (rv != 0)
		return rv;
	nng_sleep_aio(within_ms, p.timer);
	rv = nng_dialer_start(d, 0);
	nng_aio_cancel(p.timer);
	nng_aio_free(p.timer);
	if (p.over)
		pthread_join(p.closer, NULL);
	return p.over ? NNG_ETIMEDOUT : rv;
}

/* ---- redialers */

/* One try. False: the client is being closed, or the connection was made and lost again, which another
 * redialer handles. */
static bool
dial_once(struct rpc_client *c, int *rv)
{
	nng_dialer d;
	bool ours;

	*rv = make_dialer(c, &d);
	if (*rv != 0)
		return true;
	pthread_mutex_lock(&c->lock);
	ours = !c->closing;
	if (ours)
		c->dialer = d;
	pthread_mutex_unlock(&c->lock);
	if (ours)
		*rv = dial_by(d, NET_CONNECT_MS);
	pthread_mutex_lock(&c->lock);
	ours = !c->closing && nng_dialer_id(c->dialer) == nng_dialer_id(d);
	pthread_mutex_unlock(&c->lock);
	if (*rv != 0 || !ours)
		nng_dialer_close(d);
	return ours;
}

/* Call without the lock. False: the client is being closed. */
static bool
pause_between(struct rpc_client *c)
{
	struct timespec ts = deadline_timespec(deadline_in_ms(NET_RETRY_MS));
	bool closing;

	pthread_mutex_lock(&c->lock);
	while (!c->closing &&
	       pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &ts) == 0)
		;
	closing = c->closing;
	pthread_mutex_unlock(&c->lock);
	return !closing;
}

enum found { FOUND_SERVER, FOUND_NOBODY, FOUND_NOTHING, FOUND_NOT_OURS };

/* While its process ends, a socket may still accept a connection and cut it off, so only refusals count.
 * *seen_ns: when the last one was dialed. */
static enum found
find_out(struct rpc_client *c, uint64_t *seen_ns)
{
	uint64_t start = clock_now_ns(), refused = 0, now;
	int rv;

	for (;;) {
		*seen_ns = clock_now_ns();
		if (!dial_once(c, &rv))
			return FOUND_NOT_OURS;
		if (rv == 0)
			return FOUND_SERVER;
		now = clock_now_ns();
		if (rv != NNG_ECONNREFUSED)
			refused = 0;
		else if (!refused)
			refused = now;
		if (refused && now - refused >= NET_REFUSED_MS * NS_PER_MS &&
		    !ipcpath_held(c->addr))
			return FOUND_NOBODY;
		if (now - start >= NET_CONNECT_MS * NS_PER_MS)
			return FOUND_NOTHING;
		if (!pause_between(c))
			return FOUND_NOT_OURS;
	}
}

static void
nobody_listens(struct rpc_client *c, uint64_t seen_ns)
{
	bool tell;

	pthread_mutex_lock(&c->lock);
	c->nobody_ns = seen_ns;
	tell = !c->closing && c->tell;
	c->telling = tell;
	pthread_mutex_unlock(&c->lock);
	if (tell)
		c->tell(c->tell_arg, seen_ns);
	pthread_mutex_lock(&c->lock);
	c->telling = false;
	pthread_cond_broadcast(&c->changed);
	/* End the calls that wait for a connection. */
	for (struct call *call = c->nobody_ns ? c->running : NULL; call; call = call->next) {
		call->grace_ns = 0;
		if (call->phase == CALL_SENDING)
			nng_aio_abort(call->aio, NNG_ECONNREFUSED);
	}
	pthread_mutex_unlock(&c->lock);
}

/* Use a dialer of nng's, which keeps trying. */
static void
dial_later(struct rpc_client *c)
{
	nng_dialer d;
	int rv = make_dialer(c, &d);

	pthread_mutex_lock(&c->lock);
	c->dialing = rv == 0;
	c->later_since = clock_now_ns();
	if (rv == 0)
		c->dialer = d;
	pthread_mutex_unlock(&c->lock);
	if (rv == 0)
		nng_dialer_start(d, NNG_FLAG_NONBLOCK);
}

static bool
is_closing(struct rpc_client *c)
{
	bool closing;

	pthread_mutex_lock(&c->lock);
	closing = c->closing;
	pthread_mutex_unlock(&c->lock);
	return closing;
}

/* A redialer ends; lock not held. The client may be freed after that. */
static void
end_redialer(struct rpc_client *c)
{
	pthread_mutex_lock(&c->lock);
	c->redialers--;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void
redial(struct rpc_client *c, nng_dialer old, bool first_find_out)
{
	enum found found = FOUND_NOTHING;
	uint64_t seen_ns;

	if (nng_dialer_id(old) > 0)
		nng_dialer_close(old);
	if (first_find_out && !is_closing(c))
		found = find_out(c, &seen_ns);
	if (found == FOUND_NOBODY)
		nobody_listens(c, seen_ns);
	if ((found == FOUND_NOBODY || found == FOUND_NOTHING) && !is_closing(c))
		dial_later(c);
	end_redialer(c);
}

struct redialer {
	struct rpc_client *client;
	nng_dialer old;
	bool find_out;
};

static void *
redialer_main(void *arg)
{
	struct redialer r = *(struct redialer *)arg;

	free(arg);
	redial(r.client, r.old, r.find_out);
	return NULL;
}

/* Start a thread that closes the dialer `old`, if any, and dials again; for a watching client with
 * find_out, it first checks that something listens. Lock not held; the caller has claimed dialing, and
 * counted the thread in redialers. */
static void
start_redialer(struct rpc_client *c, nng_dialer old, bool find_out)
{
	struct redialer *r = malloc(sizeof *r);
	pthread_attr_t attr;
	pthread_t thread;
	bool started = false;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (r) {
		*r = (struct redialer){c, old, find_out && c->watches};
		started = pthread_create(&thread, &attr, redialer_main, r) == 0;
	}
	pthread_attr_destroy(&attr);
	if (started)
		return;
	free(r);
	redial(c, old, false); /* no memory, or no thread: do what is possible now */
}

/* ---- the connection */

uint64_t
client_stale_ms(const struct rpc_client *c)
{
	return strncmp(c->addr, "tls", 3) == 0 ? NET_DIAL_STALE_TLS_MS : NET_DIAL_STALE_MS;
}

/* Lock held. There is no dialer, or nng's has timed out. If it reached a process that was about to end,
 * so that writing its handshake failed, nng counts it as closed and never tries again. */
static nng_dialer
take_stale(struct rpc_client *c)
{
	nng_dialer none = NNG_DIALER_INITIALIZER, old = c->dialer;

	if (c->closing || c->pipe || !c->later_since ||
	    clock_now_ns() - c->later_since < client_stale_ms(c) * NS_PER_MS)
		return none;
	c->dialer = none;
	c->later_since = 0;
	c->dialing = false;
	return old;
}

void
client_redial(struct rpc_client *c)
{
	nng_dialer stale;
	bool missing;

	pthread_mutex_lock(&c->lock);
	stale = take_stale(c);
	missing = !c->dialing && !c->closing;
	c->dialing |= missing;
	c->redialers += missing;
	pthread_mutex_unlock(&c->lock);
	if (missing)
		start_redialer(c, stale, nng_dialer_id(stale) <= 0);
}

/* Lock held. The connection is lost; the caller closes its dialer and makes another. */
static nng_dialer
forget_connection(struct rpc_client *c)
{
	nng_dialer old = c->dialer;

	c->pipe_gone = c->pipe;
	c->pipe = 0;
	c->dialer = (nng_dialer)NNG_DIALER_INITIALIZER;
	c->away_since = clock_now_ns();
	c->later_since = 0;
	c->dialing = true;
	pthread_cond_broadcast(&c->changed);
	return old;
}

void
client_lost(struct rpc_client *c, int pipe)
{
	nng_dialer old;
	bool mine;

	pthread_mutex_lock(&c->lock);
	mine = pipe != 0 && c->pipe == pipe;
	if (mine)
		old = forget_connection(c);
	c->redialers += mine;
	pthread_mutex_unlock(&c->lock);
	if (mine)
		start_redialer(c, old, true);
}

/* nng is about to replace the connection itself, and its dialer is idle, so closing it does not block. A
 * connection's last event may overtake its first: its dialer identifies it too. */
static void
on_gone(struct rpc_client *c, int id, nng_dialer d)
{
	nng_dialer none = NNG_DIALER_INITIALIZER;
	bool mine, shut;

	pthread_mutex_lock(&c->lock);
	if (c->pipe == 0 && nng_dialer_id(d) > 0 && nng_dialer_id(d) == nng_dialer_id(c->dialer))
		c->pipe = id;
	mine = c->pipe == id;
	if (mine)
		forget_connection(c);
	c->pipe_gone = id;
	shut = c->shut;
	c->redialers += !shut;
	pthread_mutex_unlock(&c->lock);
	if (shut)
		return;
	nng_dialer_close(d);
	if (mine)
		start_redialer(c, none, true);
	else
		end_redialer(c);
}

static void
on_pipe(nng_pipe p, nng_pipe_ev ev, void *arg)
{
	struct rpc_client *c = arg;
	int id = nng_pipe_id(p);

	if (ev == NNG_PIPE_EV_REM_POST) {
		on_gone(c, id, nng_pipe_dialer(p));
		return;
	}
	pthread_mutex_lock(&c->lock);
	c->ncame++;
	if (id != c->pipe_gone) {
		c->pipe = id;
		c->nobody_ns = 0;
	}
	pthread_mutex_unlock(&c->lock);
}

/* The limit and the resending must be set (README.md); the rest is optional. */
static int
set_options(struct rpc_client *c)
{
	int rv = nng_socket_set_size(c->sock, NNG_OPT_RECVMAXSZ, WIRE_CONTROL_MAX);

	if (rv == 0)
		rv = nng_socket_set_ms(c->sock, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
	if (rv == 0)
		rv = nng_pipe_notify(c->sock, NNG_PIPE_EV_ADD_POST, on_pipe, c);
	if (rv == 0)
		rv = nng_pipe_notify(c->sock, NNG_PIPE_EV_REM_POST, on_pipe, c);
	nng_socket_set_ms(c->sock, NNG_OPT_RECONNMINT, 10);
	nng_socket_set_ms(c->sock, NNG_OPT_RECONNMAXT, NET_RECONNECT_MAX_MS);
	nng_socket_set_bool(c->sock, NNG_OPT_TCP_KEEPALIVE, true);
	return rv;
}

static void
client_free(void *arg)
{
	struct rpc_client *c = arg;

	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

enum rc
client_open_nng(struct rpc_client *c, struct err *err)
{
	int rv = 0;

	pthread_mutex_lock(&c->lock);
	if (!c->opened) {
		rv = nng_req0_open(&c->sock);
		if (rv == 0 && (rv = set_options(c)) != 0)
			nng_close(c->sock);
		c->opened = rv == 0;
		c->away_since = clock_now_ns();
	}
	pthread_mutex_unlock(&c->lock);
	return rv == 0 ? RC_OK : err_set(err, RC_FAILED, "%s: %s", c->addr, nng_strerror(rv));
}

/* Make a client without a connection and without nng. */
static enum rc
client_new(const char *addr, struct rpc_client **out, struct err *err)
{
	enum rc rc = net_addr_check(addr, NET_ANY_HOST, err);
	struct rpc_client *c;

	if (rc != RC_OK)
		return rc;
	c = calloc(1, sizeof *c);
	if (!c)
		return err_set(err, RC_NOMEM, "%s: out of memory", addr);
	snprintf(c->addr, sizeof c->addr, "%s", addr);
	c->client_id = net_random();
	c->away_ms = NET_CONNECT_MS;
	c->away_since = clock_now_ns();
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	*out = c;
	return RC_OK;
}

/* Give it a dialer that has not been started. */
static enum rc
add_dialer(struct rpc_client *c, struct err *err)
{
	enum rc rc = client_open_nng(c, err);
	int rv;

	if (rc != RC_OK)
		return rc;
	rv = make_dialer(c, &c->dialer);
	c->dialing = rv == 0;
	return rv == 0 ? RC_OK : err_set(err, RC_FAILED, "%s: %s", c->addr, nng_strerror(rv));
}

/* nng does not distinguish a socket without a listener from a missing one. */
static enum rc
unreachable(const struct rpc_client *c, int rv, struct err *err)
{
	const char *path = strncmp(c->addr, "ipc://", 6) == 0 ? c->addr + 6 : NULL;

	if (path && access(path, F_OK) != 0 && errno == ENOENT)
		return err_set(err, RC_UNREACHABLE, "%s: no answer from there (%s does not exist)",
			       c->addr, path);
	return err_set(err, RC_UNREACHABLE, "%s: no answer from there (%s)", c->addr,
		       nng_strerror(rv));
}

static enum rc
open_by_nng(struct rpc_client *c, enum rpc_connect how, struct err *err)
{
	bool now = how != RPC_CONNECT_LATER;
	enum rc rc = add_dialer(c, err);
	int rv;

	if (rc != RC_OK)
		return rc;
	c->later_since = now ? 0 : clock_now_ns();
	rv = now ? dial_by(c->dialer, NET_CONNECT_MS)
		 : nng_dialer_start(c->dialer, NNG_FLAG_NONBLOCK);
	return rv == 0 ? RC_OK : unreachable(c, rv, err);
}

enum rc
rpc_client_open(const char *addr, enum rpc_connect how, struct rpc_client **out, struct err *err)
{
	struct rpc_client *c;
	enum rc rc = client_new(addr, &c, err);

	if (rc != RC_OK)
		return rc;
	if (how != RPC_CONNECT_TO_CALL || !plain_open(c, UINT64_MAX))
		rc = open_by_nng(c, how, err);
	if (rc == RC_OK)
		*out = c;
	else
		rpc_client_close(c);
	return rc;
}

/* One dial; if a listener exists and has not answered, another dial with the remaining time. nng does not
 * distinguish these two cases. */
static int
dial_within(struct rpc_client *c, uint64_t deadline_ns, bool *listens)
{
	int left = deadline_left_ms(deadline_ns);
	int rv = dial_by(c->dialer, left < NET_CONNECT_MS ? left : NET_CONNECT_MS);

	*listens = rv == NNG_ETIMEDOUT && net_listens(c->addr);
	left = deadline_left_ms(deadline_ns);
	if (!*listens || left == 0)
		return rv;
	rv = make_dialer(c, &c->dialer);
	if (rv == 0)
		rv = dial_by(c->dialer, left);
	*listens = rv == NNG_ETIMEDOUT;
	return rv;
}

static enum rc
connect_by_nng(struct rpc_client *c, uint64_t deadline_ns, struct err *err)
{
	enum rc rc = add_dialer(c, err);
	bool listens = false;
	int rv;

	if (rc != RC_OK)
		return rc;
	rv = dial_within(c, deadline_ns, &listens);
	if (rv == 0)
		return RC_OK;
	return listens ? err_set(err, RC_TIMEOUT, "%s: no answer in time", c->addr)
		       : unreachable(c, rv, err);
}

enum rc
rpc_client_connect(const char *addr, uint32_t timeout_ms, struct rpc_client **out, struct err *err)
{
	uint64_t deadline_ns = deadline_in_ms(timeout_ms);
	struct rpc_client *c;
	enum rc rc = client_new(addr, &c, err);

	if (rc != RC_OK)
		return rc;
	if (!plain_open(c, deadline_ns))
		rc = connect_by_nng(c, deadline_ns, err);
	if (rc == RC_OK)
		*out = c;
	else
		rpc_client_close(c);
	return rc;
}

void
rpc_client_set_away(struct rpc_client *c, uint32_t ms)
{
	pthread_mutex_lock(&c->lock);
	c->away_ms = ms;
	pthread_mutex_unlock(&c->lock);
}

enum rc
rpc_client_watch(const char *addr, void (*fn)(void *, uint64_t), void *arg, struct rpc_client **out,
		 struct err *err)
{
	struct rpc_client *c;
	enum rc rc = client_new(addr, &c, err);

	if (rc != RC_OK)
		return rc;
	rc = client_open_nng(c, err);
	if (rc != RC_OK) {
		rpc_client_close(c);
		return rc;
	}
	c->watches = true;
	c->tell = fn;
	c->tell_arg = arg;
	client_redial(c);
	*out = c;
	return RC_OK;
}

bool
rpc_client_connected(struct rpc_client *c)
{
	bool connected;

	pthread_mutex_lock(&c->lock);
	connected = c->pipe != 0 || c->plain;
	pthread_mutex_unlock(&c->lock);
	return connected;
}

/* Free a call that does not run; its context is left to the closing of the socket. */
static void
call_free(struct call *call)
{
	nng_aio_free(call->aio);
	buf_fini(&call->body);
	free(call);
}

/* Free the calls before their contexts go with the socket: nng's timer thread may be about to cancel an ended
 * operation, and only nng_aio_free waits for that. Then wait for the redialers. */
static bool
settle(void *arg)
{
	struct rpc_client *c = arg;
	struct timespec ts = deadline_timespec(deadline_in_ms(2 * NET_CONNECT_MS));
	struct call *call;

	while ((call = c->free)) {
		c->free = call->next;
		call_free(call);
	}
	pthread_mutex_lock(&c->lock);
	while (c->redialers &&
	       pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &ts) == 0)
		;
	c->shut = !c->redialers;
	pthread_mutex_unlock(&c->lock);
	return c->shut;
}

void
rpc_client_close(struct rpc_client *c)
{
	struct call *call;
	bool wait;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->closing = true;
	for (call = c->running; call; call = call->next)
		nng_aio_abort(call->aio, NNG_ECANCELED);
	pthread_cond_broadcast(&c->changed);
	while (c->running || c->telling)
		pthread_cond_wait(&c->changed, &c->lock);
	wait = !c->redialers;
	pthread_mutex_unlock(&c->lock);
	plain_close(c);
	if (!c->opened) {
		client_free(c);
		return;
	}
	closing_start(c->sock, settle, client_free, c, wait ? NET_CLOSE_MS : 0);
}
