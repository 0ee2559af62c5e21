/* Communicators: attach, detach, abort. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "xport/peermem_impl.h"

#define FOR_EVER_NS (UINT64_MAX / 4) /* centuries: deadlines do not overflow */

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
		exchange_drop_early(e);
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
