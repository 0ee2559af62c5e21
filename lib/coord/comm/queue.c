/*
 * queue.c - requests that wait for free devices: first come, first served.
 *
 * A queued request is a waiter (WAIT_DEVICES) that has its request with it; when its turn has come, that is
 * handled as if it had just arrived. Waiters are in order of their coming, so they are the queue. Nobody
 * goes before the first, so a large request is not starved by small ones; but for two kinds that keep
 * their place and let others go first: one whose client has no connection, until that is back or the
 * request leaves; and one that wants more devices than are not lost, until lost ones are back.
 *
 * Whoever did not ask to wait does so for lost devices that are about to be back, and for those alone.
 *
 * Nothing of this is stored: after a restart the clients ask again, and stand in line again.
 */
#include "coord/top.h"

#include <inttypes.h>

/* It could have devices now if enough of them were free. */
static bool
is_ready(const struct waiter *w, const struct supply *s)
{
	return w->on == WAIT_DEVICES && !w->gone && w->want <= s->alive;
}

/* It has to wait for lost devices, and they are about to be back. */
static bool
awaits_return(const struct supply *s, uint32_t want)
{
	return want > s->alive && want <= s->alive + s->returning;
}

const struct waiter *
queue_first(const struct coord *c)
{
	const struct waiter *w = c->nqueued ? c->waiters : NULL;
	struct supply s;

	if (w)
		s = supply_count(c);
	while (w && !is_ready(w, &s))
		w = w->next;
	return w;
}

void
queue_leave(struct coord *c, struct waiter *w)
{
	buf_fini(&w->request);
	waiter_set(w, WAIT_NOT, 0);
	c->nqueued--;
}

static bool
is_grow(const GpuSim__Request *req)
{
	return req->body_case == GPU_SIM__REQUEST__BODY_COMM_GROW;
}

/* What the request says of who asks. */
static void
take_label(struct label *l, const GpuSim__Request *req)
{
	if (is_grow(req))
		label_set(l, req->commgrow->program, req->commgrow->pid);
	else
		label_set(l, req->comminit->program, req->comminit->pid);
}

static enum rc
enter(struct coord *c, struct waiter *w, const GpuSim__Request *req, uint32_t n, uint64_t wait_ms,
      struct err *err)
{
	if (!buf_pack(&w->request, &req->base))
		return err_set(err, RC_NOMEM, "the coordinator is out of memory");
	waiter_set(w, WAIT_DEVICES, is_grow(req) ? req->commgrow->commid : 0);
	take_label(&w->label, req);
	w->want = n;
	w->until_ms = c->now_ms + wait_ms < w->due_ms ? c->now_ms + wait_ms : w->due_ms;
	c->nqueued++;
	act_log(c, "%s waits for %u device%s", w->label.program[0] ? w->label.program : "a client",
		n, n == 1 ? "" : "s");
	return RC_OK;
}

enum rc
queue_devices(struct coord *c, struct waiter *w, const GpuSim__Request *req, uint32_t n,
	      uint64_t wait_ms, struct device **dev, bool *queued, struct err *err)
{
	struct supply s = supply_count(c);
	enum rc rc;

	if (c->comms->serving != w && queue_first(c))
		rc = supply_short(c, n, s.free, err);
	else
		rc = choose_free(c, n, dev, err);
	w->brief = wait_ms == 0;
	if (rc == RC_OK || rc == RC_NOTFOUND || (w->brief && !awaits_return(&s, n)))
		return rc;
	rc = enter(c, w, req, n, w->brief ? c->cfg.respawn_ms : wait_ms, err);
	*queued = rc == RC_OK;
	return rc;
}

/* Its devices are free: handle its request, which may answer the waiter. */
static void
serve(struct coord *c, struct waiter *w)
{
	GpuSim__Request *req =
	    gpu_sim__request__unpack(NULL, w->request.len, (const uint8_t *)w->request.data);
	struct err err = {0};
	enum rc rc;

	queue_leave(c, w);
	c->comms->serving = w;
	c->client_id = w->client_id;
	if (!req)
		rc = err_set(&err, RC_NOMEM, "the coordinator is out of memory");
	else if (is_grow(req))
		rc = on_comm_grow(c, w, req, &err);
	else
		rc = on_comm_init(c, w, req, &err);
	c->comms->serving = NULL;
	c->client_id = 0;
	if (rc != RC_OK)
		answer_failure(c, w, &err);
	wire_request_free(req);
}

/* They want more than there are, since devices were forgotten, or what they waited for does not come. */
static void
refuse_hopeless(struct coord *c, const struct supply *s)
{
	struct waiter *next;
	struct err err;

	for (struct waiter *w = c->waiters; w; w = next) {
		next = w->next;
		if (w->on != WAIT_DEVICES)
			continue;
		if (w->want <= s->all &&
		    (!w->brief || w->want <= s->free || awaits_return(s, w->want)))
			continue;
		supply_short(c, w->want, s->free, &err);
		queue_leave(c, w);
		answer_failure(c, w, &err);
	}
}

void
queue_step(struct coord *c)
{
	struct waiter *w;
	struct supply s;

	while (c->nqueued && c->persist->refuse.rc == RC_OK) {
		s = supply_count(c);
		refuse_hopeless(c, &s);
		w = (struct waiter *)queue_first(c);
		if (!w || w->want > s.free)
			return;
		serve(c, w);
	}
}

static void
expire(struct coord *c, struct waiter *w)
{
	struct err why, err;
	uint32_t want = w->want;

	queue_leave(c, w);
	supply_short(c, want, supply_count(c).free, &why);
	err_set(&err, RC_TIMEOUT, "waited %.1f s: %s", (double)(c->now_ms - w->asked_ms) / 1e3,
		why.text);
	answer_failure(c, w, &err);
}

void
queue_tick(struct coord *c)
{
	const struct err away = {RC_ABORTED, "its client has gone"};
	struct waiter *next;

	for (struct waiter *w = c->nqueued ? c->waiters : NULL; w; w = next) {
		next = w->next;
		if (w->on != WAIT_DEVICES)
			continue;
		if (w->gone && c->now_ms >= w->gone_ms + COORD_LEASE_MS) {
			queue_leave(c, w);
			answer_failure(c, w, &away);
		} else if (c->now_ms >= w->until_ms) {
			expire(c, w);
		}
	}
}

void
queue_client_is(struct coord *c, uint64_t client_id, bool gone)
{
	for (struct waiter *w = c->nqueued ? c->waiters : NULL; w; w = w->next)
		if (w->on == WAIT_DEVICES && w->client_id == client_id && w->gone != gone) {
			w->gone = gone;
			w->gone_ms = c->now_ms;
		}
}
