/*
 * The receiving end: listening, and the set of connections.
 *
 * Design notes. nng's threads read a connection until its first valid header; then its own thread does
 * (pull.c). A peer that connects and sends nothing, or garbage, gets no thread. Connections are bounded:
 * for one too many, the one that has been silent longest is closed.
 *
 * A connection is freed by its own thread, or by nng's while it has none; net_pull_stop closes all and
 * waits for that.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/private.h"
#include "net/pull_impl.h"
#include "net/times.h"
#include "net/tls.h"

#define STACK_BYTES (128u << 10)

/* False: it has been closed. */
static bool
read_first(struct net_conn *c)
{
	nng_iov iov = {c->ahead + c->nahead, PULL_AHEAD - c->nahead};
	bool open;

	pthread_mutex_lock(&c->pull->lock);
	open = !c->closed;
	if (open) {
		nng_aio_set_iov(c->first, 1, &iov);
		c->fd = net_recv_fd(c->stream, c->first);
		if (c->pull->tls)
			c->fd = -1;
	}
	pthread_mutex_unlock(&c->pull->lock);
	return open;
}

static void
on_first(void *arg)
{
	struct net_conn *c = arg;
	struct frame f;

	if (nng_aio_result(c->first) != 0) {
		pull_conn_free(c);
		return;
	}
	c->nahead += nng_aio_count(c->first);
	if (c->nahead < FRAME_HEADER) {
		if (!read_first(c))
			pull_conn_free(c);
		return;
	}
	if (frame_unpack(c->ahead, &f, NULL) != RC_OK) {
		atomic_fetch_add(&c->pull->refused, 1);
		pull_conn_free(c);
		return;
	}
	pthread_mutex_lock(&c->pull->lock);
	c->device = f.device;
	pthread_mutex_unlock(&c->pull->lock);
	if (!pull_conn_start(c))
		pull_conn_free(c);
}

/* Lock held. Close the connection that has been silent longest. */
static void
evict(struct net_pull *p)
{
	struct net_conn *quiet = NULL;

	for (struct net_conn *c = p->conns; c; c = c->next)
		if (!c->closed &&
		    (!quiet || atomic_load(&c->heard_ns) <= atomic_load(&quiet->heard_ns)))
			quiet = c;
	if (quiet)
		pull_conn_close(quiet);
}

static void
add_conn(struct net_pull *p, nng_stream *stream)
{
	struct net_conn *c = calloc(1, sizeof *c);

	if (c) {
		*c = (struct net_conn){.pull = p, .stream = stream, .fd = -1, .wake = -1};
		pthread_cond_init(&c->resume, NULL);
		atomic_init(&c->heard_ns, clock_now_ns());
	}
	if (!c || nng_aio_alloc(&c->first, on_first, c) != 0 ||
	    nng_aio_alloc(&c->aio, NULL, NULL) != 0) {
		if (c && c->first)
			nng_aio_free(c->first);
		free(c);
		nng_stream_free(stream);
		return;
	}
	nng_aio_set_timeout(c->aio, NNG_DURATION_INFINITE);
	pthread_mutex_lock(&p->lock);
	if (p->nconns >= NET_MAX_PEERS)
		evict(p);
	c->next = p->conns;
	p->conns = c;
	p->nconns++;
	pthread_mutex_unlock(&p->lock);
	read_first(c);
}

static void
accept_next(struct net_pull *p, bool failed)
{
	pthread_mutex_lock(&p->lock);
	if (!p->stopping && failed) {
		/* No descriptors: a silent connection may hold one. */
		evict(p);
		nng_sleep_aio(NET_ACCEPT_PAUSE_MS, p->pause);
	} else if (!p->stopping) {
		nng_stream_listener_accept(p->listener, p->accept);
	}
	pthread_mutex_unlock(&p->lock);
}

static void
on_accept(void *arg)
{
	struct net_pull *p = arg;
	bool failed = nng_aio_result(p->accept) != 0;

	if (!failed)
		add_conn(p, nng_aio_get_output(p->accept, 0));
	accept_next(p, failed);
}

static void
on_pause(void *arg)
{
	accept_next(arg, false);
}

/* Listen, and get the real port for port 0. */
static int
listen_at(struct net_pull *p)
{
	nng_sockaddr sa;
	int rv = nng_stream_listener_alloc(&p->listener, p->addr);

	if (rv == 0 && p->path.fd >= 0)
		rv = nng_stream_listener_set_int(p->listener, NNG_OPT_IPC_PERMISSIONS, 0600);
	if (rv == 0)
		rv = tls_stream_listener(p->listener, p->addr);
	if (rv == 0) {
		nng_stream_listener_set_bool(p->listener, NNG_OPT_TCP_KEEPALIVE, true);
		rv = nng_stream_listener_listen(p->listener);
	}
	if (rv == 0 && p->path.fd < 0 &&
	    (rv = nng_stream_listener_get_addr(p->listener, NNG_OPT_LOCADDR, &sa)) == 0)
		net_addr_set_port(p->addr, ntohs(sa.s_family == NNG_AF_INET6 ? sa.s_in6.sa_port
									     : sa.s_in.sa_port));
	return rv;
}

static void
free_pull(struct net_pull *p)
{
	if (p->accept)
		nng_aio_free(p->accept);
	if (p->pause)
		nng_aio_free(p->pause);
	if (p->listener)
		nng_stream_listener_free(p->listener);
	ipcpath_unlock(&p->path, p->addr);
	pthread_attr_destroy(&p->attr);
	pthread_cond_destroy(&p->tick);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

enum rc
net_pull_start(const char *addr, net_frame_fn fn, void *arg, struct net_pull **out, struct err *err)
{
	struct net_pull *p = calloc(1, sizeof *p);
	enum rc rc;
	int rv = 0;

	if (!p)
		return err_set(err, RC_NOMEM, "%s: out of memory", addr);
	p->fn = fn;
	p->arg = arg;
	snprintf(p->addr, sizeof p->addr, "%s", addr);
	p->tls = tls_address(addr);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	pthread_cond_init(&p->tick, NULL);
	pthread_attr_init(&p->attr);
	pthread_attr_setdetachstate(&p->attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&p->attr, STACK_BYTES);
	rc = ipcpath_lock(&p->path, addr, err);
	if (rc == RC_OK)
		rc = tls_ready(addr, err);
	if (rc == RC_OK &&
	    ((rv = nng_aio_alloc(&p->accept, on_accept, p)) != 0 ||
	     (rv = nng_aio_alloc(&p->pause, on_pause, p)) != 0 || (rv = listen_at(p)) != 0))
		rc = err_set(err, rv == NNG_EADDRINUSE ? RC_BUSY : RC_FAILED, "%s: %s", addr,
			     nng_strerror(rv));
	if (rc == RC_OK && pthread_create(&p->ticker, NULL, pull_tick_main, p) != 0)
		rc = err_set(err, RC_FAILED, "%s: no thread", addr);
	if (rc != RC_OK) {
		free_pull(p);
		return rc;
	}
	accept_next(p, false);
	*out = p;
	return RC_OK;
}

const char *
net_pull_address(const struct net_pull *p)
{
	return p->addr;
}

void
net_pull_when_damaged(struct net_pull *p, void (*fn)(void *arg, const struct frame *head))
{
	atomic_store(&p->damaged, fn);
}

uint64_t
net_pull_refused(struct net_pull *p)
{
	return atomic_load(&p->refused);
}

void
net_pull_stop(struct net_pull *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stopping = true;
	pthread_cond_signal(&p->tick);
	pthread_mutex_unlock(&p->lock);
	nng_stream_listener_close(p->listener);
	nng_aio_stop(p->pause);
	nng_aio_stop(p->accept);
	pthread_mutex_lock(&p->lock);
	for (struct net_conn *c = p->conns; c; c = c->next) {
		pull_conn_close(c);
		pull_conn_call_back(c);
	}
	while (p->nconns > 0)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->ticker, NULL);
	free_pull(p);
}
