/* The working side of an operation: receiving, waiting, ending. */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "xport/peermem_impl.h"

#define READ_MS	     200 /* well above how long net_pull_read takes */
#define LAST_WORD_MS 500 /* the longest an end waits for room for its last frames */

/* The operation of that number, if it may begin: the one that early chunks have made, or a new one.
 */
static enum rc
claim(struct comm *c, uint64_t op, struct xport_op **out, struct err *err)
{
	const struct finished *before;
	struct xport_op *o;

	if (c->aborted[0])
		return err_set(err, RC_ABORTED, "%s", c->aborted);
	o = xport_find_op(c, op);
	if (o && o->begun)
		return err_set(err, RC_INVAL, "operation %" PRIu64 " runs already", op);
	before = o ? NULL : xport_finished(c, op);
	if (before && before->gave_up)
		return err_set(err, RC_ABORTED, "%s", c->gave_up);
	if (before)
		return err_set(err, RC_INVAL, "operation %" PRIu64 " has run already", op);
	if (!o && !(o = xport_make_op(c, op)))
		return err_set(err, RC_NOMEM, "out of memory");
	*out = o;
	return RC_OK;
}

enum rc
xport_begin(struct xport *x, uint64_t comm, uint32_t epoch, uint64_t op, struct xport_op **out,
	    struct err *err)
{
	struct xport_op *o = NULL;
	struct comm *c = NULL;
	enum rc rc;

	pthread_mutex_lock(&x->lock);
	rc = xport_find_epoch(x, comm, epoch, &c, err);
	if (rc == RC_OK)
		rc = claim(c, op, &o, err);
	if (rc == RC_OK) {
		for (uint32_t r = 0; r < c->nranks; r++)
			for (uint32_t s = 0; o->flow[r] && s != o->flow[r]->rx_next; s++)
				x->early_bytes -= o->flow[r]->rx[s].frame.head.nbytes;
		c->nearly--;
		o->begun = true;
		o->meter = NULL;
		*out = o;
	}
	pthread_mutex_unlock(&x->lock);
	return rc;
}

void
xport_meter(struct xport_op *o, struct recorder *m)
{
	o->meter = m; /* read by the operation's own thread alone */
}

void
xport_allow(struct xport_op *o, uint64_t nbytes)
{
	struct xport *x = o->comm->x;

	pthread_mutex_lock(&x->lock);
	o->allow_ns = shaper_transit_ns(&x->shaper, nbytes);
	pthread_mutex_unlock(&x->lock);
}

bool
xport_is_slow(const struct xport_op *o)
{
	const struct shaper *s = &o->comm->x->shaper; /* these two never change */

	return s->latency_ns || s->bits_per_s;
}

void
xport_involve(struct xport_op *o, uint32_t peer)
{
	struct xport *x = o->comm->x;

	pthread_mutex_lock(&x->lock);
	(void)xport_flow(o, peer);
	pthread_mutex_unlock(&x->lock);
}

enum rc
xport_verdict(struct xport_op *o, struct err *err)
{
	struct comm *c = o->comm;

	if (c->aborted[0])
		return err_set(err, RC_ABORTED, "%s", c->aborted);
	if (o->refused[0])
		return err_set(err, RC_ABORTED, "%s", o->refused);
	return RC_OK;
}

uint64_t
xport_late_ns(const struct xport_op *o)
{
	return clock_now_ns() + o->comm->op_timeout_ns + o->allow_ns;
}

/* Read the peer's connection ourselves until a frame has come, if that can be done. True: something
 * may have moved. */
static bool
read_peer(struct xport_op *o, uint32_t peer)
{
	struct xport *x = o->comm->x;
	uint64_t device = o->comm->peer[peer].device_id, seen = o->comm->moves;
	const struct net_into *into = o->expected.payload ? &o->expected : NULL;
	struct net_conn *conn;

	pthread_mutex_unlock(&x->lock);
	conn = net_pull_take(x->pull, device);
	pthread_mutex_lock(&x->lock);
	if (conn && o->comm->moves == seen) {
		o->taken = conn;
		o->reader = pthread_self();
		pthread_mutex_unlock(&x->lock);
		net_pull_read(conn, into);
		pthread_mutex_lock(&x->lock);
		o->taken = NULL;
	}
	if (conn)
		net_pull_give(conn);
	return conn || o->comm->moves != seen;
}

enum rc
xport_await(struct xport_op *o, pthread_cond_t *on, uint32_t peer, uint64_t until_ns,
	    uint64_t deadline_ns, const char *what, struct err *err)
{
	struct comm *c = o->comm;
	uint64_t now = clock_now_ns();
	struct timespec ts;
	enum rc rc = xport_verdict(o, err);

	if (rc == RC_OK)
		rc = xport_poll_op(o, err);
	if (rc != RC_OK)
		return rc;
	if (now >= deadline_ns)
		return err_set(err, RC_TIMEOUT,
			       "no progress for %.1fs: %s rank %u (device %016" PRIx64 ")",
			       (double)(c->op_timeout_ns + o->allow_ns) / 1e9, what, peer,
			       c->peer[peer].device_id);
	if (on == &o->changed && until_ns == UINT64_MAX &&
	    deadline_ns - now > READ_MS * NS_PER_MS && read_peer(o, peer))
		return RC_OK;
	if (on != &o->changed)
		net_pull_resume(c->x->pull);
	if (until_ns > o->poll_ns)
		until_ns = o->poll_ns;
	if (until_ns > deadline_ns)
		until_ns = deadline_ns;
	ts = deadline_timespec(until_ns);
	pthread_cond_clockwait(on, &c->x->lock, CLOCK_MONOTONIC, &ts);
	return RC_OK;
}

enum rc
xport_await_acks(struct xport_op *o, uint32_t peer, uint32_t most, struct err *err)
{
	struct flow *f = o->flow[peer];
	uint32_t acked = f->tx_acked;
	uint64_t deadline = xport_late_ns(o);
	enum rc rc = RC_OK;

	if (f->tx_next - f->tx_acked <= most)
		return RC_OK;
	recorder_waits(o->meter, peer);
	while (rc == RC_OK && f->tx_next - f->tx_acked > most) {
		rc = xport_await(o, &o->changed, peer, UINT64_MAX, deadline, "chunks not taken by",
				 err);
		if (f->tx_acked != acked) {
			acked = f->tx_acked;
			deadline = xport_late_ns(o);
		}
	}
	recorder_goes_on(o->meter, rc != RC_OK);
	return rc;
}

/* Where the bytes of a chunk are. */
static enum rc
find_bytes(struct xport_op *o, uint32_t peer, const struct net_frame *f, const void **data,
	   size_t *nbytes, struct err *err)
{
	struct frame_rndv loan;

	*data = f->payload;
	*nbytes = f->head.nbytes;
	if (f->head.kind != FRAME_RNDV)
		return RC_OK;
	memcpy(&loan, f->payload, sizeof loan);
	*nbytes = le64toh(loan.nbytes);
	*data = peermem_borrow(o->comm->lane, peer, le64toh(loan.offset), *nbytes);
	return *data ? RC_OK
		     : err_set(err, RC_BADDATA,
			       "rank %u (device %016" PRIx64
			       ") names a chunk that is not in its memory",
			       peer, o->comm->peer[peer].device_id);
}

void
xport_expect(struct xport_op *o, uint32_t peer, void *room, size_t nbytes)
{
	struct comm *c = o->comm;
	struct flow *f;

	pthread_mutex_lock(&c->x->lock);
	f = xport_flow(o, peer);
	if (f && f->rx_next == f->rx_consumed)
		o->expected = (struct net_into){.payload = room,
						.head = {.kind = FRAME_DATA,
							 .comm = c->id,
							 .device = c->peer[peer].device_id,
							 .op = o->id,
							 .seq = f->rx_next,
							 .epoch = c->epoch,
							 .dst = c->rank,
							 .src = peer,
							 .nbytes = (uint32_t)nbytes}};
	pthread_mutex_unlock(&c->x->lock);
}

enum rc
xport_recv(struct xport_op *o, uint32_t peer, const void **data, size_t *nbytes, struct err *err)
{
	struct xport *x = o->comm->x;
	uint64_t deadline;
	struct flow *f;
	enum rc rc = RC_OK;

	pthread_mutex_lock(&x->lock);
	deadline = xport_late_ns(o);
	f = xport_flow(o, peer);
	if (!f)
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK && f->rx_next == f->rx_consumed)
		recorder_waits(o->meter, peer);
	while (rc == RC_OK && f->rx_next == f->rx_consumed)
		rc = xport_await(o, &o->changed, peer, UINT64_MAX, deadline, "nothing from", err);
	recorder_goes_on(o->meter, rc != RC_OK);
	if (rc == RC_OK) {
		struct arrived *a = &f->rx[f->rx_consumed % XPORT_WINDOW];

		while (rc == RC_OK && clock_now_ns() < a->visible_ns)
			rc = xport_await(o, &o->changed, peer, a->visible_ns, UINT64_MAX,
					 "waiting for", err);
		if (rc == RC_OK)
			rc = find_bytes(o, peer, &a->frame, data, nbytes, err);
	}
	o->expected.payload = NULL;
	pthread_mutex_unlock(&x->lock);
	return rc;
}

void
xport_release(struct xport_op *o, uint32_t peer)
{
	struct xport *x = o->comm->x;
	struct flow *f;
	struct net_frame done;

	pthread_mutex_lock(&x->lock);
	f = o->flow[peer];
	done = f->rx[f->rx_consumed++ % XPORT_WINDOW].frame;
	if (f->rx_consumed - f->rx_acked >= XPORT_WINDOW / 2 &&
	    xport_ack(o->comm, peer, o->id, f->rx_consumed, LAST_WORD_MS))
		f->rx_acked = f->rx_consumed;
	pthread_mutex_unlock(&x->lock);
	net_frame_free(&done);
}

bool
xport_ready(struct xport_op *o, uint32_t peer, enum xport_way way)
{
	struct xport *x = o->comm->x;
	struct flow *f;
	bool ready;

	pthread_mutex_lock(&x->lock);
	f = xport_flow(o, peer);
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

uint64_t
xport_moves(struct xport_op *o)
{
	uint64_t n;

	pthread_mutex_lock(&o->comm->x->lock);
	n = o->comm->moves;
	pthread_mutex_unlock(&o->comm->x->lock);
	return n;
}

/* When the next chunk that has arrived for any operation may be seen: nothing signals that. */
static uint64_t
next_visible(const struct comm *c)
{
	uint64_t now = clock_now_ns(), next = UINT64_MAX;

	if (!c->x->shaper.latency_ns && !c->x->shaper.bits_per_s)
		return next;
	for (const struct xport_op *o = c->ops; o; o = o->next)
		for (uint32_t r = 0; r < c->nranks; r++) {
			const struct flow *f = o->flow[r];
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
	enum rc rc = RC_OK;

	pthread_mutex_lock(&c->x->lock);
	recorder_waits(o->meter, peer);
	if (c->moves == seen)
		rc = xport_await(o, &c->any, peer, next_visible(c), deadline_ns,
				 way == XPORT_RECV ? "nothing from" : "chunks not taken by", err);
	recorder_goes_on(o->meter, rc != RC_OK);
	if (rc == RC_TIMEOUT && o->meter) /* this wait was the last of many */
		o->meter->idle_ns = c->op_timeout_ns + o->allow_ns;
	pthread_mutex_unlock(&c->x->lock);
	return rc;
}

uint64_t
xport_deadline(struct xport_op *o)
{
	uint64_t t;

	pthread_mutex_lock(&o->comm->x->lock);
	t = xport_late_ns(o);
	pthread_mutex_unlock(&o->comm->x->lock);
	return t;
}

/* Lock held. Everything that came was due and is acknowledged, everything sent is consumed. */
static enum rc
settle(struct xport_op *o, struct err *err)
{
	struct comm *c = o->comm;
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < c->nranks; r++) {
		struct flow *f = o->flow[r];

		if (f && f->rx_next != f->rx_consumed)
			return err_set(err, RC_BADDATA,
				       "rank %u (device %016" PRIx64
				       ") sent more than is due: the ranks disagree on the "
				       "operation",
				       r, c->peer[r].device_id);
	}
	for (uint32_t r = 0; r < c->nranks; r++) {
		struct flow *f = o->flow[r];

		/* Without room for it the peer will ask, and hear it then. */
		if (f && f->rx_consumed != f->rx_acked &&
		    xport_ack(c, r, o->id, f->rx_consumed, LAST_WORD_MS))
			f->rx_acked = f->rx_consumed;
	}
	for (uint32_t r = 0; r < c->nranks && rc == RC_OK; r++)
		if (o->flow[r])
			rc = xport_await_acks(o, r, 0, err);
	return rc;
}

/* Lock held. Tell the peers why; what one of them has said, or whoever aborted us, is passed on as
 * it is. */
static void
give_up(struct xport_op *o, const char *reason)
{
	struct comm *c = o->comm;
	uint64_t until = clock_now_ns() + LAST_WORD_MS * NS_PER_MS;
	char text[REASON_MAX];

	if (c->aborted[0] || o->refused[0])
		snprintf(text, sizeof text, "%s", c->aborted[0] ? c->aborted : o->refused);
	else
		snprintf(text, sizeof text, "rank %u (device %016" PRIx64 ") gave up: %s", c->rank,
			 c->peer[c->rank].device_id, reason);
	memcpy(c->gave_up, text, sizeof text);
	for (uint32_t r = 0; r < c->nranks; r++)
		if (o->flow[r] && o->flow[r]->used && !xport_refuse(c, r, c->epoch, o->id, text, 0))
			(void)xport_refuse(c, r, c->epoch, o->id, text, deadline_left_ms(until));
}

enum rc
xport_end(struct xport_op *o, enum xport_ending how, struct err *err)
{
	struct comm *c = o->comm;
	struct xport *x = c->x;
	enum rc rc = how == XPORT_COMPLETE ? RC_OK : err->rc;

	pthread_mutex_lock(&x->lock);
	if (how == XPORT_COMPLETE)
		rc = settle(o, err);
	if (rc != RC_OK)
		give_up(o, err->text);
	xport_drop_op(o, rc == RC_OK ? OP_DONE : OP_GAVE_UP);
	xport_forget_comm(c);
	pthread_mutex_unlock(&x->lock);
	return rc;
}
