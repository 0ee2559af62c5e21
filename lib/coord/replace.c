/*
 * replace.c - lost ranks of a communicator get their devices back, or others.
 */
#include "coord/coord_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ADOPT_MS 10000

/* ---- replacing: respawn */

static void
spawn(struct coord *c, struct device *d)
{
	struct coord_action a = {.kind = COORD_SPAWN, .device_id = d->id};
	struct device_msgs msgs;

	if (!device_msgs_init(c, &d, 1, &msgs))
		return; /* it will be missed */
	if (buf_pack(&a.body, &msgs.p[0]->base))
		act(c, &a);
	device_msgs_fini(&msgs);
}

static bool
can_spawn(const struct coord *c, const struct device *d)
{
	return c->cfg.host[0] && strcmp(c->cfg.host, d->host) == 0 && d->mem_path[0];
}

/* The rank's device has come back with its memory. */
static bool
has_returned(const struct coord *c, const struct comm *comm, const struct member *m)
{
	if (m->dev->lost)
		return false;
	if (!member_there(m))
		return true;
	return !can_spawn(c, m->dev) && m->dev->heard_ms > comm->rec.drained_ms;
}

void
replace_start(struct coord *c, struct comm *comm)
{
	if (comm->on_failure != GPUSIM_ON_FAILURE_RESPAWN)
		return;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		struct member *m = &comm->rank[r];

		if (m->gone && !has_returned(c, comm, m) && can_spawn(c, m->dev))
			spawn(c, m->dev);
	}
}

/* True: none is missing any more. */
static bool
respawned(struct coord *c, struct comm *comm)
{
	bool all = true;

	for (uint32_t r = 0; r < comm->nranks; r++) {
		struct member *m = &comm->rank[r];

		if (m->gone && has_returned(c, comm, m)) {
			m->incarnation = m->dev->incarnation;
			m->gone = false;
		}
		all &= !m->gone;
	}
	return all;
}

/* ---- replacing: spare */

/* The best device for a lost one's rank: a spare before any other, one that can reach its memory
 * before one that cannot. NULL: none is free. */
static struct device *
find_spare(struct coord *c, const struct device *lost)
{
	struct device *best = NULL;
	int best_points = -1;

	for (size_t i = 0; i < c->ndevices; i++) {
		struct device *d = c->device[i];
		int points = 2 * (strcmp(d->host, lost->host) == 0) + d->spare;

		if (!device_free(d) || d->unfit || d == lost ||
		    d->max_addr - d->min_addr < lost->max_addr - lost->min_addr)
			continue;
		if (points > best_points) {
			best = d;
			best_points = points;
		}
	}
	return best;
}

static void
adopted(struct coord *c, struct call *call, const struct err *why, const GpuSim__Reply *reply)
{
	struct comm *comm = call->owner;
	struct member *m = &comm->rank[call->rank];

	(void)reply;
	comm->waiting--;
	if (why->rc == RC_OK) {
		m->gone = false;
		return;
	}
	act_log(c, "comm %" PRIu64 " rank %u: spare device %016" PRIx64 ": %s", comm->id,
		call->rank, m->dev->id, why->text);
	m->dev->unfit = true;
	m->dev->ncomms--;
	m->dev = m->from;
	m->from = NULL;
	comm->rec.rounds++;
}

/* Give the rank to the device; it fetches the memory of the one before, where it can. */
static void
take_place(struct coord *c, struct comm *comm, uint32_t r, struct device *d)
{
	GpuSim__AdoptRequest q = GPU_SIM__ADOPT_REQUEST__INIT;
	struct member *m = &comm->rank[r];
	struct buf body = {0};

	m->from = m->dev;
	m->dev = d;
	m->incarnation = d->incarnation;
	d->ncomms++;
	if (strcmp(d->host, m->from->host) != 0 || !m->from->mem_path[0]) {
		comm->rec.blank = true;
		m->gone = false;
		return;
	}
	q.deviceid = m->from->id;
	q.path = m->from->mem_path;
	q.dev = m->from->mem_dev;
	q.inode = m->from->mem_inode;
	q.incarnation = d->incarnation;
	pack_request(GPU_SIM__REQUEST__BODY_ADOPT, &q.base, NULL, &body);
	member_call(c, comm, r, adopted, ADOPT_MS, &body);
}

/* True: every rank has a device. */
static bool
spared(struct coord *c, struct comm *comm)
{
	bool all = true;

	for (uint32_t r = 0; r < comm->nranks; r++) {
		struct member *m = &comm->rank[r];
		struct device *d;

		if (m->gone && !m->from && (d = find_spare(c, m->dev)))
			take_place(c, comm, r, d);
		all &= !m->gone;
	}
	return all && comm->waiting == 0;
}

void
replace_step(struct coord *c, struct comm *comm)
{
	bool respawns = comm->on_failure == GPUSIM_ON_FAILURE_RESPAWN;
	char why[96];

	if (respawns ? respawned(c, comm) : spared(c, comm)) {
		comm_attach_again(c, comm);
		return;
	}
	if (c->now_ms < comm->rec.until_ms)
		return;
	snprintf(why, sizeof why,
		 respawns ? "it did not come back within %.1fs"
			  : "no spare device came within %.1fs",
		 (double)(c->now_ms - comm->rec.drained_ms) / 1e3);
	comm_cannot(c, comm, why);
}
