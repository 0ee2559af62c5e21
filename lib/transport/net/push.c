/*
 * The sending end of a connection.
 *
 * Design notes. `lock` guards everything but the bytes being written. One writer at a time holds the
 * role (`writing`): a thread in net_push_send, which writes straight from the payload and waits for
 * the write itself, or nng's threads, which write the queue out (`flush`). The writer that begins a
 * frame ends it, or the queue does, so frames stay whole.
 *
 * A connection has ended when its watching read (`watch`) has: a receiver never sends anything. The last
 * of that read and the writer frees it and connects again. A writer that meets an error closes the
 * connection, which ends the read.
 *
 * On TLS nng ends the connection on an aborted write, so no write is posted that might have to be
 * aborted: everything is queued, a copy that is cheap next to encryption.
 *
 * No write has a timeout of nng's, which costs a wake-up each: a ticker, which runs only while needed,
 * aborts a write that is late.
 */
#include <nng/nng.h>
#include <nng/supplemental/util/platform.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/connection.h"
#include "net/net.h"
#include "net/private.h"
#include "net/times.h"
#include "net/tls.h"

#define QUEUE_MAX  (16u << 20) /* bytes; a window of the largest chunks, and acknowledgements */
#define QUEUE_KEPT (64u << 10) /* bytes of an empty queue */

struct net_push {
	char addr[NET_ADDR_MAX];
	pthread_mutex_t lock;
	pthread_cond_t changed;
	nng_stream_dialer *dialer;
	nng_aio *dial, *retry, *watch, *write, *flush, *tick;
	nng_stream *stream; /* NULL: no connection */
	int fd;		    /* of the stream; -1: unknown, or TLS */
	bool closed;	    /* the stream is unusable; nng never ends a write to it */
	bool gone;	    /* and the watching read has ended */
	bool writing;	    /* a thread writes to the stream */
	bool closing;	    /* no new sends */
	bool tls;
	bool ticking, wrote; /* the ticker runs; something was written since it last did */
	bool full;	     /* a write was incomplete since then; owned by the writer */
	void (*full_fn)(void *);
	void *full_arg;
	unsigned char spare;	    /* buffer of `watch` */
	uint64_t write_deadline_ns; /* of the writing thread; 0: none */
	int retry_ms;
	struct buf queue;   /* whole frames */
	struct buf leaving; /* what `flush` writes; its first frame may be partial */
	size_t leaving_at;  /* bytes before it are written */
	atomic_uint generation;
};

static size_t
queued(const struct net_push *p)
{
	return p->queue.len + p->leaving.len - p->leaving_at;
}

/* Lock held, as in all that follows up to net_push_open. */
static void
start_dial(struct net_push *p)
{
	if (!p->closing)
		nng_stream_dialer_dial(p->dialer, p->dial);
}

static void
take_queue(struct net_push *p)
{
	struct buf empty = p->leaving;

	if (p->leaving_at < p->leaving.len)
		return;
	empty.len = p->leaving_at = 0;
	p->leaving = p->queue;
	p->queue = empty;
}

#define NIOV 3 /* what was queued, a header, its payload */

/* Forget n bytes at the front. */
static void
advance(nng_iov iov[NIOV], size_t n)
{
	for (int i = 0; i < NIOV; i++) {
		size_t k = n < iov[i].iov_len ? n : iov[i].iov_len;

		iov[i].iov_buf = (char *)iov[i].iov_buf + k;
		iov[i].iov_len -= k;
		n -= k;
	}
}

/* As the writer: write what the socket takes at once, on this thread. An error is met again by nng. */
static void
write_directly(const struct net_push *p, nng_iov iov[NIOV])
{
	struct iovec v[NIOV];
	struct msghdr m = {.msg_iov = v, .msg_iovlen = NIOV};
	ssize_t n;

	for (int i = 0; i < NIOV; i++)
		v[i] = (struct iovec){iov[i].iov_buf, iov[i].iov_len};
	n = p->fd < 0 ? -1 : sendmsg(p->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		advance(iov, (size_t)n);
}

/* Nothing is left to write. */
static void
drop_written(struct net_push *p)
{
	p->leaving.len = p->leaving_at = 0;
	if (p->leaving.cap > QUEUE_KEPT)
		buf_fini(&p->leaving);
	pthread_cond_broadcast(&p->changed);
}

/* Write the queue out: what the socket takes at once on this thread, the rest on nng's. */
static void
start_flush(struct net_push *p)
{
	nng_iov iov[NIOV] = {0};

	do {
		take_queue(p);
		iov[0] = (nng_iov){p->leaving.data + p->leaving_at, p->leaving.len - p->leaving_at};
		write_directly(p, iov);
		p->leaving_at = p->leaving.len - iov[0].iov_len;
	} while (iov[0].iov_len == 0 && queued(p) > 0);
	p->writing = iov[0].iov_len > 0;
	if (p->writing) {
		nng_aio_set_iov(p->flush, 1, iov);
		nng_stream_send(p->stream, p->flush);
	} else {
		drop_written(p);
	}
}

static void
close_stream(struct net_push *p)
{
	p->closed = true;
	nng_stream_close(p->stream);
}

/* Free a connection that has ended and is not used, and make a new one. */
static void
replace_stream(struct net_push *p)
{
	nng_stream_free(p->stream);
	p->stream = NULL;
	p->closed = p->gone = false;
	/* A partly written frame cannot continue on another connection; its sender repeats it. */
	p->leaving.len = p->leaving_at = 0;
	/* On TLS connections may keep ending in the handshake. */
	if (p->tls && !p->closing)
		nng_sleep_aio(NET_RECONNECT_MAX_MS, p->retry);
	else
		start_dial(p);
}

/* Give up the writer's role. */
static void
end_writing(struct net_push *p)
{
	p->writing = false;
	if (p->gone) {
		replace_stream(p);
	} else if (queued(p) > 0 && !p->closed) {
		start_flush(p);
	} else if (!p->closed) {
		drop_written(p);
		return;
	}
	pthread_cond_broadcast(&p->changed);
}

static void
on_dialed(void *arg)
{
	struct net_push *p = arg;
	nng_iov iov = {&p->spare, 1};

	pthread_mutex_lock(&p->lock);
	if (nng_aio_result(p->dial) == 0) {
		p->stream = nng_aio_get_output(p->dial, 0);
		p->retry_ms = NET_RECONNECT_MS;
		atomic_fetch_add(&p->generation, 1);
		nng_aio_set_iov(p->watch, 1, &iov);
		p->fd = net_recv_fd(p->stream, p->watch);
		p->fd = p->tls ? -1 : p->fd;
		if (queued(p) > 0)
			start_flush(p);
		else
			pthread_cond_broadcast(&p->changed);
	} else if (!p->closing) {
		nng_sleep_aio(p->retry_ms, p->retry);
		p->retry_ms =
		    p->retry_ms * 2 < NET_RECONNECT_MAX_MS ? p->retry_ms * 2 : NET_RECONNECT_MAX_MS;
	}
	pthread_mutex_unlock(&p->lock);
}

static void
on_retry(void *arg)
{
	struct net_push *p = arg;

	pthread_mutex_lock(&p->lock);
	start_dial(p);
	pthread_mutex_unlock(&p->lock);
}

static void
on_watched(void *arg)
{
	struct net_push *p = arg;

	pthread_mutex_lock(&p->lock);
	p->gone = true;
	close_stream(p);
	if (!p->writing)
		replace_stream(p);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void
on_flushed(void *arg)
{
	struct net_push *p = arg;

	pthread_mutex_lock(&p->lock);
	if (nng_aio_result(p->flush) == 0)
		p->leaving_at += nng_aio_count(p->flush);
	else
		close_stream(p);
	end_writing(p);
	pthread_mutex_unlock(&p->lock);
}

static void
on_tick(void *arg)
{
	struct net_push *p = arg;

	pthread_mutex_lock(&p->lock);
	if (p->write_deadline_ns && clock_now_ns() >= p->write_deadline_ns)
		nng_aio_abort(p->write, NNG_ETIMEDOUT);
	p->ticking = !p->closing && (p->write_deadline_ns || p->wrote);
	p->wrote = false;
	if (p->ticking)
		nng_sleep_aio(NET_PUSH_TICK_MS, p->tick);
	pthread_mutex_unlock(&p->lock);
}

/* Append both parts to the queue, or to `leaving`. */
static enum rc
append(struct net_push *p, struct buf *to, const nng_iov iov[2])
{
	size_t n = iov[0].iov_len + iov[1].iov_len;

	if (queued(p) + n > QUEUE_MAX)
		return RC_TIMEOUT;
	if (!buf_reserve(to, n))
		return RC_NOMEM;
	for (int i = 0; i < 2; i++)
		if (iov[i].iov_len)
			buf_add(to, iov[i].iov_buf, iov[i].iov_len);
	return RC_OK;
}

/* End all of nng's operations that may call back, in this order: those that connect, then those that use the
 * connections. */
static void
free_push(struct net_push *p)
{
	nng_aio *const aio[] = {p->retry, p->dial, p->tick, p->watch, p->flush, p->write};

	if (p->dialer)
		nng_stream_dialer_close(p->dialer);
	for (size_t i = 0; i < sizeof aio / sizeof aio[0]; i++) {
		if (i == 3) {
			pthread_mutex_lock(&p->lock);
			if (p->stream)
				close_stream(p);
			pthread_mutex_unlock(&p->lock);
		}
		if (aio[i])
			nng_aio_stop(aio[i]);
	}
	for (size_t i = 0; i < sizeof aio / sizeof aio[0]; i++)
		if (aio[i])
			nng_aio_free(aio[i]);
	if (p->dialer)
		nng_stream_dialer_free(p->dialer);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	buf_fini(&p->queue);
	buf_fini(&p->leaving);
	free(p);
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
	pthread_cond_init(&p->changed, NULL);
	p->retry_ms = NET_RECONNECT_MS;
	p->tls = tls_address(addr);
	if ((rv = nng_aio_alloc(&p->dial, on_dialed, p)) != 0 ||
	    (rv = nng_aio_alloc(&p->retry, on_retry, p)) != 0 ||
	    (rv = nng_aio_alloc(&p->watch, on_watched, p)) != 0 ||
	    (rv = nng_aio_alloc(&p->flush, on_flushed, p)) != 0 ||
	    (rv = nng_aio_alloc(&p->tick, on_tick, p)) != 0 ||
	    (rv = nng_aio_alloc(&p->write, NULL, NULL)) != 0 ||
	    (rv = nng_stream_dialer_alloc(&p->dialer, addr)) != 0 ||
	    (rv = tls_stream_dialer(p->dialer, addr)) != 0) {
		free_push(p);
		return err_set(err, RC_UNREACHABLE, "%s: %s", addr, nng_strerror(rv));
	}
	/* ipc has neither. Without the first, TCP delays an acknowledgement by 40 ms. */
	nng_stream_dialer_set_bool(p->dialer, NNG_OPT_TCP_NODELAY, true);
	nng_stream_dialer_set_bool(p->dialer, NNG_OPT_TCP_KEEPALIVE, true);
	nng_aio_set_timeout(p->dial, NET_CONNECT_MS);
	nng_aio_set_timeout(p->write, NNG_DURATION_INFINITE);
	pthread_mutex_lock(&p->lock);
	start_dial(p);
	pthread_mutex_unlock(&p->lock);
	*out = p;
	return RC_OK;
}

void
net_push_when_full(struct net_push *p, void (*fn)(void *), void *arg)
{
	p->full_fn = fn;
	p->full_arg = arg;
}

void
net_push_break(struct net_push *p)
{
	pthread_mutex_lock(&p->lock);
	if (p->stream && !p->closed)
		close_stream(p);
	pthread_mutex_unlock(&p->lock);
}

unsigned
net_push_generation(const struct net_push *p)
{
	return atomic_load(&p->generation);
}

/* Wait for a connection without a writer; in its queue are only frames that leave with the next. */
static enum rc
await_turn(struct net_push *p, uint64_t deadline_ns)
{
	struct timespec ts = deadline_timespec(deadline_ns);

	while (!p->stream || p->closed || p->writing)
		if (pthread_cond_clockwait(&p->changed, &p->lock, CLOCK_MONOTONIC, &ts) != 0)
			return RC_TIMEOUT;
	return RC_OK;
}

/* Take the writer's role, in turn. */
static enum rc
begin_writing(struct net_push *p, uint64_t deadline_ns)
{
	if (await_turn(p, deadline_ns) != RC_OK)
		return RC_TIMEOUT;
	p->writing = true;
	take_queue(p);
	if (!p->wrote)
		p->full = false;
	p->wrote = true;
	p->write_deadline_ns = deadline_ns;
	if (!p->ticking) {
		p->ticking = true;
		nng_sleep_aio(NET_PUSH_TICK_MS, p->tick);
	}
	return RC_OK;
}

static size_t
left(const nng_iov iov[NIOV])
{
	return iov[0].iov_len + iov[1].iov_len + iov[2].iov_len;
}

/* Write it all, as the writer, without the lock; nng's error, or 0. */
static int
write_out(struct net_push *p, nng_iov iov[NIOV])
{
	int rv = 0;

	write_directly(p, iov);
	p->full |= left(iov) > 0;
	while (rv == 0 && left(iov) > 0) {
		unsigned first = iov[0].iov_len ? 0 : iov[1].iov_len ? 1 : 2;

		if (p->full && p->full_fn)
			p->full_fn(p->full_arg);
		pthread_mutex_lock(&p->lock);
		rv = p->closed ? NNG_ECLOSED : 0;
		if (rv == 0) {
			nng_aio_set_iov(p->write, NIOV - first, iov + first);
			nng_stream_send(p->stream, p->write);
		}
		pthread_mutex_unlock(&p->lock);
		if (rv != 0)
			break;
		nng_aio_wait(p->write);
		rv = nng_aio_result(p->write);
		if (rv == 0)
			advance(iov, nng_aio_count(p->write));
		p->full |= left(iov) > 0;
	}
	return rv;
}

/* Lock held, released while it writes. */
static enum rc
send_now(struct net_push *p, const nng_iov frame[2], int timeout_ms)
{
	enum rc rc = begin_writing(p, deadline_in_ms((uint64_t)timeout_ms));
	nng_iov iov[NIOV] = {
	    {p->leaving.data + p->leaving_at, p->leaving.len - p->leaving_at}, frame[0], frame[1]};
	int rv;

	if (rc != RC_OK)
		return rc;
	pthread_mutex_unlock(&p->lock);
	rv = write_out(p, iov);
	pthread_mutex_lock(&p->lock);
	p->write_deadline_ns = 0;
	p->leaving_at = p->leaving.len - iov[0].iov_len;
	if (rv == NNG_ETIMEDOUT && append(p, &p->leaving, iov + 1) == RC_OK)
		rv = 0;
	if (rv != 0)
		close_stream(p);
	end_writing(p);
	return RC_OK;
}

void
net_push_flush(struct net_push *p)
{
	pthread_mutex_lock(&p->lock);
	if (queued(p) > 0 && p->stream && !p->closed && !p->writing)
		start_flush(p);
	pthread_mutex_unlock(&p->lock);
}

enum rc
net_push_send(struct net_push *p, const struct frame *head, const void *payload, int timeout_ms)
{
	unsigned char packed[FRAME_HEADER];
	nng_iov iov[2] = {{packed, sizeof packed}, {(void *)payload, head->nbytes}};
	enum rc rc = RC_OK;

	frame_pack(head, packed);
	pthread_mutex_lock(&p->lock);
	if (timeout_ms > 0 && p->tls)
		rc = await_turn(p, deadline_in_ms((uint64_t)timeout_ms));
	if (rc == RC_OK && timeout_ms > 0 && !p->tls) {
		rc = send_now(p, iov, timeout_ms);
	} else if (rc == RC_OK) {
		rc = append(p, &p->queue, iov);
		if (rc == RC_OK && timeout_ms != NET_LATER && p->stream && !p->closed &&
		    !p->writing)
			start_flush(p);
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void
net_push_close(struct net_push *p)
{
	struct timespec ts = deadline_timespec(deadline_in_ms(NET_LINGER_MS));

	if (!p)
		return;
	net_push_flush(p);
	pthread_mutex_lock(&p->lock);
	while ((queued(p) > 0 || p->writing) &&
	       pthread_cond_clockwait(&p->changed, &p->lock, CLOCK_MONOTONIC, &ts) == 0)
		;
	p->closing = true;
	pthread_mutex_unlock(&p->lock);
	free_push(p);
}
