/* An xport, its communicators' exchanges, its connections. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "xport/peermem_impl.h"

void
xport_flush_acks(struct xport *x)
{
	for (struct push *p = x->acks_wait ? x->pushes : NULL; p; p = p->next)
		net_push_flush(p->push);
	x->acks_wait = false;
}

/* Repeat the chunks of operations that have ended here. True: there are such. */
static bool
poll_lingering(struct xport *x)
{
	bool any = false;

	for (struct comm *c = x->comms; c; c = c->next)
		for (struct exchange *e = c->nlinger ? c->exchanges : NULL; e; e = e->next)
			if (e->lingers) {
				(void)exchange_poll(e, NULL);
				any = true;
			}
	return any;
}

/* Tend to what no operation's thread looks after: acknowledgements that found no frame to leave with, and the
 * chunks of ended operations. */
static void *
tend(void *arg)
{
	struct xport *x = arg;
	struct timespec ts;

	pthread_setname_np(pthread_self(), "gpusim:tender");
	pthread_mutex_lock(&x->lock);
	while (!x->stopping) {
		bool acks = x->acks_wait;

		x->tends = poll_lingering(x) || acks;
		if (x->tends) {
			ts = deadline_timespec(deadline_in_ms(acks ? ACK_MS : POLL_MS));
			pthread_cond_clockwait(&x->tend, &x->lock, CLOCK_MONOTONIC, &ts);
		} else {
			pthread_cond_wait(&x->tend, &x->lock);
		}
		if (acks)
			xport_flush_acks(x);
	}
	pthread_mutex_unlock(&x->lock);
	return NULL;
}

enum rc
xport_new(const struct xport_config *cfg, struct xport **out, struct err *err)
{
	struct xport *x = calloc(1, sizeof *x);
	enum rc rc;

	if (!x)
		return err_set(err, RC_NOMEM, "out of memory");
	pthread_mutex_init(&x->lock, NULL);
	x->device_id = cfg->device_id;
	x->mem = cfg->mem;
	x->shaper.latency_ns = cfg->latency_ns;
	x->shaper.bits_per_s = cfg->bits_per_s;
	x->check_all = cfg->check_all;
	x->say = cfg->say;
	rc = net_pull_start(cfg->data_addr, xport_arrive, x, &x->pull, err);
	if (rc != RC_OK) {
		pthread_mutex_destroy(&x->lock);
		free(x);
		return rc;
	}
	net_pull_when_damaged(x->pull, xport_arrive_damaged);
	pthread_cond_init(&x->tend, NULL);
	if (pthread_create(&x->tender, NULL, tend, x) != 0) {
		net_pull_stop(x->pull);
		pthread_cond_destroy(&x->tend);
		pthread_mutex_destroy(&x->lock);
		free(x);
		return err_set(err, RC_FAILED, "%s: no thread", cfg->data_addr);
	}
	*out = x;
	return RC_OK;
}

void
xport_free(struct xport *x)
{
	struct push *p;

	if (!x)
		return;
	pthread_mutex_lock(&x->lock);
	x->stopping = true;
	pthread_cond_signal(&x->tend);
	pthread_mutex_unlock(&x->lock);
	pthread_join(x->tender, NULL);
	net_pull_stop(x->pull);
	pthread_mutex_lock(&x->lock);
	while (x->comms) {
		struct comm *c = x->comms;

		x->comms = c->next;
		c->attached = false;
		xport_forget_comm(c);
	}
	pthread_mutex_unlock(&x->lock);
	while ((p = x->pushes)) {
		x->pushes = p->next;
		net_push_close(p->push);
		free(p);
	}
	pthread_cond_destroy(&x->tend);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

const char *
xport_address(const struct xport *x)
{
	return net_pull_address(x->pull);
}

uint64_t
xport_refused(struct xport *x)
{
	return x->foreign + net_pull_refused(x->pull);
}

uint64_t
xport_damaged(struct xport *x)
{
	return x->damaged;
}

struct comm *
xport_find_comm(struct xport *x, uint64_t id)
{
	struct comm *c = x->comms;

	while (c && c->id != id)
		c = c->next;
	return c;
}

enum rc
xport_find_epoch(struct xport *x, uint64_t id, uint32_t epoch, struct comm **out, struct err *err)
{
	struct comm *c = xport_find_comm(x, id);

	if (!c || c->epoch != epoch)
		return err_set(err, RC_NOTFOUND,
			       "no communicator %" PRIu64 " at epoch %u on this device", id, epoch);
	*out = c;
	return RC_OK;
}

struct exchange *
exchange_find(struct comm *c, uint64_t id)
{
	struct exchange *e = c->exchanges;

	while (e && e->id != id)
		e = e->next;
	return e;
}

struct exchange *
exchange_make(struct comm *c, uint64_t id)
{
	struct exchange *e = c->spare;

	if (e) {
		c->spare = e->next;
	} else {
		e = calloc(1, sizeof *e);
		if (!e)
			return NULL;
		e->flow = alloc_zeroed(c->nranks, sizeof(struct flow *));
		if (!e->flow) {
			free(e);
			return NULL;
		}
		pthread_cond_init(&e->changed, NULL);
		e->comm = c;
	}
	e->id = id;
	e->begun = false;
	e->poll_ns = 0;
	e->refused[0] = '\0';
	atomic_store(&e->is_refused, false);
	e->next = c->exchanges;
	c->exchanges = e;
	c->nearly++;
	return e;
}

struct flow *
exchange_flow(struct exchange *e, uint32_t peer)
{
	if (!e->flow[peer])
		e->flow[peer] = calloc(1, sizeof(struct flow));
	if (e->flow[peer])
		e->flow[peer]->used = true;
	return e->flow[peer];
}

void
exchange_signal(struct exchange *e)
{
	peermem_moved(e->comm);
	pthread_cond_broadcast(&e->changed);
	pthread_cond_broadcast(&e->comm->any);
	if (e->taken && !pthread_equal(e->reader, pthread_self()))
		net_pull_nudge(e->taken);
}

void
exchange_refuse(struct exchange *e)
{
	atomic_store_explicit(&e->is_refused, true, memory_order_release);
	exchange_drop_early(e);
	exchange_signal(e);
}

/* A peer does not read our frames: it may be waiting for us to read. */
static void
on_full(void *arg)
{
	struct xport *x = arg;

	net_pull_resume(x->pull);
}

struct net_push *
xport_push(struct comm *c, uint32_t peer)
{
	struct peer *to = &c->peer[peer];
	struct xport *x = c->x;
	struct push *p;

	if (to->push)
		return to->push;
	for (p = x->pushes; p && strcmp(p->addr, to->addr) != 0; p = p->next)
		;
	if (!p) {
		p = calloc(1, sizeof *p);
		if (!p || net_push_open(to->addr, &p->push, NULL) != RC_OK) {
			free(p);
			return NULL;
		}
		net_push_when_full(p->push, on_full, x);
		snprintf(p->addr, sizeof p->addr, "%s", to->addr);
		p->next = x->pushes;
		x->pushes = p;
	}
	return to->push = p->push;
}

/* A collective's numbers fill the sets in turn. */
static unsigned
finished_set(uint64_t op)
{
	return (unsigned)((op ^ op >> 37 ^ op >> 50) % (FINISHED_OPS / FINISHED_SET));
}

const struct finished *
xport_finished(const struct comm *c, uint64_t op)
{
	const struct finished *set = &c->finished[finished_set(op) * FINISHED_SET];

	for (unsigned i = 0; i < FINISHED_SET; i++)
		if (set[i].ended && set[i].op == op)
			return &set[i];
	return NULL;
}

/* Free the chunks that were not consumed. */
static void
drop_chunks(struct exchange *e)
{
	struct xport *x = e->comm->x;

	for (uint32_t r = 0; r < e->comm->nranks; r++) {
		struct flow *f = e->flow[r];

		for (; f && f->rx_consumed != f->rx_next; f->rx_next--) {
			struct arrived *a = &f->rx[(f->rx_next - 1) % XPORT_WINDOW];

			if (!e->begun)
				x->early_bytes -= a->frame.head.nbytes;
			net_frame_free(&a->frame);
		}
	}
}

void
exchange_drop_early(struct exchange *e)
{
	if (!e->begun)
		drop_chunks(e);
}

void
exchange_drop(struct exchange *e, enum op_outcome how)
{
	struct comm *c = e->comm;
	struct exchange **at = &c->exchanges;
	unsigned set = finished_set(e->id);
	struct finished *done =
	    &c->finished[set * FINISHED_SET + c->finished_next[set]++ % FINISHED_SET];

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	drop_chunks(e);
	c->nearly -= !e->begun;
	c->nlinger -= e->lingers;
	e->lingers = false;
	*done = (struct finished){.op = e->id, .ended = true, .gave_up = how == OP_GAVE_UP};
	for (uint32_t r = 0; r < c->nranks; r++)
		if (e->flow[r]) {
			if (e->flow[r]->rx_consumed > done->consumed)
				done->consumed = e->flow[r]->rx_consumed;
			*e->flow[r] = (struct flow){.copy = e->flow[r]->copy};
		}
	e->next = c->spare;
	c->spare = e;
}
