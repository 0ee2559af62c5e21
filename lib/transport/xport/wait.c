/* The one wait of an operation, and its verdict. */
#include <inttypes.h>

#include "base/clock.h"
#include "xport/peermem_impl.h"

/* A rank whose memory is mapped, or this one, gave up. */
static enum rc
gave_up(const struct peer_mapping *m, struct err *err)
{
	/* No thread here waits for an unmapped rank. */
	for (uint32_t i = 0, n = atomic_load(&m->nmapped); i < n; i++) {
		struct peermem_block *b = m->peer[m->mapped[i]].block;

		if (atomic_load_explicit(&b->gave_up, memory_order_acquire) == PEERMEM_GAVE_UP)
			return err_set(err, RC_ABORTED, "%.*s", (int)sizeof b->reason - 1,
				       b->reason);
	}
	return RC_OK;
}

enum rc
xport_verdict(const struct xport_op *o, struct err *err)
{
	const struct comm *c = o->comm;

	if (atomic_load_explicit(&c->stopped, memory_order_acquire))
		return err_set(err, RC_ABORTED, "%s", c->aborted);
	if (o->frames && atomic_load_explicit(&o->frames->is_refused, memory_order_acquire))
		return err_set(err, RC_ABORTED, "%s", o->frames->refused);
	return o->slots || o->by_pair ? gave_up(c->mapping, err) : RC_OK;
}

uint64_t
xport_deadline(struct xport_op *o)
{
	return clock_now_ns() + o->comm->op_timeout_ns + o->allow_ns;
}

static enum rc
late(const struct wait *w, struct err *err)
{
	const struct xport_op *o = w->op;
	const struct comm *c = o->comm;

	/* Only waits for tickets have no peer. */
	if (w->peer == c->rank)
		return err_set(
		    err, RC_TIMEOUT,
		    "waits for a collective of this communicator that was queued earlier "
		    "on another stream");
	return err_set(err, RC_TIMEOUT, "no progress for %.1fs: %s rank %u (device %016" PRIx64 ")",
		       (double)(c->op_timeout_ns + o->allow_ns) / 1e9, w->what, w->peer,
		       c->peer[w->peer].device_id);
}

enum rc
xport_await(struct wait *w, struct err *err)
{
	struct xport_op *o = w->op;
	/* Pairs wait for all their peers at once. */
	const struct transport *via = o->by_pair ? &xport_pairs : xport_via(o, w->peer);
	struct recorder *recorder = w->what && w->peer != o->comm->rank ? o->recorder : NULL;
	bool renewed = w->deadline_ns == 0;
	uint64_t seen = UINT64_MAX;
	enum rc rc = RC_OK;

	for (; rc == RC_OK && !xport_wait_is_over(w); w->pauses++) {
		uint64_t n = atomic_load_explicit(w->counter, memory_order_relaxed);

		w->now_ns = clock_now_ns();
		if (renewed && n != seen)
			w->deadline_ns = w->now_ns + o->comm->op_timeout_ns + o->allow_ns;
		seen = n;
		if (w->pauses == 0)
			recorder_waits(recorder, w->peer);
		else
			recorder_waits_on(recorder, w->now_ns);
		rc = xport_verdict(o, err);
		if (rc == RC_OK && w->now_ns >= w->until_ns)
			break;
		if (rc == RC_OK && w->now_ns >= w->deadline_ns)
			rc = late(w, err);
		if (rc == RC_OK)
			rc = via->pause(w, err);
	}
	recorder_goes_on(recorder, rc);
	return rc;
}
