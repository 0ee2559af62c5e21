/* An xport, its tender, its end. */
#include <stdlib.h>

#include "base/clock.h"
#include "xport/peermem_impl.h"

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
