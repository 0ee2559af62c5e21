/*
 * A frame has arrived: find its operation, check that it is the next of its flow, and file it. Runs on
 * the thread that read it.
 *
 * A chunk that cannot be filed now (early beyond the limits, not the next of its flow, no memory) is
 * dropped: it is not acknowledged, so its sender repeats it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "xport/xport_impl.h"

#define DAMAGED_SAID 64

/* Forget the oldest operation that has not begun here and was given up by a peer. */
static bool
evict_early(struct comm *c)
{
	struct exchange *oldest = NULL;

	for (struct exchange *e = c->exchanges; e; e = e->next)
		if (!e->begun && e->refused[0])
			oldest = e;
	if (!oldest)
		return false;
	memcpy(c->gave_up, oldest->refused, sizeof c->gave_up);
	exchange_drop(oldest, OP_GAVE_UP);
	return true;
}

/* The exchange of a frame; created when the frame arrives before the operation begins. NULL: not now. */
static struct exchange *
find_or_make(struct comm *c, uint64_t op)
{
	struct exchange *e = exchange_find(c, op);

	if (e)
		return e;
	if (c->nearly >= XPORT_EARLY_OPS && !evict_early(c))
		return NULL;
	return exchange_make(c, op);
}

/* A chunk of an operation that has ended here: our last ack or refusal was lost, or the peer sends more
 * than expected. */
static void
answer_late(struct comm *c, const struct frame *h, const struct finished *done)
{
	char text[REASON_MAX];

	if (done->gave_up) {
		xport_refuse(c, h->src, c->epoch, h->op, c->gave_up, 0);
	} else if (h->seq < done->consumed) {
		xport_ack(c, h->src, h->op, done->consumed, 0);
	} else {
		snprintf(text, sizeof text,
			 "rank %u (device %016" PRIx64 ") has received all chunks that it expects: "
			 "the ranks disagree on the operation",
			 c->rank, c->peer[c->rank].device_id);
		xport_refuse(c, h->src, c->epoch, h->op, text, 0);
	}
}

/* Returns true when the chunk was kept. */
static bool
file_chunk(struct comm *c, struct net_frame *f)
{
	const struct frame *h = &f->head;
	struct xport *x = c->x;
	struct exchange *e = exchange_find(c, h->op);
	const struct finished *done = e ? NULL : xport_finished(c, h->op);
	struct finished lingers = {0};
	struct flow *flow;
	struct arrived *slot;

	if (e && e->lingers) {
		lingers.consumed = e->flow[h->src] ? e->flow[h->src]->rx_consumed : 0;
		done = &lingers;
	}
	if (done) {
		answer_late(c, h, done);
		return false;
	}
	/* Only a first chunk can create an exchange. */
	if (!e && (h->seq != 0 || !(e = find_or_make(c, h->op))))
		return false;
	if (!e->begun && (e->refused[0] || x->early_bytes + h->nbytes > XPORT_EARLY_MAX))
		return false;
	flow = exchange_flow(e, h->src);
	if (!flow)
		return false;
	if (h->seq < flow->rx_consumed) {
		/* A repetition: our ack was lost. */
		xport_ack(c, h->src, h->op, flow->rx_consumed, 0);
		return false;
	}
	if (h->seq != flow->rx_next || flow->rx_next - flow->rx_consumed >= XPORT_WINDOW)
		return false;
	slot = &flow->rx[flow->rx_next++ % XPORT_WINDOW];
	slot->frame = *f;
	slot->visible_ns = shaper_in(&x->shaper, clock_now_ns(), h->nbytes);
	flow->rx_large |= h->nbytes > COPY_MAX;
	exchange_compare(e, h);
	if (!e->begun)
		x->early_bytes += h->nbytes;
	exchange_signal(e);
	return true;
}

static void
note_ack(struct comm *c, const struct frame *h)
{
	struct exchange *e = exchange_find(c, h->op);
	struct flow *flow = e ? e->flow[h->src] : NULL;
	uint32_t seq = h->seq;

	if (!flow)
		return;
	exchange_compare(e, h);
	/* The ack of an ended operation may exceed what was sent to this peer. */
	if (seq > flow->tx_next)
		seq = flow->tx_next;
	if (seq <= flow->tx_acked)
		return;
	flow->tx_acked = seq;
	flow->tx_repeats = 0;
	flow->tx_moved_ns = clock_now_ns();
	exchange_signal(e);
	if (e->lingers && !exchange_unacked(e))
		exchange_drop(e, OP_DONE);
}

/* A chunk arrived damaged at the peer: the thread of the operation sends it again, and those after it,
 * which the peer has dropped. */
static void
note_nack(struct comm *c, const struct frame *h)
{
	struct exchange *e = exchange_find(c, h->op);
	struct flow *flow = e ? e->flow[h->src] : NULL;

	if (!flow || h->seq - flow->tx_acked >= flow->tx_next - flow->tx_acked)
		return;
	flow->tx_nacked = true;
	e->poll_ns = 0;
	exchange_signal(e);
}

/* A peer gave up an operation. The first reason is kept. */
static void
note_refusal(struct comm *c, const struct net_frame *f)
{
	struct exchange *e = NULL;
	size_t n = f->head.nbytes < REASON_MAX ? f->head.nbytes : REASON_MAX - 1;

	if (!xport_finished(c, f->head.op))
		e = find_or_make(c, f->head.op);
	if (e && e->lingers) {
		exchange_drop(e, OP_DONE);
		return;
	}
	if (!e || e->refused[0])
		return;
	memcpy(e->refused, f->payload, n);
	e->refused[n] = '\0';
	for (char *p = e->refused; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	if (!e->refused[0])
		snprintf(e->refused, sizeof e->refused, "rank %u gave up, no reason given",
			 f->head.src);
	exchange_refuse(e);
}

/* A chunk of an older epoch: tell its sender. One of a newer epoch is sent again when we know the epoch
 * too. */
static void
refuse_old(struct comm *c, const struct frame *h)
{
	char text[REASON_MAX];

	if (h->kind != FRAME_DATA || h->epoch > c->epoch)
		return;
	snprintf(text, sizeof text, "rank %u (device %016" PRIx64 ") is at epoch %u", c->rank,
		 c->peer[c->rank].device_id, c->epoch);
	xport_refuse(c, h->src, h->epoch, h->op, text, 0);
}

/* The communicator of a frame, if it comes from the rank that it names. */
static struct comm *
whose(struct xport *x, const struct frame *h)
{
	struct comm *c = xport_find_comm(x, h->comm);

	if (!c || h->dst != c->rank || h->src >= c->nranks || h->src == c->rank ||
	    h->device != c->peer[h->src].device_id)
		return NULL;
	return c;
}

/* Lock held. Request the chunks from the next one on again, now. */
static void
send_nack(struct comm *c, const struct frame *h)
{
	struct exchange *e = exchange_find(c, h->op);
	const struct finished *done = e ? NULL : xport_finished(c, h->op);

	if (done)
		answer_late(c, h, done);
	else
		xport_nack(c, h->src, h->op, e && e->flow[h->src] ? e->flow[h->src]->rx_next : 0);
}

void
xport_arrive_damaged(void *arg, const struct frame *h)
{
	struct xport *x = arg;
	uint64_t n = 0;
	struct comm *c;
	char line[256];

	pthread_mutex_lock(&x->lock);
	c = whose(x, h);
	if (!c || h->epoch != c->epoch || h->kind != FRAME_DATA) {
		x->foreign++;
	} else {
		n = ++x->damaged;
		if (!c->aborted[0])
			send_nack(c, h);
	}
	pthread_mutex_unlock(&x->lock);
	/* Log each of the first, then ever fewer, so that a broken link does not fill a disk. */
	if (!x->say || n == 0 || (n > DAMAGED_SAID && (n & (n - 1)) != 0))
		return;
	snprintf(line, sizeof line,
		 "communicator %" PRIu64 ", operation %" PRIu64
		 ": chunk %u from rank %u (device %016" PRIx64
		 ") arrived damaged (crc), requested again; %" PRIu64 " so far",
		 h->comm, h->op, h->seq, h->src, h->device, n);
	x->say(line);
}

void
xport_arrive(void *arg, struct net_frame *f)
{
	struct xport *x = arg;
	const struct frame *h = &f->head;
	struct comm *c;
	bool kept = false;

	pthread_mutex_lock(&x->lock);
	c = whose(x, h);
	if (!c) {
		x->foreign++;
	} else if (faults_any(&x->faults) && faults_cut_off(&x->faults, c, h->src)) {
		kept = false;
	} else if (h->epoch != c->epoch) {
		x->foreign++;
		refuse_old(c, h);
	} else if (c->aborted[0]) {
		if (h->kind == FRAME_DATA)
			xport_refuse(c, h->src, c->epoch, h->op, c->aborted, 0);
	} else if (h->kind == FRAME_DATA) {
		kept = file_chunk(c, f);
	} else if (h->kind == FRAME_ACK) {
		note_ack(c, h);
	} else if (h->kind == FRAME_NACK) {
		note_nack(c, h);
	} else {
		note_refusal(c, f);
	}
	pthread_mutex_unlock(&x->lock);
	if (!kept)
		net_frame_free(f);
}

enum rc
xport_inject(struct xport *x, uint64_t comm, uint64_t op, uint32_t src, uint32_t seq,
	     const void *data, size_t nbytes, struct err *err)
{
	struct net_frame f;
	struct comm *c;
	struct exchange *e;
	enum rc rc;

	if (nbytes > FRAME_PAYLOAD_MAX)
		return err_set(err, RC_INVAL, "chunk of %zu bytes: the limit is %u", nbytes,
			       FRAME_PAYLOAD_MAX);
	pthread_mutex_lock(&x->lock);
	c = xport_find_comm(x, comm);
	e = c ? exchange_find(c, op) : NULL;
	if (!e || !e->begun)
		rc = err_set(err, RC_NOTFOUND, "no BeginReceive waits for this stream");
	else if (src >= c->nranks || src == c->rank)
		rc = err_set(err, RC_INVAL, "no peer of rank %u", src);
	else
		rc = xport_verdict(&(struct xport_op){.comm = c, .frames = e}, err);
	if (rc == RC_OK) {
		f.head = (struct frame){.kind = FRAME_DATA,
					.comm = comm,
					.device = c->peer[src].device_id,
					.op = op,
					.seq = seq,
					.epoch = c->epoch,
					.dst = c->rank,
					.src = src,
					.nbytes = (uint32_t)nbytes};
		rc = net_frame_copy(&f, data, err);
	}
	if (rc == RC_OK && !file_chunk(c, &f)) {
		net_frame_free(&f);
		rc = err_set(err, RC_BUSY, "chunk %u is not the next one, or the window is full",
			     seq);
	}
	pthread_mutex_unlock(&x->lock);
	return rc;
}

enum rc
xport_inject_end(struct xport *x, uint64_t comm, uint64_t op, const char *reason, struct err *err)
{
	struct comm *c;
	struct exchange *e;
	enum rc rc = RC_OK;

	pthread_mutex_lock(&x->lock);
	c = xport_find_comm(x, comm);
	e = c ? exchange_find(c, op) : NULL;
	if (!e || !e->begun)
		rc = err_set(err, RC_NOTFOUND, "no BeginReceive waits for this stream");
	else if (!e->refused[0]) {
		snprintf(e->refused, sizeof e->refused, "%s", reason);
		exchange_refuse(e);
	}
	pthread_mutex_unlock(&x->lock);
	return rc;
}
