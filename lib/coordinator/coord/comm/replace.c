/*
 * replace.c - lost ranks of a communicator get their devices back, or other devices.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- replacing: respawn */

/* The rank's device has come back with its memory. */
static bool
has_returned(const struct coord *c, const struct comm *comm, const struct member *m)
{
	if (device_is_lost(m->dev))
		return false;
	if (device_incarnation(m->dev) != m->incarnation)
		return true;
	return !device_can_spawn(c, m->dev) && device_heard_ms(m->dev) > comm->rec.drained_ms;
}

void
replace_start(struct coord *c, struct comm *comm, const struct err *why)
{
	(void)why;
	for (uint32_t r = 0; r < comm->nranks && comm->on_failure == GPUSIM_ON_FAILURE_RESPAWN;
	     r++) {
		struct member *m = &comm->rank[r];

		if (m->gone)
			device_revive(c, m->dev, !has_returned(c, comm, m));
	}
	replace_step(c, comm);
}

/* True: no device is missing any more. */
static bool
respawned(struct coord *c, struct comm *comm)
{
	bool all = true;

	for (uint32_t r = 0; r < comm->nranks; r++) {
		struct member *m = &comm->rank[r];

		if (m->gone && has_returned(c, comm, m)) {
			m->incarnation = device_incarnation(m->dev);
			comm->rec.blank |= m->memories != device_memories(m->dev);
			m->memories = device_memories(m->dev);
			m->gone = false;
		}
		all &= !m->gone;
	}
	return all;
}

/* ---- replacing: spare */

static void
adopted(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct comm *comm = owner;
	struct member *m = &comm->rank[rank];

	comm->waiting--;
	if (o->err.rc == RC_OK) {
		m->gone = false;
		device_replace(c, m->from, m->dev);
		return;
	}
	snprintf(comm->rec.tried, sizeof comm->rec.tried, "spare device %016" PRIx64 ": %.150s",
		 device_id(m->dev), o->err.text);
	act_log(c, "comm %" PRIu64 " rank %u: %s", comm->id, rank, comm->rec.tried);
	device_is_unfit(m->dev);
	device_release(m->dev);
	m->dev = m->from;
	m->from = NULL;
	comm->rec.rounds++;
}

/* Give the rank to the device, which fetches the lost device's memory if it can. */
static void
take_place(struct coord *c, struct comm *comm, uint32_t r, struct device *d)
{
	struct member *m = &comm->rank[r];
	struct buf body = {0};

	m->from = m->dev;
	m->dev = d;
	m->incarnation = device_incarnation(d);
	m->memories = device_memories(d);
	device_reserve(d);
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

/* It is in use, and may become free in time. */
static bool
may_come(const struct comm *comm, const struct device *d)
{
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (comm->rank[r].dev == d || comm->rank[r].from == d)
			return false;
	return !device_is_lost(d);
}

/* Why a rank can never get a device; false: it may get one. */
static bool
is_hopeless(const struct coord *c, const struct comm *comm, uint32_t r, char *why, size_t room)
{
	const struct device *lost = comm->rank[r].dev;
	struct text t = {why, room};

	if (!comm->rank[r].gone || comm->rank[r].from)
		return false;
	if (comm->on_failure == GPUSIM_ON_FAILURE_RESPAWN) {
		snprintf(why, room, "device %016" PRIx64 " %s", device_id(lost),
			 device_cannot_come(lost));
		return *device_cannot_come(lost);
	}
	for (size_t i = 0; i < devices_count(c); i++)
		if (device_serves(device_at(c, i), lost) && may_come(comm, device_at(c, i)))
			return false;
	text_add(&t, "no spare device is left%s%s", comm->rec.tried[0] ? "; " : "",
		 comm->rec.tried);
	devices_name_lost(c, true, &t);
	return true;
}

void
replace_step(struct coord *c, struct comm *comm)
{
	bool respawns = comm->on_failure == GPUSIM_ON_FAILURE_RESPAWN;
	char why[COORD_WHY_MAX * 4];

	/* Start lost devices of this host that are not being started already. */
	for (uint32_t r = 0; respawns && r < comm->nranks; r++)
		if (comm->rank[r].gone && !has_returned(c, comm, &comm->rank[r]))
			device_spawn(c, comm->rank[r].dev);
	if (respawns ? respawned(c, comm) : spared(c, comm)) {
		comm_happens(c, comm, COMM_COMPLETE, NULL);
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
		 respawns ? "the device did not return within %.1fs"
			  : "no spare device joined within %.1fs",
		 (double)(c->now_ms - comm->rec.drained_ms) / 1e3);
	comm_cannot(c, comm, why);
}
