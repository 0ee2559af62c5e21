/*
 * Work of the program inside a stream's order: copies from and to the host, host functions, waits
 * for other devices.
 *
 * Design notes. A stream that has such works has one thread for them, started with the first. Works
 * are in a list in the order of their commands, because they are enqueued under the stream's lock.
 * The device stores `go` for one work at a time and waits for `done`. If the queue has failed, the
 * device skips commands: then the position is past the work without a `go` for it, and the work is
 * dropped. One thread a stream, not one for all: a work may wait for another stream's.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "cudart/cuda_impl.h"

#define LOOK_NS (50 * NS_PER_MS) /* interval at which a worker checks for a failed queue */

struct work {
	struct work *next;
	work_fn *run;
	work_drop_fn *drop;
	void *arg;
	uint64_t n, position; /* set when the work is appended */
};

struct worker {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct work *first, **last;
	struct cmdq *q;
};

static _Thread_local struct cmdq_extern *here;

void
work_does(enum cmdq_does what, const struct cmdq *q)
{
	here->queue = q ? cmdq_id(q) : 0;
	here->device = q ? cmdq_device(q).id : 0;
	here->does = what;
}

void
work_is_kernel(const char *name)
{
	here->kernel = (struct cmdq_kernel){.grid = {1, 1, 1}, .threads = 1};
	snprintf(here->kernel.name, sizeof here->kernel.name, "%s", name);
	here->does = CMDQ_DOES_KERNEL;
}

static void
finish(struct cmdq_extern *x, uint64_t n, enum rc rc, const struct err *err)
{
	if (rc != RC_OK)
		snprintf(x->text, sizeof x->text, "%.*s", (int)sizeof x->text - 1, err->text);
	atomic_store(&x->rc, (uint32_t)rc);
	cmdq_publish(&x->done, &x->device_sleeps, n);
}

/* Wait for the work's turn. False: it was skipped. */
static bool
await_turn(struct cmdq *q, const struct work *w)
{
	struct cmdq_page *page = cmdq_page(q);
	struct cmdq_extern *x = &page->ext[1];

	for (;;) {
		if (cmdq_await(&x->go, &x->worker_sleeps, w->n, &page->closed,
			       clock_now_ns() + LOOK_NS))
			return atomic_load(&x->go) == w->n && !cmdq_done(q, w->position);
		if (cmdq_done(q, w->position) || cmdq_error(q, NULL) == GPUSIM_UNREACHABLE)
			return false;
	}
}

static void
do_work(struct cmdq *q, struct work *w)
{
	struct cmdq_extern *x = &cmdq_page(q)->ext[1];
	struct err err = {0};
	cudaError_t e = cudaSuccess;

	if (await_turn(q, w)) {
		here = x;
		x->tid = (uint32_t)gettid();
		x->does = CMDQ_DOES_COPY;
		finish(x, w->n, w->run(w->arg, &err), &err);
	} else {
		e = cudaErrorLaunchFailure;
	}
	if (w->drop)
		w->drop(w->arg, e);
	free(w);
}

static void *
serve(void *arg)
{
	struct worker *k = arg;

	for (;;) {
		struct work *w;

		pthread_mutex_lock(&k->lock);
		while (!k->first)
			pthread_cond_wait(&k->more, &k->lock);
		w = k->first;
		k->first = w->next;
		if (!k->first)
			k->last = &k->first;
		pthread_mutex_unlock(&k->lock);
		do_work(k->q, w);
	}
	return NULL;
}

/* Signals are for the program's threads. */
static bool
start_thread(struct worker *k)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t t;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&t, &attr, serve, k);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return rc == 0;
}

/* Stream's lock held. */
static struct worker *
worker_of(struct CUstream_st *s, struct cmdq *q)
{
	struct worker *k = s->worker;

	if (k)
		return k;
	k = calloc(1, sizeof *k);
	if (!k)
		return NULL;
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->more, NULL);
	k->last = &k->first;
	k->q = q;
	if (!start_thread(k)) {
		free(k);
		return NULL;
	}
	return s->worker = k;
}

static void
hand_over(struct worker *k, struct work *w)
{
	pthread_mutex_lock(&k->lock);
	*k->last = w;
	k->last = &w->next;
	pthread_cond_signal(&k->more);
	pthread_mutex_unlock(&k->lock);
}

void
work_free(void *arg, cudaError_t e)
{
	(void)e;
	free(arg);
}

cudaError_t
work_enqueue(struct CUstream_st *s, work_fn *run, work_drop_fn *drop, void *arg)
{
	struct work *w = calloc(1, sizeof *w);
	struct worker *k = NULL;
	struct cmdq *q;
	cudaError_t e = w ? order_begin(s, &q) : cudaErrorMemoryAllocation;

	if (w && e == cudaSuccess && !(k = worker_of(s, q)))
		e = cudaErrorMemoryAllocation;
	if (e == cudaSuccess) {
		*w = (struct work){.run = run, .drop = drop, .arg = arg};
		if (cmdq_append_extern(q, 1, &w->n, &w->position) == GPUSIM_OK)
			hand_over(k, w);
		else if ((e = order_error(q)) == cudaSuccess)
			e = cudaErrorDevicesUnavailable;
	}
	if (w)
		order_end(s);
	if (e != cudaSuccess) {
		free(w);
		if (drop)
			drop(arg, e);
	}
	return e;
}

/* ---- a stream waits for another device */

/* The worker's wait for another device. */
static enum rc
await_elsewhere(void *arg, struct err *err)
{
	struct point *p = arg;
	enum gpusim_rc rc;

	work_does(CMDQ_DOES_WAIT, p->q);
	rc = cmdq_wait(p->q, p->at, cuda_timeout_ms());
	return rc == GPUSIM_OK
		   ? RC_OK
		   : err_set(err, (enum rc)rc, "waiting for another device: %s", gpusim_error());
}

cudaError_t
order_after(struct CUstream_st *s, struct point p)
{
	struct cmdq_command c = {.kind = CMDQ_WAIT};
	struct point *copy;

	if (!p.q || cmdq_done(p.q, p.at) || p.q == atomic_load(&s->q))
		return cudaSuccess;
	if (cmdq_device(p.q).id == s->device->space->device.id) {
		c.u.wait = (struct cmdq_wait){cmdq_id(p.q), p.at};
		return order_append(s, &c, 1);
	}
	copy = malloc(sizeof *copy);
	if (!copy)
		return cudaErrorMemoryAllocation;
	*copy = p;
	return work_enqueue(s, await_elsewhere, work_free, copy);
}
