/*
 * Silence and who is to blame for it: a coordinator that does not listen, devices that get no
 * processor, and devices that are gone.
 */
#include "coord_harness.h"

static bool
any_lost(const struct harness *h)
{
	return h->log.data && strstr(h->log.data, "lost");
}

static void
t_late(void)
{
	struct coord_event tick = {.kind = COORD_TICK};
	struct harness h;

	h_init(&h);
	h_devices(&h, 3);
	h_advance(&h, 2 * H_BEAT_MS);
	for (int i = 0; i < 20; i++) {
		h.now += 20 * H_LOST_MS;
		h_step(&h, &tick);
		h_register(&h, 1);
		h_register(&h, 2);
		h_register(&h, 3);
	}
	ok(!any_lost(&h), "a coordinator that was frozen calls nobody lost");
	for (int i = 0; i < 4; i++) { /* and only so much of each time counts */
		h.now += H_LOST_MS;
		h_step(&h, &tick);
	}
	ok(!any_lost(&h), "nor one whose ticks come late");
	h_advance(&h, 2 * H_BEAT_MS);
	h.alive[2] = false;
	h_advance(&h, H_LOST_MS + 100);
	ok(any_lost(&h) && strstr(h.log.data, "0002 at ipc:///dev2 lost"),
	   "when it listens again it finds who is silent");
	ok(!strstr(h.log.data, "dev1 lost") && !strstr(h.log.data, "dev3 lost") && h.bad == 0,
	   "and nobody else");
	h_fini(&h);
}

static void
t_deaf(void)
{
	struct harness h;

	h_init(&h);
	h_devices(&h, 2);
	h_advance(&h, H_BEAT_MS);
	h.deaf = true;
	h.alive[1] = h.alive[2] = false;
	h_advance(&h, 10 * H_LOST_MS);
	ok(!any_lost(&h), "what has come is not read: nobody is lost");
	h.deaf = false;
	h_advance(&h, H_LOST_MS / 2 - H_BEAT_MS);
	ok(!any_lost(&h), "that time does not count when it is read again");
	h_advance(&h, H_LOST_MS / 2 + 2 * H_BEAT_MS);
	ok(any_lost(&h), "what comes then does");
	h_fini(&h);
}

static void
t_look(void)
{
	struct harness h;

	h_init(&h);
	h_devices(&h, 2);
	h.found[1] = COORD_LOOK_STARVED;
	h_advance(&h, H_BEAT_MS);
	h.alive[1] = h.alive[2] = false;
	h_advance(&h, H_LOST_MS - 200);
	ok(h.looks == 2 && !any_lost(&h), "a silent device's process is looked at half-way");
	h_advance(&h, 400);
	ok(h.log.data && strstr(h.log.data, "dev2 lost") && !strstr(h.log.data, "dev1 lost"),
	   "one that has waited for a processor is excused, one that has not is lost");
	h.alive[1] = true;
	h_advance(&h, 2 * H_BEAT_MS);
	h.alive[1] = false;
	h_advance(&h, 2 * H_LOST_MS - H_BEAT_MS);
	ok(!strstr(h.log.data, "dev1 lost"), "again and again");
	h_advance(&h, 4 * H_BEAT_MS);
	ok(strstr(h.log.data, "dev1 lost") != NULL, "but no longer than the operation timeout");
	h_register(&h, 1);
	h.found[1] = COORD_LOOK_RUNNABLE;
	buf_fini(&h.log);
	h_advance(&h, H_LOST_MS + 500);
	ok(!any_lost(&h), "one that wants to run now is not lost now");
	h.found[1] = COORD_LOOK_IDLE;
	h_advance(&h, 100);
	ok(any_lost(&h), "but when it does not");
	h_fini(&h);
}

/* What a device is told when there are so many. */
static uint32_t
told(uint64_t n)
{
	struct harness h;
	uint64_t t = 0;
	uint32_t ms;

	h_init(&h);
	for (uint64_t id = 1; id <= n; id++)
		t = h_register(&h, id);
	ms = h_reply(&h, t)->registerdevice->heartbeatms;
	h_fini(&h);
	return ms;
}

static void
t_many(void)
{
	struct harness h;
	unsigned lost = 0;

	ok(told(128) == H_BEAT_MS && told(129) == 2 * H_BEAT_MS && told(1024) == 2 * H_BEAT_MS,
	   "many devices send fewer heartbeats, and at least two before they are lost");
	h_init(&h);
	for (uint64_t id = 1; id <= 129; id++)
		h_register(&h, id);
	for (int i = 0; i < 30; i++) {
		h_advance(&h, 2 * H_BEAT_MS);
		for (uint64_t id = 1; id <= 129; id++)
			h_register(&h, id);
	}
	lost += any_lost(&h);
	ok(lost == 0, "whoever sends as it was told is not lost");
	h_advance(&h, H_LOST_MS - 100);
	lost += any_lost(&h);
	h_advance(&h, 200);
	ok(lost == 0 && any_lost(&h), "who falls silent is lost as soon as ever");
	h_fini(&h);
}

int
main(void)
{
	t_late();
	t_deaf();
	t_look();
	t_many();
	return tap_done();
}
