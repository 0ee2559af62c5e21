#include "coord/core/pending.h"

#include <stdlib.h>

/* Room in a control message for the envelope that the shell adds. */
#define ENVELOPE 64

struct pending {
	struct pending *next, *prev;
	struct asker asker;
	uint64_t token; /* 0: absent */
	uint64_t due_ms;
	const struct wait *on;
	uint64_t id;
	void *own;
};

struct pendings {
	struct pending *first, *last;
	uint32_t n, nabsent;
};

/* Waits for memory for its answer. */
static const struct wait wait_memory;

enum rc
pendings_init(struct coord *c)
{
	c->pendings = alloc_zeroed(1, sizeof *c->pendings);
	return c->pendings ? RC_OK : RC_NOMEM;
}

void
pendings_drop(struct coord *c)
{
	while (c->pendings->first)
		pending_free(c, c->pendings->first);
}

void
pendings_fini(struct coord *c)
{
	free(c->pendings);
}

enum rc
pendings_check(const struct coord *c, struct err *err)
{
	uint32_t n = 0;

	if (c->pendings->n > COORD_MAX_PENDING)
		return err_set(err, RC_BUSY, "%u requests are pending, which is the limit",
			       COORD_MAX_PENDING);
	if (c->pendings->n <= COORD_CLIENT_PENDING || c->client_id == 0)
		return RC_OK;
	for (const struct pending *p = c->pendings->first; p; p = p->next)
		n += p->asker.client_id == c->client_id;
	if (n <= COORD_CLIENT_PENDING) /* the current one included */
		return RC_OK;
	return err_set(err, RC_BUSY, "%u requests of this client are pending, which is its limit",
		       COORD_CLIENT_PENDING);
}

/* ---- one */

static struct pending *
add(struct coord *c, const struct asker *asker)
{
	struct pendings *all = c->pendings;
	struct pending *p = alloc_zeroed(1, sizeof *p);

	if (!p)
		return NULL;
	p->asker = *asker;
	p->prev = all->last;
	if (all->last)
		all->last->next = p;
	else
		all->first = p;
	all->last = p;
	all->n++;
	return p;
}

struct pending *
pending_new(struct coord *c, const struct coord_event *ev)
{
	const struct asker asker = {.client_id = ev->client_id,
				    .seq = ev->request->seq,
				    .asked_ms = c->now_ms,
				    .kind = ev->request->body_case,
				    .name = wire_request_name(ev->request)};
	uint64_t left = ev->deadline_ms > c->now_ms ? ev->deadline_ms - c->now_ms : 0;
	struct pending *p = add(c, &asker);

	if (!p)
		return NULL;
	p->token = ev->token;
	p->due_ms =
	    c->now_ms + left - (left / 4 < COORD_ANSWER_MARGIN ? left / 4 : COORD_ANSWER_MARGIN);
	return p;
}

enum rc
pending_restore(struct coord *c, const char *key, uint64_t client, uint64_t seq, uint32_t kind,
		const struct wait *on, uint64_t id, struct err *err)
{
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	struct asker asker = {.client_id = client, .seq = seq};
	struct pending *p;

	if (!client || !seq)
		return RC_OK;
	req.body_case = asker.kind = (GpuSim__Request__BodyCase)kind;
	asker.name = wire_request_name(&req);
	p = add(c, &asker);
	if (!p)
		return record_nomem(key, err);
	p->due_ms = UINT64_MAX;
	c->pendings->nabsent++;
	pending_wait(c, p, on, id, NULL);
	return RC_OK;
}

struct pending *
pending_repeated(struct coord *c, const struct pending *p)
{
	struct pending *old = c->pendings->nabsent ? c->pendings->first : NULL;

	while (old && (old->token || old->asker.client_id != p->asker.client_id ||
		       old->asker.seq != p->asker.seq || old->asker.kind != p->asker.kind))
		old = old->next;
	return old;
}

void
pendings_resume(struct coord *c)
{
	for (struct pending *p = c->pendings->first; p; p = p->next)
		p->asker.asked_ms = c->now_ms;
}

void
pending_free(struct coord *c, struct pending *p)
{
	struct pendings *all = c->pendings;

	pending_wait(c, p, NULL, 0, NULL);
	if (p->prev)
		p->prev->next = p->next;
	else
		all->first = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else
		all->last = p->prev;
	all->n--;
	all->nabsent -= p->token == 0;
	free(p);
}

const struct asker *
pending_asker(const struct pending *p)
{
	return &p->asker;
}

GETTER(const struct wait *, pending_on, pending, on)
GETTER(uint64_t, pending_id, pending, id)
GETTER(void *, pending_own, pending, own)

void
pending_wait(struct coord *c, struct pending *p, const struct wait *on, uint64_t id, void *own)
{
	if (p->on && p->on->left)
		p->on->left(c, p);
	p->on = on;
	p->id = id;
	p->own = own;
}

GETTER(uint64_t, pending_due_ms, pending, due_ms)

void
pending_due_by(struct pending *p, uint64_t ms)
{
	if (p->due_ms > ms)
		p->due_ms = ms;
}

struct pending *
pending_find(struct coord *c, const struct wait *on, uint64_t id)
{
	struct pending *p = c->pendings->first;

	while (p && (p->on != on || p->id != id))
		p = p->next;
	return p;
}

struct pending *
pending_next(const struct coord *c, const struct pending *p)
{
	return p ? p->next : c->pendings->first;
}

/* ---- answers */

void
answer_nomem(struct coord *c, struct pending *p)
{
	pending_wait(c, p, &wait_memory, 0, NULL);
}

void
answer(struct coord *c, struct pending *p, GpuSim__Reply *reply)
{
	struct coord_action a = {.kind = COORD_ANSWER,
				 .token = p->token,
				 .rc = (enum rc)reply->code,
				 .client_id = p->asker.client_id,
				 .seq = p->asker.seq};
	size_t n = gpu_sim__reply__get_packed_size(reply);
	struct err err;

	if (n > WIRE_CONTROL_MAX - ENVELOPE) {
		err_set(&err, RC_INTERNAL, "the answer takes %zu bytes; the limit is %u", n,
			WIRE_CONTROL_MAX - ENVELOPE);
		answer_failure(c, p, &err);
		return;
	}
	if (c->answering)
		c->answering(c, p, reply, &a);
	if (buf_pack(&a.body, &reply->base) && act(c, &a))
		pending_free(c, p);
	else
		answer_nomem(c, p);
}

void
answer_failure(struct coord *c, struct pending *p, const struct err *err)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;

	wire_reply_failure(&reply, err);
	answer(c, p, &reply);
}

void
answer_body(struct coord *c, struct pending *p, GpuSim__Reply__BodyCase kind, void *body)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;

	reply.body_case = kind;
	reply.done = body; /* all bodies are pointers in one union */
	answer(c, p, &reply);
}

void
answer_done(struct coord *c, struct pending *p)
{
	GpuSim__Empty done = GPU_SIM__EMPTY__INIT;

	answer_body(c, p, GPU_SIM__REPLY__BODY_DONE, &done);
}

void
pendings_fail(struct coord *c, const struct wait *on, uint64_t id, const struct err *err)
{
	struct pending *p;

	while ((p = pending_find(c, on, id)))
		answer_failure(c, p, err);
}

void
pending_cancel(struct coord *c, uint64_t client_id, uint64_t seq)
{
	struct pending *p = c->pendings->first;
	struct err err;

	while (p && (p->asker.client_id != client_id || p->asker.seq != seq || p->token == 0))
		p = p->next;
	if (!p)
		return; /* it has been answered */
	err_set(&err, RC_ABORTED, "%s: cancelled by the client", p->asker.name);
	answer_failure(c, p, &err);
}

/* ---- deadlines */

void
pendings_tick(struct coord *c)
{
	const struct err nomem = {RC_NOMEM, "the coordinator is out of memory"};
	struct pending *next;

	for (struct pending *p = c->pendings->first; p; p = next) {
		next = p->next;
		if (p->on == &wait_memory)
			answer_failure(c, p, &nomem);
		else if (c->now_ms >= p->due_ms) {
			struct err err;

			err_set(&err, RC_TIMEOUT, "%s: not finished after %.1fs", p->asker.name,
				(double)(c->now_ms - p->asker.asked_ms) / 1e3);
			if (!p->on || !p->on->late || !p->on->late(c, p, &err))
				answer_failure(c, p, &err);
		}
	}
}
