/*
 * Design notes. Two threads: the caller's, which takes items, computes and reports, and one that
 * sends heartbeats to the server. `dead` is set once, by the thread that loses the server; every
 * wait of the caller's thread is short enough to see that soon.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "net/net.h"
#include "nn/augment.h"
#include "ps/learner.h"
#include "train/model.h"

#define CALL_MS	     20000 /* for the server's answer */
#define BEAT_CALL_MS 5000
#define TAKE_MS	     20 /* for an item in the queue, before the learner claims without one */
#define MAX_REJOINS  20 /* after the server gave this learner up */

struct learner {
	const char *address;
	struct rpc_client *client;
	struct net_queue *queue;
	struct learner_device own;
	const struct train_config *config;
	const struct task *task; /* the caller's, or `told` */
	struct task told;	 /* the server's description of the samples that it feeds */
	uint8_t *message;	 /* of the queue: a ticket, and fed samples */
	size_t message_max, message_len;
	/* From the server: */
	uint64_t instance;
	struct gpusim_device device;
	uint64_t versions, copy[2];
	uint32_t beat_ms;
	pthread_t beat;
	bool beats;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop; /* under the lock */
	atomic_bool dead;
};

/* ---- calls */

static enum rc
call(struct learner *l, GpuSim__Request *q, int want, unsigned timeout_ms, GpuSim__Reply **out,
     struct err *err)
{
	GpuSim__Reply *reply = NULL;
	enum rc rc = rpc_call(l->client, q, deadline_in_ms(timeout_ms), &reply, err);

	if (rc == RC_UNREACHABLE || rc == RC_TIMEOUT)
		rc = err_set(err, rc, "the parameter server at %s is unreachable", l->address);
	if (rc == RC_OK && (int)reply->body_case != want) {
		wire_reply_free(reply);
		rc = err_set(err, RC_BADDATA, "%s: not a parameter server's answer", l->address);
	}
	if (rc == RC_OK)
		*out = reply;
	return rc;
}

/* For fed samples: the net, and the scale of its input. */
static enum rc
take_feed(struct learner *l, const GpuSim__PsJoinResponse *r, struct err *err)
{
	struct dataset *data = &l->told.data;
	size_t nbytes;
	enum rc rc =
	    model_task((const char *)r->net.data, r->net.len, l->address, l->config, &l->told, err);

	if (rc != RC_OK)
		return rc;
	nbytes = data->channels * sizeof(float);
	if (r->scale.len != nbytes || r->shift.len != nbytes ||
	    (r->dtype != (GpuSim__DataType)GPUSIM_U8 && r->dtype != (GpuSim__DataType)GPUSIM_F32))
		return err_set(err, RC_BADDATA, "%s: not a parameter server's answer", l->address);
	memcpy(data->scale, r->scale.data, nbytes);
	memcpy(data->shift, r->shift.data, nbytes);
	data->dtype = (enum gpusim_dtype)r->dtype;
	l->task = &l->told;
	l->own.fed = true;
	return RC_OK;
}

/* Store the server's description of itself. */
static enum rc
take_server(struct learner *l, const GpuSim__PsJoinResponse *r, struct err *err)
{
	enum rc rc = RC_OK;

	if (r->n_copies != 2 || r->batch == 0 || r->batch > PS_ITEM_MAX || r->beatms == 0 ||
	    r->leaf > PS_ITEM_MAX)
		return err_set(err, RC_BADDATA, "%s: not a parameter server's answer", l->address);
	if (r->fed)
		rc = take_feed(l, r, err);
	if (rc == RC_OK)
		rc = augment_check(r->augment, &l->task->data, err);
	if (rc == RC_OK)
		rc = net_addr_check(r->queue, NET_ANY_HOST, err);
	if (rc == RC_OK)
		rc = net_queue_join(r->queue, &l->queue, err);
	if (rc != RC_OK)
		return rc;
	l->instance = r->instance;
	l->device.id = r->deviceid;
	l->versions = r->versions;
	l->copy[0] = r->copies[0];
	l->copy[1] = r->copies[1];
	l->beat_ms = r->beatms;
	l->message_max =
	    sizeof(struct ticket) + (r->fed ? ps_item_bytes(&l->task->data, r->batch) : 0);
	if (l->message_max > NET_QUEUE_MAX)
		return err_set(err, RC_BADDATA, "%s: items of %zu bytes", l->address,
			       l->message_max);
	l->message = must_alloc(l->message_max, 1);
	return learner_device_place(
	    &l->own, l->task, &(struct learner_items){r->seed, r->batch, r->augment, r->leaf}, err);
}

static enum rc
join(struct learner *l, struct err *err)
{
	GpuSim__PsJoinRequest m = GPU_SIM__PS_JOIN_REQUEST__INIT;
	GpuSim__Request q = WIRE_REQUEST(PS_JOIN, psjoin, m);
	GpuSim__Reply *reply;
	enum rc rc;

	m.deviceid = gpusim_comm_device(l->own.comm, 0).id;
	m.pid = (uint32_t)getpid();
	m.nodata = !l->task;
	if (l->task) {
		m.net = (char *)l->task->net.text;
		m.trainitems = l->task->data.train.nitems;
		m.datacrc = dataset_crc(&l->task->data);
	}
	rc = call(l, &q, GPU_SIM__REPLY__BODY_PS_JOIN, CALL_MS, &reply, err);
	if (rc != RC_OK)
		return rc;
	if (m.nodata && !reply->psjoin->fed)
		rc = err_set(err, RC_BADDATA, "%s: not a parameter server's answer", l->address);
	if (rc == RC_OK)
		rc = take_server(l, reply->psjoin, err);
	wire_reply_free(reply);
	return rc;
}

enum { ANSWER_WAIT, ANSWER_ITEM, ANSWER_OVER };

/* hint: an item of the queue, or POOL_NO_ITEM. *reply is the caller's to free. */
static enum rc
claim(struct learner *l, uint32_t hint, GpuSim__Reply **reply, struct err *err)
{
	GpuSim__PsClaimRequest m = GPU_SIM__PS_CLAIM_REQUEST__INIT;
	GpuSim__Request q = WIRE_REQUEST(PS_CLAIM, psclaim, m);

	m.hinted = hint != POOL_NO_ITEM;
	m.item = m.hinted ? hint : 0;
	return call(l, &q, GPU_SIM__REPLY__BODY_PS_CLAIM, CALL_MS, reply, err);
}

static enum rc
tell(struct learner *l, const GpuSim__PsClaimResponse *c, double loss, uint64_t compute_ns,
     uint64_t comm_ns, struct err *err)
{
	GpuSim__PsGradientRequest m = GPU_SIM__PS_GRADIENT_REQUEST__INIT;
	GpuSim__Request q = WIRE_REQUEST(PS_GRADIENT, psgradient, m);
	GpuSim__Reply *reply;
	enum rc rc;

	m.epoch = c->epoch;
	m.item = c->item;
	m.slot = c->slot;
	m.rows = c->rows;
	m.modelversion = l->own.version - 1;
	m.loss = loss;
	m.computens = compute_ns;
	m.commns = comm_ns;
	rc = call(l, &q, GPU_SIM__REPLY__BODY_PS_GRADIENT, CALL_MS, &reply, err);
	if (rc == RC_OK)
		wire_reply_free(reply); /* too old, or given up: another learner computes it */
	return rc;
}

/* Report why this learner leaves; the message may be lost. */
static void
leave(struct learner *l, const char *reason)
{
	GpuSim__PsLeaveRequest m = GPU_SIM__PS_LEAVE_REQUEST__INIT;
	GpuSim__Request q = WIRE_REQUEST(PS_LEAVE, psleave, m);
	GpuSim__Reply *reply;
	char text[161];

	snprintf(text, sizeof text, "%.160s", reason);
	m.reason = text;
	if (!atomic_load(&l->dead) &&
	    rpc_call(l->client, &q, deadline_in_ms(1000), &reply, &(struct err){0}) == RC_OK)
		wire_reply_free(reply);
}

/* ---- heartbeats */

static void
on_nobody(void *arg, uint64_t seen_ns)
{
	(void)seen_ns;
	atomic_store(&((struct learner *)arg)->dead, true);
}

/* False: stop. */
static bool
beat_pause(struct learner *l)
{
	struct timespec ts = deadline_timespec(deadline_in_ms(l->beat_ms));
	bool go;

	pthread_mutex_lock(&l->lock);
	while (!l->stop && pthread_cond_clockwait(&l->changed, &l->lock, CLOCK_MONOTONIC, &ts) == 0)
		continue;
	go = !l->stop;
	pthread_mutex_unlock(&l->lock);
	return go;
}

static void *
beat(void *arg)
{
	struct learner *l = arg;
	GpuSim__PsBeatRequest m = GPU_SIM__PS_BEAT_REQUEST__INIT;
	GpuSim__Request q = WIRE_REQUEST(PS_BEAT, psbeat, m);
	unsigned failed = 0;

	while (beat_pause(l) && !atomic_load(&l->dead)) {
		GpuSim__Reply *reply;
		struct err err = {0};
		enum rc rc = rpc_call(l->client, &q, deadline_in_ms(BEAT_CALL_MS), &reply, &err);

		if (rc == RC_OK)
			wire_reply_free(reply);
		failed = rc == RC_TIMEOUT ? failed + 1 : 0;
		if (failed == 2 || rc == RC_UNREACHABLE)
			atomic_store(&l->dead, true);
	}
	return NULL;
}

static void
stop_beating(struct learner *l)
{
	if (!l->beats)
		return;
	pthread_mutex_lock(&l->lock);
	l->stop = true;
	pthread_cond_signal(&l->changed);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->beat, NULL);
}

/* ---- work */

/* The times at which parts of an item were done. */
struct timing {
	uint64_t began, fetched, computed, pushed;
};

/* Fetch samples that did not come through the queue. */
static enum rc
ask_item(struct learner *l, const GpuSim__PsClaimResponse *c, struct err *err)
{
	const size_t head = sizeof(struct ticket);
	GpuSim__PsItemRequest m = GPU_SIM__PS_ITEM_REQUEST__INIT;
	GpuSim__Request q = WIRE_REQUEST(PS_ITEM, psitem, m);
	GpuSim__Reply *reply;
	enum rc rc;

	m.epoch = c->epoch;
	m.item = c->item;
	rc = call(l, &q, GPU_SIM__REPLY__BODY_PS_ITEM, CALL_MS, &reply, err);
	if (rc != RC_OK)
		return rc;
	l->message_len = 0;
	if (reply->psitem->data.len <= l->message_max - head) {
		memcpy(l->message + head, reply->psitem->data.data, reply->psitem->data.len);
		l->message_len = head + reply->psitem->data.len;
	}
	wire_reply_free(reply);
	return RC_OK;
}

/* Return true if the queue's message holds the item's samples. */
static bool
has_item(const struct learner *l, const GpuSim__PsClaimResponse *c)
{
	struct ticket t;

	if (l->message_len <= sizeof t)
		return false;
	memcpy(&t, l->message, sizeof t);
	return t.instance == l->instance && t.epoch == c->epoch && t.item == c->item;
}

static enum rc
find_item(struct learner *l, const GpuSim__PsClaimResponse *c, struct minibatch *m, struct err *err)
{
	const size_t head = sizeof(struct ticket);
	const struct dataset *data = &l->task->data;
	enum rc rc;

	if (!l->own.fed)
		return learner_device_pick(&l->own, c->epoch, c->first, c->rows, m, err);
	if (has_item(l, c) &&
	    ps_item_take(l->message + head, l->message_len - head, data, c->rows, m))
		return RC_OK;
	rc = ask_item(l, c, err);
	if (rc == RC_OK &&
	    (l->message_len < head ||
	     !ps_item_take(l->message + head, l->message_len - head, data, c->rows, m)))
		rc = err_set(err, RC_BADDATA, "%s: the message does not hold %u samples",
			     l->address, c->rows);
	return rc;
}

/* Compute an item: from weights to the gradient in its slot. */
static enum rc
attempt(struct learner *l, const GpuSim__PsClaimResponse *c, const struct minibatch *m,
	struct timing *t, double *loss, struct err *err)
{
	enum rc rc =
	    learner_device_fetch(&l->own, l->device, l->versions, l->copy, c->modelversion, err);

	t->fetched = clock_now_ns();
	if (rc == RC_OK)
		rc = learner_device_compute(&l->own, m, loss, err);
	t->computed = clock_now_ns();
	/* The slot is then no longer this learner's. */
	if (rc == RC_OK && t->computed - t->began > PS_CLAIM_MS * NS_PER_MS)
		rc = err_set(err, RC_INVAL, "an item took %.0f s",
			     (double)(t->computed - t->began) / 1e9);
	if (rc == RC_OK)
		rc = learner_device_push(&l->own, l->device, c->slotaddr, err);
	t->pushed = clock_now_ns();
	return rc;
}

/* Work on an item; repeat while only the coordinator is unreachable. */
static enum rc
work(struct learner *l, const GpuSim__PsClaimResponse *c, struct err *err)
{
	struct timing t = {.began = clock_now_ns()};
	struct ps_trouble trouble = {0};
	struct minibatch m;
	double loss = 0;
	enum rc rc = find_item(l, c, &m, err);

	if (rc != RC_OK)
		return rc;
	do
		rc = attempt(l, c, &m, &t, &loss, err);
	while (rc != RC_OK && !atomic_load(&l->dead) &&
	       (rc = ps_again(l->own.comm, &trouble, err)) == RC_OK);
	if (rc != RC_OK)
		return rc;
	return tell(l, c, loss, t.computed - t.fetched, t.fetched - t.began + t.pushed - t.computed,
		    err);
}

/* Take an item from the queue, if one is there. */
static uint32_t
take(struct learner *l)
{
	struct ticket t;
	struct err err;

	if (net_queue_take(l->queue, l->message, l->message_max, &l->message_len, TAKE_MS, &err) !=
	    RC_OK)
		l->message_len = 0;
	if (l->message_len < sizeof t)
		return POOL_NO_ITEM;
	memcpy(&t, l->message, sizeof t);
	return t.item; /* of any epoch: the server checks it */
}

static enum rc
learn(struct learner *l, struct err *err)
{
	bool over = false;
	enum rc rc = RC_OK;

	while (rc == RC_OK && !over) {
		GpuSim__Reply *reply;

		if (atomic_load(&l->dead))
			return err_set(err, RC_UNREACHABLE,
				       "the parameter server at %s is unreachable", l->address);
		rc = claim(l, take(l), &reply, err);
		if (rc != RC_OK)
			break;
		over = reply->psclaim->answer == ANSWER_OVER;
		if (reply->psclaim->answer == ANSWER_ITEM)
			rc = work(l, reply->psclaim, err);
		wire_reply_free(reply);
	}
	return rc;
}

static enum rc
start(struct learner *l, struct gpusim *g, struct err *err)
{
	enum rc rc = net_addr_check(l->address, NET_ANY_HOST, err);
	int rv;

	if (rc == RC_OK)
		rc = rpc_client_watch(l->address, on_nobody, l, &l->client, err);
	if (rc == RC_OK)
		rc = learner_device_open(&l->own, g, l->config->wait_ms, err);
	if (rc == RC_OK)
		rc = join(l, err);
	if (rc != RC_OK)
		return rc;
	rv = pthread_create(&l->beat, NULL, beat, l);
	l->beats = rv == 0;
	return rv == 0 ? RC_OK : err_set(err, RC_FAILED, "cannot start a thread: %s", strerror(rv));
}

/* One membership, from beginning to end. *early: it ended at its beginning because the coordinator
 * was unreachable. */
static enum rc
learn_once(struct gpusim *g, const struct task *task, const struct train_config *config,
	   bool *early, struct err *err)
{
	struct learner l = {.address = config->learn,
			    .config = config,
			    .task = task,
			    .lock = PTHREAD_MUTEX_INITIALIZER,
			    .changed = PTHREAD_COND_INITIALIZER};
	enum rc rc = start(&l, g, err);

	*early = rc == RC_UNREACHABLE && !atomic_load(&l.dead);
	if (rc == RC_OK)
		rc = learn(&l, err);
	stop_beating(&l);
	if (l.client)
		leave(&l, rc == RC_OK ? "" : err->text);
	net_queue_close(l.queue);
	rpc_client_close(l.client);
	learner_device_close(&l.own);
	task_fini(&l.told);
	free(l.message);
	return rc;
}

enum rc
ps_learn(struct gpusim *g, const struct task *task, const struct train_config *config,
	 struct err *err)
{
	uint64_t patience = deadline_in_ms(TASK_AWAY_MS);
	unsigned tries = 0;
	bool early;
	enum rc rc;

	/* A learner that was slow or disconnected joins again as a new one. */
	do
		rc = learn_once(g, task, config, &early, err);
	while ((rc == RC_NOTFOUND && tries++ < MAX_REJOINS) ||
	       (early && deadline_left_ms(patience) > 0));
	return rc;
}
