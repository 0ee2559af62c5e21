/*
 * messages.c - the learners' messages, and the list of learners.
 *
 * A learner is identified by its client id. The server trusts a learner's message only as far as the pool's
 * records confirm it. A closed connection does not end a learner: it has a moment to come back. The server
 * notices the end of a process that it started itself, and only then is the slot free at once.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "ps/ps_impl.h"
#include "train/model.h"

#define ASK_AGAIN_MS 1000 /* a claim is not held for longer */
#define LINES_MAX    16384

/* ---- lines for the hook */

/* Lock held. Keep a line for the hook. */
static void __attribute__((format(printf, 2, 3))) ps_note(struct ps *ps, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (ps->hooks.event && ps->lines.len < LINES_MAX)
		(void)must_add(&ps->lines, text, strlen(text) + 1);
}

void
ps_tell(struct ps *ps)
{
	struct buf lines;

	pthread_mutex_lock(&ps->lock);
	lines = ps->lines;
	ps->lines = (struct buf){0};
	pthread_mutex_unlock(&ps->lock);
	for (size_t at = 0; at < lines.len; at += strlen(lines.data + at) + 1)
		ps->hooks.event(ps->hooks.arg, lines.data + at);
	buf_fini(&lines);
}

/* ---- members */

static struct member *
find(struct ps *ps, uint64_t id)
{
	for (size_t i = 0; i < POOL_MAX_LEARNERS; i++)
		if (ps->member[i].id == id)
			return &ps->member[i];
	return NULL;
}

static void
lay_ghosts(struct ps *ps, uint64_t now)
{
	for (size_t i = 0; i < POOL_MAX_LEARNERS; i++) {
		struct ghost *g = &ps->ghost[i];

		if (g->id &&
		    (ps_ended(ps, g->pid) || now > g->since_ns + PS_CLAIM_MS * NS_PER_MS)) {
			pool_leave(ps->pool, g->id, POOL_GONE);
			*g = (struct ghost){0};
		}
	}
}

/* Remove a member. */
static void
leave_out(struct ps *ps, struct member *m, enum pool_leave how, const char *why)
{
	ps_note(ps, "learner %u (device %016" PRIx64 ", process %u) %s; %u left", m->number,
		m->device, m->pid, why, pool_learners(ps->pool) - 1);
	pool_leave(ps->pool, m->id, how);
	if (how == POOL_SILENT) {
		/* The learner may still write to its slot, for as long as an item may take. */
		struct ghost *g = ps->ghost;

		while (g->id)
			g++; /* the pool counts ghosts, too: one is free */
		*g = (struct ghost){.id = m->id, .pid = m->pid, .since_ns = clock_now_ns()};
	}
	/* Messages in its socket are lost with it. */
	pool_unqueue(ps->pool, POOL_NO_ITEM);
	*m = (struct member){0};
	ps_answer_claims(ps); /* also its own: there are never more claims than members */
	pthread_cond_signal(&ps->changed);
	pthread_cond_signal(&ps->room);
}

static void
take_gone(struct ps *ps, uint64_t now)
{
	uint64_t *gone;
	size_t n;

	pthread_mutex_lock(&ps->notes);
	gone = ps->gone;
	n = ps->ngone;
	ps->gone = NULL;
	ps->ngone = 0;
	pthread_mutex_unlock(&ps->notes);
	for (size_t i = 0; i < n; i++) {
		struct member *m = find(ps, gone[i]);

		if (m)
			m->dropped_ns = now;
	}
	free(gone);
}

void
ps_tend_members(struct ps *ps)
{
	uint64_t now = clock_now_ns();

	take_gone(ps, now);
	lay_ghosts(ps, now);
	for (size_t i = 0; i < POOL_MAX_LEARNERS; i++) {
		struct member *m = &ps->member[i];

		if (m->id && ps_ended(ps, m->pid))
			leave_out(ps, m, POOL_GONE, "is gone");
		else if (m->dropped_ns && now > m->dropped_ns + PS_DROPPED_MS * NS_PER_MS)
			leave_out(ps, m, POOL_SILENT, "is gone");
		else if (m->id && now > m->heard_ns + PS_SILENT_MS * NS_PER_MS)
			leave_out(ps, m, POOL_SILENT, "is silent");
		else if (m->id && now > m->asked_ns + PS_CLAIM_MS * NS_PER_MS)
			leave_out(ps, m, POOL_SILENT, "is too slow");
	}
}

/* This runs under the server's lock: only take a note. */
void
ps_on_gone(void *arg, uint64_t client_id)
{
	struct ps *ps = arg;

	pthread_mutex_lock(&ps->notes);
	ps->gone = must_resize(ps->gone, ps->ngone + 1, sizeof *ps->gone);
	ps->gone[ps->ngone++] = client_id;
	pthread_mutex_unlock(&ps->notes);
	pthread_cond_signal(&ps->changed);
}

/* ---- joining */

/* Describe the samples to a learner that has none. text owns the strings that r points to. */
static void
describe_feed(const struct ps *ps, struct buf *text, GpuSim__PsJoinResponse *r)
{
	const struct dataset *data = &ps->task->data;

	model_describe(ps->task, text);
	r->fed = true;
	r->net = (ProtobufCBinaryData){text->len, (uint8_t *)text->data};
	r->scale = r->shift = (ProtobufCBinaryData){data->channels * sizeof(float), NULL};
	r->scale.data = (uint8_t *)data->scale;
	r->shift.data = (uint8_t *)data->shift;
	r->dtype = (GpuSim__DataType)data->dtype;
}

static void
reply_join(struct ps *ps, struct rpc_call *call)
{
	GpuSim__PsJoinResponse r = GPU_SIM__PS_JOIN_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(PS_JOIN, psjoin, r);
	struct buf text = {0};

	r.deviceid = ps->store.r.device.id;
	r.seed = ps->task->config->seed;
	r.queue = (char *)net_queue_address(ps->queue);
	r.versions = ps->store.versions;
	r.copies = ps->store.copy;
	r.n_copies = 2;
	r.batch = ps_item_rows(ps->task, ps->nworkers);
	r.leaf = ps_leaf(ps->task);
	r.beatms = PS_BEAT_MS;
	r.augment = ps->task->config->augment;
	r.instance = ps->instance;
	if (ps->order)
		describe_feed(ps, &text, &r);
	rpc_reply(call, &reply);
	buf_fini(&text);
}

static enum rc
same_task(const struct ps *ps, const GpuSim__PsJoinRequest *q, struct err *err)
{
	if (q->nodata && !ps->order)
		return err_set(
		    err, RC_INVAL,
		    "the server does not feed samples: start it with --feed data, or give "
		    "this learner --data");
	if (q->nodata)
		return RC_OK;
	if (strcmp(q->net, ps->task->net.text) != 0)
		return err_set(err, RC_INVAL, "the server trains %s, not %.160s",
			       ps->task->net.text, q->net);
	if (q->trainitems != ps->task->data.train.nitems || q->datacrc != ps->data_crc)
		return err_set(err, RC_INVAL, "the server trains on different data");
	return RC_OK;
}

static enum rc
join(struct ps *ps, uint64_t id, const GpuSim__PsJoinRequest *q, struct err *err)
{
	struct member *m = find(ps, 0);
	enum rc rc = same_task(ps, q, err);

	if (rc == RC_OK && ps->over)
		rc = err_set(err, RC_ABORTED, "training is over");
	if (rc == RC_OK && !m)
		rc = err_set(err, RC_BUSY, "the server already has %d learners", POOL_MAX_LEARNERS);
	if (rc == RC_OK)
		rc = pool_join(ps->pool, id, err);
	if (rc != RC_OK)
		return rc;
	*m = (struct member){.id = id,
			     .device = q->deviceid,
			     .pid = q->pid,
			     .number = ++ps->ncome,
			     .heard_ns = clock_now_ns(),
			     .asked_ns = clock_now_ns()};
	if (m->number > ps->nworkers)
		ps_note(ps, "learner %u (device %016" PRIx64 ", process %u) has joined; %u present",
			m->number, m->device, m->pid, pool_learners(ps->pool));
	pthread_cond_signal(&ps->changed);
	pthread_cond_signal(&ps->room);
	return RC_OK;
}

/* ---- claims */

enum { ANSWER_WAIT, ANSWER_ITEM, ANSWER_OVER };

static void
reply_claim(struct ps *ps, struct rpc_call *call, unsigned answer, const struct pool_claim *c)
{
	GpuSim__PsClaimResponse r = GPU_SIM__PS_CLAIM_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(PS_CLAIM, psclaim, r);

	r.answer = answer;
	if (answer == ANSWER_ITEM) {
		r.epoch = c->epoch;
		r.item = c->item;
		r.first = c->first;
		r.rows = c->rows;
		r.slot = c->slot;
		r.slotaddr = ps->store.slot[c->slot];
		r.modelversion = c->version;
	}
	rpc_reply(call, &reply);
}

/* False: the claim has to wait. */
static bool
answer_claim(struct ps *ps, struct waiting *w, uint64_t now)
{
	const struct err twice = {RC_INVAL, "this learner already has an item"};
	struct member *m = find(ps, w->id);
	struct pool_claim c;

	if (ps->over) {
		reply_claim(ps, w->call, ANSWER_OVER, NULL);
		return true;
	}
	switch (m ? pool_claim(ps->pool, w->id, w->hint, &c) : POOL_WAIT) {
	case POOL_WORK:
		m->asked_ns = ps->moved_ns = now;
		reply_claim(ps, w->call, ANSWER_ITEM, &c);
		return true;
	case POOL_STRANGER:
		rpc_reply_err(w->call, &twice);
		return true;
	default:
		w->hint = POOL_NO_ITEM;
		if (m && now < w->since_ns + ASK_AGAIN_MS * NS_PER_MS)
			return false;
		reply_claim(ps, w->call, ANSWER_WAIT, NULL);
		return true;
	}
}

void
ps_answer_claims(struct ps *ps)
{
	uint64_t now = clock_now_ns();
	uint32_t left = 0;

	/* Keep the order of arrival. */
	for (uint32_t i = 0; i < ps->nwaiting; i++)
		if (!answer_claim(ps, &ps->waiting[i], now))
			ps->waiting[left++] = ps->waiting[i];
	if (left != ps->nwaiting)
		pthread_cond_signal(&ps->room);
	ps->nwaiting = left;
}

/* A learner has at most one waiting claim. */
static void
claim(struct ps *ps, struct rpc_call *call, uint64_t id, const GpuSim__PsClaimRequest *q)
{
	for (uint32_t i = 0; i < ps->nwaiting; i++)
		if (ps->waiting[i].id == id) {
			reply_claim(ps, ps->waiting[i].call, ANSWER_WAIT, NULL);
			ps->waiting[i].call = call;
			ps->waiting[i].since_ns = clock_now_ns();
			ps_answer_claims(ps);
			return;
		}
	ps->waiting[ps->nwaiting++] = (struct waiting){
	    .call = call,
	    .id = id,
	    .since_ns = clock_now_ns(),
	    .hint = q->hinted ? q->item : POOL_NO_ITEM,
	};
	ps_answer_claims(ps);
}

/* ---- requests for samples */

static void
item(struct ps *ps, struct rpc_call *call, const GpuSim__PsItemRequest *q)
{
	const struct err none = {RC_INVAL, "the parameter server has no samples for this item"};
	GpuSim__PsItemResponse r = GPU_SIM__PS_ITEM_RESPONSE__INIT;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	struct buf bytes = {0};

	if (ps->order && q->epoch == ps->epoch && ps_item_put(ps, q->item, &bytes)) {
		r.data = (ProtobufCBinaryData){bytes.len, (uint8_t *)bytes.data};
		reply.body_case = GPU_SIM__REPLY__BODY_PS_ITEM;
		reply.psitem = &r;
		rpc_reply(call, &reply);
	} else {
		rpc_reply_err(call, &none);
	}
	buf_fini(&bytes);
}

/* ---- gradients */

/* A duration in seconds from a learner's message. */
static double
seconds(uint64_t ns)
{
	return ns < PS_CLAIM_MS * NS_PER_MS ? (double)ns / 1e9 : 0;
}

static void
gradient(struct ps *ps, struct rpc_call *call, struct member *m, const GpuSim__PsGradientRequest *q)
{
	const struct pool_gradient g = {.learner = m->id,
					.epoch = q->epoch,
					.item = q->item,
					.slot = q->slot,
					.rows = q->rows,
					.version = q->modelversion,
					.loss = q->loss};
	GpuSim__PsGradientResponse r = GPU_SIM__PS_GRADIENT_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(PS_GRADIENT, psgradient, r);

	r.verdict = pool_gradient(ps->pool, &g);
	if (r.verdict != POOL_REFUSED) {
		ps->moved_ns = clock_now_ns();
		ps->compute_s += seconds(q->computens);
		ps->comm_s += seconds(q->commns);
		pthread_cond_signal(&ps->changed);
	}
	rpc_reply(call, &reply);
	ps_answer_claims(ps);
}

/* ---- all messages */

/* Lock held. */
static void
dispatch(struct ps *ps, struct rpc_call *call)
{
	const struct err stranger = {RC_NOTFOUND, "the parameter server has given this learner up"};
	const struct err other = {RC_INVAL, "a parameter server does not support this request"};
	const GpuSim__Request *q = rpc_request(call);
	struct member *m = find(ps, q->clientid);
	struct err err = {0};

	if (m) {
		m->heard_ns = clock_now_ns();
		m->dropped_ns = 0;
	}
	switch (q->body_case) {
	case GPU_SIM__REQUEST__BODY_PS_JOIN:
		if (join(ps, q->clientid, q->psjoin, &err) == RC_OK)
			reply_join(ps, call);
		else
			rpc_reply_err(call, &err);
		return;
	case GPU_SIM__REQUEST__BODY_PS_CLAIM:
	case GPU_SIM__REQUEST__BODY_PS_GRADIENT:
	case GPU_SIM__REQUEST__BODY_PS_ITEM:
	case GPU_SIM__REQUEST__BODY_PS_BEAT:
	case GPU_SIM__REQUEST__BODY_PS_LEAVE:
		break;
	default:
		rpc_reply_err(call, &other);
		return;
	}
	if (!m) {
		rpc_reply_err(call, &stranger);
	} else if (q->body_case == GPU_SIM__REQUEST__BODY_PS_CLAIM) {
		m->asked_ns = m->heard_ns;
		claim(ps, call, m->id, q->psclaim);
	} else if (q->body_case == GPU_SIM__REQUEST__BODY_PS_ITEM) {
		item(ps, call, q->psitem);
	} else if (q->body_case == GPU_SIM__REQUEST__BODY_PS_GRADIENT) {
		gradient(ps, call, m, q->psgradient);
	} else {
		if (q->body_case == GPU_SIM__REQUEST__BODY_PS_LEAVE) {
			snprintf(err.text, sizeof err.text, "leaves%s%.160s",
				 *q->psleave->reason ? ": " : "", q->psleave->reason);
			leave_out(ps, m, POOL_GONE, err.text);
		}
		rpc_reply_done(call);
	}
}

void
ps_on_call(void *arg, struct rpc_call *call)
{
	struct ps *ps = arg;

	pthread_mutex_lock(&ps->lock);
	dispatch(ps, call);
	pthread_mutex_unlock(&ps->lock);
}
