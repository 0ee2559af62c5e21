/*
 * listen.c - the time that the coordinator has listened, and silent devices that are starved.
 *
 * Silence is measured in time that the coordinator has listened. So a coordinator that was frozen, or had
 * no processor, does not declare devices lost for heartbeats that it has not read. Two things reduce that
 * time. First, the shell ticks at least every 100 ms: of a longer gap between two steps only 100 ms
 * count. Second, heartbeats may wait to be read: while a device is silent, the shell sends itself an echo
 * on the path of heartbeats, and the time until it is back counts only if that was short. No device is
 * declared lost before an echo that was sent after the device went missing is back.
 *
 * A silent device of this host may lack a processor too. Before it is declared lost the shell looks at
 * its process. If its threads were runnable and could not run, it is excused; if it is stopped, it is
 * not. No excuse lasts longer than the operation timeout.
 */
#include "coord/device/device_impl.h"

#include <stdio.h>
#include <string.h>

/* Silence up to this time needs no excuse. */
static uint64_t
attention_ms(const struct coord *c)
{
	uint64_t half = c->cfg.heartbeat_ms / 2;

	return half > COORD_TICK_MS ? half : COORD_TICK_MS;
}

void
listen_step(struct coord *c, uint64_t now_ms)
{
	uint64_t ms = now_ms > c->now_ms ? now_ms - c->now_ms : 0;

	if (ms > attention_ms(c))
		ms = attention_ms(c);
	if (c->devices->ear.asked)
		c->devices->ear.held_ms += ms;
	else
		c->devices->ear.ms += ms;
}

static void
ask_echo(struct coord *c)
{
	struct coord_action a = {.kind = COORD_ASK_ECHO};

	if (c->devices->ear.asked || !act(c, &a))
		return;
	c->devices->ear.asked = true;
	c->devices->ear.sent++;
	c->devices->ear.asked_ms = c->now_ms;
	c->devices->ear.held_ms = 0;
}

bool
device_is_silent(const struct coord *c, const struct device *d)
{
	return c->devices->ear.ms - d->heard_at >=
	       2ull * c->cfg.heartbeat_ms * (d->stride ? d->stride : 1);
}

/* Its process is of this host, and may still be excused. */
static bool
can_look(const struct coord *c, const struct device *d)
{
	return d->said->pid && c->cfg.host[0] && strcmp(d->said->host, c->cfg.host) == 0 &&
	       c->devices->ear.ms - d->word_at < c->cfg.op_timeout_ms;
}

static bool
ask_look(struct coord *c, struct device *d)
{
	struct coord_action a = {.kind = COORD_LOOK, .device_id = d->id, .pid = d->said->pid};

	return act(c, &a);
}

/* ---- missing devices */

/* The number of missing heartbeats, those of the current silence included. */
static unsigned
beats_missing(const struct coord *c, const struct device *d)
{
	uint64_t silent = (c->devices->ear.ms - d->heard_at) / c->cfg.heartbeat_ms;
	uint64_t before = d->missing, due = d->stride ? d->stride - 1 : 0;

	if (silent >= c->cfg.missed)
		return (unsigned)(silent < c->cfg.of ? silent : c->cfg.of);
	if (c->cfg.of - silent < COORD_MAX_BEATS)
		before &= (1ull << (c->cfg.of - silent)) - 1;
	return (unsigned)(silent > due ? silent - due : 0) + (unsigned)__builtin_popcountll(before);
}

/* Too many heartbeats are missing without an excuse. */
static void
device_miss(struct coord *c, struct device *d)
{
	uint64_t silent_ms = c->now_ms - d->heard_ms;
	char why[COORD_WHY_MAX];

	c->counts.beats_missed += device_beats_silent(c, d);
	if (silent_ms >= c->lost_ms)
		snprintf(why, sizeof why, "no heartbeat for %.1fs", (double)silent_ms / 1e3);
	else
		snprintf(why, sizeof why, "%u of its last %u heartbeats are missing", c->cfg.missed,
			 c->cfg.of);
	device_lose(c, d, why);
}

static bool
listen_excuses(struct coord *c, struct device *d, enum coord_look found)
{
	if (found != COORD_LOOK_STARVED)
		return found == COORD_LOOK_RUNNABLE;
	d->heard_at = c->devices->ear.ms > c->lost_ms / 2 ? c->devices->ear.ms - c->lost_ms / 2 : 0;
	d->missing = 0;
	d->after = 0;
	return true;
}

void
device_looked(struct coord *c, uint64_t id, enum coord_look found)
{
	struct device *d = device_find(c, id);

	if (d && !d->lost && beats_missing(c, d) >= c->cfg.missed && !listen_excuses(c, d, found))
		device_miss(c, d);
}

static bool
listen_decides(struct coord *c, struct device *d)
{
	if (!d->after || c->devices->ear.back < d->after)
		return false;
	return !can_look(c, d) || !ask_look(c, d);
}

static void
devices_decide(struct coord *c)
{
	for (size_t i = c->devices->n; i-- > 0;) {
		struct device *d = c->devices->v[i];

		if (!d->lost && d->after && beats_missing(c, d) >= c->cfg.missed &&
		    listen_decides(c, d))
			device_miss(c, d);
	}
}

static void
listen_tick(struct coord *c, struct device *d, bool missing)
{
	if (!missing)
		d->after = 0;
	else if (!d->after)
		d->after = c->devices->ear.sent + 1;
	if (!missing && c->devices->ear.ms - d->heard_at < c->lost_ms / 2)
		return;
	ask_echo(c);
	/* Look half-way too, to compare with. */
	if (!d->looked_at && can_look(c, d))
		d->looked_at = ask_look(c, d);
}

void
devices_tick(struct coord *c)
{
	for (size_t i = c->devices->n; i-- > 0;) {
		struct device *d = c->devices->v[i];
		uint64_t silent_ms = c->now_ms - d->heard_ms;

		if (!d->lost)
			listen_tick(c, d, beats_missing(c, d) >= c->cfg.missed);
		else if (silent_ms >= COORD_FORGET_MS && d->ncomms == 0 && !d->configured)
			device_forget(c, i);
	}
	devices_decide(c);
}

/* After a late echo the next goes out at once: the time between them counts as late. */
void
devices_echo(struct coord *c)
{
	bool soon = c->now_ms - c->devices->ear.asked_ms <= attention_ms(c);

	c->devices->ear.asked = false;
	c->devices->ear.back = c->devices->ear.sent;
	if (soon)
		c->devices->ear.ms += c->devices->ear.held_ms;
	else
		ask_echo(c);
	devices_decide(c);
}

enum rc
on_ping(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	(void)req;
	(void)err;
	answer_done(c, p);
	return RC_OK;
}
