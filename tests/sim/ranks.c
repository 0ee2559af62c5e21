/*
 * ranks.c - clients that are ranks of queued communicators: each joins by an id of the round,
 * splits and shrinks its communicators, and leaves. Rank k is on device k. The coordinator does not
 * see their operations, so there are none.
 */
#include "sim.h"

#include <string.h>

#define ROUND_MS 6000u
#define HOST	 "host"

static uint32_t
node_of(const struct world *w, uint32_t k)
{
	return 1 + w->ndevices + k;
}

static void
later(struct world *w, uint32_t k, uint64_t us)
{
	post(w, w->now + us, EV_CLIENT, node_of(w, k));
}

static void
call(struct world *w, uint32_t k, GpuSim__Request__BodyCase what, struct buf body)
{
	struct sim_client *c = &w->client[k];

	c->asked = w->now;
	c->call = rpc_start(w, CALL_OF_CLIENT, node_of(w, k), 0, c->client_id, ++c->seq, what,
			    between(w, 500, 8000) * MS, &body);
}

static uint64_t
round_now(const struct world *w)
{
	return 1 + w->now / (ROUND_MS * MS);
}

/* ---- requests */

static void
ask_init(struct world *w, uint32_t k)
{
	GpuSim__CommInitRankRequest q = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;

	q.idhigh = 1;
	q.idlow = w->client[k].round;
	q.rank = k;
	q.numranks = w->nclients;
	q.deviceid = 1 + k;
	q.host = (char *)HOST;
	q.user = 1;
	q.mustqueue = true;
	call(w, k, GPU_SIM__REQUEST__BODY_COMM_INIT_RANK,
	     PACK(w, COMM_INIT_RANK, comminitrank, &q));
}

static void
ask_split(struct world *w, uint32_t k)
{
	struct sim_client *c = &w->client[k];
	GpuSim__CommSplitRankRequest q = GPU_SIM__COMM_SPLIT_RANK_REQUEST__INIT;

	c->color = (int)((c->round + k * k + c->splits) % 3) - 1;
	q.commid = c->comm;
	q.rank = k;
	q.call = c->splits;
	q.color = c->color;
	q.key = -(int)k;
	call(w, k, GPU_SIM__REQUEST__BODY_COMM_SPLIT_RANK,
	     PACK(w, COMM_SPLIT_RANK, commsplitrank, &q));
}

/* All but the last rank, which does not call. */
static void
ask_shrink(struct world *w, uint32_t k)
{
	struct sim_client *c = &w->client[k];
	GpuSim__CommShrinkRankRequest q = GPU_SIM__COMM_SHRINK_RANK_REQUEST__INIT;
	uint32_t exclude = w->nclients - 1;

	q.commid = c->comm;
	q.rank = k;
	q.n_exclude = 1;
	q.exclude = &exclude;
	q.abort = c->round % 2;
	c->color = 0;
	call(w, k, GPU_SIM__REQUEST__BODY_COMM_SHRINK_RANK,
	     PACK(w, COMM_SHRINK_RANK, commshrinkrank, &q));
}

static void
ask_leave(struct world *w, uint32_t k, uint64_t comm, uint32_t rank)
{
	GpuSim__CommDestroyRequest q = GPU_SIM__COMM_DESTROY_REQUEST__INIT;

	q.commid = comm;
	q.leave = true;
	q.rank = rank;
	call(w, k, GPU_SIM__REQUEST__BODY_COMM_DESTROY, PACK(w, COMM_DESTROY, commdestroy, &q));
}

/* ---- answers */

/* The rank of rank k's device in the new communicator; it must exist. */
static uint32_t
place(struct world *w, uint32_t k, const GpuSim__CommInitResponse *r)
{
	for (uint32_t i = 0; i < r->n_devices; i++)
		if (r->devices[i]->deviceid->value == 1 + k)
			return i;
	wrong(w, "client %u: its device is not in communicator %" PRIu64, k, r->commid);
	return 0;
}

static void
took_init(struct world *w, uint32_t k, const GpuSim__CommInitResponse *r)
{
	struct sim_client *c = &w->client[k];

	c->comm = r->commid;
	c->splits = 0;
	if (!r->queued || r->n_devices != w->nclients || place(w, k, r) != k)
		wrong(w, "client %u: communicator %" PRIu64 " is not that of the ranks", k,
		      c->comm);
	for (uint32_t i = 0; i < w->nclients; i++)
		if (w->client[i].comm && w->client[i].round == c->round &&
		    w->client[i].comm != c->comm)
			wrong(w, "clients %u and %u met and are in %" PRIu64 " and %" PRIu64, k, i,
			      c->comm, w->client[i].comm);
	w->checked++;
}

/* Ranks of the same parent are in the same child if and only if they passed the same color in the
 * same split. */
static void
took_child(struct world *w, uint32_t k, const GpuSim__CommInitResponse *r, bool split)
{
	struct sim_client *c = &w->client[k];

	if ((r->commid == 0) != (c->color < 0))
		wrong(w, "client %u: color %d, communicator %" PRIu64, k, c->color, r->commid);
	c->child = r->commid;
	c->child_of = c->comm;
	c->child_call = split ? c->splits : NONE;
	c->splits += split;
	if (!c->child)
		return;
	c->child_rank = place(w, k, r);
	if (!r->queued)
		wrong(w, "client %u: a child of a queued communicator is not", k);
	for (uint32_t i = 0; i < w->nclients; i++) {
		const struct sim_client *o = &w->client[i];

		bool same = o->color == c->color && o->child_call == c->child_call;

		if (i == k || !o->child || o->child_of != c->child_of)
			continue;
		if (o->child == c->child ? !same : same)
			wrong(w,
			      "clients %u and %u have colors %d and %d of splits %u and %u, and "
			      "are in %" PRIu64 " and %" PRIu64,
			      k, i, c->color, o->color, c->child_call, o->child_call, c->child,
			      o->child);
	}
	w->checked++;
}

void
ranks_answer(struct world *w, uint32_t k, GpuSim__Request__BodyCase what, enum rc rc,
	     const GpuSim__Reply *reply)
{
	struct sim_client *c = &w->client[k];

	if (what == GPU_SIM__REQUEST__BODY_COMM_DESTROY) {
		if (rc == RC_OK || rc == RC_NOTFOUND)
			*(c->child ? &c->child : &c->comm) = 0;
	} else if (rc != RC_OK) {
		c->spoilt = rc != RC_TIMEOUT; /* no more in this round */
	} else if (what == GPU_SIM__REQUEST__BODY_COMM_INIT_RANK) {
		took_init(w, k, reply->comminit);
	} else {
		took_child(w, k, reply->comminit, what == GPU_SIM__REQUEST__BODY_COMM_SPLIT_RANK);
	}
	later(w, k, between(w, MS, 150 * MS));
}

/* ---- the next step */

void
ranks_step(struct world *w, uint32_t k)
{
	struct sim_client *c = &w->client[k];
	bool over = w->calm || c->round != round_now(w);

	if (c->call != NONE)
		return;
	if (c->child && (over || c->spoilt || roll(w, 2)))
		ask_leave(w, k, c->child, c->child_rank);
	else if (c->comm && over)
		ask_leave(w, k, c->comm, k);
	else if (w->calm)
		c->ops = 0;
	else if (over) {
		c->round = round_now(w);
		c->spoilt = false;
		ask_init(w, k);
	} else if (c->spoilt) {
		later(w, k, 200 * MS);
	} else if (!c->comm) {
		ask_init(w, k);
	} else if (c->child) {
		later(w, k, 100 * MS);
	} else if (c->splits < 2) {
		ask_split(w, k);
	} else if (k + 1 < w->nclients && w->nclients > 1) {
		ask_shrink(w, k);
	} else {
		later(w, k, 200 * MS);
	}
}

/* Its device notices that a client has ended without leaving. */
void
ranks_died(struct world *w, uint32_t k)
{
	struct sim_client *c = &w->client[k];
	struct sim_device *dev = &w->dev[k];
	GpuSim__CommAbortRequest q = GPU_SIM__COMM_ABORT_REQUEST__INIT;
	struct buf body;

	if (!c->comm || !w->node[node_of_device(k)].alive)
		return;
	q.commid = c->comm;
	q.reason = (char *)"a rank's process has ended";
	q.code = RC_UNREACHABLE;
	body = PACK(w, COMM_ABORT, commabort, &q);
	rpc_start(w, CALL_REGISTER, node_of_device(k), 0, dev->client_id, ++dev->seq, 0, 2000 * MS,
		  &body);
}
