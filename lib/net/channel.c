/*
 * Design notes. The PULL side has one thread that receives, checks and hands on. A PUSH may be used
 * by several threads at once. The generation is counted on nng's threads, atomically.
 */
#include "net/channel.h"

#include <nng/nng.h>
#include <nng/protocol/pipeline0/pull.h>
#include <nng/protocol/pipeline0/push.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/closing.h"
#include "net/listener.h"
#include "net/net.h"

#define PUSH_QUEUE   16 /* frames */
#define LINGER_MS    1000
#define LINGER_STEPS 20

struct net_pull {
	nng_socket sock;
	struct listener *listener;
	net_frame_fn fn;
	void *arg;
	nng_aio *aio; /* the receiving */
	pthread_t thread;
	atomic_uint_fast64_t refused;
};

void
net_frame_free(struct net_frame *f)
{
	if (f->msg)
		nng_msg_free(f->msg);
	*f = (struct net_frame){0};
}

enum rc
net_frame_copy(struct net_frame *f, const void *payload, struct err *err)
{
	nng_msg *msg;

	if (nng_msg_alloc(&msg, f->head.nbytes) != 0)
		return err_set(err, RC_NOMEM, "out of memory");
	if (f->head.nbytes)
		memcpy(nng_msg_body(msg), payload, f->head.nbytes);
	f->msg = msg;
	f->payload = nng_msg_body(msg);
	return RC_OK;
}

static void *
receive(void *arg)
{
	struct net_pull *p = arg;
	nng_msg *msg;

	while (listener_gate(p->listener)) {
		struct net_frame f = {0};

		nng_recv_aio(p->sock, p->aio);
		nng_aio_wait(p->aio);
		if (nng_aio_result(p->aio) == NNG_ECLOSED)
			break;
		if (nng_aio_result(p->aio) != 0)
			continue;
		msg = nng_aio_get_msg(p->aio);
		if (frame_unpack(nng_msg_body(msg), nng_msg_len(msg), &f.head, NULL) != RC_OK) {
			atomic_fetch_add(&p->refused, 1);
			nng_msg_free(msg);
			continue;
		}
		f.msg = msg;
		f.payload = (const unsigned char *)nng_msg_body(msg) + FRAME_HEADER;
		p->fn(p->arg, &f);
	}
	return NULL;
}

enum rc
net_pull_start(const char *addr, net_frame_fn fn, void *arg, struct net_pull **out, struct err *err)
{
	struct net_pull *p = calloc(1, sizeof *p);
	enum rc rc;
	int rv;

	if (!p)
		return err_set(err, RC_NOMEM, "%s: out of memory", addr);
	p->fn = fn;
	p->arg = arg;
	rv = nng_aio_alloc(&p->aio, NULL, NULL);
	if (rv == 0 && (rv = nng_pull0_open(&p->sock)) != 0)
		nng_aio_free(p->aio);
	if (rv != 0) {
		free(p);
		return err_set(err, RC_FAILED, "%s: %s", addr, nng_strerror(rv));
	}
	rc = listener_open(p->sock, LISTENER_PULL, addr, FRAME_HEADER + FRAME_PAYLOAD_MAX, NULL,
			   NULL, &p->listener, err);
	if (rc != RC_OK)
		goto close;
	rv = pthread_create(&p->thread, NULL, receive, p);
	if (rv != 0) {
		rc = err_set(err, RC_FAILED, "%s: %s", addr, strerror(rv));
		listener_stop(p->listener);
		goto close;
	}
	*out = p;
	return RC_OK;
close:
	nng_close(p->sock);
	listener_free(p->listener);
	nng_aio_free(p->aio);
	free(p);
	return rc;
}

const char *
net_pull_address(const struct net_pull *p)
{
	return listener_address(p->listener);
}

uint64_t
net_pull_refused(struct net_pull *p)
{
	return atomic_load(&p->refused);
}

unsigned
net_pull_revivals(struct net_pull *p)
{
	return listener_revivals(p->listener);
}

static void
pull_closed(void *arg)
{
	struct net_pull *p = arg;

	listener_free(p->listener);
	nng_aio_free(p->aio);
	free(p);
}

void
net_pull_stop(struct net_pull *p)
{
	if (!p)
		return;
	listener_stop(p->listener);
	nng_aio_stop(p->aio);
	pthread_join(p->thread, NULL);
	closing_start(p->sock, NULL, pull_closed, p, CLOSING_WAIT_MS);
}

/*
 * nng 1.5.2 may keep a PUSH connection that has closed in its list of idle ones, and write to its
 * freed memory at the next send or connection. So a socket carries one connection only: when that
 * is gone, its dialer is closed and the socket is replaced at the next send. The callback that says
 * so runs before the memory is freed and before nng dials again, and takes the lock under which
 * sends are made.
 */
struct push_socket {
	struct net_push *push;
	nng_socket sock;
	nng_dialer dialer;
	bool gone;	   /* its connection; under the lock */
	unsigned nwaiting; /* senders, for room; under the lock */
};

struct net_push {
	char addr[NET_ADDR_MAX];
	pthread_mutex_t lock;
	struct push_socket *socket; /* NULL: could not be made; tried again at the next send */
	unsigned refs;		    /* the owner and each socket not yet closed */
	atomic_uint generation;
};

static void
on_connection(nng_pipe pipe, nng_pipe_ev ev, void *arg)
{
	struct push_socket *s = arg;

	(void)pipe;
	if (ev == NNG_PIPE_EV_ADD_POST) {
		atomic_fetch_add(&s->push->generation, 1);
		return;
	}
	pthread_mutex_lock(&s->push->lock);
	s->gone = true;
	pthread_mutex_unlock(&s->push->lock);
	nng_dialer_close(s->dialer);
}

static void
push_release(struct net_push *p)
{
	bool last;

	pthread_mutex_lock(&p->lock);
	last = --p->refs == 0;
	pthread_mutex_unlock(&p->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* Has everybody who waits for room gone? nng's timer thread must find the socket until then. */
static bool
nobody_waits(struct push_socket *s, bool *gone)
{
	bool nobody;

	pthread_mutex_lock(&s->push->lock);
	nobody = s->nwaiting == 0;
	*gone = s->gone;
	pthread_mutex_unlock(&s->push->lock);
	return nobody;
}

/* Let the frames that are on their way leave: a connection must be quiet when it is closed. */
static bool
linger(void *arg)
{
	const struct timespec pause = {.tv_nsec = LINGER_MS / LINGER_STEPS * NS_PER_MS};
	struct push_socket *s = arg;
	bool gone = false;

	for (int i = 0; !nobody_waits(s, &gone) || (!gone && i < LINGER_STEPS); i++)
		nanosleep(&pause, NULL);
	return true;
}

static void
push_socket_closed(void *arg)
{
	struct push_socket *s = arg;

	push_release(s->push);
	free(s);
}

/* A socket that connects in the background; nng's error, or 0. Lock held, or nobody else there. */
static int
push_socket_open(struct net_push *p, struct push_socket **out)
{
	struct push_socket *s = calloc(1, sizeof *s);
	int rv = s ? nng_push0_open(&s->sock) : NNG_ENOMEM;

	if (rv != 0) {
		free(s);
		return rv;
	}
	s->push = p;
	p->refs++;
	rv = nng_setopt_size(s->sock, NNG_OPT_RECVMAXSZ, FRAME_HEADER);
	nng_setopt_int(s->sock, NNG_OPT_SENDBUF, PUSH_QUEUE);
	nng_setopt_ms(s->sock, NNG_OPT_RECONNMINT, 10);
	nng_setopt_ms(s->sock, NNG_OPT_RECONNMAXT, 100);
	nng_setopt_bool(s->sock, NNG_OPT_TCP_KEEPALIVE, true);
	nng_pipe_notify(s->sock, NNG_PIPE_EV_ADD_POST, on_connection, s);
	nng_pipe_notify(s->sock, NNG_PIPE_EV_REM_POST, on_connection, s);
	if (rv == 0)
		rv = nng_dialer_create(&s->dialer, s->sock, p->addr);
	if (rv == 0)
		rv = nng_dialer_start(s->dialer, NNG_FLAG_NONBLOCK);
	if (rv == 0) {
		*out = s;
		return 0;
	}
	nng_close(s->sock);
	p->refs--;
	free(s);
	return rv;
}

enum rc
net_push_open(const char *addr, struct net_push **out, struct err *err)
{
	struct net_push *p;
	enum rc rc = net_addr_check(addr, NET_ANY_HOST, err);
	int rv;

	if (rc != RC_OK)
		return rc;
	p = calloc(1, sizeof *p);
	if (!p)
		return err_set(err, RC_NOMEM, "%s: out of memory", addr);
	snprintf(p->addr, sizeof p->addr, "%s", addr);
	pthread_mutex_init(&p->lock, NULL);
	p->refs = 1;
	rv = push_socket_open(p, &p->socket);
	if (rv != 0) {
		pthread_mutex_destroy(&p->lock);
		free(p);
		return err_set(err, RC_UNREACHABLE, "%s: %s", addr, nng_strerror(rv));
	}
	*out = p;
	return RC_OK;
}

unsigned
net_push_generation(const struct net_push *p)
{
	return atomic_load(&p->generation);
}

/* Replace a socket whose connection has gone. */
static void
renew(struct net_push *p)
{
	struct push_socket *old = NULL, *fresh = NULL;

	pthread_mutex_lock(&p->lock);
	if (!p->socket || p->socket->gone) {
		old = p->socket;
		p->socket = NULL;
		if (push_socket_open(p, &fresh) == 0)
			p->socket = fresh;
	}
	pthread_mutex_unlock(&p->lock);
	if (old)
		closing_start(old->sock, linger, push_socket_closed, old, 0);
}

/* Start sending; when that waits for room, *aio and *waited are set. nng's error, or 0. */
static int
start_send(struct net_push *p, nng_msg *msg, int timeout_ms, nng_aio **aio,
	   struct push_socket **waited)
{
	int rv = NNG_ECLOSED;

	pthread_mutex_lock(&p->lock);
	if (p->socket && !p->socket->gone)
		rv = nng_sendmsg(p->socket->sock, msg, NNG_FLAG_NONBLOCK);
	if (rv == NNG_EAGAIN && timeout_ms > 0 && nng_aio_alloc(aio, NULL, NULL) == 0) {
		nng_aio_set_msg(*aio, msg);
		nng_aio_set_timeout(*aio, timeout_ms);
		nng_send_aio(p->socket->sock, *aio);
		*waited = p->socket;
		p->socket->nwaiting++;
	}
	pthread_mutex_unlock(&p->lock);
	return rv;
}

enum rc
net_push_send(struct net_push *p, const struct frame *head, const void *payload, int timeout_ms)
{
	nng_msg *msg;
	struct push_socket *waited = NULL;
	nng_aio *aio = NULL;
	int rv;

	if (nng_msg_alloc(&msg, FRAME_HEADER + head->nbytes) != 0)
		return RC_NOMEM;
	frame_pack(head, nng_msg_body(msg));
	if (head->nbytes)
		memcpy((unsigned char *)nng_msg_body(msg) + FRAME_HEADER, payload, head->nbytes);
	renew(p);
	rv = start_send(p, msg, timeout_ms, &aio, &waited);
	if (aio) {
		nng_aio_wait(aio);
		rv = nng_aio_result(aio);
		nng_aio_free(aio);
		pthread_mutex_lock(&p->lock);
		waited->nwaiting--;
		pthread_mutex_unlock(&p->lock);
	}
	if (rv == 0)
		return RC_OK;
	nng_msg_free(msg);
	return rv == NNG_ENOMEM ? RC_NOMEM : RC_TIMEOUT;
}

void
net_push_close(struct net_push *p)
{
	struct push_socket *s;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	s = p->socket;
	p->socket = NULL;
	pthread_mutex_unlock(&p->lock);
	if (s)
		closing_start(s->sock, linger, push_socket_closed, s, 0);
	push_release(p);
}
