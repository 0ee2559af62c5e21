/*
 * xport_test.h - several devices' ends of the transport in one process, and a puppet: a rank of
 * bare sockets, which sends the test's frames and keeps all received ones.
 */
#ifndef XPORT_TEST_H
#define XPORT_TEST_H

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eventually.h"
#include "net/net.h"
#include "tap.h"
#include "xport/xport.h"

#define WORLD_MAX  8
#define WORLD_COMM 7ull

/* An operation's storage, freed with its world. */
struct world_op {
	struct xport_op o; /* first: op_begin returns its address */
	struct world_op *next;
};

/* One communicator over n ranks; x[r] is NULL for a puppet. */
struct world {
	uint32_t n;
	uint32_t epoch;
	char dir[64];
	struct xport *x[WORLD_MAX];
	struct xport_peer peer[WORLD_MAX];
	char addr[WORLD_MAX][NET_ADDR_MAX];
	struct world_op *_Atomic ops;
};

/* The test cannot go on. */
static inline void
must(enum rc rc, const struct err *err)
{
	if (rc != RC_OK)
		tap_bail(err->text);
}

static inline void
world_attach(struct world *w, uint32_t epoch, uint32_t timeout_ms)
{
	struct err err = {0};

	w->epoch = epoch;
	for (uint32_t r = 0; r < w->n; r++) {
		struct xport_membership m = {.comm = WORLD_COMM,
					     .coordinator = 1,
					     .epoch = epoch,
					     .rank = r,
					     .nranks = w->n,
					     .op_timeout_ms = timeout_ms};
		if (w->x[r])
			must(xport_attach(w->x[r], &m, w->peer, &err), &err);
	}
}

/* puppets: a bit per rank. cfg gives the shaping, or NULL. */
static inline void
world_open(struct world *w, uint32_t n, unsigned puppets, const struct xport_config *cfg)
{
	struct err err = {0};

	*w = (struct world){.n = n};
	snprintf(w->dir, sizeof w->dir, "/tmp/gsx.XXXXXX");
	if (!mkdtemp(w->dir))
		must(RC_FAILED, &(struct err){RC_FAILED, "mkdtemp"});
	for (uint32_t r = 0; r < n; r++) {
		struct xport_config c = cfg ? *cfg : (struct xport_config){0};

		snprintf(w->addr[r], NET_ADDR_MAX, "ipc://%s/%u", w->dir, r);
		w->peer[r] = (struct xport_peer){.device_id = 0xd0 + r, .data_addr = w->addr[r]};
		c.device_id = 0xd0 + r;
		c.data_addr = w->addr[r];
		if (!(puppets & 1u << r))
			must(xport_new(&c, &w->x[r], &err), &err);
	}
}

static inline void
world_close(struct world *w)
{
	struct world_op *op, *next;

	for (uint32_t r = 0; r < w->n; r++)
		xport_free(w->x[r]);
	for (op = w->ops; op; op = next) {
		next = op->next;
		free(op);
	}
	rmdir(w->dir);
}

/* An operation without tickets, of a communicator and epoch. */
static inline enum rc
op_try(struct xport *x, uint64_t comm, uint32_t epoch, uint64_t op, struct xport_op *o,
       struct err *err)
{
	return xport_begin(x, &(struct xport_opening){.comm = comm, .epoch = epoch, .op = op}, o,
			   err);
}

static inline struct xport_op *
op_begin(struct world *w, uint32_t r, uint64_t op)
{
	struct world_op *room = calloc(1, sizeof *room);
	struct err err = {0};

	must(op_try(w->x[r], WORLD_COMM, w->epoch, op, &room->o, &err), &err);
	room->next = w->ops;
	while (!atomic_compare_exchange_weak(&w->ops, &room->next, room))
		;
	return &room->o;
}

/* The frames that a puppet received, in order. */
#define PUPPET_FRAMES 4096
struct puppet {
	struct world *w;
	uint32_t rank;
	struct net_pull *pull;
	struct net_push *push;
	pthread_mutex_t lock;
	struct frame got[PUPPET_FRAMES];
	char text[PUPPET_FRAMES][64]; /* the head of the payload */
	unsigned ngot;
	/* Runs for each frame, on the connection's thread. NULL: nothing. */
	void (*react)(struct puppet *p, const struct net_frame *f);
	uint32_t next; /* of react */
	unsigned count;
};

static inline void
puppet_on_frame(void *arg, struct net_frame *f)
{
	struct puppet *p = arg;

	pthread_mutex_lock(&p->lock);
	if (p->ngot < PUPPET_FRAMES) {
		uint32_t n = f->head.nbytes < 63 ? f->head.nbytes : 63;

		p->got[p->ngot] = f->head;
		if (n)
			memcpy(p->text[p->ngot], f->payload, n);
		p->text[p->ngot][n] = '\0';
		p->ngot++;
	}
	if (p->react)
		p->react(p, f);
	pthread_mutex_unlock(&p->lock);
	net_frame_free(f);
}

static inline void
puppet_listen(struct puppet *p)
{
	struct err err = {0};

	must(net_pull_start(p->w->addr[p->rank], puppet_on_frame, p, &p->pull, &err), &err);
}

/* A puppet for rank r that talks to rank `to`. */
static inline struct puppet *
puppet_new(struct world *w, uint32_t r, uint32_t to)
{
	struct puppet *p = calloc(1, sizeof *p);
	struct err err = {0};

	p->w = w;
	p->rank = r;
	pthread_mutex_init(&p->lock, NULL);
	puppet_listen(p);
	must(net_push_open(w->addr[to], &p->push, &err), &err);
	return p;
}

static inline void
puppet_free(struct puppet *p)
{
	net_push_close(p->push);
	net_pull_stop(p->pull);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* A frame from the puppet's rank to rank `to`. */
static inline struct frame
puppet_frame(const struct puppet *p, uint32_t to, enum frame_kind kind, uint64_t op, uint32_t seq)
{
	return (struct frame){.kind = kind,
			      .comm = WORLD_COMM,
			      .device = p->w->peer[p->rank].device_id,
			      .op = op,
			      .seq = seq,
			      .epoch = p->w->epoch,
			      .dst = to,
			      .src = p->rank};
}

static inline void
puppet_send(struct puppet *p, struct frame f, const void *payload, size_t n)
{
	f.nbytes = (uint32_t)n;
	f.crc = frame_crc(payload, n);
	while (net_push_send(p->push, &f, payload, 1000) == RC_TIMEOUT)
		;
}

/* The number of received frames of a kind for an operation; *last is the newest. */
static inline unsigned
puppet_count(struct puppet *p, enum frame_kind kind, uint64_t op, struct frame *last, char *text)
{
	unsigned n = 0;

	pthread_mutex_lock(&p->lock);
	for (unsigned i = 0; i < p->ngot; i++)
		if (p->got[i].kind == kind && p->got[i].op == op) {
			n++;
			if (last)
				*last = p->got[i];
			if (text)
				strcpy(text, p->text[i]);
		}
	pthread_mutex_unlock(&p->lock);
	return n;
}

#endif
