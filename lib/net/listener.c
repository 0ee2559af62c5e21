/*
 * Design notes. One guard thread a listener. `lock` guards the counts and `stop`; the guard waits
 * on `wake`. nng_listener is touched by listener_open until it sets `up`, then by the guard alone,
 * and by listener_stop once the guard has ended. The pipe callback runs on nng's threads; nng_close
 * returns after the last of them, which is why listener_free comes behind it.
 *
 * Deaf means: connections are made (the kernel and nng's handshake still answer) and never handed
 * to the socket. So the guard asks exactly that: does a new connection become a pipe? No message is
 * sent, so a full house or a busy receiver is not taken for a deaf one. Only a connection that was
 * accepted and became no pipe can make a listener deaf, so the guard asks when there is one more of
 * those, and else seldom: a thousand idle devices that ask twice a second would take half a core.
 */
#include "net/listener.h"

#include <arpa/inet.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/accepts.h"
#include "net/ipcpath.h"
#include "net/leftover.h"
#include "net/net.h"
#include "net/times.h"
#include "net/tls.h"

struct listener {
	nng_socket sock, probe;
	listener_fn fn;
	void *arg;
	nng_listener nl;
	char addr[NET_ADDR_MAX];
	char dial[NET_ADDR_MAX]; /* how we reach ourselves */
	struct ipcpath path;
	pthread_t guard;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool up, stop;
	uint64_t accepted;  /* connections that became pipes */
	uint64_t connected; /* and of the probe's */
	unsigned revivals;
	/* The guard's: */
	struct leftovers leftovers;
	uint64_t strays;    /* when it asked last */
	uint64_t judged_ns; /* when that was */
};

const char *
listener_address(const struct listener *l)
{
	return l->addr;
}

const char *
listener_self(const struct listener *l)
{
	return l->dial;
}

unsigned
listener_revivals(struct listener *l)
{
	unsigned n;

	pthread_mutex_lock(&l->lock);
	n = l->revivals;
	pthread_mutex_unlock(&l->lock);
	return n;
}

static void
on_pipe(nng_pipe p, nng_pipe_ev ev, void *arg)
{
	struct listener *l = arg;

	if (ev == NNG_PIPE_EV_ADD_PRE) {
		pthread_mutex_lock(&l->lock);
		l->accepted++;
		pthread_cond_broadcast(&l->wake);
		pthread_mutex_unlock(&l->lock);
	}
	if (l->fn)
		l->fn(l->arg, nng_pipe_id(p),
		      ev == NNG_PIPE_EV_ADD_PRE ? LISTENER_CAME : LISTENER_GONE);
}

static void
on_probe(nng_pipe p, nng_pipe_ev ev, void *arg)
{
	struct listener *l = arg;

	(void)p;
	(void)ev;
	pthread_mutex_lock(&l->lock);
	l->connected++;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
}

static int
listen_now(struct listener *l)
{
	int rv = nng_listener_create(&l->nl, l->sock, l->addr);

	if (rv != 0)
		return rv;
	if (l->path.fd >= 0)
		nng_listener_setopt_int(l->nl, NNG_OPT_IPC_PERMISSIONS, 0600);
	rv = tls_listener(l->nl, l->addr);
	if (rv == 0)
		rv = nng_listener_start(l->nl, 0);
	if (rv != 0)
		nng_listener_close(l->nl);
	return rv;
}

/* With the port that port 0 became, and a dialable host for a wildcard. */
static void
learn_address(struct listener *l)
{
	nng_sockaddr sa;
	const char *host, *colon;
	int scheme;

	if (nng_listener_getopt_sockaddr(l->nl, NNG_OPT_LOCADDR, &sa) == 0)
		net_addr_set_port(l->addr, ntohs(sa.s_family == NNG_AF_INET6 ? sa.s_in6.sa_port
									     : sa.s_in.sa_port));
	snprintf(l->dial, sizeof l->dial, "%s", l->addr);
	host = net_addr_host(l->addr);
	if (!host)
		return;
	scheme = (int)(host - l->addr);
	colon = strrchr(l->addr, ':');
	if (strncmp(host, "0.0.0.0:", 8) == 0)
		snprintf(l->dial, sizeof l->dial, "%.*s127.0.0.1%s", scheme, l->addr, colon);
	else if (strncmp(host, "[::]:", 5) == 0)
		snprintf(l->dial, sizeof l->dial, "%.*s[::1]%s", scheme, l->addr, colon);
}

/* Wait until more than `accepted` have been let in and more than `connected` of our own are
 * (UINT64_MAX: no matter), `stop`, or the time is over. True in the first two cases. */
static bool
wait_for(struct listener *l, uint64_t accepted, uint64_t connected, int timeout_ms)
{
	struct timespec ts = deadline_timespec(deadline_in_ms((uint64_t)timeout_ms));
	bool good;

	pthread_mutex_lock(&l->lock);
	while (!l->stop && (l->accepted <= accepted || l->connected <= connected) &&
	       pthread_cond_clockwait(&l->wake, &l->lock, CLOCK_MONOTONIC, &ts) == 0)
		;
	good = l->stop || (l->accepted > accepted && l->connected > connected);
	pthread_mutex_unlock(&l->lock);
	return good;
}

/* Make a connection to ourselves. False when it is not let in. */
static bool
probe(struct listener *l)
{
	nng_dialer d;
	uint64_t accepted, connected;
	bool good;

	pthread_mutex_lock(&l->lock);
	accepted = l->accepted;
	connected = l->connected;
	pthread_mutex_unlock(&l->lock);
	if (nng_dialer_create(&d, l->probe, l->dial) != 0)
		return true; /* no memory to ask with: judge later */
	/* Both ends: nng forgets a connection that is closed between its two halves. */
	good = tls_dialer(d, l->dial) != 0 || nng_dialer_start(d, NNG_FLAG_NONBLOCK) != 0 ||
	       wait_for(l, accepted, connected, NET_GUARD_MS);
	nng_dialer_close(d);
	return good;
}

/* Deaf: drop everything and listen anew. Peers reconnect by themselves; calls and chunks are
 * repeated. */
static void
revive(struct listener *l)
{
	nng_listener_close(l->nl);
	leftovers_note(&l->leftovers, l->addr, clock_now_ns());
	while ((l->path.fd >= 0 && ipcpath_clear(l->addr, NULL) != RC_OK) || listen_now(l) != 0)
		if (wait_for(l, UINT64_MAX, UINT64_MAX, NET_RELISTEN_MS))
			return;
	pthread_mutex_lock(&l->lock);
	l->revivals++;
	pthread_mutex_unlock(&l->lock);
}

/* How many connections the process has accepted that have not become pipes here. */
static uint64_t
strays(struct listener *l)
{
	uint64_t n;

	pthread_mutex_lock(&l->lock);
	n = accepts_count() - l->accepted;
	pthread_mutex_unlock(&l->lock);
	return n;
}

/* Ask, if there is reason to, and see to the answer. */
static void
judge(struct listener *l)
{
	uint64_t n = strays(l), now = clock_now_ns();

	if (n == l->strays && now - l->judged_ns < NET_GUARD_SELDOM_MS * NS_PER_MS)
		return;
	if (!probe(l))
		revive(l);
	l->strays = n;
	l->judged_ns = now;
}

static void *
guard_main(void *arg)
{
	struct listener *l = arg;
	bool up;

	pthread_mutex_lock(&l->lock);
	while (!l->up && !l->stop)
		pthread_cond_wait(&l->wake, &l->lock);
	up = !l->stop;
	pthread_mutex_unlock(&l->lock);
	while (up && !wait_for(l, UINT64_MAX, UINT64_MAX, NET_GUARD_EVERY_MS)) {
		leftovers_sweep(&l->leftovers, clock_now_ns());
		judge(l);
	}
	leftovers_fini(&l->leftovers);
	return NULL;
}

static void
end_guard(struct listener *l)
{
	pthread_mutex_lock(&l->lock);
	l->stop = true;
	pthread_cond_broadcast(&l->wake);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->guard, NULL);
	nng_close(l->probe);
}

/* The guard is there before anybody can connect, so that nothing can fail once they do. */
static enum rc
start_guard(struct listener *l, struct err *err)
{
	int rv = nng_req0_open(&l->probe);

	if (rv == 0 && ((rv = nng_setopt_size(l->probe, NNG_OPT_RECVMAXSZ, 1)) != 0 ||
			(rv = nng_pipe_notify(l->probe, NNG_PIPE_EV_ADD_POST, on_probe, l)) != 0))
		nng_close(l->probe);
	if (rv != 0)
		return err_set(err, RC_FAILED, "%s: %s", l->addr, nng_strerror(rv));
	rv = pthread_create(&l->guard, NULL, guard_main, l);
	if (rv != 0) {
		nng_close(l->probe);
		return err_set(err, RC_FAILED, "%s: %s", l->addr, strerror(rv));
	}
	return RC_OK;
}

/* 0 as the limit would take a length of 2^64-40 at its word and abort: it must be set. */
static int
set_limits(struct listener *l, size_t max)
{
	int rv = nng_setopt_size(l->sock, NNG_OPT_RECVMAXSZ, max);

	if (rv == 0)
		rv = nng_pipe_notify(l->sock, NNG_PIPE_EV_ADD_PRE, on_pipe, l);
	if (rv == 0)
		rv = nng_pipe_notify(l->sock, NNG_PIPE_EV_REM_POST, on_pipe, l);
	nng_setopt_bool(l->sock, NNG_OPT_TCP_KEEPALIVE, true);
	return rv;
}

enum rc
listener_open(nng_socket sock, const char *addr, size_t max, listener_fn fn, void *arg,
	      struct listener **out, struct err *err)
{
	struct listener *l = calloc(1, sizeof *l);
	enum rc rc;
	int rv;

	if (!l)
		return err_set(err, RC_NOMEM, "%s: out of memory", addr);
	l->sock = sock;
	l->fn = fn;
	l->arg = arg;
	snprintf(l->addr, sizeof l->addr, "%s", addr);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->wake, NULL);
	rc = ipcpath_lock(&l->path, addr, err);
	if (rc == RC_OK)
		rc = tls_ready(addr, err);
	if (rc == RC_OK)
		rc = start_guard(l, err);
	if (rc != RC_OK)
		goto out;
	rv = set_limits(l, max);
	if (rv == 0)
		rv = listen_now(l);
	if (rv != 0) {
		rc = err_set(err, rv == NNG_EADDRINUSE ? RC_BUSY : RC_FAILED, "%s: %s", addr,
			     nng_strerror(rv));
		end_guard(l);
		goto out;
	}
	learn_address(l);
	pthread_mutex_lock(&l->lock);
	l->up = true;
	pthread_cond_broadcast(&l->wake);
	pthread_mutex_unlock(&l->lock);
	*out = l;
	return RC_OK;
out:
	ipcpath_unlock(&l->path, addr);
	listener_free(l);
	return rc;
}

void
listener_stop(struct listener *l)
{
	end_guard(l);
	nng_listener_close(l->nl);
	ipcpath_unlock(&l->path, l->addr);
}

void
listener_free(struct listener *l)
{
	if (!l)
		return;
	pthread_cond_destroy(&l->wake);
	pthread_mutex_destroy(&l->lock);
	free(l);
}
