/*
 * Sends and receives outside of collectives by peer memory. They meet by number, not in order: a receiver looks
 * for its operation in all slots from a peer. A send holds few slots, so that others can pass; one that finds
 * none goes by frames, which know no bound.
 *
 * Slots are a faster way for a flow of frames: a chunk has the same number in both, and counts as sent by a frame
 * that is not acknowledged until its slot is taken. If nobody takes it, because the peer got the chunk from
 * elsewhere (StreamSend) and has ended, it is repeated by a frame and answered. The receiver takes the first that
 * comes and drops its twin.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "xport/peermem_impl.h"

/* The slots from rank `from` to rank `to`; what `to` has taken of them. */
static struct peermem_pair_slot *
slots(const struct peer_mapping *m, uint32_t from, uint32_t to)
{
	return m->peer[from].pair_slot + to * m->window;
}

static _Atomic uint64_t *
taken(const struct peer_mapping *m, uint32_t from, uint32_t to)
{
	return m->peer[to].pair_taken[from].seq;
}

/* The chunks of an operation to a peer, and from it. */
static struct xport_pair *
to(struct xport_op *o, uint32_t peer)
{
	return o->members ? &o->members->pairs[2 * (size_t)peer] : &o->pair;
}

static struct xport_pair *
from(struct xport_op *o, uint32_t peer)
{
	return o->members ? &o->members->pairs[2 * (size_t)peer + 1] : &o->pair;
}

/* A collective's steps wait for one peer; sends and receives are waited for by their caller, all at once. */
static enum rc
await_room(struct xport_op *o, uint32_t peer, enum xport_way way, struct err *err)
{
	uint64_t deadline = xport_deadline(o), seen = xport_moves(o);
	enum rc rc = RC_OK;

	while (rc == RC_OK && o->members && !xport_pairs.room(o, peer, way)) {
		rc = xport_wait(o, peer, way, seen, deadline, err);
		if (rc == RC_OK)
			rc = xport_poll(o, err);
		seen = xport_moves(o);
	}
	return rc;
}

/* ---- sending */

static void
give_back(struct peer_mapping *m, uint32_t peer, uint8_t bits)
{
	pthread_mutex_lock(&m->pair_lock);
	assert((m->pair_held[peer] & bits) == bits);
	m->pair_held[peer] &= (uint8_t)~bits;
	pthread_mutex_unlock(&m->pair_lock);
}

/* Give back the slots whose chunks the peer has consumed, or acknowledged when they were repeated by frames. */
static void
reap(struct xport_op *o, struct xport_pair *p)
{
	struct peer_mapping *m = o->comm->mapping;

	while (p->held) {
		const _Atomic uint64_t *done = taken(m, m->rank, p->peer);
		struct flow *f = o->frames->flow[p->peer];
		uint32_t first = p->chunk - p->held;

		if (atomic_load(&done[p->slot[0]]) < p->seq[0] &&
		    atomic_load(&f->tx_acked) <= first)
			return;
		pthread_mutex_lock(&o->comm->x->lock);
		if (f->tx_acked <= first)
			f->tx_acked = first + 1;
		pthread_mutex_unlock(&o->comm->x->lock);
		give_back(m, p->peer, (uint8_t)(1u << p->slot[0]));
		p->seq[0] = p->seq[1];
		p->slot[0] = p->slot[1];
		p->held--;
	}
}

static bool
claim(struct xport_op *o, uint32_t peer)
{
	struct peer_mapping *m = o->comm->mapping;
	struct xport_pair *p = to(o, peer);
	unsigned k;

	if (p->claimed || p->held == PEERMEM_PAIR_MOST)
		return p->claimed;
	pthread_mutex_lock(&m->pair_lock);
	for (k = 0; k < m->window && (m->pair_held[peer] & 1u << k); k++)
		;
	if (k < m->window) {
		m->pair_held[peer] |= (uint8_t)(1u << k);
		p->slot[p->held] = (uint8_t)k;
		p->claimed = true;
		p->peer = peer;
	}
	pthread_mutex_unlock(&m->pair_lock);
	return p->claimed;
}

/* A slot to fill; after a while without any, room in the window of frames. */
static bool
has_room(struct xport_op *o, uint32_t peer)
{
	struct xport_pair *p = to(o, peer);

	reap(o, p);
	if (!p->framed && claim(o, peer))
		return true;
	if (!p->framed && p->held == 0) {
		uint64_t now = clock_now_ns();

		p->since_ns = p->since_ns ? p->since_ns : now;
		p->framed = now - p->since_ns > PAIR_SLOT_MS * NS_PER_MS;
	}
	return p->framed && xport_frames.room(o, peer, XPORT_SEND);
}

/* The chunk counts as sent by a frame: if the peer does not take it, it is repeated by one. */
static enum rc
note_sent(struct xport_op *o, uint32_t peer, const void *data, size_t nbytes, struct err *err)
{
	struct comm *c = o->comm;
	struct flow *f;

	pthread_mutex_lock(&c->x->lock);
	f = exchange_flow(o->frames, peer);
	if (f) {
		f->tx[f->tx_next++ % XPORT_WINDOW] = (struct posted){data, (uint32_t)nbytes, false};
		f->tx_generation = c->peer[peer].push ? net_push_generation(c->peer[peer].push) : 0;
		f->tx_moved_ns = clock_now_ns();
	}
	pthread_mutex_unlock(&c->x->lock);
	return f ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

static enum rc
pair_send(struct xport_op *o, uint32_t peer, const void *data, size_t nbytes, struct err *err)
{
	struct peer_mapping *m = o->comm->mapping;
	struct xport_pair *p = to(o, peer);
	struct peermem_pair_slot *s;
	enum rc rc = peermem_map(m, peer, err);

	if (rc == RC_OK)
		rc = await_room(o, peer, XPORT_SEND, err);
	if (rc == RC_OK)
		rc = xport_verdict(o, err);
	if (rc == RC_OK && !p->claimed) {
		p->peer = peer;
		p->chunk++;
		return xport_frames.send(o, peer, data, nbytes, err);
	}
	if (rc == RC_OK)
		rc = note_sent(o, peer, data, nbytes, err);
	if (rc != RC_OK)
		return rc;
	s = slots(m, m->rank, peer) + p->slot[p->held];
	s->op = o->frames->id;
	s->mark = o->mark;
	s->nbytes = (uint32_t)nbytes;
	s->chunk = p->chunk++;
	s->offset = nbytes > PEERMEM_PAIR_INLINE ? devmem_offset(m->mem, data) : 0;
	if (nbytes > PEERMEM_PAIR_INLINE && s->offset == 0)
		return err_set(err, RC_INTERNAL, "a chunk to send is outside the device's memory");
	if (s->offset == 0 && nbytes)
		memcpy(s->bytes, data, nbytes);
	p->seq[p->held] = atomic_load_explicit(&s->seq, memory_order_relaxed) + 1;
	p->claimed = false;
	p->since_ns = 0;
	assert(p->held < PEERMEM_PAIR_MOST);
	atomic_store_explicit(&s->seq, p->seq[p->held++], memory_order_release);
	peermem_moved_at(o->comm, peer);
	return RC_OK;
}

/* ---- receiving */

/* This rank has consumed what is in a slot of the peer. */
static void
take(struct xport_op *o, uint32_t peer, unsigned slot, uint64_t seq)
{
	struct peer_mapping *m = o->comm->mapping;

	atomic_store_explicit(&taken(m, peer, m->rank)[slot], seq, memory_order_release);
	peermem_moved_at(o->comm, peer);
}

/* The slot with the operation's next chunk, which is noted; window: none. Chunks that frames brought are passed
 * over. */
static unsigned
find(struct xport_op *o, uint32_t peer)
{
	const struct peer_mapping *m = o->comm->mapping;
	const struct peermem_pair_slot *s = slots(m, peer, m->rank);
	const _Atomic uint64_t *done = taken(m, peer, m->rank);
	struct xport_pair *p = from(o, peer);
	unsigned k;

	for (k = 0; k < m->window; k++) {
		uint64_t seq = atomic_load_explicit(&s[k].seq, memory_order_acquire);

		if (seq <= atomic_load_explicit(&done[k], memory_order_relaxed) ||
		    s[k].op != o->frames->id)
			continue;
		p->seq[0] = seq;
		p->slot[0] = (uint8_t)k;
		if (s[k].chunk == p->chunk)
			break;
		if (s[k].chunk < p->chunk)
			take(o, peer, k, seq);
	}
	return k;
}

/* A chunk of this operation has come by a frame. */
static bool
has_frame(const struct xport_op *o, uint32_t peer)
{
	struct xport *x = o->comm->x;
	const struct flow *f;
	bool has;

	pthread_mutex_lock(&x->lock);
	f = o->frames->flow[peer];
	has = f && f->used && f->rx_next != f->rx_consumed;
	pthread_mutex_unlock(&x->lock);
	return has;
}

static enum rc
disagree(const struct xport_op *o, uint32_t peer, uint64_t mark, struct err *err)
{
	if (o->members)
		return err_set(err, RC_BADDATA,
			       "rank %u (device %016" PRIx64
			       ") calls another operation than rank %u, which "
			       "calls %s: the ranks disagree on the operation",
			       peer, o->comm->peer[peer].device_id, o->comm->rank,
			       o->call ? o->call : "another");
	return err_set(err, RC_BADDATA,
		       "rank %u sent %" PRIu64 " bytes, expected %" PRIu64
		       ": the ranks disagree on the operation",
		       peer, mark, o->mark);
}

static enum rc
pair_recv(struct xport_op *o, uint32_t peer, const void **data, size_t *nbytes, struct err *err)
{
	struct peer_mapping *m = o->comm->mapping;
	struct xport_pair *p = from(o, peer);
	const struct peermem_pair_slot *s;
	uint64_t offset;
	enum rc rc = peermem_map(m, peer, err);
	unsigned k;

	if (rc == RC_OK)
		rc = await_room(o, peer, XPORT_RECV, err);
	if (rc != RC_OK)
		return rc;
	k = find(o, peer);
	p->got_frame = k == m->window;
	if (p->got_frame)
		return xport_frames.recv(o, peer, data, nbytes, err);
	s = slots(m, peer, m->rank) + k;
	if (s->mark != o->mark)
		return disagree(o, peer, s->mark, err);
	*nbytes = s->nbytes;
	offset = s->offset;
	/* A sender that gives up takes its slots back. */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&s->seq, memory_order_relaxed) != p->seq[0])
		return err_set(err, RC_ABORTED, "rank %u withdrew its send", peer);
	*data = offset				 ? peermem_at(m->peer[peer].mem, offset, *nbytes)
		: *nbytes <= PEERMEM_PAIR_INLINE ? s->bytes
						 : NULL;
	return *data ? RC_OK
		     : err_set(err, RC_BADDATA,
			       "rank %u (device %016" PRIx64 ") names a chunk outside its memory",
			       peer, o->comm->peer[peer].device_id);
}

static void
pair_release(struct xport_op *o, uint32_t peer)
{
	struct xport *x = o->comm->x;
	struct xport_pair *p = from(o, peer);
	struct net_frame twin = {0};
	struct flow *f;

	p->peer = peer;
	p->chunk++;
	if (p->got_frame) {
		xport_frames.release(o, peer);
		return;
	}
	take(o, peer, p->slot[0], p->seq[0]);
	/* To frames the chunk has come, too. */
	pthread_mutex_lock(&x->lock);
	f = exchange_flow(o->frames, peer);
	if (f && f->rx_next != f->rx_consumed)
		twin = f->rx[f->rx_consumed % XPORT_WINDOW].frame;
	else if (f)
		f->rx_next++;
	if (f)
		f->rx_acked = ++f->rx_consumed;
	pthread_mutex_unlock(&x->lock);
	net_frame_free(&twin);
}

static bool
pair_room(struct xport_op *o, uint32_t peer, enum xport_way way)
{
	/* The call reports what is wrong. */
	if (peermem_map(o->comm->mapping, peer, NULL) != RC_OK || xport_verdict(o, NULL) != RC_OK)
		return true;
	if (way == XPORT_SEND)
		return has_room(o, peer);
	if (way == XPORT_RECV)
		return find(o, peer) < o->comm->mapping->window || has_frame(o, peer);
	reap(o, to(o, peer));
	return to(o, peer)->held == 0 &&
	       (!to(o, peer)->framed || xport_frames.room(o, peer, XPORT_TAKEN));
}

/* What the members have shown may be read until the next meeting, or the end; then it is taken. */
static void
release_shown(struct xport_op *o)
{
	for (uint32_t i = 0; o->meets && i < o->members->n; i++) {
		uint32_t q = o->members->rank[i];

		if (q != o->comm->rank)
			xport_via(o, q)->release(o, q);
	}
}

enum rc
peermem_pair_settle(struct xport_op *o, struct err *err)
{
	enum rc rc = RC_OK;

	release_shown(o);
	for (uint32_t i = 0; o->members && i < o->members->n && rc == RC_OK; i++)
		if (to(o, o->members->rank[i])->held)
			rc = await_room(o, o->members->rank[i], XPORT_TAKEN, err);
	return rc;
}

static void
end_pair(struct xport_op *o, const struct xport_pair *p)
{
	uint8_t bits = 0;

	for (unsigned i = 0; i < p->held + (unsigned)p->claimed; i++)
		bits |= (uint8_t)(1u << p->slot[i]);
	if (bits)
		give_back(o->comm->mapping, p->peer, bits);
	else if (p->chunk)
		(void)find(o, p->peer);
}

void
peermem_pair_end(struct xport_op *o)
{
	for (uint32_t i = 0; o->members && i < o->members->n; i++) {
		end_pair(o, to(o, o->members->rank[i]));
		end_pair(o, from(o, o->members->rank[i]));
	}
	if (!o->members)
		end_pair(o, &o->pair);
}

/* ---- members meet: each sends to each what it shows */

enum rc
peermem_pair_meet(struct xport_op *o, const void *shared, struct err *err)
{
	const struct xport_members *g = o->members;
	const struct devmem *mem = o->comm->mapping->mem;
	struct xport_shown *own = &o->own[o->meets % 2];
	enum rc rc = RC_OK;

	release_shown(o);
	*own = (struct xport_shown){o->in ? devmem_offset(mem, o->in) : 0,
				    o->out ? devmem_offset(mem, o->out) : 0,
				    shared ? devmem_offset(mem, shared) : 0};
	for (uint32_t i = 0; i < g->n && rc == RC_OK; i++) {
		uint32_t q = g->rank[i];

		if (q != o->comm->rank)
			rc = xport_via(o, q)->send(o, q, own, sizeof *own, err);
	}
	for (uint32_t i = 0; i < g->n && rc == RC_OK; i++) {
		uint32_t q = g->rank[i];
		const void *data;
		size_t nbytes;

		g->shown[i] = *own;
		if (q == o->comm->rank)
			continue;
		rc = xport_via(o, q)->recv(o, q, &data, &nbytes, err);
		if (rc == RC_OK && nbytes != sizeof *own)
			rc = disagree(o, q, 0, err);
		if (rc == RC_OK)
			memcpy(&g->shown[i], data, sizeof *own);
	}
	o->meets += rc == RC_OK;
	return rc;
}

static enum rc
pair_pause(struct wait *w, struct err *err)
{
	struct comm *c = w->op->comm;
	enum rc rc;

	if (peermem_yield(w, w->pauses ? 0 : c->mapping->spins))
		return RC_OK;
	/* A peer whose process has ended is reported by the coordinator, which knows why. */
	rc = xport_poll(w->op, err);
	/* Frames may come too: nng's threads read them. */
	net_pull_resume(c->x->pull);
	if (rc == RC_OK)
		peermem_sleep(w, c->mapping->block, c->moves);
	return rc;
}

const struct transport xport_pairs = {.send = pair_send,
				      .recv = pair_recv,
				      .release = pair_release,
				      .room = pair_room,
				      .pause = pair_pause};
