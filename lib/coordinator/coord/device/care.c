/*
 * care.c - starts lost devices again, or replaces them by spares.
 *
 * For a device in a communicator the communicator's policy decides (comm/recover.c), for others that of the
 * coordinator. Events report whether a process was started, and how one ended.
 */
#include "coord/device/device_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* ---- starting one again */

/* False: out of memory; the device's timeout handles it. */
static bool
act_spawn(struct coord *c, struct device *d)
{
	struct coord_action a = {.kind = COORD_SPAWN, .device_id = d->id};
	struct device_msgs msgs;

	if (!device_msgs_init(c, &d, 1, &msgs))
		return false;
	if (buf_pack(&a.body, &msgs.p[0]->base))
		act(c, &a);
	device_msgs_fini(&msgs);
	return true;
}

static void
spawn(struct coord *c, struct device *d)
{
	if (!act_spawn(c, d))
		return;
	d->spawn.until_ms = c->now_ms + c->cfg.respawn_ms;
	d->spawn.pid = 0;
	d->spawn.tries++;
	d->spawn.cannot[0] = '\0';
}

void
device_spawn(struct coord *c, struct device *d)
{
	if (!d->spawn.until_ms && !d->spawn.cannot[0] && device_can_spawn(c, d))
		spawn(c, d);
}

void
device_revive(struct coord *c, struct device *d, bool stuck)
{
	if (!d->spawn.until_ms)
		device_came(d);
	if (stuck && device_is_here(c, d) && d->said->supervised)
		act_spawn(c, d); /* which ends its process */
}

/* Give up starting the device. */
static void
give_up(struct coord *c, struct device *d, const char *what, const char *why)
{
	d->spawn.until_ms = 0;
	snprintf(d->spawn.cannot, sizeof d->spawn.cannot, "%s %.*s", what, COORD_WHY_MAX - 64, why);
	act_log(c, "device %016" PRIx64 " %s", d->id, d->spawn.cannot);
	event_device(c, GPU_SIM__EVENT_KIND__GIVEN_UP, d, "%s", d->spawn.cannot);
}

void
device_spawned(struct coord *c, const struct coord_event *ev)
{
	struct device *d = device_find(c, ev->device_id);

	if (!d || !d->spawn.until_ms)
		return;
	if (ev->rc == RC_OK)
		d->spawn.pid = ev->pid;
	else
		give_up(c, d, "cannot be started again:", ev->text ? ev->text : "no reason given");
}

static void
how_ended(int status, char *out, size_t room)
{
	if (WIFSIGNALED(status))
		snprintf(out, room, "killed by signal %d", WTERMSIG(status));
	else
		snprintf(out, room, "ended with exit status %d", WEXITSTATUS(status));
}

void
device_exited(struct coord *c, uint32_t pid, int status)
{
	for (size_t i = 0; i < c->devices->n && c->cfg.host[0] && pid; i++) {
		struct device *d = c->devices->v[i];
		char how[48];

		if (d->spawn.until_ms && d->spawn.pid == pid) {
			/* It ended before it registered. If it was killed, try again. */
			how_ended(status, how, sizeof how);
			d->spawn.until_ms = 0;
			d->spawn.pid = 0;
			if (!WIFSIGNALED(status) || d->spawn.tries >= COORD_MAX_TRIES)
				give_up(c, d, "was restarted and", how);
			return;
		}
		if (d->said->pid != pid || strcmp(d->said->host, c->cfg.host) != 0)
			continue;
		how_ended(status, how, sizeof how);
		if (!d->lost) {
			device_lose(c, d, how);
		} else if (d->loss.broke) {
			snprintf(d->loss.why, sizeof d->loss.why, "%s", how);
			d->loss.broke = false;
			device_changed(c, d);
			event_device(c, GPU_SIM__EVENT_KIND__ENDED, d, "ended: %s", how);
		}
		return;
	}
}

/* ---- replacement by a spare */

void
device_is_unfit(struct device *d)
{
	d->unfit = true;
}

bool
adopt_pack(const struct device *lost, const struct device *spare, struct buf *body)
{
	GpuSim__AdoptRequest q = GPU_SIM__ADOPT_REQUEST__INIT;

	if (strcmp(spare->said->host, lost->said->host) != 0 || !lost->said->mempath[0])
		return false;
	q.deviceid = lost->id;
	q.path = (char *)lost->said->mempath;
	q.dev = lost->said->memdev;
	q.inode = lost->said->meminode;
	q.incarnation = spare->said->incarnation;
	pack_request(GPU_SIM__REQUEST__BODY_ADOPT, &q.base, NULL, body);
	return true;
}

void
device_replace(struct coord *c, struct device *lost, struct device *spare)
{
	uint32_t ordinal = lost->ordinal;

	lost->successor = spare->id;
	spare->successor = 0;
	if (!spare->spare || lost->spare)
		return;
	lost->ordinal = spare->ordinal;
	spare->ordinal = ordinal;
	lost->spare = true;
	spare->spare = false;
	lost->placed = spare->placed = true;
	device_moved(c, lost);
	device_moved(c, spare);
	device_changed(c, lost);
	device_changed(c, spare);
	act_log(c, "device %016" PRIx64 " takes the place of device %016" PRIx64, spare->id,
		lost->id);
	event_device(c, GPU_SIM__EVENT_KIND__REPLACED, spare,
		     "is no longer a spare: it has taken the place of device %016" PRIx64,
		     lost->id);
}

static void
adopted(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct device *d = owner, *spare = d->heir;

	(void)rank;
	d->heir = NULL;
	d->ncomms--;
	spare->ncomms--;
	/* A refusal to adopt does not matter if the memory was unused. */
	if (d->lost && (o->err.rc == RC_OK || (o->answered && d->said->usedbytes == 0))) {
		device_replace(c, d, spare);
		return;
	}
	spare->unfit = true;
	act_log(c, "device %016" PRIx64 ": spare device %016" PRIx64 ": %s", d->id, spare->id,
		o->err.rc == RC_OK ? "the device has returned" : o->err.text);
}

static void
spare(struct coord *c, struct device *d)
{
	struct device *s = device_find_spare(c, d, true);
	struct buf body = {0};

	if (!s || d->spare)
		return;
	if (!adopt_pack(d, s, &body)) {
		device_replace(c, d, s);
		return;
	}
	d->heir = s;
	d->ncomms++;
	s->ncomms++;
	call_start(c, &d->adopt, s, adopted, d, 0, COORD_ADOPT_MS, &body);
}

/* ---- memory without a device */

/* Repeat, as its process may not have ended yet. Not while a spare may still adopt it. */
static void
discard(struct coord *c, struct device *d)
{
	struct coord_action a = {.kind = COORD_DISCARD, .device_id = d->id};

	if (c->cfg.on_failure == GPUSIM_ON_FAILURE_SPARE || d->said->memkept ||
	    !device_can_spawn(c, d) || c->now_ms < d->discard_ms)
		return;
	d->discard_ms = c->now_ms + COORD_DISCARD_MS;
	snprintf(a.address, sizeof a.address, "%s", d->said->mempath);
	act(c, &a);
}

/* ---- */

void
care_tick(struct coord *c)
{
	for (size_t i = 0; i < c->devices->n; i++) {
		struct device *d = c->devices->v[i];

		if (!d->lost || (d->ncomms && !(c->cfg.revive && !c->devices->hooks->holds(c, d))))
			continue;
		if (device_policy(c) == GPUSIM_ON_FAILURE_RESPAWN) {
			char why[32];

			if (d->spawn.until_ms && c->now_ms >= d->spawn.until_ms) {
				snprintf(why, sizeof why, "within %.1fs",
					 (double)c->cfg.respawn_ms / 1e3);
				give_up(c, d, "was restarted and did not register", why);
			}
			device_spawn(c, d);
		} else if (c->cfg.on_failure == GPUSIM_ON_FAILURE_SPARE)
			spare(c, d);
		if (!d->ncomms && !device_returns(c, d))
			discard(c, d);
	}
}
