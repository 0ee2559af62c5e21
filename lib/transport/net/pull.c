/*
 * The receiving end: the thread that reads a connection.
 *
 * Design notes. Each connection has a thread, which waits for each read itself and hands the frames on:
 * bytes are copied out of the socket once, straight to their place, and threads pass on nothing but the
 * frame.
 *
 * A thread that waits for a frame may take its connection and read it itself (net_pull_take), straight from its
 * descriptor: no other thread is woken on the way. The connection's own thread parks meanwhile, and for a while
 * after, since a thread that waited once will wait again; a ticker resumes it when nobody has read for long.
 * A waiting thread returns regularly so that it can check its clock, and when it is nudged. Ownership changes
 * between frames only: the own thread posts the read of a frame's first bytes under the lock (`between`), so that
 * an abort cannot miss it. On TLS, where an aborted read makes nng end the connection, no thread takes one.
 *
 * `lock` guards the list of connections and who reads them, but not the reading.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/pull_impl.h"
#include "net/times.h"

#define YIELD_BYTES (64u << 10)
#define FITS_BYTES  (16u << 10) /* a window of frames up to this fits in any socket */

void
pull_conn_free(struct net_conn *c)
{
	struct net_pull *p = c->pull;
	struct net_conn **at;

	pthread_mutex_lock(&p->lock);
	for (at = &p->conns; *at != c; at = &(*at)->next)
		;
	*at = c->next;
	p->nconns--;
	nng_stream_free(c->stream);
	if (c->wake >= 0)
		close(c->wake);
	nng_aio_reap(c->first);
	nng_aio_free(c->aio);
	pthread_cond_destroy(&c->resume);
	free(c);
	/* The last: net_pull_stop waits for it. */
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

enum progress { CAME, INTERRUPTED, ENDED };

/* The result of a read: *got bytes of `nbytes`; the rest has been read ahead. */
static enum progress
end_read(struct net_conn *c, size_t nbytes, size_t *got)
{
	size_t n;
	int rv;

	nng_aio_wait(c->aio);
	rv = nng_aio_result(c->aio);
	if (rv != 0)
		return rv == NNG_EINTR ? INTERRUPTED : ENDED;
	n = nng_aio_count(c->aio);
	*got = n < nbytes ? n : nbytes;
	c->nahead += n - *got;
	return CAME;
}

/* Post a read: to `mem` as far as it goes, the rest to c->ahead. */
static void
begin_read(struct net_conn *c, void *mem, size_t nbytes)
{
	nng_iov iov[2] = {{c->ahead + c->nahead, PULL_AHEAD - c->nahead}, {0}};

	if (nbytes) {
		iov[1] = iov[0];
		iov[0] = (nng_iov){mem, nbytes};
	}
	nng_aio_set_iov(c->aio, nbytes ? 2 : 1, iov);
	nng_stream_recv(c->stream, c->aio);
}

/* Take up to nbytes that were read ahead. Returns their number. */
static size_t
take_ahead(struct net_conn *c, void *to, size_t nbytes)
{
	size_t n = nbytes < c->nahead ? nbytes : c->nahead;

	if (n == 0)
		return 0;
	memcpy(to, c->ahead, n);
	c->nahead -= n;
	memmove(c->ahead, c->ahead + n, c->nahead);
	return n;
}

/*
 * Yield the processor for a while, until the read has ended: nng's thread that reads the socket is woken
 * at once on a processor that does not sleep, and late on one that does. A successful read has a count; a
 * failed one has none, which costs the whole while.
 */
static void
stay_awake(nng_aio *aio)
{
	uint64_t until = clock_now_ns() + NET_AWAKE_NS;

	while (nng_aio_count(aio) == 0 && clock_now_ns() < until)
		sched_yield();
}

/* By nng: begin_read and end_read. */
static enum progress
read_by_nng(struct net_conn *c, void *mem, size_t nbytes, bool brief, size_t *got)
{
	(void)brief;
	begin_read(c, mem, nbytes);
	stay_awake(c->aio);
	return end_read(c, nbytes, got);
}

/* The same by the thread itself, which has taken the connection. Interrupted after a while, and by net_pull_nudge. */
static enum progress
read_directly(struct net_conn *c, void *mem, size_t nbytes, bool brief, size_t *got)
{
	struct iovec iov[2] = {{mem, nbytes}, {c->ahead + c->nahead, PULL_AHEAD - c->nahead}};
	struct pollfd on[2] = {{.fd = c->fd, .events = POLLIN}, {.fd = c->wake, .events = POLLIN}};
	uint64_t until = clock_now_ns() + NET_AWAKE_NS;
	eventfd_t nudges;
	int ready = 1;
	ssize_t n;

	for (;;) {
		struct msghdr m = {.msg_iov = nbytes ? iov : iov + 1, .msg_iovlen = nbytes ? 2 : 1};

		n = recvmsg(c->fd, &m, MSG_DONTWAIT);
		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
		if (on[1].revents)
			eventfd_read(c->wake, &nudges);
		if (on[1].revents || ready == 0)
			return INTERRUPTED;
		if (clock_now_ns() < until)
			sched_yield();
		else if (brief)
			ready = 0;
		else
			ready = poll(on, 2, NET_TAKEN_MS);
	}
	if (n <= 0)
		return ENDED;
	*got = (size_t)n < nbytes ? (size_t)n : nbytes;
	c->nahead += (size_t)n - *got;
	return CAME;
}

static bool
read_payload(struct net_conn *c, unsigned char *to, size_t nbytes, bool taken)
{
	size_t n = take_ahead(c, to, nbytes), got = 0;

	for (; n < nbytes; n += got) {
		got = 0;
		if ((taken && c->wake >= 0 ? read_directly : read_by_nng)(c, to + n, nbytes - n,
									  false, &got) == ENDED)
			return false;
	}
	return true;
}

static bool
is_wanted(const struct net_into *into, const struct frame *h)
{
	const struct frame *w = &into->head;

	return w->kind == h->kind && w->comm == h->comm && w->device == h->device &&
	       w->op == h->op && w->seq == h->seq && w->epoch == h->epoch && w->dst == h->dst &&
	       w->src == h->src && w->nbytes == h->nbytes;
}

/* A header has been read ahead: read its frame, and hand it on. */
static enum progress
take_frame(struct net_conn *c, const struct net_into *into, bool taken)
{
	unsigned char header[FRAME_HEADER];
	struct net_frame f = {0};
	unsigned char *payload;

	take_ahead(c, header, sizeof header);
	if (frame_unpack(header, &f.head, NULL) != RC_OK) {
		atomic_fetch_add(&c->pull->refused, 1);
		return ENDED;
	}
	if (into && is_wanted(into, &f.head))
		payload = into->payload;
	else
		payload = f.mem = framemem_take(f.head.nbytes);
	if (!payload)
		return ENDED;
	f.payload = payload;
	if (!read_payload(c, payload, f.head.nbytes, taken)) {
		net_frame_free(&f);
		return ENDED;
	}
	atomic_store(&c->heard_ns, clock_now_ns());
	c->last = f.head.nbytes;
	if (frame_check(&f.head, f.payload, NULL) == RC_OK) {
		c->pull->fn(c->pull->arg, &f);
	} else {
		void (*damaged)(void *, const struct frame *) = atomic_load(&c->pull->damaged);

		atomic_fetch_add(&c->pull->refused, 1);
		if (damaged)
			damaged(c->pull->arg, &f.head);
		net_frame_free(&f);
	}
	return CAME;
}

/* Lock held. Park: leave the reading to other threads. */
static void
park(struct net_conn *c)
{
	struct net_pull *p = c->pull;

	c->parked = true;
	if (p->nparked++ == 0)
		pthread_cond_signal(&p->tick);
	pthread_cond_broadcast(&p->changed);
	while ((c->wanted || c->taken) && !c->ended)
		pthread_cond_wait(&c->resume, &p->lock);
	c->parked = false;
	p->nparked--;
}

/* Wait until a header has been read ahead, by the own thread. */
static enum progress
await_header(struct net_conn *c)
{
	struct net_pull *p = c->pull;
	enum progress got = CAME;
	size_t none;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		if (c->wanted)
			park(c);
		if (got == ENDED || c->ended || c->nahead >= FRAME_HEADER)
			break;
		c->between = true;
		begin_read(c, NULL, 0);
		pthread_mutex_unlock(&p->lock);
		got = end_read(c, 0, &none);
		pthread_mutex_lock(&p->lock);
		c->between = false;
	}
	if (c->ended)
		got = ENDED;
	/* A thread that takes it, or waits for it, sees the end. */
	c->ended = got == ENDED;
	if (c->ended)
		pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return got == ENDED ? ENDED : CAME;
}

static void *
conn_main(void *arg)
{
	struct net_conn *c = arg;
	struct net_pull *p = c->pull;

	pthread_setname_np(pthread_self(), "gpusim:frames");
	while (await_header(c) == CAME && take_frame(c, NULL, false) == CAME)
		;
	pthread_mutex_lock(&p->lock);
	c->ended = true;
	pthread_cond_broadcast(&p->changed);
	while (c->taken)
		pthread_cond_wait(&c->resume, &p->lock);
	pthread_mutex_unlock(&p->lock);
	pull_conn_free(c);
	return NULL;
}

void
pull_conn_call_back(struct net_conn *c)
{
	c->wanted = false;
	pthread_cond_signal(&c->resume);
}

/* Lock held. */
static void
look_after(struct net_conn *c, uint64_t now)
{
	uint64_t ago = now - c->since_ns;

	if (c->taken && ago >= NET_TAKEN_MS * NS_PER_MS)
		nng_aio_abort(c->aio, NNG_EINTR);
	/* While parked and not taken, no thread writes to c->last. */
	else if (c->parked && !c->taken &&
		 ago >= (c->last > FITS_BYTES ? NET_BUSY_MS : NET_PARKED_MS) * NS_PER_MS)
		pull_conn_call_back(c);
}

/* The ticker. Not a timer of nng's: that spins for the last millisecond before each. */
void *
pull_tick_main(void *arg)
{
	struct net_pull *p = arg;

	pthread_setname_np(pthread_self(), "gpusim:ticker");
	pthread_mutex_lock(&p->lock);
	while (!p->stopping) {
		struct timespec ts = deadline_timespec(deadline_in_ms(NET_PULL_TICK_MS));

		if (p->nparked == 0)
			pthread_cond_wait(&p->tick, &p->lock);
		else
			pthread_cond_clockwait(&p->tick, &p->lock, CLOCK_MONOTONIC, &ts);
		for (struct net_conn *c = p->nparked ? p->conns : NULL; c; c = c->next)
			look_after(c, clock_now_ns());
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

struct net_conn *
net_pull_take(struct net_pull *p, uint64_t device)
{
	struct net_conn *c;

	if (p->tls)
		return NULL;
	pthread_mutex_lock(&p->lock);
	for (c = p->conns; c && (c->device != device || c->ended || c->closed); c = c->next)
		;
	if (!c || p->stopping || (p->aloof_ns && clock_now_ns() < p->aloof_ns)) {
		c = NULL;
	} else if (c->taken) {
		/* Two threads wait for one connection: let its own thread serve both. */
		p->aloof_ns = deadline_in_ms(NET_ALOOF_MS);
		c->wanted = false;
		pthread_cond_broadcast(&p->changed);
		c = NULL;
	} else if (!c->parked && !c->between) {
		c = NULL;
	} else {
		c->taken = c->wanted = true;
		c->since_ns = clock_now_ns();
		if (!c->parked)
			nng_aio_abort(c->aio, NNG_EINTR);
		while (!c->parked && !c->ended && c->wanted)
			pthread_cond_wait(&p->changed, &p->lock);
		/* Another thread was first, so the own thread, not parked yet, continues to read. */
		if (!c->parked && !c->ended) {
			c->taken = false;
			pthread_cond_signal(&c->resume);
			c = NULL;
		} else if (c->wake < 0 && c->fd >= 0) {
			c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		}
	}
	pthread_mutex_unlock(&p->lock);
	return c;
}

void
net_pull_read(struct net_conn *c, const struct net_into *into, bool brief)
{
	enum progress got = CAME;
	size_t none;

	if (c->nahead < FRAME_HEADER) {
		/* A peer that sends little sends soon, and may need this processor. A frame that
		 * comes while this thread yields wakes nobody. */
		if (c->last <= YIELD_BYTES)
			sched_yield();
		got = (c->wake >= 0 ? read_directly : read_by_nng)(c, NULL, 0, brief, &none);
	}
	if (got == CAME && c->nahead >= FRAME_HEADER)
		got = take_frame(c, into, true);
	if (got != ENDED)
		return;
	pthread_mutex_lock(&c->pull->lock);
	c->ended = true;
	pthread_mutex_unlock(&c->pull->lock);
}

void
net_pull_give(struct net_conn *c)
{
	pthread_mutex_lock(&c->pull->lock);
	c->taken = false;
	c->since_ns = clock_now_ns();
	if (c->ended || !c->wanted)
		pthread_cond_signal(&c->resume);
	pthread_mutex_unlock(&c->pull->lock);
}

void
net_pull_nudge(struct net_conn *c)
{
	if (c->wake >= 0)
		eventfd_write(c->wake, 1);
	else
		nng_aio_abort(c->aio, NNG_EINTR);
}

void
net_pull_resume(struct net_pull *p)
{
	pthread_mutex_lock(&p->lock);
	p->aloof_ns = deadline_in_ms(NET_ALOOF_MS);
	for (struct net_conn *c = p->nparked ? p->conns : NULL; c; c = c->next)
		if (c->parked && !c->taken)
			pull_conn_call_back(c);
	pthread_mutex_unlock(&p->lock);
}

bool
pull_conn_start(struct net_conn *c)
{
	sigset_t all, old;
	pthread_t t;
	bool good;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	good = pthread_create(&t, &c->pull->attr, conn_main, c) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return good;
}

void
pull_conn_close(struct net_conn *c)
{
	c->closed = true;
	nng_stream_close(c->stream);
	nng_aio_stop(c->aio);
}

void
net_pull_break(struct net_pull *p, uint64_t device)
{
	pthread_mutex_lock(&p->lock);
	for (struct net_conn *c = p->conns; c; c = c->next)
		if (c->device == device && !c->closed)
			pull_conn_close(c);
	pthread_mutex_unlock(&p->lock);
}
