/* Operations over frames: beginning, sending, receiving, waiting, ending. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "xport/peermem_impl.h"

#define REPEATS_SLOWER 3 /* so many times an unsuccessful repetition doubles the timeout */

/* ---- frames */

/* A peer does not read our frames: it may be waiting for us to read. */
static void
on_full(void *arg)
{
	struct xport *x = arg;

	net_pull_resume(x->pull);
}

/* The connection to a peer; NULL: cannot. */
static struct net_push *
push_to(struct comm *c, uint32_t peer)
{
	struct peer *to = &c->peer[peer];
	struct xport *x = c->x;
	struct push *p;

	if (to->push)
		return to->push;
	for (p = x->pushes; p && strcmp(p->addr, to->addr) != 0; p = p->next)
		;
	if (!p) {
		p = calloc(1, sizeof *p);
		if (!p || net_push_open(to->addr, &p->push, NULL) != RC_OK) {
			free(p);
			return NULL;
		}
		net_push_when_full(p->push, on_full, x);
		snprintf(p->addr, sizeof p->addr, "%s", to->addr);
		p->next = x->pushes;
		x->pushes = p;
	}
	return to->push = p->push;
}

static struct frame
make_head(const struct comm *c, uint32_t peer, enum frame_kind kind, uint64_t op, uint32_t seq)
{
	return (struct frame){.kind = kind,
			      .comm = c->id,
			      .device = c->peer[c->rank].device_id,
			      .op = op,
			      .seq = seq,
			      .epoch = c->epoch,
			      .dst = peer,
			      .src = c->rank,
			      .whole = c->x->check_all};
}

/* Send a frame with one byte of its payload changed. */
static enum rc
push_damaged(struct net_push *push, const struct frame *head, const void *payload, size_t byte,
	     int timeout_ms)
{
	unsigned char *copy = malloc(head->nbytes);
	enum rc rc = RC_NOMEM;

	if (copy) {
		memcpy(copy, payload, head->nbytes);
		copy[byte] ^= 0xff;
		rc = net_push_send(push, head, copy, timeout_ms);
	}
	free(copy);
	return rc;
}

/* Send a frame to a peer; the lock is released if that may take time. */
static enum rc
push_frame(struct comm *c, uint32_t peer, struct frame *head, const void *payload, int timeout_ms)
{
	struct net_push *push = push_to(c, peer);
	enum frame_fate fate = FRAME_GOES;
	size_t byte = 0;
	enum rc rc;

	if (!push)
		return RC_NOMEM;
	if (faults_any(&c->x->faults))
		fate = faults_of_frame(&c->x->faults, c, peer, head, &byte);
	if (fate == FRAME_IS_LOST)
		return RC_OK;
	if (timeout_ms > 0)
		pthread_mutex_unlock(&c->x->lock);
	head->crc = frame_checksum(head, payload);
	rc = fate == FRAME_IS_DAMAGED ? push_damaged(push, head, payload, byte, timeout_ms)
				      : net_push_send(push, head, payload, timeout_ms);
	if (timeout_ms > 0)
		pthread_mutex_lock(&c->x->lock);
	return rc;
}

bool
xport_ack(struct comm *c, uint32_t peer, uint64_t op, uint32_t seq, int timeout_ms)
{
	struct frame head = make_head(c, peer, FRAME_ACK, op, seq);
	const struct exchange *e = exchange_find(c, op);
	bool sent;

	head.mark = e ? e->mark : 0;
	sent = push_frame(c, peer, &head, NULL, timeout_ms) == RC_OK;
	c->x->acks_wait |= sent && timeout_ms == ACK_LATER;
	return sent;
}

bool
xport_nack(struct comm *c, uint32_t peer, uint64_t op, uint32_t seq)
{
	struct frame head = make_head(c, peer, FRAME_NACK, op, seq);

	return push_frame(c, peer, &head, NULL, 0) == RC_OK;
}

bool
xport_refuse(struct comm *c, uint32_t peer, uint32_t epoch, uint64_t op, const char *text,
	     int timeout_ms)
{
	struct frame head = make_head(c, peer, FRAME_REFUSE, op, 0);

	head.epoch = epoch;
	head.nbytes = (uint32_t)strlen(text);
	return push_frame(c, peer, &head, text, timeout_ms) == RC_OK;
}

/*
 * Send chunk seq to the peer, waiting for room at most timeout_ms. The checksum is computed each time: a
 * repeated chunk may have been consumed and overwritten, and its frame must still be valid for the peer
 * to answer.
 */
static enum rc
transmit(struct exchange *e, uint32_t peer, uint32_t seq, int timeout_ms)
{
	struct flow *f = e->flow[peer];
	struct posted p = f->tx[seq % XPORT_WINDOW];
	struct frame head = make_head(e->comm, peer, FRAME_DATA, e->id, seq);
	struct net_push *push = push_to(e->comm, peer);

	if (!push)
		return RC_NOMEM;
	head.mark = e->mark;
	f->tx_generation = net_push_generation(push);
	f->tx_moved_ns = clock_now_ns();
	head.nbytes = p.nbytes;
	return push_frame(e->comm, peer, &head, p.data, timeout_ms);
}

/* The retransmit timeout: a chunk not acknowledged for this long may be lost. It ends well before the
 * operation's timeout. */
static uint64_t
retransmit_ns(const struct exchange *e, const struct flow *f)
{
	const struct comm *c = e->comm;
	uint64_t t = RETRANSMIT_MS * NS_PER_MS;
	unsigned slower = f->tx_repeats < REPEATS_SLOWER ? f->tx_repeats : REPEATS_SLOWER;

	if (t > c->op_timeout_ns / 4)
		t = c->op_timeout_ns / 4;
	return (t + 4 * shaper_transit_ns(&c->x->shaper, XPORT_WINDOW * FRAME_PAYLOAD_MAX))
	       << slower;
}

/* Repeat chunks that a broken connection may have lost, that arrived damaged, or whose retransmit timeout
 * is over. */
static enum rc
repeat_flow(struct exchange *e, uint32_t peer)
{
	struct flow *f = e->flow[peer];
	struct net_push *push = push_to(e->comm, peer);
	unsigned generation;
	bool anew;
	enum rc rc = RC_OK;

	if (!push)
		return RC_NOMEM;
	generation = net_push_generation(push);
	/* A first connection carries the frames that were queued before it. */
	anew = generation != f->tx_generation && !(f->tx_generation == 0 && generation == 1);
	if (!anew && !f->tx_nacked && clock_now_ns() - f->tx_moved_ns < retransmit_ns(e, f))
		return RC_OK;
	f->tx_repeats += !anew && !f->tx_nacked;
	f->tx_nacked = false;
	for (uint32_t s = f->tx_acked; s != f->tx_next && rc == RC_OK; s++)
		rc = transmit(e, peer, s, 0);
	return rc == RC_NOMEM ? rc : RC_OK; /* no room now: later */
}

enum rc
exchange_poll(struct exchange *e, struct err *err)
{
	struct comm *c = e->comm;
	uint64_t now = clock_now_ns();
	/* A late acknowledgement shows a collective's mark: both ranks may wait for a chunk. */
	bool shows = e->poll_ns && e->mark;
	enum rc rc = RC_OK;

	if (now < e->poll_ns)
		return RC_OK;
	e->poll_ns = now + POLL_MS * NS_PER_MS;
	for (uint32_t r = 0; r < c->nranks && rc == RC_OK; r++) {
		struct flow *f = e->flow[r];

		if (f && (shows || f->rx_consumed != f->rx_acked) &&
		    xport_ack(c, r, e->id, f->rx_consumed, 0))
			f->rx_acked = f->rx_consumed;
		if (f && f->tx_acked != f->tx_next)
			rc = repeat_flow(e, r);
	}
	return rc == RC_OK ? rc : err_set(err, rc, "out of memory");
}

void
xport_flush_acks(struct xport *x)
{
	for (struct push *p = x->acks_wait ? x->pushes : NULL; p; p = p->next)
		net_push_flush(p->push);
	x->acks_wait = false;
}

enum rc
xport_poll(struct xport_op *o, struct err *err)
{
	enum rc rc;

	pthread_mutex_lock(&o->comm->x->lock);
	rc = exchange_poll(o->frames, err);
	pthread_mutex_unlock(&o->comm->x->lock);
	return rc;
}

/* ---- the beginning */

/* The exchange of that number, if it may begin: created by early chunks, or new. */
static enum rc
claim(struct comm *c, uint64_t op, struct exchange **out, struct err *err)
{
	const struct finished *before;
	struct exchange *e;

	if (c->aborted[0])
		return err_set(err, RC_ABORTED, "%s", c->aborted);
	e = exchange_find(c, op);
	if (e && e->begun)
		return err_set(err, RC_INVAL, "operation %" PRIu64 " %s", op,
			       e->lingers ? "has already run" : "is already running");
	before = e ? NULL : xport_finished(c, op);
	if (before && before->gave_up)
		return err_set(err, RC_ABORTED, "%s", c->gave_up);
	if (before)
		return err_set(err, RC_INVAL, "operation %" PRIu64 " has already run", op);
	if (!e && !(e = exchange_make(c, op)))
		return err_set(err, RC_NOMEM, "out of memory");
	*out = e;
	return RC_OK;
}

enum rc
frames_begin(struct xport *x, const struct xport_opening *how, struct xport_op *o, struct err *err)
{
	struct exchange *e = NULL;
	struct comm *c = NULL;
	enum rc rc;

	pthread_mutex_lock(&x->lock);
	rc = xport_find_epoch(x, how->comm, how->epoch, &c, err);
	if (rc == RC_OK)
		rc = claim(c, how->op, &e, err);
	if (rc == RC_OK) {
		c->nearly--;
		e->begun = true;
		e->mark = how->kind;
		for (uint32_t r = 0; r < c->nranks; r++)
			for (uint32_t s = 0; e->flow[r] && s != e->flow[r]->rx_next; s++) {
				x->early_bytes -= e->flow[r]->rx[s].frame.head.nbytes;
				exchange_compare(e, &e->flow[r]->rx[s].frame.head);
			}
		o->comm = c;
		o->frames = e;
		o->allow_ns = shaper_transit_ns(&x->shaper, how->nbytes);
		o->by_pair = how->pair && c->mapping && c->mapping->joined;
		if (how->members)
			memset(how->members->pairs, 0,
			       2 * (size_t)c->nranks * sizeof *how->members->pairs);
	}
	pthread_mutex_unlock(&x->lock);
	return rc;
}

void
xport_involve(struct xport_op *o, uint32_t peer)
{
	struct xport *x = o->comm->x;

	if (!o->frames || xport_via(o, peer) == &xport_peermem)
		return;
	pthread_mutex_lock(&x->lock);
	(void)exchange_flow(o->frames, peer);
	pthread_mutex_unlock(&x->lock);
}

/* ---- waiting */

/* Lock held, released meanwhile. Read the peer's connection ourselves until a frame has arrived, if
 * possible. True: something may have moved. */
static bool
read_peer(struct exchange *e, uint32_t peer)
{
	struct comm *c = e->comm;
	struct xport *x = c->x;
	uint64_t device = c->peer[peer].device_id, seen = *c->moves;
	const struct net_into *into = e->expected.payload ? &e->expected : NULL;
	bool brief = x->acks_wait;
	struct net_conn *conn;

	pthread_mutex_unlock(&x->lock);
	conn = net_pull_take(x->pull, device);
	pthread_mutex_lock(&x->lock);
	if (conn && *c->moves == seen) {
		e->taken = conn;
		e->reader = pthread_self();
		pthread_mutex_unlock(&x->lock);
		net_pull_read(conn, into, brief);
		pthread_mutex_lock(&x->lock);
		e->taken = NULL;
	}
	if (conn)
		net_pull_give(conn);
	return conn || *c->moves != seen;
}

/* Lock held, released meanwhile. Wait on a condition until something changes, or a check is due. */
static void
sleep_on(struct wait *w, pthread_cond_t *on)
{
	struct exchange *e = w->op->frames;
	uint64_t until = e->poll_ns < w->until_ns ? e->poll_ns : w->until_ns;
	struct timespec ts = deadline_timespec(until < w->deadline_ns ? until : w->deadline_ns);

	pthread_cond_clockwait(on, &e->comm->x->lock, CLOCK_MONOTONIC, &ts);
}

/* The waiting thread may read a connection. Not of a shaped link: it would leave the next chunk unread
 * until the first one is visible, which adds up their latencies. */
static bool
may_read(const struct wait *w)
{
	const struct shaper *s = &w->op->comm->x->shaper;

	return !s->latency_ns && !s->bits_per_s && w->until_ns == UINT64_MAX &&
	       w->deadline_ns - w->now_ns > READ_MS * NS_PER_MS;
}

void
exchange_compare(struct exchange *e, const struct frame *h)
{
	if (!e->begun || !e->mark || !h->mark || h->mark == e->mark)
		return;
	e->odd = h->src + 1;
	exchange_signal(e);
}

static enum rc
disagree(const struct xport_op *o, uint32_t peer, struct err *err)
{
	return err_set(err, RC_BADDATA,
		       "rank %u (device %016" PRIx64
		       ") calls another operation than rank %u, which calls %s: the ranks disagree "
		       "on the operation",
		       peer, o->comm->peer[peer].device_id, o->comm->rank,
		       o->call ? o->call : "another");
}

static enum rc
frames_pause(struct wait *w, struct err *err)
{
	struct exchange *e = w->op->frames;
	struct comm *c = e->comm;
	struct xport *x = c->x;
	bool any = w->what && w->counter == c->moves;
	enum rc rc;

	pthread_mutex_lock(&x->lock);
	rc = exchange_poll(e, err);
	if (rc == RC_OK && e->odd)
		rc = disagree(w->op, e->odd - 1, err);
	/* The counter and the verdict change under the lock: no signal is missed. */
	if (rc != RC_OK || xport_wait_is_over(w) || xport_verdict(w->op, NULL) != RC_OK)
		goto out;
	if (any)
		net_pull_resume(x->pull);
	/* What waits for a frame to leave with has had the time of a message for it. */
	if (w->pauses > 0)
		xport_flush_acks(x);
	if (!may_read(w) || !read_peer(e, w->peer)) {
		xport_flush_acks(x);
		sleep_on(w, any ? &c->any : &e->changed);
	}
out:
	pthread_mutex_unlock(&x->lock);
	return rc;
}

/* Lock held, released while it waits. */
static enum rc
await_count(struct xport_op *o, uint32_t peer, _Atomic uint64_t *counter, uint64_t n,
	    const char *what, struct err *err)
{
	struct wait w = {.op = o,
			 .peer = peer,
			 .what = what,
			 .counter = counter,
			 .n = n,
			 .until_ns = UINT64_MAX};
	enum rc rc;

	if (xport_wait_is_over(&w))
		return RC_OK;
	pthread_mutex_unlock(&o->comm->x->lock);
	rc = xport_await(&w, err);
	pthread_mutex_lock(&o->comm->x->lock);
	return rc;
}

/* Wait until the peer has consumed all but `most` of the chunks sent to it; releases the lock. */
static enum rc
await_acks(struct xport_op *o, uint32_t peer, uint32_t most, struct err *err)
{
	struct flow *f = o->frames->flow[peer];

	return f->tx_next <= most ? RC_OK
				  : await_count(o, peer, &f->tx_acked, f->tx_next - most,
						"chunks not taken by", err);
}

/* Wait until a time; releases the lock. */
static enum rc
await_time(struct xport_op *o, uint32_t peer, uint64_t until_ns, struct err *err)
{
	struct wait w = {.op = o,
			 .peer = peer,
			 .counter = o->comm->moves,
			 .n = UINT64_MAX,
			 .until_ns = until_ns,
			 .deadline_ns = UINT64_MAX};
	enum rc rc;

	if (clock_now_ns() >= until_ns)
		return RC_OK;
	pthread_mutex_unlock(&o->comm->x->lock);
	rc = xport_await(&w, err);
	pthread_mutex_lock(&o->comm->x->lock);
	return rc;
}

uint64_t
xport_moves(struct xport_op *o)
{
	return *o->comm->moves;
}

/* Lock held. The time when the next arrived chunk of any operation becomes visible, which is not
 * signalled. */
static uint64_t
next_visible(const struct comm *c, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	if (!c->x->shaper.latency_ns && !c->x->shaper.bits_per_s)
		return next;
	for (const struct exchange *e = c->exchanges; e; e = e->next)
		for (uint32_t r = 0; r < c->nranks; r++) {
			const struct flow *f = e->flow[r];
			uint64_t at;

			if (!f || f->rx_next == f->rx_consumed)
				continue;
			at = f->rx[f->rx_consumed % XPORT_WINDOW].visible_ns;
			if (at > now && at < next)
				next = at;
		}
	return next;
}

enum rc
xport_wait(struct xport_op *o, uint32_t peer, enum xport_way way, uint64_t seen,
	   uint64_t deadline_ns, struct err *err)
{
	struct comm *c = o->comm;
	uint64_t now = clock_now_ns(), visible;
	struct wait w = {.op = o,
			 .peer = peer,
			 .what = way == XPORT_RECV ? "nothing from" : "chunks not taken by",
			 .counter = c->moves,
			 .n = seen + 1,
			 .until_ns = now + (o->by_pair ? SLEEP_MOST : POLL_MS * NS_PER_MS),
			 .deadline_ns = deadline_ns};
	enum rc rc;

	pthread_mutex_lock(&c->x->lock);
	visible = next_visible(c, now);
	pthread_mutex_unlock(&c->x->lock);
	if (visible < w.until_ns)
		w.until_ns = visible;
	rc = xport_await(&w, err);
	if (rc == RC_TIMEOUT && o->recorder) /* the last slice of the wait */
		o->recorder->idle_ns = c->op_timeout_ns + o->allow_ns;
	return rc;
}

/* ---- sending and receiving */

/* Send the last posted chunk as soon as there is room for it. */
static enum rc
send_posted(struct xport_op *o, uint32_t peer, struct err *err)
{
	uint64_t late = xport_deadline(o);
	struct flow *f = o->frames->flow[peer];
	uint32_t seq = f->tx_next++;
	enum rc rc;

	assert(f->tx_next - f->tx_acked <= XPORT_WINDOW);
	while ((rc = transmit(o->frames, peer, seq, POLL_MS)) == RC_TIMEOUT) {
		rc = xport_verdict(o, err);
		if (rc == RC_OK && clock_now_ns() >= late)
			rc = err_set(err, RC_TIMEOUT,
				     "no room for chunks to rank %u (device %016" PRIx64 ")", peer,
				     o->comm->peer[peer].device_id);
		if (rc != RC_OK) {
			recorder_missing(o->recorder, peer);
			return rc;
		}
	}
	return rc == RC_OK ? rc : err_set(err, rc, "out of memory");
}

/* The chunk's copy if it is a small one of a collective, else the chunk. */
static const void *
copy_small(const struct xport_op *o, struct flow *f, const void *data, size_t nbytes)
{
	unsigned char *at;

	if (!o->kind || nbytes > COPY_MAX)
		return data;
	if (!f->copy && !(f->copy = malloc((size_t)XPORT_WINDOW * COPY_MAX)))
		return data;
	at = f->copy + f->tx_next % XPORT_WINDOW * (size_t)COPY_MAX;
	return nbytes ? memcpy(at, data, nbytes) : at;
}

static enum rc
frames_send(struct xport_op *o, uint32_t peer, const void *data, size_t nbytes, struct err *err)
{
	struct xport *x = o->comm->x;
	struct flow *f;
	enum rc rc;

	if (nbytes > FRAME_PAYLOAD_MAX)
		return err_set(err, RC_INVAL, "chunk of %zu bytes: the limit is %u", nbytes,
			       FRAME_PAYLOAD_MAX);
	pthread_mutex_lock(&x->lock);
	f = exchange_flow(o->frames, peer);
	rc = f ? xport_verdict(o, err) : err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK)
		rc = await_acks(o, peer, XPORT_WINDOW - 1, err);
	if (rc == RC_OK) {
		/* The sender's link is busy with the chunk until then. */
		uint64_t busy_ns = shaper_out(&x->shaper, clock_now_ns(), nbytes);
		struct posted *p = &f->tx[f->tx_next % XPORT_WINDOW];

		*p = (struct posted){copy_small(o, f, data, nbytes), (uint32_t)nbytes, false};
		p->copied = p->data != data;
		if (busy_ns) {
			uint64_t now = clock_now_ns();

			recorder_sends(o->recorder, peer, nbytes,
				       busy_ns > now ? busy_ns - now : 0);
			rc = await_time(o, peer, busy_ns, err);
		}
		shaper_woke(&x->shaper, busy_ns, clock_now_ns());
	}
	if (rc == RC_OK)
		rc = send_posted(o, peer, err);
	recorder_moved(o->recorder, rc == RC_OK ? nbytes : 0, 0);
	o->sent += rc == RC_OK ? nbytes : 0;
	pthread_mutex_unlock(&x->lock);
	return rc;
}

/* The bytes of a chunk, if it is of this operation. */
static enum rc
bytes_of(struct xport_op *o, uint32_t peer, const struct net_frame *f, const void **data,
	 size_t *nbytes, struct err *err)
{
	if (f->head.mark && o->kind && f->head.mark != o->kind)
		return disagree(o, peer, err);
	*data = f->payload;
	*nbytes = f->head.nbytes;
	return RC_OK;
}

void
xport_expect(struct xport_op *o, uint32_t peer, void *room, size_t nbytes)
{
	struct comm *c = o->comm;
	struct flow *f;

	if (xport_via(o, peer) != &xport_frames)
		return;
	pthread_mutex_lock(&c->x->lock);
	f = exchange_flow(o->frames, peer);
	if (f && f->rx_next == f->rx_consumed)
		o->frames->expected = (struct net_into){.payload = room,
							.head = {.kind = FRAME_DATA,
								 .comm = c->id,
								 .device = c->peer[peer].device_id,
								 .op = o->frames->id,
								 .seq = f->rx_consumed,
								 .epoch = c->epoch,
								 .dst = c->rank,
								 .src = peer,
								 .nbytes = (uint32_t)nbytes}};
	pthread_mutex_unlock(&c->x->lock);
}

static enum rc
frames_recv(struct xport_op *o, uint32_t peer, const void **data, size_t *nbytes, struct err *err)
{
	struct xport *x = o->comm->x;
	struct flow *f;
	enum rc rc;

	pthread_mutex_lock(&x->lock);
	f = exchange_flow(o->frames, peer);
	rc = f ? await_count(o, peer, &f->rx_next, f->rx_consumed + 1ull, "nothing from", err)
	       : err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK) {
		struct arrived *a = &f->rx[f->rx_consumed % XPORT_WINDOW];

		if (a->visible_ns) {
			bool waits = clock_now_ns() < a->visible_ns;

			rc = await_time(o, peer, a->visible_ns, err);
			shaper_woke(&x->shaper, waits ? a->visible_ns : 0, clock_now_ns());
		}
		if (rc == RC_OK)
			rc = bytes_of(o, peer, &a->frame, data, nbytes, err);
		if (rc == RC_OK) {
			recorder_moved(o->recorder, 0, *nbytes);
			o->received += *nbytes;
		}
	}
	o->frames->expected.payload = NULL;
	pthread_mutex_unlock(&x->lock);
	return rc;
}

static void
frames_release(struct xport_op *o, uint32_t peer)
{
	struct xport *x = o->comm->x;
	struct flow *f;
	struct net_frame done;

	pthread_mutex_lock(&x->lock);
	f = o->frames->flow[peer];
	done = f->rx[f->rx_consumed++ % XPORT_WINDOW].frame;
	if (f->rx_consumed - f->rx_acked >= XPORT_WINDOW / 2 &&
	    xport_ack(o->comm, peer, o->frames->id, f->rx_consumed, LAST_WORD_MS)) {
		f->rx_acked = f->rx_consumed;
		f->rx_large = false;
	}
	pthread_mutex_unlock(&x->lock);
	net_frame_free(&done);
}

static bool
frames_room(struct xport_op *o, uint32_t peer, enum xport_way way)
{
	struct xport *x = o->comm->x;
	struct flow *f;
	bool ready;

	pthread_mutex_lock(&x->lock);
	f = exchange_flow(o->frames, peer);
	if (!f || xport_verdict(o, NULL) != RC_OK)
		ready = true;
	else if (way == XPORT_SEND)
		ready = f->tx_next - f->tx_acked < XPORT_WINDOW;
	else if (way == XPORT_TAKEN)
		ready = f->tx_next == f->tx_acked;
	else
		ready = f->rx_next != f->rx_consumed &&
			clock_now_ns() >= f->rx[f->rx_consumed % XPORT_WINDOW].visible_ns;
	pthread_mutex_unlock(&x->lock);
	return ready;
}

static enum rc
frames_share(struct xport_op *o, uint32_t peer, struct err *err)
{
	return err_set(err, RC_INTERNAL, "rank %u (device %016" PRIx64 ") shares no memory", peer,
		       o->comm->peer[peer].device_id);
}

const struct transport xport_frames = {.send = frames_send,
				       .recv = frames_recv,
				       .release = frames_release,
				       .room = frames_room,
				       .share = frames_share,
				       .pause = frames_pause};

/* ---- the end */

/* A collective's small chunks are copied, so that it may end before they are acknowledged. Not over shaped links,
 * where predicted times have that wait. */
static bool
may_linger(const struct xport_op *o)
{
	const struct shaper *s = &o->comm->x->shaper;

	return o->kind && !s->latency_ns && !s->bits_per_s;
}

static bool
all_copied(const struct flow *f)
{
	for (uint32_t s = f->tx_acked; s != f->tx_next; s++)
		if (!f->tx[s % XPORT_WINDOW].copied)
			return false;
	return true;
}

bool
exchange_unacked(const struct exchange *e)
{
	for (uint32_t r = 0; r < e->comm->nranks; r++)
		if (e->flow[r] && e->flow[r]->tx_acked != e->flow[r]->tx_next)
			return true;
	return false;
}

enum rc
frames_settle(struct xport_op *o, struct err *err)
{
	struct comm *c = o->comm;
	struct flow **flow = o->frames->flow;
	enum rc rc = RC_OK;

	pthread_mutex_lock(&c->x->lock);
	for (uint32_t r = 0; r < c->nranks && rc == RC_OK; r++)
		if (flow[r] && flow[r]->rx_next != flow[r]->rx_consumed)
			rc = err_set(
			    err, RC_BADDATA,
			    "rank %u (device %016" PRIx64
			    ") sent more than expected: the ranks disagree on the operation",
			    r, c->peer[r].device_id);
	/* Without room for an acknowledgement the peer repeats and gets it then. */
	for (uint32_t r = 0; r < c->nranks && rc == RC_OK; r++)
		if (flow[r] && flow[r]->rx_consumed != flow[r]->rx_acked &&
		    xport_ack(c, r, o->frames->id, flow[r]->rx_consumed,
			      may_linger(o) && !flow[r]->rx_large && flow[r]->tx_next
				  ? ACK_LATER
				  : LAST_WORD_MS))
			flow[r]->rx_acked = flow[r]->rx_consumed;
	/* A peer that sends nothing back may run another operation: its acknowledgement shows that it does not. */
	for (uint32_t r = 0; r < c->nranks && rc == RC_OK; r++)
		if (flow[r] && !(may_linger(o) && flow[r]->rx_consumed && c->nlinger < LINGER_MAX &&
				 all_copied(flow[r])))
			rc = await_acks(o, r, 0, err);
	pthread_mutex_unlock(&c->x->lock);
	return rc;
}

void
frames_end(struct xport_op *o, const char *reason)
{
	struct comm *c = o->comm;
	struct exchange *e = o->frames;
	struct xport *x = c->x;
	uint64_t until = reason ? clock_now_ns() + LAST_WORD_MS * NS_PER_MS : 0;

	pthread_mutex_lock(&x->lock);
	if (reason)
		memcpy(c->gave_up, reason, REASON_MAX);
	for (uint32_t r = 0; r < c->nranks && reason; r++)
		if (e->flow[r] && e->flow[r]->used &&
		    !xport_refuse(c, r, c->epoch, e->id, reason, 0))
			(void)xport_refuse(c, r, c->epoch, e->id, reason, deadline_left_ms(until));
	e->lingers = !reason && exchange_unacked(e);
	c->nlinger += e->lingers;
	if (!e->lingers)
		exchange_drop(e, reason ? OP_GAVE_UP : OP_DONE);
	if (!x->tends && (x->acks_wait || c->nlinger))
		pthread_cond_signal(&x->tend);
	xport_forget_comm(c);
	pthread_mutex_unlock(&x->lock);
}
