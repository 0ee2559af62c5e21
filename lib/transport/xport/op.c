/* Operations: open, pass to each peer's transport, end. */
#include <inttypes.h>
#include <stdio.h>

#include "xport/peermem_impl.h"

enum rc
xport_begin(struct xport *x, const struct xport_opening *how, struct xport_op *o, struct err *err)
{
	struct comm *c = how->tickets ? how->tickets->comm : NULL;
	bool whole = c && c->mapping->whole;
	enum rc rc = RC_OK;

	*o = (struct xport_op){.comm = c,
			       .recorder = how->recorder,
			       .ticket = how->ticket,
			       .numbered = how->numbered,
			       .kind = how->kind,
			       .call = how->call,
			       .in = how->in,
			       .out = how->out,
			       .mark = how->pair_mark,
			       .members = how->members};
	if (how->shares && !whole && !how->members)
		return err_set(
		    err, RC_INVAL,
		    "needs peer memory between all ranks, but some are reached by sockets");
	if (!whole)
		rc = frames_begin(x, how, o, err);
	if (rc != RC_OK || !c)
		return rc;
	rc = peermem_begin(o, err);
	return rc == RC_OK ? rc : xport_end(o, XPORT_GIVE_UP, err);
}

enum rc
xport_send(struct xport_op *o, uint32_t peer, const void *data, size_t nbytes, struct err *err)
{
	return xport_via(o, peer)->send(o, peer, data, nbytes, err);
}

enum rc
xport_recv(struct xport_op *o, uint32_t peer, const void **data, size_t *nbytes, struct err *err)
{
	return xport_via(o, peer)->recv(o, peer, data, nbytes, err);
}

void
xport_release(struct xport_op *o, uint32_t peer)
{
	xport_via(o, peer)->release(o, peer);
}

bool
xport_ready(struct xport_op *o, uint32_t peer, enum xport_way way)
{
	return xport_via(o, peer)->room(o, peer, way);
}

bool
xport_is_slow(const struct xport_op *o, uint32_t peer)
{
	const struct shaper *s = &o->comm->x->shaper; /* these two fields never change */

	return xport_via(o, peer) == &xport_frames && (s->latency_ns || s->bits_per_s);
}

/* The reason for the peers: one that this rank has received, or its own. */
static void
last_word(const struct xport_op *o, const struct err *own, char text[REASON_MAX])
{
	const struct comm *c = o->comm;
	struct err heard = {0};

	if (xport_verdict(o, &heard) != RC_OK)
		snprintf(text, REASON_MAX, "%.*s", REASON_MAX - 1, heard.text);
	else
		snprintf(text, REASON_MAX, "rank %u (device %016" PRIx64 ") gave up: %.300s",
			 c->rank, c->x->device_id, own->text);
}

enum rc
xport_end(struct xport_op *o, enum xport_ending how, struct err *err)
{
	enum rc rc = how == XPORT_COMPLETE ? RC_OK : err->rc;
	char text[REASON_MAX];

	if (rc == RC_OK && o->slots)
		rc = peermem_settle(o, err);
	if (rc == RC_OK && o->by_pair)
		rc = peermem_pair_settle(o, err);
	if (rc == RC_OK && o->frames)
		rc = frames_settle(o, err);
	if (rc != RC_OK)
		last_word(o, err, text);
	if (o->by_pair)
		peermem_pair_end(o);
	if (o->slots)
		peermem_end(o, rc == RC_OK ? NULL : text);
	if (o->frames)
		frames_end(o, rc == RC_OK ? NULL : text);
	return rc;
}
