/*
 * The receiving end of a channel.
 *
 * Design notes. A connection is read by nng's threads until its first header has come and is one;
 * then by a thread of its own, which waits for each read itself and hands the frames on: what must
 * be copied out of the socket is copied once, straight to where the frame will be, and nothing is
 * handed over between threads but the frame. Who connects and says nothing, or nonsense, gets no
 * thread. Connections are bounded: for one too many, the one heard last is closed.
 *
 * A thread that waits for a frame may take its connection and read it itself (net_pull_take): that
 * saves waking one more thread. The connection's own thread parks meanwhile, and for a while after,
 * since who waited once will wait again; a ticker brings it back when nobody has read for long, and
 * aborts the read of a waiting thread now and then so that it can look at its clock. Reading passes
 * over between frames only: the own thread posts the read that begins a frame under the lock
 * (`between`), so that an abort cannot miss it. On TLS, where nng ends the connection with an
 * aborted read, nobody takes one.
 *
 * `lock` guards the list of connections and who reads them, but not the reading. A connection is
 * freed by its own thread, or by nng's while there is none; net_pull_stop closes them and waits
 * until all have gone.
 */
#include <arpa/inet.h>
#include <nng/nng.h>
#include <nng/supplemental/util/platform.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/channel.h"
#include "net/framemem.h"
#include "net/ipcpath.h"
#include "net/net.h"
#include "net/tls.h"

#define AHEAD	    4096u /* bytes that one read takes beyond a frame */
#define ACCEPT_MS   50	  /* pause after an accept that failed, such as for want of descriptors */
#define YIELD_BYTES (64u << 10)
#define FITS_BYTES  (16u << 10) /* a window of frames up to this fits in any socket */
#define STACK_BYTES (128u << 10)
#define AWAKE_NS    50000 /* longer than a message is on its way */
#define TICK_MS	    5
#define PARKED_MS   50	/* without a reader, until the own thread comes back; */
#define BUSY_MS	    5	/* where much comes, and who sends may be waiting */
#define TAKEN_MS    100 /* the longest read of a thread that has taken a connection */
#define ALOOF_MS    300 /* after net_pull_resume nobody takes a connection for so long */

struct net_conn {
	struct net_pull *pull;
	struct net_conn *next;
	nng_stream *stream;
	nng_aio *first; /* reads the first header */
	nng_aio *aio;
	uint64_t device; /* that sent its first frame; 0: none yet */
	bool closed;
	bool between;	   /* the own thread waits for the beginning of a frame */
	bool wanted;	   /* the own thread shall park */
	bool parked;	   /* it has */
	bool taken;	   /* another thread reads */
	bool ended;	   /* there is no more to read */
	uint64_t since_ns; /* taken or given back */
	pthread_cond_t resume;
	atomic_uint_fast64_t heard_ns;
	uint32_t last; /* bytes of the last payload */
	size_t nahead; /* bytes of the stream that wait in: */
	unsigned char ahead[AHEAD];
};

struct net_pull {
	char addr[NET_ADDR_MAX];
	bool tls;
	struct ipcpath path;
	net_frame_fn fn;
	void *arg;
	void (*_Atomic damaged)(void *arg, const struct frame *head); /* or NULL */
	nng_stream_listener *listener;
	nng_aio *accept, *pause;
	pthread_t ticker;
	pthread_cond_t tick; /* the first has parked */
	pthread_attr_t attr;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct net_conn *conns;
	unsigned nconns, nparked;
	uint64_t aloof_ns; /* until then nobody takes a connection */
	bool stopping;
	atomic_uint_fast64_t refused;
};

/* Its last reader lets go of it. From the callback of `first`, too. */
static void
conn_free(struct net_conn *c)
{
	struct net_pull *p = c->pull;
	struct net_conn **at;

	pthread_mutex_lock(&p->lock);
	for (at = &p->conns; *at != c; at = &(*at)->next)
		;
	*at = c->next;
	p->nconns--;
	nng_stream_free(c->stream);
	nng_aio_reap(c->first);
	nng_aio_free(c->aio);
	pthread_cond_destroy(&c->resume);
	free(c);
	/* The last: net_pull_stop waits for it. */
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

enum progress { CAME, INTERRUPTED, ENDED };

/* What has come of a read: *got bytes of `nbytes`; what is beyond has been read ahead. */
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
	nng_iov iov[2] = {{c->ahead + c->nahead, AHEAD - c->nahead}, {0}};

	if (nbytes) {
		iov[1] = iov[0];
		iov[0] = (nng_iov){mem, nbytes};
	}
	nng_aio_set_iov(c->aio, nbytes ? 2 : 1, iov);
	nng_stream_recv(c->stream, c->aio);
}

/* Take up to nbytes of what has been read ahead; how many. */
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
 * Give the processor to others for a while, until the read has ended: nng's thread that reads the
 * socket is woken at once on a processor that does not sleep, and late on one that does. A read
 * that has brought something has a count; one that has failed has none, which costs the whole
 * while.
 */
static void
stay_awake(nng_aio *aio)
{
	uint64_t until = clock_now_ns() + AWAKE_NS;

	while (nng_aio_count(aio) == 0 && clock_now_ns() < until)
		sched_yield();
}

static bool
read_payload(struct net_conn *c, unsigned char *to, size_t nbytes)
{
	size_t n = take_ahead(c, to, nbytes), got = 0;

	for (; n < nbytes; n += got) {
		begin_read(c, to + n, nbytes - n);
		stay_awake(c->aio);
		got = 0;
		if (end_read(c, nbytes - n, &got) == ENDED)
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
take_frame(struct net_conn *c, const struct net_into *into)
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
	if (!read_payload(c, payload, f.head.nbytes)) {
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

/* Lock held. Leave the reading to others. */
static void
park(struct net_conn *c)
{
	struct net_pull *p = c->pull;

	c->parked = true;
	if (p->nparked++ == 0)
		pthread_cond_signal(&p->tick);
	pthread_cond_broadcast(&p->changed);
	while (c->wanted && !c->ended)
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
	/* Whoever comes to take it now shall know that it is gone. */
	c->ended = got == ENDED;
	pthread_mutex_unlock(&p->lock);
	return c->ended ? ENDED : CAME;
}

static void *
conn_main(void *arg)
{
	struct net_conn *c = arg;
	struct net_pull *p = c->pull;

	pthread_setname_np(pthread_self(), "gpusim:frames");
	while (await_header(c) == CAME && take_frame(c, NULL) == CAME)
		;
	pthread_mutex_lock(&p->lock);
	c->ended = true;
	while (c->taken)
		pthread_cond_wait(&c->resume, &p->lock);
	pthread_mutex_unlock(&p->lock);
	conn_free(c);
	return NULL;
}

/* Lock held. */
static void
call_back(struct net_conn *c)
{
	c->wanted = false;
	pthread_cond_signal(&c->resume);
}

/* Lock held. */
static void
look_after(struct net_conn *c, uint64_t now)
{
	uint64_t ago = now - c->since_ns;

	if (c->taken && ago >= TAKEN_MS * NS_PER_MS)
		nng_aio_abort(c->aio, NNG_EINTR);
	/* Parked and not taken, nobody writes to c->last. */
	else if (c->parked && !c->taken &&
		 ago >= (c->last > FITS_BYTES ? BUSY_MS : PARKED_MS) * NS_PER_MS)
		call_back(c);
}

/* The ticker. Not a timer of nng's: that spins for the last millisecond before each. */
static void *
tick_main(void *arg)
{
	struct net_pull *p = arg;

	pthread_setname_np(pthread_self(), "gpusim:ticker");
	pthread_mutex_lock(&p->lock);
	while (!p->stopping) {
		struct timespec ts = deadline_timespec(deadline_in_ms(TICK_MS));

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
		/* Two that wait for one connection: its own thread serves both better. */
		p->aloof_ns = deadline_in_ms(ALOOF_MS);
		c->wanted = false;
		c = NULL;
	} else if (!c->parked && !c->between) {
		c = NULL;
	} else {
		c->taken = c->wanted = true;
		c->since_ns = clock_now_ns();
		if (!c->parked)
			nng_aio_abort(c->aio, NNG_EINTR);
		while (!c->parked && !c->ended)
			pthread_cond_wait(&p->changed, &p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return c;
}

void
net_pull_read(struct net_conn *c, const struct net_into *into)
{
	enum progress got = CAME;
	size_t none;

	if (c->nahead < FRAME_HEADER) {
		/* Who sends little sends soon, and may wait for this processor: what comes while it
		 * has it costs no waking. */
		if (c->last <= YIELD_BYTES)
			sched_yield();
		begin_read(c, NULL, 0);
		stay_awake(c->aio);
		got = end_read(c, 0, &none);
	}
	if (got == CAME && c->nahead >= FRAME_HEADER)
		got = take_frame(c, into);
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
	nng_aio_abort(c->aio, NNG_EINTR);
}

void
net_pull_resume(struct net_pull *p)
{
	pthread_mutex_lock(&p->lock);
	p->aloof_ns = deadline_in_ms(ALOOF_MS);
	for (struct net_conn *c = p->nparked ? p->conns : NULL; c; c = c->next)
		if (c->parked && !c->taken)
			call_back(c);
	pthread_mutex_unlock(&p->lock);
}

/* A thread for the connection, that takes no signals of the program's. */
static bool
start_reader(struct net_conn *c)
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

/* Lock held. nng never ends a read that is posted on a closed stream: post none after this, and
 * none with `aio`, which does not take any more. */
static void
close_conn(struct net_conn *c)
{
	c->closed = true;
	nng_stream_close(c->stream);
	nng_aio_stop(c->aio);
}

/* False: it has been closed. */
static bool
read_first(struct net_conn *c)
{
	nng_iov iov = {c->ahead + c->nahead, AHEAD - c->nahead};
	bool open;

	pthread_mutex_lock(&c->pull->lock);
	open = !c->closed;
	if (open) {
		nng_aio_set_iov(c->first, 1, &iov);
		nng_stream_recv(c->stream, c->first);
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
		conn_free(c);
		return;
	}
	c->nahead += nng_aio_count(c->first);
	if (c->nahead < FRAME_HEADER) {
		if (!read_first(c))
			conn_free(c);
		return;
	}
	if (frame_unpack(c->ahead, &f, NULL) != RC_OK) {
		atomic_fetch_add(&c->pull->refused, 1);
		conn_free(c);
		return;
	}
	pthread_mutex_lock(&c->pull->lock);
	c->device = f.device;
	pthread_mutex_unlock(&c->pull->lock);
	if (!start_reader(c))
		conn_free(c);
}

/* Lock held. Close the connection that has been quiet longest. */
static void
evict(struct net_pull *p)
{
	struct net_conn *quiet = NULL;

	for (struct net_conn *c = p->conns; c; c = c->next)
		if (!c->closed &&
		    (!quiet || atomic_load(&c->heard_ns) <= atomic_load(&quiet->heard_ns)))
			quiet = c;
	if (quiet)
		close_conn(quiet);
}

static void
add_conn(struct net_pull *p, nng_stream *stream)
{
	struct net_conn *c = calloc(1, sizeof *c);

	if (c) {
		*c = (struct net_conn){.pull = p, .stream = stream};
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
		/* No descriptors: somebody holds them who says nothing. */
		evict(p);
		nng_sleep_aio(ACCEPT_MS, p->pause);
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

/* Listen, and learn the port that port 0 became. */
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
	if (rc == RC_OK && pthread_create(&p->ticker, NULL, tick_main, p) != 0)
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

void
net_pull_break(struct net_pull *p, uint64_t device)
{
	pthread_mutex_lock(&p->lock);
	for (struct net_conn *c = p->conns; c; c = c->next)
		if (c->device == device && !c->closed)
			close_conn(c);
	pthread_mutex_unlock(&p->lock);
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
		close_conn(c);
		call_back(c);
	}
	while (p->nconns > 0)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->ticker, NULL);
	free_pull(p);
}
