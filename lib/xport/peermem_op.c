/* A collective over a lane: chunks, syncs, what the ranks share. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "xport/peermem_impl.h"

#define TURN_YIELDS   1000 /* before naps, with a look at the clock after each */
#define TURN_SLEEP_NS 200000

static unsigned
channel_number(const struct peermem_op *o)
{
	return (unsigned)(o->turn % o->lane->channels);
}

/* Of this rank, or of one that is mapped. */
static struct slot_view *
view(const struct peermem_op *o, uint32_t r)
{
	return &o->lane->peer[r].view[channel_number(o)];
}

static enum rc
disagree(const struct peermem_op *o, uint32_t r, struct err *err)
{
	return err_set(err, RC_BADDATA,
		       "rank %u (device %016" PRIx64
		       ") runs something else: the ranks disagree on the operation",
		       r, o->lane->peer[r].id.device_id);
}

/* Why no operation can begin any more, if so. */
static enum rc
verdict(const struct peer_mapping *l, struct err *err)
{
	if (atomic_load(&l->block->gave_up) == PEERMEM_GAVE_UP)
		return err_set(err, RC_ABORTED, "%s", l->block->reason);
	return peermem_aborted(l, err);
}

enum rc
peermem_begin(struct peermem_op *o, struct err *err)
{
	struct peer_mapping *l = o->lane;
	uint64_t deadline = 0;
	enum rc rc = verdict(l, err);

	o->channel = &l->channel[channel_number(o)];
	/* The turn before on this channel: another stream of this device has it. */
	for (unsigned i = 1; rc == RC_OK && atomic_load(&o->channel->turn) != o->turn; i++) {
		if (i < TURN_YIELDS) {
			sched_yield();
			continue;
		}
		nanosleep(&(struct timespec){.tv_nsec = TURN_SLEEP_NS}, NULL);
		if (!deadline)
			deadline = clock_now_ns() + l->comm->op_timeout_ns;
		rc = verdict(l, err);
		if (rc == RC_OK && clock_now_ns() >= deadline)
			rc = err_set(err, RC_TIMEOUT,
				     "waits for a collective of this communicator that is queued "
				     "before it on another stream");
	}
	return rc;
}

/* ---- chunks */

bool
peermem_room(const struct peermem_op *o, uint32_t peer)
{
	struct peer_mapping *l = o->lane;

	if (o->channel->sent[peer] < l->window)
		return true;
	/* If it cannot be mapped sending will say so. */
	return peermem_map(l, peer, NULL) != RC_OK ||
	       o->channel->sent[peer] - atomic_load(&view(o, peer)->taken[l->rank].n) < l->window;
}

/* Wait until the peer has taken n of what was sent to it. */
static enum rc
await_taken(struct peermem_op *o, uint32_t peer, uint64_t n, struct err *err)
{
	enum rc rc = peermem_map(o->lane, peer, err);

	return rc == RC_OK ? peermem_await(o, peer, &view(o, peer)->taken[o->lane->rank].n, n,
					   "chunks not taken by", err)
			   : rc;
}

enum rc
peermem_send(struct peermem_op *o, uint32_t peer, const void *data, size_t nbytes, struct err *err)
{
	struct peer_mapping *l = o->lane;
	struct slot_set *ch = o->channel;
	uint64_t s = ch->sent[peer];
	struct peermem_slot *slot = &view(o, l->rank)->slot[peer * l->window + s % l->window];
	enum rc rc = s >= l->window ? await_taken(o, peer, s + 1 - l->window, err) : RC_OK;

	if (rc != RC_OK)
		return rc;
	slot->nbytes = (uint32_t)nbytes;
	slot->kind = o->kind;
	slot->offset = nbytes > PEERMEM_INLINE ? devmem_offset(l->mem, data) : 0;
	if (nbytes <= PEERMEM_INLINE)
		memcpy(slot->bytes, data ? data : "", data ? nbytes : 0);
	else if (slot->offset == 0)
		return err_set(err, RC_INTERNAL, "what is sent is not in the device's memory");
	else
		ch->lent[peer] = s + 1;
	ch->sent[peer] = s + 1;
	peermem_publish(l, &slot->seq, s + 1);
	return RC_OK;
}

enum rc
peermem_recv(struct peermem_op *o, uint32_t peer, const void **data, size_t *nbytes,
	     struct err *err)
{
	struct peer_mapping *l = o->lane;
	uint64_t s = o->channel->received[peer];
	struct peermem_slot *slot;
	enum rc rc = peermem_map(l, peer, err);

	if (rc != RC_OK)
		return rc;
	slot = &view(o, peer)->slot[l->rank * l->window + s % l->window];
	rc = peermem_await(o, peer, &slot->seq, s + 1, "nothing from", err);
	if (rc != RC_OK)
		return rc;
	if (slot->kind != o->kind)
		return disagree(o, peer, err);
	*nbytes = slot->nbytes;
	*data = slot->bytes;
	if (*nbytes > PEERMEM_INLINE)
		*data = peermem_at(l->peer[peer].mem, slot->offset, *nbytes);
	return *data ? RC_OK : disagree(o, peer, err);
}

void
peermem_release(struct peermem_op *o, uint32_t peer)
{
	peermem_publish(o->lane, &view(o, o->lane->rank)->taken[peer].n,
			++o->channel->received[peer]);
}

/* ---- syncs */

static struct peermem_arrival *
arrival(const struct peermem_op *o, uint32_t r)
{
	return &view(o, r)->page->arrival[o->channel->arrivals % 2];
}

/* All that have not arrived are missing, not only the first. */
static void
note_missing(const struct peermem_op *o, uint64_t n)
{
	for (uint32_t r = 0; r < o->lane->nranks; r++)
		if (r != o->lane->rank && (peermem_map(o->lane, r, NULL) != RC_OK ||
					   atomic_load(&arrival(o, r)->seq) < n))
			recorder_missing(o->meter, r);
}

/* Publish this rank's arrival, which is filled in, and wait for all. */
static enum rc
meet(struct peermem_op *o, struct err *err)
{
	struct peer_mapping *l = o->lane;
	uint64_t n = o->channel->arrivals;
	struct peermem_arrival *own = arrival(o, l->rank);
	enum rc rc = RC_OK;

	own->kind = o->kind;
	peermem_publish(l, &own->seq, n);
	for (uint32_t r = 0; r < l->nranks && rc == RC_OK; r++) {
		struct peermem_arrival *a;

		if (r == l->rank)
			continue;
		rc = peermem_map(l, r, err);
		if (rc != RC_OK)
			break;
		a = arrival(o, r);
		rc = peermem_await(o, r, &a->seq, n, "nothing from", err);
		if (rc != RC_OK)
			note_missing(o, n);
		if (rc == RC_OK && (a->kind != own->kind || a->nbytes != own->nbytes))
			rc = disagree(o, r, err);
	}
	return rc;
}

enum rc
peermem_sync(struct peermem_op *o, struct err *err)
{
	const struct peer_mapping *l = o->lane;
	struct peermem_arrival *own;

	o->channel->arrivals++;
	own = arrival(o, l->rank);
	own->in = o->in ? devmem_offset(l->mem, o->in) : 0;
	own->out = o->out ? devmem_offset(l->mem, o->out) : 0;
	own->nbytes = 0;
	return meet(o, err);
}

enum rc
peermem_share(struct peermem_op *o, const void *data, size_t nbytes, struct err *err)
{
	const struct peer_mapping *l = o->lane;
	struct peermem_arrival *own;

	if (nbytes > PEERMEM_SHARE_MAX)
		return err_set(err, RC_INTERNAL, "%zu bytes shared, at most %u", nbytes,
			       PEERMEM_SHARE_MAX);
	o->channel->arrivals++;
	own = arrival(o, l->rank);
	own->nbytes = (uint32_t)nbytes;
	memcpy(nbytes <= PEERMEM_INLINE ? own->bytes
					: view(o, l->rank)->page->share[o->channel->arrivals % 2],
	       data, nbytes);
	return meet(o, err);
}

const void *const *
peermem_shared(struct peermem_op *o)
{
	void **at = o->channel->at;

	for (uint32_t r = 0; r < o->lane->nranks; r++) {
		struct peermem_arrival *a = arrival(o, r);

		at[r] = a->nbytes <= PEERMEM_INLINE
			    ? a->bytes
			    : view(o, r)->page->share[o->channel->arrivals % 2];
	}
	return (const void *const *)at;
}

/* A range of what a rank has shown; NULL: it is not in its memory. */
static void *
shown(const struct peermem_op *o, uint32_t r, void *own, uint64_t offset, uint64_t from,
      uint64_t nbytes)
{
	if (r == o->lane->rank)
		return own ? (unsigned char *)own + from : NULL;
	if (offset == 0 || from > UINT64_MAX - offset)
		return NULL;
	return peermem_at(o->lane->peer[r].mem, offset + from, nbytes);
}

enum rc
peermem_ins(struct peermem_op *o, uint64_t from, uint64_t nbytes, const void *const **by_rank,
	    struct err *err)
{
	void **at = o->channel->at;

	for (uint32_t r = 0; r < o->lane->nranks; r++) {
		at[r] = shown(o, r, (void *)o->in, arrival(o, r)->in, from, nbytes);
		if (!at[r])
			return disagree(o, r, err);
	}
	*by_rank = (const void *const *)at;
	return RC_OK;
}

enum rc
peermem_outs(struct peermem_op *o, uint64_t from, uint64_t nbytes, void *const **by_rank,
	     struct err *err)
{
	void **at = o->channel->at + o->lane->nranks;

	for (uint32_t r = 0; r < o->lane->nranks; r++) {
		at[r] = shown(o, r, o->out, arrival(o, r)->out, from, nbytes);
		if (!at[r])
			return disagree(o, r, err);
	}
	*by_rank = at;
	return RC_OK;
}

/* ---- the end */

static void
give_up(struct peer_mapping *l, const struct err *err)
{
	struct peermem_block *b = l->block;
	bool passed_on = err->rc == RC_ABORTED;

	if (!atomic_compare_exchange_strong(&b->gave_up, &(unsigned){PEERMEM_GOES_ON},
					    PEERMEM_WRITES))
		return;
	if (passed_on)
		snprintf(b->reason, sizeof b->reason, "%.*s", (int)sizeof b->reason - 1, err->text);
	else
		snprintf(b->reason, sizeof b->reason,
			 "rank %u (device %016" PRIx64 ") gave up: %.300s", l->rank,
			 l->comm->x->device_id, err->text);
	atomic_store_explicit(&b->gave_up, PEERMEM_GAVE_UP, memory_order_release);
}

/* Until the peers have read all that they were lent. */
static enum rc
settle(struct peermem_op *o, struct err *err)
{
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < o->lane->nranks && rc == RC_OK; r++)
		if (o->channel->lent[r])
			rc = await_taken(o, r, o->channel->lent[r], err);
	return rc;
}

enum rc
peermem_end(struct peermem_op *o, enum xport_ending how, struct err *err)
{
	enum rc rc = how == XPORT_COMPLETE ? settle(o, err) : err->rc;

	if (rc != RC_OK)
		give_up(o->lane, err);
	else
		atomic_store(&o->channel->turn, o->turn + o->lane->channels);
	return rc;
}
