/* Sending: chunks, retransmissions, acknowledgements, refusals. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "xport/peermem_impl.h"

#define REPEATS_SLOWER 3 /* so many times an unsuccessful repetition doubles the timeout */

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
	struct net_push *push = xport_push(c, peer);
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
	bool sent = push_frame(c, peer, &head, NULL, timeout_ms) == RC_OK;

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
	struct net_push *push = xport_push(e->comm, peer);

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
	struct net_push *push = xport_push(e->comm, peer);
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
	enum rc rc = RC_OK;

	if (now < e->poll_ns)
		return RC_OK;
	e->poll_ns = now + POLL_MS * NS_PER_MS;
	for (uint32_t r = 0; r < c->nranks && rc == RC_OK; r++) {
		struct flow *f = e->flow[r];

		if (f && f->rx_consumed != f->rx_acked && xport_ack(c, r, e->id, f->rx_consumed, 0))
			f->rx_acked = f->rx_consumed;
		if (f && f->tx_acked != f->tx_next)
			rc = repeat_flow(e, r);
	}
	return rc == RC_OK ? rc : err_set(err, rc, "out of memory");
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

/* Send the last posted chunk as soon as there is room for it. */
static enum rc
send_posted(struct xport_op *o, uint32_t peer, struct err *err)
{
	uint64_t late = xport_deadline(o);
	uint32_t seq = o->frames->flow[peer]->tx_next++;
	enum rc rc;

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

enum rc
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
		rc = frames_await_acks(o, peer, XPORT_WINDOW - 1, err);
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
			rc = frames_await_time(o, peer, busy_ns, err);
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
