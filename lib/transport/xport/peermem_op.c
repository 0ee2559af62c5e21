/* A collective by peer memory: chunks, syncs, shared data. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "xport/peermem_impl.h"

/* The slot set of this rank, or of a mapped one. */
static struct slot_view *
view(const struct xport_op *o, uint32_t r)
{
	return &o->comm->mapping->peer[r].view[o->slots->index];
}

/* Copy a peer's call, if it has the ticket of this operation. */
static bool
call_of(const struct xport_op *o, uint32_t r, struct peermem_call *out)
{
	struct peermem_call *c = &view(o, r)->page->call;

	if (atomic_load_explicit(&c->ticket, memory_order_acquire) != o->ticket + 1)
		return false;
	out->kind = c->kind;
	memcpy(out->text, c->text, sizeof out->text);
	atomic_thread_fence(memory_order_acquire);
	out->text[sizeof out->text - 1] = '\0';
	for (char *p = out->text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	return atomic_load_explicit(&c->ticket, memory_order_relaxed) == o->ticket + 1;
}

static void
show_call(const struct xport_op *o)
{
	struct peer_mapping *m = o->comm->mapping;
	struct peermem_call *c = &view(o, m->rank)->page->call;

	atomic_store_explicit(&c->ticket, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	c->kind = o->kind;
	memcpy(c->text, o->call, sizeof c->text);
	peermem_publish(m, &c->ticket, o->ticket + 1);
}

static enum rc
disagree(const struct xport_op *o, uint32_t r, struct err *err)
{
	struct peermem_call its;

	if (o->slots && o->call && call_of(o, r, &its) && *its.text &&
	    strcmp(its.text, o->call) != 0)
		return err_set(err, RC_BADDATA,
			       "rank %u (device %016" PRIx64
			       ") calls %s, rank %u calls %s: the ranks disagree on the "
			       "operation",
			       r, o->comm->mapping->peer[r].id.device_id, its.text, o->comm->rank,
			       o->call);
	return err_set(err, RC_BADDATA,
		       "rank %u (device %016" PRIx64
		       ") runs another operation: the ranks disagree on the operation",
		       r, o->comm->mapping->peer[r].id.device_id);
}

/* RC_BADDATA when the peer runs another operation under the same ticket. */
static enum rc
compare(const struct xport_op *o, uint32_t r, struct err *err)
{
	struct peermem_call its;

	return o->call && call_of(o, r, &its) && its.kind != o->kind ? disagree(o, r, err) : RC_OK;
}

enum rc
peermem_begin(struct xport_op *o, struct err *err)
{
	struct peer_mapping *m = o->comm->mapping;
	enum rc rc;

	o->slots = &m->set[o->ticket % m->nsets];
	rc = xport_verdict(o, err);
	/* Another stream of this device may have the previous ticket. */
	if (rc == RC_OK)
		rc = peermem_await(o, m->rank, &o->slots->ticket, o->ticket, "", err);
	if (rc == RC_OK && o->numbered &&
	    !atomic_compare_exchange_strong(&o->slots->begun, &(uint64_t){o->ticket},
					    o->ticket + m->nsets))
		rc = err_set(err, RC_INVAL, "operation %" PRIu64 " has already run", o->ticket);
	if (rc == RC_OK && o->call)
		show_call(o);
	return rc;
}

/* ---- chunks */

/* The slot of the next message from a mapped peer. */
static struct peermem_slot *
incoming(const struct xport_op *o, uint32_t peer)
{
	const struct peer_mapping *m = o->comm->mapping;

	return &view(o, peer)->slot[m->rank * m->window + o->slots->received[peer] % m->window];
}

static bool
peermem_room(struct xport_op *o, uint32_t peer, enum xport_way way)
{
	struct peer_mapping *m = o->comm->mapping;
	struct slot_set *set = o->slots;
	uint64_t due = way == XPORT_TAKEN	     ? set->uncopied[peer]
		       : set->sent[peer] < m->window ? 0
						     : set->sent[peer] + 1 - m->window;

	if (way != XPORT_RECV && due == 0)
		return true;
	/* If it cannot be mapped the call reports it. */
	if (peermem_map(m, peer, NULL) != RC_OK)
		return true;
	if (way == XPORT_RECV)
		return atomic_load(&incoming(o, peer)->seq) > set->received[peer];
	return atomic_load(&view(o, peer)->taken[m->rank].n) >= due;
}

/* Wait until the peer has taken n of the messages sent to it. */
static enum rc
await_taken(struct xport_op *o, uint32_t peer, uint64_t n, struct err *err)
{
	enum rc rc = peermem_map(o->comm->mapping, peer, err);

	return rc == RC_OK ? peermem_await(o, peer, &view(o, peer)->taken[o->comm->mapping->rank].n,
					   n, "chunks not taken by", err)
			   : rc;
}

static enum rc
peermem_send(struct xport_op *o, uint32_t peer, const void *data, size_t nbytes, struct err *err)
{
	struct peer_mapping *m = o->comm->mapping;
	struct slot_set *set = o->slots;
	uint64_t s = set->sent[peer];
	struct peermem_slot *slot = &view(o, m->rank)->slot[peer * m->window + s % m->window];
	enum rc rc = s >= m->window ? await_taken(o, peer, s + 1 - m->window, err) : RC_OK;

	if (rc != RC_OK)
		return rc;
	slot->nbytes = (uint32_t)nbytes;
	slot->kind = o->kind;
	slot->offset = nbytes > PEERMEM_INLINE ? devmem_offset(m->mem, data) : 0;
	if (nbytes <= PEERMEM_INLINE)
		memcpy(slot->bytes, data ? data : "", data ? nbytes : 0);
	else if (slot->offset == 0)
		return err_set(err, RC_INTERNAL, "a chunk to send is outside the device's memory");
	else
		set->uncopied[peer] = s + 1;
	set->sent[peer] = s + 1;
	set->told[peer] = o->ticket + 1;
	peermem_publish(m, &slot->seq, s + 1);
	return RC_OK;
}

static enum rc
peermem_recv(struct xport_op *o, uint32_t peer, const void **data, size_t *nbytes, struct err *err)
{
	struct peer_mapping *m = o->comm->mapping;
	uint64_t s = o->slots->received[peer];
	struct peermem_slot *slot;
	enum rc rc = peermem_map(m, peer, err);

	if (rc != RC_OK)
		return rc;
	slot = incoming(o, peer);
	rc = peermem_await(o, peer, &slot->seq, s + 1, "nothing from", err);
	if (rc != RC_OK)
		return rc;
	if (slot->kind != o->kind)
		return disagree(o, peer, err);
	*nbytes = slot->nbytes;
	*data = slot->bytes;
	if (*nbytes > PEERMEM_INLINE)
		*data = peermem_at(m->peer[peer].mem, slot->offset, *nbytes);
	return *data ? RC_OK : disagree(o, peer, err);
}

static void
peermem_release(struct xport_op *o, uint32_t peer)
{
	peermem_publish(o->comm->mapping, &view(o, o->comm->mapping->rank)->taken[peer].n,
			++o->slots->received[peer]);
}

/* ---- syncs */

static struct peermem_arrival *
arrival(const struct xport_op *o, uint32_t r)
{
	return &view(o, r)->page->arrival[o->slots->arrivals % 2];
}

/* Name all ranks that have not arrived, not only the first. */
static void
note_missing(const struct xport_op *o)
{
	struct peer_mapping *m = o->comm->mapping;

	for (uint32_t r = 0; r < m->nranks; r++)
		if (r != m->rank && (peermem_map(m, r, NULL) != RC_OK ||
				     atomic_load(&arrival(o, r)->seq) < o->slots->arrivals))
			recorder_missing(o->recorder, r);
}

static enum rc
peermem_share(struct xport_op *o, uint32_t peer, struct err *err)
{
	const struct peermem_arrival *own = arrival(o, o->comm->rank);
	struct peermem_arrival *a;
	enum rc rc = peermem_map(o->comm->mapping, peer, err);

	if (rc != RC_OK)
		return rc;
	a = arrival(o, peer);
	rc = peermem_await(o, peer, &a->seq, o->slots->arrivals, "nothing from", err);
	if (rc != RC_OK)
		note_missing(o);
	else if (a->kind != own->kind || a->nbytes != own->nbytes)
		rc = disagree(o, peer, err);
	return rc;
}

/* Publish this rank's arrival and wait for all. */
static enum rc
meet(struct xport_op *o, struct peermem_arrival *own, struct err *err)
{
	struct comm *c = o->comm;
	enum rc rc = RC_OK;

	own->kind = o->kind;
	peermem_publish(c->mapping, &own->seq, o->slots->arrivals);
	for (uint32_t r = 0; r < c->nranks && rc == RC_OK; r++)
		if (r != c->rank)
			rc = xport_via(o, r)->share(o, r, err);
	return rc;
}

/* Members have no tickets, so no slot set: they show by pairs what they have. */
static enum rc
meet_members(struct xport_op *o, const void *shared, struct err *err)
{
	for (uint32_t i = 0; i < o->members->n; i++) {
		uint32_t q = o->members->rank[i];

		if (!o->by_pair || (q != o->comm->rank && xport_via(o, q) != &xport_pairs))
			return err_set(err, RC_INVAL, "rank %u is reached by sockets", q);
	}
	return peermem_pair_meet(o, shared, err);
}

enum rc
xport_sync(struct xport_op *o, struct err *err)
{
	const struct peer_mapping *m = o->comm->mapping;
	struct peermem_arrival *own;

	if (o->members)
		return meet_members(o, NULL, err);
	o->slots->arrivals++;
	own = arrival(o, m->rank);
	own->in = o->in ? devmem_offset(m->mem, o->in) : 0;
	own->out = o->out ? devmem_offset(m->mem, o->out) : 0;
	own->nbytes = 0;
	return meet(o, own, err);
}

enum rc
xport_share(struct xport_op *o, const void *data, size_t nbytes, struct err *err)
{
	const struct peer_mapping *m = o->comm->mapping;
	struct peermem_arrival *own;

	if (nbytes > XPORT_SHARE_MAX)
		return err_set(err, RC_INTERNAL, "%zu bytes shared: the limit is %u", nbytes,
			       XPORT_SHARE_MAX);
	if (o->members)
		return meet_members(
		    o, memcpy(o->members->share + o->meets % 2 * XPORT_SHARE_MAX, data, nbytes),
		    err);
	o->slots->arrivals++;
	own = arrival(o, m->rank);
	own->nbytes = (uint32_t)nbytes;
	memcpy(nbytes <= PEERMEM_INLINE ? own->bytes
					: view(o, m->rank)->page->share[o->slots->arrivals % 2],
	       data, nbytes);
	return meet(o, own, err);
}

/* A range of a rank's published buffer; NULL: outside its memory. */
static void *
shown(const struct xport_op *o, uint32_t r, void *own, uint64_t offset, uint64_t from,
      uint64_t nbytes)
{
	if (r == o->comm->mapping->rank)
		return own ? (unsigned char *)own + from : NULL;
	if (offset == 0 || from > UINT64_MAX - offset)
		return NULL;
	return peermem_at(o->comm->mapping->peer[r].mem, offset + from, nbytes);
}

/* The ranks that meet, and the rank with a place among them. */
static uint32_t
nmeet(const struct xport_op *o)
{
	return o->members ? o->members->n : o->comm->mapping->nranks;
}

static uint32_t
at_place(const struct xport_op *o, uint32_t i)
{
	return o->members ? o->members->rank[i] : i;
}

enum rc
xport_shared(struct xport_op *o, uint64_t nbytes, const void *const **by_rank, struct err *err)
{
	void **at = o->members ? o->members->at : o->slots->at;

	for (uint32_t i = 0; i < nmeet(o); i++) {
		uint32_t r = at_place(o, i);

		if (o->members) {
			at[i] =
			    shown(o, r, o->members->share + (o->meets + 1) % 2 * XPORT_SHARE_MAX,
				  o->members->shown[i].shared, 0, nbytes);
			if (!at[i])
				return disagree(o, r, err);
			continue;
		}
		at[i] = arrival(o, r)->nbytes <= PEERMEM_INLINE
			    ? arrival(o, r)->bytes
			    : view(o, r)->page->share[o->slots->arrivals % 2];
	}
	*by_rank = (const void *const *)at;
	return RC_OK;
}

enum rc
xport_ins(struct xport_op *o, uint64_t from, uint64_t nbytes, const void *const **by_rank,
	  struct err *err)
{
	void **at = o->members ? o->members->at : o->slots->at;

	for (uint32_t i = 0; i < nmeet(o); i++) {
		uint32_t r = at_place(o, i);

		at[i] =
		    shown(o, r, (void *)o->in,
			  o->members ? o->members->shown[i].in : arrival(o, r)->in, from, nbytes);
		if (!at[i])
			return disagree(o, r, err);
	}
	*by_rank = (const void *const *)at;
	return RC_OK;
}

enum rc
xport_outs(struct xport_op *o, uint64_t from, uint64_t nbytes, void *const **by_rank,
	   struct err *err)
{
	void **at = (o->members ? o->members->at : o->slots->at) + nmeet(o);

	for (uint32_t i = 0; i < nmeet(o); i++) {
		uint32_t r = at_place(o, i);

		at[i] =
		    shown(o, r, o->out, o->members ? o->members->shown[i].out : arrival(o, r)->out,
			  from, nbytes);
		if (!at[i])
			return disagree(o, r, err);
	}
	*by_rank = at;
	return RC_OK;
}

/* ---- the end */

/* Wait until the peer has begun the operation too, and compare: it may never read what was sent to it. */
static enum rc
await_call(struct xport_op *o, uint32_t peer, struct err *err)
{
	enum rc rc = peermem_map(o->comm->mapping, peer, err);

	if (rc == RC_OK)
		rc = peermem_await(o, peer, &view(o, peer)->page->call.ticket, o->ticket + 1,
				   "no operation of", err);
	return rc == RC_OK ? compare(o, peer, err) : rc;
}

enum rc
peermem_settle(struct xport_op *o, struct err *err)
{
	const struct slot_set *set = o->slots;
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < o->comm->nranks && rc == RC_OK; r++) {
		if (set->uncopied[r])
			rc = await_taken(o, r, set->uncopied[r], err);
		if (rc == RC_OK && o->call && set->told[r] == o->ticket + 1)
			rc = await_call(o, r, err);
	}
	return rc;
}

void
peermem_end(struct xport_op *o, const char *reason)
{
	struct peer_mapping *m = o->comm->mapping;

	if (reason)
		peermem_give_up(m, reason);
	else
		peermem_publish(m, &o->slots->ticket, o->ticket + m->nsets);
}

/* ---- pauses */

/* An ended process publishes nothing more; what it published before counts. */
static enum rc
still_there(const struct wait *w, struct err *err)
{
	const struct peermem_peer *p = &w->op->comm->mapping->peer[w->peer];

	if (!p->seen || kill(p->seen, 0) == 0 || errno != ESRCH || xport_wait_is_over(w))
		return RC_OK;
	return err_set(err, RC_UNREACHABLE,
		       "rank %u (device %016" PRIx64 ") is gone: its process %d has ended", w->peer,
		       p->id.device_id, p->seen);
}

static enum rc
peermem_pause(struct wait *w, struct err *err)
{
	enum rc rc;

	if (peermem_yield(w, 0))
		return RC_OK;
	rc = still_there(w, err);
	if (rc == RC_OK && w->peer != w->op->comm->rank)
		rc = compare(w->op, w->peer, err);
	/* The peers by frames need polling, too. */
	if (rc == RC_OK && w->op->frames)
		rc = xport_poll(w->op, err);
	if (rc == RC_OK)
		peermem_sleep(w, w->op->comm->mapping->peer[w->peer].block, w->counter);
	return rc;
}

const struct transport xport_peermem = {.send = peermem_send,
					.recv = peermem_recv,
					.release = peermem_release,
					.room = peermem_room,
					.share = peermem_share,
					.pause = peermem_pause};
