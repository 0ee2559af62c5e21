/*
 * Design notes. Three threads: the caller's, which applies updates and tests, the rpc server's, which
 * hears learners (messages.c), and the feeder, which puts items into the queue. `lock` guards the
 * pool and the learners; no thread waits for a device or a socket while it holds the lock. `notes`
 * guards what callbacks under the rpc server's own lock leave to be done later.
 *
 * The queue guarantees nothing (net/queue.h), so an item in it is only a hint that there is work. A
 * learner then claims, and the answer names its item; a learner that found the queue empty claims
 * as well. If samples are fed, a learner that claimed an item without them requests them. Items are
 * queued again after a learner has left, or if nothing has moved for a while.
 *
 * A claim that cannot be granted now is kept unanswered, for a second at most.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "base/rundir.h"
#include "net/net.h"
#include "ps/ps_impl.h"
#include "train/leaves.h"

#define TICK_MS		 100
#define REQUEUE_MS	 500 /* without progress */
#define PUBLISH_SHARE	 25  /* publishing takes at most 1/25 of the time */
#define PUBLISH_LEAST_MS 20

/* ---- the queue */

static void *
feed(void *arg)
{
	struct ps *ps = arg;
	struct ticket t = {.instance = ps->instance};
	struct buf message = {0};
	struct err err;
	enum rc rc;

	pthread_mutex_lock(&ps->lock);
	while (!ps->stop) {
		if (!pool_queue(ps->pool, &t.item)) {
			pthread_cond_wait(&ps->room, &ps->lock);
			continue;
		}
		t.epoch = ps->epoch;
		message.len = 0;
		must_add(&message, &t, sizeof t);
		rc = !ps->order || ps_item_put(ps, t.item, &message) ? RC_OK : RC_INTERNAL;
		pthread_mutex_unlock(&ps->lock);
		if (rc == RC_OK)
			rc = net_queue_put(ps->queue, message.data, message.len, TICK_MS, &err);
		pthread_mutex_lock(&ps->lock);
		if (rc != RC_OK)
			pool_unqueue(ps->pool, t.item);
	}
	pthread_mutex_unlock(&ps->lock);
	buf_fini(&message);
	return NULL;
}

/* ---- an epoch */

/* Lock held. Wait for an event, at most a tick. */
static void
pause_for(struct ps *ps)
{
	struct timespec ts = deadline_timespec(deadline_in_ms(TICK_MS));

	pthread_cond_clockwait(&ps->changed, &ps->lock, CLOCK_MONOTONIC, &ts);
}

/* Lock held, but not while the device makes room for more gradients. */
static enum rc
make_slots(struct ps *ps, struct err *err)
{
	uint32_t n = pool_slots(ps->pool);
	enum rc rc;

	if (n <= ps->store.nslots)
		return RC_OK;
	pthread_mutex_unlock(&ps->lock);
	rc = store_slots(&ps->store, n, err);
	pthread_mutex_lock(&ps->lock);
	pool_allow(ps->pool, ps->store.nslots);
	/* With too few slots, some claims wait. */
	return rc == RC_NOMEM && ps->store.nslots ? RC_OK : rc;
}

/* The factor of the learning rate in the current update. */
static double
rate(const struct ps *ps, uint64_t version)
{
	const struct train_config *c = ps->task->config;
	uint64_t per_epoch = pool_updates(ps->pool), total = per_epoch * c->epochs;

	double factor =
	    lr_factor(&c->schedule, version < total ? version : total - 1, per_epoch, total);

	return c->deterministic ? (double)(float)factor : factor; /* as in order_rates */
}

/* Lock not held. */
static enum rc
publish(struct ps *ps, bool always, struct err *err)
{
	uint64_t began = clock_now_ns(), version = pool_version(ps->pool), took;
	float *values;
	enum rc rc;

	if (!ps->hooks.publish || ps->published == version + 1 ||
	    (!always && began < ps->publish_ns))
		return RC_OK;
	values = must_alloc(task_values(ps->task), sizeof *values);
	rc = store_weights(&ps->store, values, err);
	if (rc == RC_OK)
		ps->hooks.publish(ps->hooks.arg, version, values);
	free(values);
	took = clock_now_ns() - began;
	ps->published = version + 1;
	ps->publish_ns = clock_now_ns() + (took * PUBLISH_SHARE > PUBLISH_LEAST_MS * NS_PER_MS
					       ? took * PUBLISH_SHARE
					       : PUBLISH_LEAST_MS * NS_PER_MS);
	return rc;
}

/* Lock held. Apply an update if one is due; *any: it was. */
static enum rc
apply(struct ps *ps, bool *any, struct err *err)
{
	struct pool_update *u = &ps->update;
	enum rc rc;

	*any = pool_due(ps->pool, u);
	if (!*any)
		return RC_OK;
	pthread_mutex_unlock(&ps->lock);
	rc = store_update(&ps->store, u, rate(ps, u->version), err);
	pthread_mutex_lock(&ps->lock);
	if (rc != RC_OK)
		return rc;
	pool_applied(ps->pool);
	ps_answer_claims(ps);
	pthread_mutex_unlock(&ps->lock);
	rc = publish(ps, false, err);
	if (ps->hooks.progress && clock_now_ns() > ps->progress_ns) {
		ps->hooks.progress(ps->hooks.arg,
				   (double)pool_rows(ps->pool) / ps->task->data.train.nitems);
		ps->progress_ns = deadline_in_ms(TICK_MS);
	}
	pthread_mutex_lock(&ps->lock);
	return rc;
}

/* Lock held. Poll everything except updates. */
static enum rc
tend(struct ps *ps, struct err *err)
{
	uint64_t now = clock_now_ns();
	enum rc rc;

	ps_tend_members(ps);
	rc = make_slots(ps, err);
	if (rc != RC_OK)
		return rc;
	if (pool_learners(ps->pool))
		ps->alone_ns = now;
	else if (now > ps->alone_ns + PS_ALONE_MS * NS_PER_MS)
		return err_set(err, RC_ABORTED, "epoch %u: no learner was present for %d s",
			       ps->epoch + 1, PS_ALONE_MS / 1000);
	if (now > ps->moved_ns + REQUEUE_MS * NS_PER_MS) {
		pool_unqueue(ps->pool, POOL_NO_ITEM);
		pthread_cond_signal(&ps->room);
		ps->moved_ns = now;
	}
	ps_answer_claims(ps);
	return RC_OK;
}

/* Lock held, but not during the call to the coordinator. An idle device is not used, so its loss
 * would go unnoticed. */
static enum rc
look_at_device(struct ps *ps, struct err *err)
{
	enum rc rc;

	pthread_mutex_unlock(&ps->lock);
	rc = store_gone(&ps->store, err);
	pthread_mutex_lock(&ps->lock);
	return rc;
}

/* Lock held. Run all items of an epoch. */
static enum rc
train(struct ps *ps, struct err *err)
{
	enum rc rc = RC_OK;
	uint64_t due = 0;
	bool any;

	ps_order(ps);
	pool_begin(ps->pool, ps->epoch);
	pthread_cond_signal(&ps->room);
	ps->alone_ns = ps->moved_ns = clock_now_ns();
	ps->compute_s = ps->comm_s = 0;
	while (rc == RC_OK && !pool_done(ps->pool)) {
		if (clock_now_ns() >= due || pool_slots(ps->pool) > ps->store.nslots) {
			rc = look_at_device(ps, err);
			if (rc == RC_OK)
				rc = tend(ps, err);
			due = deadline_in_ms(TICK_MS);
			if (ps->lines.len) {
				pthread_mutex_unlock(&ps->lock);
				ps_tell(ps);
				pthread_mutex_lock(&ps->lock);
			}
		}
		if (rc == RC_OK)
			rc = apply(ps, &any, err);
		if (rc == RC_OK && !any && !pool_done(ps->pool)) {
			pause_for(ps);
			pthread_mutex_lock(&ps->notes);
			due = ps->ngone ? 0 : due;
			pthread_mutex_unlock(&ps->notes);
		}
	}
	return rc;
}

/* The server's device does not answer: find the reason that the coordinator has. */
static enum rc
blame(struct ps *ps, enum rc rc, struct err *err)
{
	struct err why = {0};

	if (rc == RC_UNREACHABLE && !ps->store.gone && store_gone(&ps->store, &why) != RC_OK)
		return err_set(err, why.rc, "%s", why.text);
	return rc;
}

enum rc
ps_epoch(struct ps *ps, struct epoch *out, struct err *err)
{
	uint64_t began = clock_now_ns();
	uint32_t items = ps->task->data.train.nitems, learners;
	double right[NTESTS];
	struct epoch e = {0};
	enum rc rc;

	pthread_mutex_lock(&ps->lock);
	rc = train(ps, err);
	learners = pool_learners(ps->pool) ? pool_learners(ps->pool) : 1;
	e.compute_s = ps->compute_s / learners;
	e.comm_s = ps->comm_s / learners;
	pthread_mutex_unlock(&ps->lock);
	ps_tell(ps);
	if (rc != RC_OK)
		return blame(ps, rc, err);
	e.seconds = (double)(clock_now_ns() - began) / 1e9;
	e.images_per_s = items / e.seconds;
	e.loss = pool_loss(ps->pool) / items;
	rc = store_test(&ps->store, right, err);
	if (rc == RC_OK)
		rc = publish(ps, ps->epoch + 1 == ps->task->config->epochs, err);
	if (rc != RC_OK)
		return blame(ps, rc, err);
	e.accuracy = right[TESTS];
	e.validation = right[VALIDATION];
	pthread_mutex_lock(&ps->lock);
	ps->epoch++;
	pthread_mutex_unlock(&ps->lock);
	*out = e;
	return RC_OK;
}

/* ---- between epochs */

const char *
ps_address(const struct ps *ps)
{
	return rpc_server_address(ps->server);
}

uint32_t
ps_epochs(const struct ps *ps)
{
	return ps->epoch;
}

enum rc
ps_weights(struct ps *ps, float *values, struct err *err)
{
	return store_weights(&ps->store, values, err);
}

enum rc
ps_state(struct ps *ps, struct checkpoint *out, struct err *err)
{
	enum rc rc = store_state(&ps->store, out, err);

	if (rc != RC_OK)
		return rc;
	out->global_batch = ps_global(ps->task, ps->nworkers);
	out->steps_an_epoch = pool_updates(ps->pool);
	out->epoch = ps->epoch;
	return RC_OK;
}

/* ---- beginning */

/* A socket in the cluster's private folder, or the user's. */
static enum rc
own_address(char out[NET_ADDR_MAX], struct err *err)
{
	const char *dir = getenv("GPUSIM_DIR");
	char made[RUNDIR_MAX];

	if (!dir || !*dir) {
		enum rc rc = rundir_make(made, err);

		if (rc != RC_OK)
			return rc;
		dir = made;
	}
	if (snprintf(out, NET_ADDR_MAX, "ipc://%s/ps-%ld.sock", dir, (long)getpid()) >=
	    NET_ADDR_MAX)
		return err_set(err, RC_INVAL, "%s: too long", dir);
	return RC_OK;
}

static enum rc
serve(struct ps *ps, const char *listen, struct err *err)
{
	const struct rpc_handler handler = {.call = ps_on_call, .gone = ps_on_gone, .arg = ps};
	char addr[NET_ADDR_MAX], queue[NET_ADDR_MAX];
	enum rc rc = RC_OK;

	if (listen)
		snprintf(addr, sizeof addr, "%s", listen);
	else
		rc = own_address(addr, err);
	if (rc == RC_OK)
		rc = net_addr_check(addr, NET_LOOPBACK, err);
	if (rc == RC_OK)
		rc = net_addr_data(addr, queue, err);
	if (rc == RC_OK)
		rc = net_queue_serve(queue, &ps->queue, err);
	if (rc == RC_OK)
		rc = rpc_server_start(addr, &handler, &ps->server, err);
	return rc;
}

static enum rc
make_pool(struct ps *ps, const struct checkpoint *from, struct err *err)
{
	const struct train_config *c = ps->task->config;
	struct pool_config pc = {.images = ps->task->data.train.nitems,
				 .batch = ps_item_rows(ps->task, ps->nworkers),
				 .global = ps_global(ps->task, ps->nworkers),
				 .leaf = ps_leaf(ps->task),
				 .aggregate = ps->aggregate,
				 .staleness = c->staleness};
	enum rc rc = pool_new(&pc, &ps->pool, err);

	if (rc != RC_OK || !from)
		return rc;
	if (from->global_batch != pc.global || from->step != 0)
		return err_set(err, RC_INVAL,
			       "the checkpoint's updates have %" PRIu64 " images, not %" PRIu64
			       ": see --ps-aggregate",
			       from->global_batch, pc.global);
	ps->epoch = (uint32_t)from->epoch;
	pool_restore(ps->pool, from->epoch * pool_updates(ps->pool));
	return RC_OK;
}

static enum rc
start(struct ps *ps, const struct ps_options *options, const struct checkpoint *from,
      struct err *err)
{
	enum rc rc;
	int rv;

	if (ps->task->config->checkpoint_every)
		return err_set(err, RC_INVAL,
			       "--checkpoint-every: a parameter server writes checkpoints only at "
			       "the end of epochs");
	rc = leaves_check(ps->task, ps_global(ps->task, ps->nworkers), err);
	if (rc == RC_OK)
		rc = make_pool(ps, from, err);
	if (rc == RC_OK && ps->task->config->feed == FEED_DATA) {
		rc = ps_item_check(ps->task, ps->nworkers, err);
		ps->order = must_alloc(ps->task->data.train.nitems, sizeof *ps->order);
	}
	if (rc == RC_OK)
		rc = ps_store_open(&ps->store, ps->g, ps->task, from, pool_version(ps->pool), err);
	if (rc == RC_OK)
		rc = store_slots(&ps->store, ps->aggregate, err);
	if (rc != RC_OK)
		return rc;
	pool_allow(ps->pool, ps->store.nslots);
	rc = serve(ps, options->listen, err);
	if (rc != RC_OK)
		return rc;
	rv = pthread_create(&ps->feeder, NULL, feed, ps);
	if (rv != 0)
		return err_set(err, RC_FAILED, "cannot start a thread: %s", strerror(rv));
	ps->has_feeder = true;
	return ps_spawn(ps, options, err);
}

enum rc
ps_new(struct gpusim *g, const struct task *task, const struct ps_options *options,
       const struct checkpoint *from, const struct ps_hooks *hooks, struct ps **out,
       struct err *err)
{
	struct ps *ps = must_alloc(1, sizeof *ps);
	enum rc rc;

	ps->g = g;
	ps->task = task;
	ps->hooks = *hooks;
	ps->instance = net_random();
	ps->data_crc = dataset_crc(&task->data);
	ps->nworkers = options->nworkers;
	ps->aggregate = ps_aggregate(task, ps->nworkers);
	pthread_mutex_init(&ps->lock, NULL);
	pthread_mutex_init(&ps->notes, NULL);
	pthread_cond_init(&ps->changed, NULL);
	pthread_cond_init(&ps->room, NULL);
	rc = start(ps, options, from, err);
	if (rc != RC_OK)
		ps_free(ps);
	else
		*out = ps;
	return rc;
}

/* ---- the end */

/* Tell learners that training is over; wait for those that were started here, and kill those that
 * do not end. */
static void
say_goodbye(struct ps *ps)
{
	uint64_t deadline = deadline_in_ms(ps_goodbye_ms(ps));

	pthread_mutex_lock(&ps->lock);
	ps->over = ps->stop = true;
	pthread_cond_broadcast(&ps->room);
	ps_answer_claims(ps);
	while (ps->server && pool_learners(ps->pool) && deadline_left_ms(deadline) > 0) {
		pause_for(ps);
		ps_tend_members(ps);
	}
	pthread_mutex_unlock(&ps->lock);
}

void
ps_free(struct ps *ps)
{
	if (!ps)
		return;
	ps->hooks.event = NULL;
	if (ps->pool)
		say_goodbye(ps);
	if (ps->has_feeder)
		pthread_join(ps->feeder, NULL);
	ps_reap(ps);
	rpc_server_stop(ps->server);
	net_queue_close(ps->queue);
	pthread_mutex_lock(&ps->lock);
	ps_answer_claims(ps); /* nobody reads the answers */
	pthread_mutex_unlock(&ps->lock);
	ps_store_close(&ps->store);
	pool_free(ps->pool);
	buf_fini(&ps->lines);
	free(ps->order);
	free(ps->gone);
	free(ps->child);
	pthread_cond_destroy(&ps->room);
	pthread_cond_destroy(&ps->changed);
	pthread_mutex_destroy(&ps->notes);
	pthread_mutex_destroy(&ps->lock);
	free(ps);
}
