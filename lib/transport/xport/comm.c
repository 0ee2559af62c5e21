/* Communicators: attach, detach, abort, join; and their exchanges. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "xport/peermem_impl.h"

#define FOR_EVER_NS (UINT64_MAX / 4) /* centuries: deadlines do not overflow */

struct comm *
xport_find_comm(struct xport *x, uint64_t id)
{
	struct comm *c = x->comms;

	while (c && c->id != id)
		c = c->next;
	return c;
}

enum rc
xport_find_epoch(struct xport *x, uint64_t id, uint32_t epoch, struct comm **out, struct err *err)
{
	struct comm *c = xport_find_comm(x, id);

	if (!c || c->epoch != epoch)
		return err_set(err, RC_NOTFOUND,
			       "no communicator %" PRIu64 " at epoch %u on this device", id, epoch);
	*out = c;
	return RC_OK;
}

/* ---- exchanges */

struct exchange *
exchange_find(struct comm *c, uint64_t id)
{
	struct exchange *e = c->exchanges;

	while (e && e->id != id)
		e = e->next;
	return e;
}

struct exchange *
exchange_make(struct comm *c, uint64_t id)
{
	struct exchange *e = c->spare;

	if (e) {
		c->spare = e->next;
	} else {
		e = calloc(1, sizeof *e);
		if (!e)
			return NULL;
		e->flow = alloc_zeroed(c->nranks, sizeof(struct flow *));
		if (!e->flow) {
			free(e);
			return NULL;
		}
		pthread_cond_init(&e->changed, NULL);
		e->comm = c;
	}
	e->id = id;
	e->begun = false;
	e->odd = 0;
	e->poll_ns = 0;
	e->refused[0] = '\0';
	atomic_store(&e->is_refused, false);
	e->next = c->exchanges;
	c->exchanges = e;
	c->nearly++;
	return e;
}

struct flow *
exchange_flow(struct exchange *e, uint32_t peer)
{
	if (!e->flow[peer])
		e->flow[peer] = calloc(1, sizeof(struct flow));
	if (e->flow[peer])
		e->flow[peer]->used = true;
	return e->flow[peer];
}

/* A collective's numbers fill the sets in turn. */
static unsigned
finished_set(uint64_t op)
{
	return (unsigned)((op ^ op >> 37 ^ op >> 50) % (FINISHED_OPS / FINISHED_SET));
}

const struct finished *
xport_finished(const struct comm *c, uint64_t op)
{
	const struct finished *set = &c->finished[finished_set(op) * FINISHED_SET];

	for (unsigned i = 0; i < FINISHED_SET; i++)
		if (set[i].ended && set[i].op == op)
			return &set[i];
	return NULL;
}

/* Free the chunks that were not consumed. */
static void
drop_chunks(struct exchange *e)
{
	struct xport *x = e->comm->x;

	for (uint32_t r = 0; r < e->comm->nranks; r++) {
		struct flow *f = e->flow[r];

		for (; f && f->rx_consumed != f->rx_next; f->rx_next--) {
			struct arrived *a = &f->rx[(f->rx_next - 1) % XPORT_WINDOW];

			if (!e->begun)
				x->early_bytes -= a->frame.head.nbytes;
			net_frame_free(&a->frame);
		}
	}
}

void
exchange_drop(struct exchange *e, enum op_outcome how)
{
	struct comm *c = e->comm;
	struct exchange **at = &c->exchanges;
	unsigned set = finished_set(e->id);
	struct finished *done =
	    &c->finished[set * FINISHED_SET + c->finished_next[set]++ % FINISHED_SET];

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	drop_chunks(e);
	assert((e->begun || c->nearly > 0) && (!e->lingers || c->nlinger > 0));
	c->nearly -= !e->begun;
	c->nlinger -= e->lingers;
	e->lingers = false;
	*done = (struct finished){.op = e->id, .ended = true, .gave_up = how == OP_GAVE_UP};
	for (uint32_t r = 0; r < c->nranks; r++)
		if (e->flow[r]) {
			if (e->flow[r]->rx_consumed > done->consumed)
				done->consumed = e->flow[r]->rx_consumed;
			*e->flow[r] = (struct flow){.copy = e->flow[r]->copy};
		}
	e->next = c->spare;
	c->spare = e;
}

void
exchange_signal(struct exchange *e)
{
	peermem_moved(e->comm);
	pthread_cond_broadcast(&e->changed);
	pthread_cond_broadcast(&e->comm->any);
	if (e->taken && !pthread_equal(e->reader, pthread_self()))
		net_pull_nudge(e->taken);
}

void
exchange_refuse(struct exchange *e)
{
	atomic_store_explicit(&e->is_refused, true, memory_order_release);
	if (!e->begun)
		drop_chunks(e);
	exchange_signal(e);
}

/* ---- attach, detach, abort */

void
xport_forget_comm(struct comm *c)
{
	struct exchange *e, *next;

	if (c->attached)
		return;
	for (e = c->exchanges; e; e = next) {
		next = e->next;
		if (!e->begun || e->lingers)
			exchange_drop(e, e->begun ? OP_DONE : OP_GAVE_UP);
	}
	if (c->exchanges || (c->mapping && c->mapping->holds))
		return;
	while ((e = c->spare)) {
		c->spare = e->next;
		for (uint32_t r = 0; r < c->nranks; r++) {
			free(e->flow[r] ? e->flow[r]->copy : NULL);
			free(e->flow[r]);
		}
		free(e->flow);
		pthread_cond_destroy(&e->changed);
		free(e);
	}
	peer_mapping_free(c->mapping);
	pthread_cond_destroy(&c->any);
	free(c->finished);
	free(c->finished_next);
	free(c->peer);
	free(c);
}

/* Lock held. End its operations and refuse new ones. */
static void
abort_comm(struct comm *c, const char *reason)
{
	if (!c->aborted[0])
		snprintf(c->aborted, sizeof c->aborted, "%s",
			 *reason ? reason : "aborted, no reason given");
	atomic_store_explicit(&c->stopped, true, memory_order_release);
	for (struct exchange *e = c->exchanges; e; e = e->next) {
		if (!e->begun)
			drop_chunks(e);
		exchange_signal(e);
	}
}

/* Remove it from the table; it is freed when its operations have ended. */
static void
unlink_comm(struct xport *x, struct comm *c, const char *reason)
{
	struct comm **at = &x->comms;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	x->ncomms--;
	c->attached = false;
	abort_comm(c, reason);
	xport_forget_comm(c);
}

static struct comm *
make_comm(struct xport *x, const struct xport_membership *m, const struct xport_peer *peers)
{
	struct comm *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->peer = alloc_zeroed(m->nranks, sizeof *c->peer);
	c->finished = alloc_zeroed(FINISHED_OPS, sizeof *c->finished);
	c->finished_next = alloc_zeroed(FINISHED_OPS / FINISHED_SET, sizeof *c->finished_next);
	if (!c->peer || !c->finished || !c->finished_next) {
		free(c->peer);
		free(c->finished);
		free(c->finished_next);
		free(c);
		return NULL;
	}
	pthread_cond_init(&c->any, NULL);
	c->x = x;
	c->id = m->comm;
	c->coordinator = m->coordinator;
	c->epoch = m->epoch;
	c->rank = m->rank;
	c->nranks = m->nranks;
	c->op_timeout_ns =
	    m->op_timeout_ms == XPORT_FOR_EVER ? FOR_EVER_NS : m->op_timeout_ms * NS_PER_MS;
	c->attached = true;
	c->moves = &c->own_moves;
	for (uint32_t r = 0; r < m->nranks; r++) {
		c->peer[r].device_id = peers[r].device_id;
		c->peer[r].via = &xport_frames;
		snprintf(c->peer[r].addr, sizeof c->peer[r].addr, "%s", peers[r].data_addr);
	}
	c->mapping = peer_mapping_new(c, peers);
	return c;
}

enum rc
xport_attach(struct xport *x, const struct xport_membership *m, const struct xport_peer *peers,
	     struct err *err)
{
	struct comm *old, *c;
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < m->nranks && rc == RC_OK; r++)
		if (r != m->rank)
			rc = net_addr_check(peers[r].data_addr, NET_ANY_HOST, err);
	if (rc != RC_OK)
		return rc;
	pthread_mutex_lock(&x->lock);
	c = make_comm(x, m, peers);
	if (c) {
		old = xport_find_comm(x, m->comm);
		if (old)
			unlink_comm(x, old, "the communicator changed");
		c->next = x->comms;
		x->comms = c;
		x->ncomms++;
	}
	pthread_mutex_unlock(&x->lock);
	return c ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

enum rc
xport_detach(struct xport *x, uint64_t comm, struct err *err)
{
	struct comm *c;

	pthread_mutex_lock(&x->lock);
	c = xport_find_comm(x, comm);
	if (c)
		unlink_comm(x, c, "the communicator was destroyed");
	pthread_mutex_unlock(&x->lock);
	return c ? RC_OK
		 : err_set(err, RC_NOTFOUND, "no communicator %" PRIu64 " on this device", comm);
}

enum rc
xport_abort(struct xport *x, uint64_t comm, uint32_t epoch, const char *reason, struct err *err)
{
	struct comm *c;
	enum rc rc;

	pthread_mutex_lock(&x->lock);
	rc = xport_find_epoch(x, comm, epoch, &c, err);
	if (rc == RC_OK)
		abort_comm(c, reason);
	pthread_mutex_unlock(&x->lock);
	return rc;
}

enum rc
xport_give_up(struct xport *x, uint64_t comm, uint32_t epoch, const char *reason, struct err *err)
{
	struct comm *c;
	enum rc rc;

	pthread_mutex_lock(&x->lock);
	rc = xport_find_epoch(x, comm, epoch, &c, err);
	if (rc == RC_OK) {
		abort_comm(c, reason);
		if (c->mapping)
			peermem_give_up(c->mapping, c->aborted);
	}
	pthread_mutex_unlock(&x->lock);
	return rc;
}

void
xport_abort_all(struct xport *x, const char *reason)
{
	pthread_mutex_lock(&x->lock);
	for (struct comm *c = x->comms; c; c = c->next)
		abort_comm(c, reason);
	pthread_mutex_unlock(&x->lock);
}

bool
xport_is_live(struct xport *x, uint64_t comm, uint32_t epoch)
{
	struct comm *c;
	bool live;

	pthread_mutex_lock(&x->lock);
	live = xport_find_epoch(x, comm, epoch, &c, NULL) == RC_OK && !c->aborted[0];
	pthread_mutex_unlock(&x->lock);
	return live;
}

enum rc
xport_member(struct xport *x, uint64_t comm, struct xport_membership *out, struct err *err)
{
	struct comm *c;
	enum rc rc = RC_OK;

	pthread_mutex_lock(&x->lock);
	c = comm ? xport_find_comm(x, comm) : x->comms;
	if (!c)
		rc = comm ? err_set(err, RC_NOTFOUND, "no communicator %" PRIu64 " on this device",
				    comm)
			  : err_set(err, RC_NOTFOUND, "this device is in no communicator");
	else if (comm == 0 && c->next)
		rc = err_set(err, RC_INVAL, "this device is in %u communicators: name one",
			     x->ncomms);
	else
		*out = (struct xport_membership){
		    .comm = c->id,
		    .coordinator = c->coordinator,
		    .epoch = c->epoch,
		    .rank = c->rank,
		    .nranks = c->nranks,
		    .op_timeout_ms = c->op_timeout_ns == FOR_EVER_NS
					 ? XPORT_FOR_EVER
					 : (uint32_t)(c->op_timeout_ns / NS_PER_MS)};
	pthread_mutex_unlock(&x->lock);
	return rc;
}

/* ---- peer memory */

enum rc
xport_offer(struct xport *x, uint64_t comm, uint32_t epoch, uint64_t *block, bool *mapped,
	    struct err *err)
{
	struct comm *c;
	enum rc rc;

	pthread_mutex_lock(&x->lock);
	rc = xport_find_epoch(x, comm, epoch, &c, err);
	if (rc == RC_OK) {
		*block = c->mapping ? devmem_offset(c->mapping->mem, c->mapping->block) : 0;
		for (uint32_t r = 0; r < c->nranks; r++)
			mapped[r] = c->mapping && c->mapping->peer[r].id.path;
	}
	pthread_mutex_unlock(&x->lock);
	return rc;
}

enum rc
xport_join(struct xport *x, uint64_t comm, uint32_t epoch, const uint64_t *block, uint32_t nblocks,
	   struct err *err)
{
	struct comm *c;
	enum rc rc;

	pthread_mutex_lock(&x->lock);
	rc = xport_find_epoch(x, comm, epoch, &c, err);
	if (rc == RC_OK && (nblocks != c->nranks || !c->mapping))
		rc = err_set(err, RC_INVAL,
			     "communicator %" PRIu64 " shares no memory on this device", comm);
	if (rc == RC_OK)
		rc = peermem_join(c->mapping, block, err);
	pthread_mutex_unlock(&x->lock);
	return rc;
}

enum rc
xport_reserve(struct xport *x, uint64_t comm, uint32_t epoch, uint64_t n, struct xport_tickets *out,
	      struct err *err)
{
	struct comm *c;
	enum rc rc;

	*out = (struct xport_tickets){0};
	pthread_mutex_lock(&x->lock);
	rc = xport_find_epoch(x, comm, epoch, &c, err);
	if (rc == RC_OK && c->mapping && c->mapping->joined) {
		*out = (struct xport_tickets){.comm = c, .first = c->mapping->tickets};
		c->mapping->tickets += n;
		c->mapping->holds++;
	}
	pthread_mutex_unlock(&x->lock);
	return rc;
}

void
xport_unreserve(struct xport_tickets *t)
{
	struct comm *c = t->comm;
	struct xport *x;

	if (!c)
		return;
	x = c->x;
	pthread_mutex_lock(&x->lock);
	c->mapping->holds--;
	xport_forget_comm(c);
	pthread_mutex_unlock(&x->lock);
	t->comm = NULL;
}

bool
xport_by_memory(const struct xport_tickets *t)
{
	return t->comm && t->comm->mapping->whole;
}
