/*
 * replace.c - lost ranks of a communicator get their devices back, or others.
 */
#include "coord/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- replacing: respawn */

/* The rank's device has come back with its memory. */
static bool
has_returned(const struct coord *c, const struct comm *comm, const struct member *m)
{
	if (m->dev->lost)
		return false;
	if (!member_there(m))
		return true;
	return !device_can_spawn(c, m->dev) && m->dev->heard_ms > comm->rec.drained_ms;
}

/* Lost ones that nobody is starting already are started, on this host. */
static void
start_again(struct coord *c, struct comm *comm)
{
	for (uint32_t r = 0; r < comm->nranks; r++) {
		struct member *m = &comm->rank[r];

		if (m->gone && !m->dev->spawn.until_ms && !m->dev->spawn.cannot[0] &&
		    !has_returned(c, comm, m) && device_can_spawn(c, m->dev))
			device_spawn(c, m->dev);
	}
}

void
replace_start(struct coord *c, struct comm *comm)
{
	if (comm->on_failure != GPUSIM_ON_FAILURE_RESPAWN)
		return;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		struct member *m = &comm->rank[r];

		if (m->gone && !m->dev->spawn.until_ms)
			device_came(m->dev); /* what failed before may go now */
		if (m->gone && !has_returned(c, comm, m))
			device_end(c, m->dev);
	}
	start_again(c, comm);
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
			comm->rec.blank |= m->memories != m->dev->memories;
			m->memories = m->dev->memories;
			m->gone = false;
		}
		all &= !m->gone;
	}
	return all;
}

/* ---- replacing: spare */

/* Is it large enough, and was not tried in vain? */
static bool
serves(const struct device *d, const struct device *lost)
{
	return d != lost && !d->unfit &&
	       d->max_addr - d->min_addr >= lost->max_addr - lost->min_addr;
}

struct device *
device_find_spare(const struct coord *c, const struct device *lost, bool spares)
{
	struct device *best = NULL;
	int best_points = -1;

	for (size_t i = 0; i < c->devices->n; i++) {
		struct device *d = c->devices->v[i];
		int points = 2 * (strcmp(d->host, lost->host) == 0) + d->spare;

		if (!device_is_free(d) || !serves(d, lost) || (spares && !d->spare))
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
		device_replace(c, m->from, m->dev);
		return;
	}
	snprintf(comm->rec.tried, sizeof comm->rec.tried, "spare device %016" PRIx64 ": %.150s",
		 m->dev->id, why->text);
	act_log(c, "comm %" PRIu64 " rank %u: %s", comm->id, call->rank, comm->rec.tried);
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
	struct member *m = &comm->rank[r];
	struct buf body = {0};

	m->from = m->dev;
	m->dev = d;
	m->incarnation = d->incarnation;
	m->memories = d->memories;
	d->ncomms++;
	if (adopt_pack(m->from, d, &body)) {
		member_call(c, comm, r, adopted, COORD_ADOPT_MS, &body);
		return;
	}
	comm->rec.blank = true;
	m->gone = false;
	device_replace(c, m->from, d);
}

/* True: every rank has a device. */
static bool
spared(struct coord *c, struct comm *comm)
{
	bool all = true;

	for (uint32_t r = 0; r < comm->nranks; r++) {
		struct member *m = &comm->rank[r];
		struct device *d;

		if (m->gone && !m->from && (d = device_find_spare(c, m->dev, false)))
			take_place(c, comm, r, d);
		all &= !m->gone;
	}
	return all && comm->waiting == 0;
}

/* Is it somewhere else, and may be free in time? */
static bool
may_come(const struct comm *comm, const struct device *d)
{
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (comm->rank[r].dev == d || comm->rank[r].from == d)
			return false;
	return !d->lost;
}

/* Why a rank will be without a device however long one waits for it; false: it may get one. */
static bool
is_hopeless(const struct coord *c, const struct comm *comm, uint32_t r, char *why, size_t room)
{
	const struct device *lost = comm->rank[r].dev;
	char spares[COORD_WHY_MAX * 2];

	if (!comm->rank[r].gone || comm->rank[r].from)
		return false;
	if (comm->on_failure == GPUSIM_ON_FAILURE_RESPAWN) {
		snprintf(why, room, "device %016" PRIx64 " %s", lost->id, lost->spawn.cannot);
		return lost->spawn.cannot[0];
	}
	for (size_t i = 0; i < c->devices->n; i++)
		if (serves(c->devices->v[i], lost) && may_come(comm, c->devices->v[i]))
			return false;
	devices_name_lost(c, true, spares, sizeof spares);
	snprintf(why, room, "no spare device is left%s%s%s", comm->rec.tried[0] ? "; " : "",
		 comm->rec.tried, spares);
	return true;
}

void
replace_step(struct coord *c, struct comm *comm)
{
	bool respawns = comm->on_failure == GPUSIM_ON_FAILURE_RESPAWN;
	char why[COORD_WHY_MAX * 4];

	if (respawns)
		start_again(c, comm);
	if (respawns ? respawned(c, comm) : spared(c, comm)) {
		comm_attach_again(c, comm);
		return;
	}
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (is_hopeless(c, comm, r, why, sizeof why)) {
			comm_cannot(c, comm, why);
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
