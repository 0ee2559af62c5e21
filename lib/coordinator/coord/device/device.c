/*
 * device.c - one device: what it is, its last message, and what may become of it while it is lost.
 */
#include "coord/device/device_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SHOW_LOST 3 /* devices that a message names */

GETTER(uint64_t, device_id, device, id)
GETTER(uint64_t, device_incarnation, device, said->incarnation)
GETTER(uint32_t, device_memories, device, memories)

void
device_range(const struct device *d, uint64_t *min, uint64_t *max)
{
	*min = d->said->minmemaddr->value;
	*max = d->said->maxmemaddr->value;
}

struct link_shape
device_link(const struct device *d)
{
	return (struct link_shape){(double)d->said->latencyns / 1e3, (double)d->said->bitspers};
}

GETTER(uint32_t, device_ordinal, device, ordinal)
GETTER(bool, device_is_spare, device, spare)
GETTER(bool, device_is_lost, device, lost)
GETTER(uint64_t, device_heard_ms, device, heard_ms)
GETTER(uint64_t, device_reports, device, reports)

void
device_reserve(struct device *d)
{
	d->successor = 0;
	d->ncomms++;
}

void
device_release(struct device *d)
{
	d->ncomms--;
}

GETTER(bool, device_is_reserved, device, ncomms)

void
device_tell(struct coord *c, const struct device *d, struct buf *body)
{
	if (body->data)
		act_call(c, 0, d->id, d->said->address, c->cfg.abort_grace_ms, body);
}

size_t
devices_count(const struct coord *c)
{
	return c->devices->n;
}

struct device *
device_at(const struct coord *c, size_t i)
{
	return c->devices->v[i];
}

struct device *
device_find(struct coord *c, uint64_t id)
{
	for (size_t i = 0; i < c->devices->n; i++)
		if (c->devices->v[i]->id == id)
			return c->devices->v[i];
	return NULL;
}

struct device *
device_in_place(struct coord *c, struct device *d)
{
	struct device *next = d;

	while (next && next->successor)
		next = device_find(c, next->successor);
	return next ? next : d;
}

bool
device_is_free(const struct device *d)
{
	return !d->lost && d->ncomms == 0;
}

enum rc
device_named(struct coord *c, uint64_t id, struct device **out, struct err *err)
{
	struct device *d = device_find(c, id);
	struct err why;

	if (!d)
		return err_set(err, RC_NOTFOUND, "no device %016" PRIx64, id);
	if (d->lost) {
		device_lost(d, &why);
		return err_set(err, why.rc, "device %016" PRIx64 " %s", d->id, why.text);
	}
	*out = d;
	return RC_OK;
}

enum rc
device_lost(const struct device *d, struct err *err)
{
	return err_set(err, RC_UNREACHABLE, "lost: %s", d->loss.why);
}

bool
device_is_beside(const struct device *d, const char *host, uint32_t user)
{
	const uint32_t root = 1;

	return *host && strcmp(d->said->host, host) == 0 && d->said->mempath[0] &&
	       (d->said->memuser == 0 || d->said->memuser == user || user == root);
}

static bool
comes_before(const struct device *a, const struct device *b)
{
	return a->ordinal != b->ordinal ? a->ordinal < b->ordinal : a->id < b->id;
}

void
device_moved(struct coord *c, struct device *d)
{
	struct device **v = c->devices->v;
	size_t i = 0;

	while (v[i] != d)
		i++;
	/* Move it to its place; the others are sorted. */
	for (; i > 0 && comes_before(d, v[i - 1]); i--)
		v[i] = v[i - 1];
	for (; i + 1 < c->devices->n && comes_before(v[i + 1], d); i++)
		v[i] = v[i + 1];
	v[i] = d;
}

/* ---- what happens to it */

void
device_changed(struct coord *c, struct device *d)
{
	d->recorded = false;
	c->devices->unrecorded = true;
}

void
event_device(struct coord *c, GpuSim__EventKind kind, const struct device *d, const char *fmt, ...)
{
	struct event e = {.kind = kind, .device = d->id, .ordinal = d->ordinal};
	char text[EVENT_TEXT_MAX / 2], who[64];
	uint32_t rank;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	snprintf(who, sizeof who, "device %016" PRIx64 " (gpu %u)", d->id, d->ordinal);
	e.comm = c->devices->hooks->seat(c, d, &rank);
	if (e.comm) {
		e.rank = rank + 1;
		event_add(c, &e, "%s, rank %u of comm %" PRIu64 ", %s", who, rank, e.comm, text);
	} else {
		event_add(c, &e, "%s %s", who, text);
	}
}

uint64_t
device_beats_silent(const struct coord *c, const struct device *d)
{
	uint64_t beat = c->cfg.heartbeat_ms, gap = c->devices->ear.ms - d->heard_at;
	uint64_t in_time = beat / 2 + (d->stride ? d->stride - 1 : 0) * beat;

	return gap > in_time ? (gap - in_time) / beat : 0;
}

/* A message from it settles the heartbeats due by now. */
static void
count_beats(struct coord *c, struct device *d)
{
	uint64_t beat = c->cfg.heartbeat_ms;
	uint64_t owed = (c->devices->ear.ms - d->beat_at + beat / 2) / beat;
	uint64_t missed = device_beats_silent(c, d);

	if (owed == 0)
		return;
	c->counts.beats_missed += missed;
	d->missing = owed < COORD_MAX_BEATS ? d->missing << owed : 0;
	if (missed >= COORD_MAX_BEATS)
		missed = COORD_MAX_BEATS - 1;
	d->missing |= ((1ull << missed) - 1) << 1;
	d->beat_at = c->devices->ear.ms;
}

void
device_alive(struct coord *c, struct device *d)
{
	if (d->lost || d->heard_ms == 0) {
		d->missing = 0;
		d->beat_at = c->devices->ear.ms;
	} else {
		count_beats(c, d);
	}
	d->heard_ms = c->now_ms;
	d->heard_at = d->word_at = c->devices->ear.ms;
	d->looked_at = false;
	d->after = 0;
	if (d->lost) {
		d->lost = false;
		device_changed(c, d);
		act_log(c, "device %016" PRIx64 " at %s has returned", d->id, d->said->address);
		if (d->loss.incarnation == d->said->incarnation)
			event_device(c, GPU_SIM__EVENT_KIND__BACK, d, "has returned");
	}
}

/* ---- while it is lost */

GETTER(const char *, device_cannot_come, device, spawn.cannot)

bool
device_is_here(const struct coord *c, const struct device *d)
{
	return c->cfg.host[0] && strcmp(c->cfg.host, d->said->host) == 0 && d->said->mempath[0];
}

bool
device_can_spawn(const struct coord *c, const struct device *d)
{
	return device_is_here(c, d) && !d->said->supervised;
}

void
device_came(struct device *d)
{
	memset(&d->spawn, 0, sizeof d->spawn);
}

bool
device_serves(const struct device *d, const struct device *lost)
{
	return d != lost && !d->unfit &&
	       d->said->maxmemaddr->value - d->said->minmemaddr->value >=
		   lost->said->maxmemaddr->value - lost->said->minmemaddr->value;
}

struct device *
device_find_spare(const struct coord *c, const struct device *lost, bool spares)
{
	struct device *best = NULL;
	int best_points = -1;

	for (size_t i = 0; i < c->devices->n; i++) {
		struct device *d = c->devices->v[i];
		int points = 2 * (strcmp(d->said->host, lost->said->host) == 0) + d->spare;

		if (!device_is_free(d) || !device_serves(d, lost) || (spares && !d->spare))
			continue;
		if (points > best_points) {
			best = d;
			best_points = points;
		}
	}
	return best;
}

enum gpusim_on_failure
device_policy(const struct coord *c)
{
	bool spare = c->cfg.on_failure == GPUSIM_ON_FAILURE_SPARE;

	return c->cfg.revive && !spare ? GPUSIM_ON_FAILURE_RESPAWN
				       : (enum gpusim_on_failure)c->cfg.on_failure;
}

bool
device_returns(const struct coord *c, const struct device *d)
{
	if (!d->lost || d->spawn.until_ms || d->heir)
		return d->lost;
	if (d->ncomms && !c->cfg.revive)
		return false;
	if (d->said->supervised)
		return device_lost_for(c, d) < c->cfg.respawn_ms;
	if (device_policy(c) == GPUSIM_ON_FAILURE_RESPAWN)
		return !d->spawn.cannot[0] && device_can_spawn(c, d);
	return c->cfg.on_failure == GPUSIM_ON_FAILURE_SPARE && !d->spare &&
	       device_find_spare(c, d, true);
}

uint64_t
device_lost_for(const struct coord *c, const struct device *d)
{
	return c->wall_ms > d->loss.at_ms ? c->wall_ms - d->loss.at_ms : 0;
}

void
device_remedy(const struct coord *c, const struct device *d, char *text, size_t room)
{
	text[0] = '\0';
	if (d->heir)
		snprintf(text, room, "device %016" PRIx64 " is about to take its place",
			 d->heir->id);
	else if (device_returns(c, d))
		snprintf(text, room, "%s",
			 c->cfg.on_failure == GPUSIM_ON_FAILURE_SPARE && !d->spawn.until_ms
			     ? "a spare is about to take its place"
			     : "is being started again");
	else if (d->lost)
		snprintf(text, room, "%s", d->spawn.cannot);
}

void
devices_name_lost(const struct coord *c, bool spares, struct text *t)
{
	size_t n = 0;

	for (size_t i = 0; i < c->devices->n; i++) {
		const struct device *d = c->devices->v[i];
		char remedy[COORD_WHY_MAX];

		if (!d->lost || d->spare != spares || n++ >= SHOW_LOST)
			continue;
		device_remedy(c, d, remedy, sizeof remedy);
		text_add(t, "; device %016" PRIx64 " (gpu %u) was lost %.1f s ago: %s%s%s", d->id,
			 d->ordinal, (double)device_lost_for(c, d) / 1e3, d->loss.why,
			 *remedy ? ", " : "", remedy);
	}
	if (n > SHOW_LOST)
		text_add(t, "; and %zu more", n - SHOW_LOST);
}
