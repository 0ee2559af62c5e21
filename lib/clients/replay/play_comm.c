/* Communicators and queues of a replay. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"
#include "replay/meet.h"
#include "replay/play_impl.h"

#define MAX_LIVE 96 /* communicators at a time; a client may have 128 */

static enum rc
make_queued(struct play *p, uint32_t comm, struct err *err)
{
	const struct story_comm *c = &p->s->comm[comm];
	struct play_comm *k = &p->comm[comm];
	struct gpusim_device *list = must_alloc(c->nranks, sizeof *list);
	enum rc rc;

	k->rank = must_alloc(c->nranks, sizeof(struct gpusim_comm *));
	k->bind = must_alloc(c->nranks, sizeof(struct cmdq_bind *));
	for (uint32_t r = 0; r < c->nranks; r++)
		list[r] = p->cfg->device[c->proc[r]];
	rc = meet(p->cfg->g, list, c->nranks, c->op_timeout_ms, k->rank, k->bind, err);
	if (rc == RC_OK)
		p->map->comm[comm] = gpusim_comm_id(k->rank[0]).id;
	free(list);
	return rc;
}

static enum rc
make_whole(struct play *p, uint32_t comm, struct err *err)
{
	const struct story_comm *c = &p->s->comm[comm];
	struct gpusim_comm_config cfg = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE,
					 .on_failure = GPUSIM_ON_FAILURE_ABORT,
					 .op_timeout_ms = c->op_timeout_ms};
	struct gpusim_device *list = must_alloc(c->nranks, sizeof *list);
	enum rc rc;

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
				       " epoch %u: no recording of rank %" PRIu32 "'s device",
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
	if (k->rank && k->bind)
		meet_end(k->rank, k->bind, p->s->comm[comm].nranks);
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
	enum rc rc;

	for (size_t i = 0; i < m->nqueues; i++)
		if (m->queue[i].proc == proc && m->queue[i].then == then) {
			*out = p->queue[i].q;
			return RC_OK;
		}
	m->queue = must_resize(m->queue, m->nqueues + 1, sizeof *m->queue);
	p->queue = must_resize(p->queue, m->nqueues + 1, sizeof *p->queue);
	rc = api(cmdq_open(p->cfg->g, p->cfg->device[proc], CMDQ_OWN_STREAM, out), err);
	if (rc != RC_OK)
		return rc;
	p->queue[m->nqueues].q = *out;
	m->queue[m->nqueues++] =
	    (struct replay_queue){.proc = proc, .then = then, .now = cmdq_id(*out)};
	return RC_OK;
}

/* ---- waiting */

/* Return true if all work has ended within the time. */
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
		for (uint32_t i = 0; i < p->s->ncomms; i++) {
			struct gpusim_comm *c = p->comm[i].busy ? p->comm[i].all : NULL;

			if (p->comm[i].busy && p->comm[i].rank)
				c = p->comm[i].rank[0];
			if (c)
				gpusim_comm_abort(c, "it failed in the recording");
		}
		settle(p, 10000);
	}
	for (size_t i = 0; i < p->s->nprocs; i++)
		p->used[i] = 0;
}
