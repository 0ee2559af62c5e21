#include "coord/device/device_impl.h"

#include <inttypes.h>
#include <stdio.h>

uint64_t
call_timeout_ms(const struct coord *c)
{
	uint64_t ms = 2ull * c->lost_ms;

	return ms > COORD_CALL_MS ? ms : COORD_CALL_MS;
}

static void
list_add(struct call_list *l, struct call *call)
{
	call->next = NULL;
	call->prev = l->last;
	if (l->last)
		l->last->next = call;
	else
		l->first = call;
	l->last = call;
}

static void
list_remove(struct call_list *l, struct call *call)
{
	if (call->prev)
		call->prev->next = call->next;
	else
		l->first = call->next;
	if (call->next)
		call->next->prev = call->prev;
	else
		l->last = call->prev;
}

static void
token_remove(struct coord *c, struct call *call)
{
	struct call **p = &c->devices->by_token[call->token % CALL_BUCKETS];

	while (*p != call)
		p = &(*p)->chain;
	*p = call->chain;
}

/* Mark the call as failed; the owner is told at the end of the step. */
static void
call_die(struct coord *c, struct call *call, enum call_state why)
{
	if (call->state == CALL_LIVE) {
		list_remove(&c->devices->live, call);
		token_remove(c, call);
	}
	call->state = why;
	list_add(&c->devices->dead, call);
}

static void
start(struct coord *c, struct call *call, const char *address, uint64_t timeout_ms,
      struct buf *body)
{
	struct device *dev = call->dev;
	struct call **bucket;

	call->since_ms = c->now_ms;
	call->overdue_ms = c->now_ms + timeout_ms + COORD_OVERDUE_MS;
	if (!body->data || (dev && dev->lost)) {
		call_die(c, call, body->data ? CALL_LOST : CALL_NOMEM);
		buf_fini(body);
		return;
	}
	call->token = ++c->devices->last_token;
	if (!act_call(c, call->token, dev ? dev->id : 0, address, timeout_ms, body)) {
		call_die(c, call, CALL_NOMEM);
		return;
	}
	call->state = CALL_LIVE;
	list_add(&c->devices->live, call);
	bucket = &c->devices->by_token[call->token % CALL_BUCKETS];
	call->chain = *bucket;
	*bucket = call;
}

void
call_start(struct coord *c, struct call *call, struct device *dev, call_done *done, void *owner,
	   uint32_t rank, uint64_t timeout_ms, struct buf *body)
{
	call->dev = dev;
	call->done = done;
	call->owner = owner;
	call->rank = rank;
	start(c, call, dev->said->address, timeout_ms, body);
}

void
call_address(struct coord *c, struct call *call, const char *address, call_done *done, void *owner,
	     uint64_t timeout_ms, struct buf *body)
{
	call->dev = NULL;
	call->done = done;
	call->owner = owner;
	start(c, call, address, timeout_ms, body);
}

bool
call_is_idle(const struct call *call)
{
	return call->state == CALL_IDLE;
}

bool
call_is_live(const struct call *call)
{
	return call->state == CALL_LIVE;
}

GETTER(uint64_t, call_since_ms, call, since_ms)

void
call_cancel(struct coord *c, struct call *call)
{
	if (call->state == CALL_LIVE) {
		list_remove(&c->devices->live, call);
		token_remove(c, call);
	} else if (call->state != CALL_IDLE) {
		list_remove(&c->devices->dead, call);
	}
	call->state = CALL_IDLE;
}

void
calls_fail_device(struct coord *c, const struct device *dev, enum call_state why)
{
	struct call *next;

	for (struct call *call = c->devices->live.first; call; call = next) {
		next = call->next;
		if (call->dev == dev)
			call_die(c, call, why);
	}
}

void
calls_result(struct coord *c, const struct coord_event *ev)
{
	struct call *call = c->devices->by_token[ev->token % CALL_BUCKETS];
	struct outcome o = {.answered = ev->reply};

	while (call && call->token != ev->token)
		call = call->chain;
	if (!call)
		return;
	if (ev->reply)
		wire_reply_rc(ev->reply, &o.err);
	else
		err_set(&o.err, ev->rc == RC_OK ? RC_INTERNAL : ev->rc, "%s",
			ev->text && *ev->text ? ev->text : "no reason given");
	if (ev->reply && call->dev)
		device_alive(c, call->dev);
	call_cancel(c, call);
	o.dev = call->dev;
	o.reply = o.err.rc == RC_OK ? ev->reply : NULL;
	o.failure = ev->reply ? ev->reply->failure : NULL;
	o.refused = o.err.rc != RC_OK && o.err.rc != RC_TIMEOUT && o.err.rc != RC_UNREACHABLE;
	call->done(c, call->owner, call->rank, &o);
}

void
calls_tick(struct coord *c)
{
	struct call *next;

	for (struct call *call = c->devices->live.first; call; call = next) {
		next = call->next;
		if (c->now_ms >= call->overdue_ms)
			call_die(c, call, CALL_OVERDUE);
	}
}

static void
death_sentence(const struct coord *c, const struct call *call, struct err *err)
{
	switch (call->state) {
	case CALL_LOST:
		device_lost(call->dev, err);
		break;
	case CALL_RESTARTED:
		err_set(err, RC_FAILED, "restarted: its part of the communicator is lost");
		break;
	case CALL_OVERDUE:
		err_set(err, RC_TIMEOUT, "no answer for %.1fs",
			(double)(c->now_ms - call->since_ms) / 1e3);
		break;
	default:
		err_set(err, RC_NOMEM, "the coordinator is out of memory");
	}
}

void
calls_settle(struct coord *c)
{
	struct call *call;

	while ((call = c->devices->dead.first)) {
		struct outcome o = {.dev = call->dev,
				    .gone =
					call->state == CALL_LOST || call->state == CALL_RESTARTED,
				    .nomem = call->state == CALL_NOMEM};

		death_sentence(c, call, &o.err);
		call_cancel(c, call);
		call->done(c, call->owner, call->rank, &o);
	}
}

bool
calls_unsettled(const struct coord *c)
{
	return c->devices->dead.first;
}

enum rc
call_culprit(uint64_t comm, uint32_t rank, const struct outcome *o, struct err *out)
{
	char where[32] = "";

	if (comm)
		snprintf(where, sizeof where, "comm %" PRIu64 " ", comm);
	return err_set(out, o->err.rc, "%srank %u (device %016" PRIx64 ")%s %s", where, rank,
		       o->dev->id, o->gone ? "" : ":", o->err.text);
}
