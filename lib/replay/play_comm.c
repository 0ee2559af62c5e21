/*
 * Communicators and queues of a replay.
 *
 * Design notes. The ranks of a queued communicator meet by an id, so each calls on a thread of its own, which ends
 * before play_make_comms returns.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "replay/play_impl.h"

#define MAX_LIVE 96 /* communicators at a time; a client may have 128 */

struct meeting {
	struct play *p;
	uint32_t comm, rank;
	struct gpusim_unique_id id;
	pthread_t thread;
	bool started;
	struct err err;
};

static struct gpusim_comm_config
config(const struct story_comm *c)
{
	return (struct gpusim_comm_config){
	    GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE, .on_failure = GPUSIM_ON_FAILURE_ABORT,
	    .op_timeout_ms = c->op_timeout_ms,
	    .queues = c->queued ? GPUSIM_QUEUES_ON : GPUSIM_QUEUES_OFF};
}

static void *
meet(void *arg)
{
	struct meeting *m = arg;
	const struct story_comm *c = &m->p->s->comm[m->comm];
	struct gpusim_comm_config cfg = config(c);
	struct play_comm *k = &m->p->comm[m->comm];

	if (api(gpusim_comm_init_rank(m->p->cfg->g, c->nranks, m->id, m->rank,
				      m->p->cfg->device[c->proc[m->rank]], &cfg, &k->rank[m->rank]),
		&m->err) == RC_OK)
		api(cmdq_bind(k->rank[m->rank], &k->bind[m->rank]), &m->err);
	return NULL;
}

static enum rc
make_queued(struct play *p, uint32_t comm, struct err *err)
{
	uint32_t n = p->s->comm[comm].nranks;
	struct play_comm *k = &p->comm[comm];
	struct meeting *m = alloc_zeroed(n, sizeof *m);
	struct gpusim_unique_id id;
	enum rc rc;

	k->rank = alloc_zeroed(n, sizeof(struct gpusim_comm *));
	k->bind = alloc_zeroed(n, sizeof(struct cmdq_bind *));
	rc = m && k->rank && k->bind ? api(gpusim_get_unique_id(&id), err)
				     : err_set(err, RC_NOMEM, "out of memory");
	for (uint32_t r = 0; r < n && rc == RC_OK; r++) {
		m[r] = (struct meeting){.p = p, .comm = comm, .rank = r, .id = id};
		m[r].started = pthread_create(&m[r].thread, NULL, meet, &m[r]) == 0;
		if (!m[r].started)
			rc = err_set(err, RC_FAILED, "no thread");
	}
	for (uint32_t r = 0; m && r < n; r++) {
		if (m[r].started)
			pthread_join(m[r].thread, NULL);
		if (rc == RC_OK && m[r].err.rc != RC_OK) {
			*err = m[r].err;
			rc = err->rc;
		}
	}
	if (rc == RC_OK)
		p->map->comm[comm] = gpusim_comm_id(k->rank[0]).id;
	free(m);
	return rc;
}

static enum rc
make_whole(struct play *p, uint32_t comm, struct err *err)
{
	const struct story_comm *c = &p->s->comm[comm];
	struct gpusim_comm_config cfg = config(c);
	struct gpusim_device *list = alloc_zeroed(c->nranks, sizeof *list);
	enum rc rc;

	if (!list)
		return err_set(err, RC_NOMEM, "out of memory");
	for (uint32_t r = 0; r < c->nranks; r++)
		list[r] = p->cfg->device[c->proc[r]];
	rc = api(gpusim_comm_init_all(p->cfg->g, c->nranks, list, &cfg, &p->comm[comm].all), err);
	if (rc == RC_OK)
		p->map->comm[comm] = gpusim_comm_id(p->comm[comm].all).id;
	free(list);
	return rc;
}

static enum rc
make(struct play *p, uint32_t comm, struct err *err)
{
	const struct story_comm *c = &p->s->comm[comm];
	enum rc rc;

	p->comm[comm].left = c->nops;
	if (c->nops == 0)
		return RC_OK;
	for (uint32_t r = 0; r < c->nranks; r++)
		if (c->proc[r] == STORY_NONE)
			return err_set(err, RC_BADDATA,
				       "communicator %" PRIu64
				       " epoch %u: no file is of rank %" PRIu32 "'s device",
				       c->id, c->epoch, r);
	rc = c->queued ? make_queued(p, comm, err) : make_whole(p, comm, err);
	p->live += rc == RC_OK;
	return rc == RC_OK ? rc
			   : err_prefix(err, "communicator %" PRIu64 " epoch %u", c->id, c->epoch);
}

enum rc
play_make_comms(struct play *p, uint32_t upto, struct err *err)
{
	enum rc rc = RC_OK;

	while (rc == RC_OK && p->next_comm < p->s->ncomms &&
	       (p->next_comm <= upto || p->live < MAX_LIVE))
		rc = make(p, (uint32_t)p->next_comm++, err);
	return rc;
}

void
play_drop_comm(struct play *p, uint32_t comm)
{
	struct play_comm *k = &p->comm[comm];

	if (!k->all && !k->rank)
		return;
	for (uint32_t r = 0; k->rank && r < p->s->comm[comm].nranks; r++) {
		if (k->bind)
			cmdq_unbind(k->bind[r]);
		if (k->rank[r])
			gpusim_comm_destroy(k->rank[r]);
	}
	if (k->all)
		gpusim_comm_destroy(k->all);
	free(k->rank);
	free(k->bind);
	*k = (struct play_comm){0};
	p->live--;
}

void
play_drop_all(struct play *p)
{
	for (uint32_t i = 0; i < p->s->ncomms; i++)
		play_drop_comm(p, i);
	for (size_t i = 0; i < p->map->nqueues; i++)
		cmdq_close(p->queue[i].q);
}

enum rc
play_queue_of(struct play *p, uint32_t proc, uint64_t then, struct cmdq **out, struct err *err)
{
	struct replay_map *m = p->map;
	struct replay_queue *list;
	struct play_queue *queues;
	enum rc rc;

	for (size_t i = 0; i < m->nqueues; i++)
		if (m->queue[i].proc == proc && m->queue[i].then == then) {
			*out = p->queue[i].q;
			return RC_OK;
		}
	list = alloc_resize(m->queue, m->nqueues + 1, sizeof *list);
	if (list)
		m->queue = list;
	queues = list ? alloc_resize(p->queue, m->nqueues + 1, sizeof *queues) : NULL;
	if (!queues)
		return err_set(err, RC_NOMEM, "out of memory");
	p->queue = queues;
	rc = api(cmdq_open(p->cfg->g, p->cfg->device[proc], CMDQ_OWN_STREAM, out), err);
	if (rc != RC_OK)
		return rc;
	queues[m->nqueues].q = *out;
	list[m->nqueues++] =
	    (struct replay_queue){.proc = proc, .then = then, .now = cmdq_id(*out)};
	return RC_OK;
}

/* ---- waiting */

static void
abort_all(struct play *p)
{
	for (uint32_t i = 0; i < p->s->ncomms; i++) {
		struct gpusim_comm *c = p->comm[i].busy ? p->comm[i].all : NULL;

		if (p->comm[i].busy && p->comm[i].rank)
			c = p->comm[i].rank[0];
		if (c)
			gpusim_comm_abort(c, "it failed in the recording");
	}
}

/* Whether all has ended within the time. */
static bool
settle(struct play *p, uint32_t wait_ms)
{
	bool all = true;

	gpusim_set_timeout_ms(p->cfg->g, wait_ms);
	for (size_t i = 0; i < p->map->nqueues; i++) {
		struct cmdq *q = p->queue[i].q;

		all &= cmdq_wait(q, cmdq_tail(q), wait_ms) != GPUSIM_TIMEOUT;
		cmdq_forgive(q, 0);
	}
	for (uint32_t i = 0; i < p->s->ncomms; i++)
		if (p->comm[i].all && p->comm[i].busy) {
			p->comm[i].busy = gpusim_comm_sync(p->comm[i].all) == GPUSIM_TIMEOUT;
			all &= !p->comm[i].busy;
		}
	gpusim_set_timeout_ms(p->cfg->g, 60000);
	for (uint32_t i = 0; i < p->s->ncomms && all; i++)
		p->comm[i].busy = false;
	return all;
}

void
play_drain(struct play *p, uint32_t wait_ms)
{
	if (!settle(p, wait_ms ? wait_ms : 60000)) {
		abort_all(p);
		settle(p, 10000);
	}
	for (size_t i = 0; i < p->s->nprocs; i++)
		p->used[i] = 0;
}
