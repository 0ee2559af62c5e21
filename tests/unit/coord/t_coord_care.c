/*
 * Devices that are lost while no communicator has them: started again, replaced by a spare, or named;
 * what is known of how their processes ended.
 */
#include "coord_harness.h"

/* A coordinator with that policy of its own, and devices of which the last nspares are spares. */
static void
begin(struct harness *h, uint32_t policy, uint64_t ndev, uint64_t nspares)
{
	h_init(h);
	coord_free(h->c);
	h->own_policy = policy;
	h->c = h_coord_with(77, NULL, policy);
	for (uint64_t id = ndev - nspares + 1; id <= ndev; id++)
		h->spare[id] = true;
	h_devices(h, ndev);
}

static void
tick(struct harness *h)
{
	h_advance(h, 100);
}

static void
exited(struct harness *h, uint32_t pid, int status)
{
	struct coord_event ev = {.kind = COORD_EXITED, .pid = pid, .status = status};

	h_step(h, &ev);
}

/* Device `id` is killed, and its parent tells. */
static void
killed(struct harness *h, uint64_t id)
{
	h->alive[id] = false;
	exited(h, h_pid(h, id), 9);
}

static void
spawned(struct harness *h, uint64_t id, uint32_t pid, const char *why)
{
	struct coord_event ev = {.kind = COORD_SPAWNED,
				 .device_id = id,
				 .pid = pid,
				 .rc = why ? RC_FAILED : RC_OK,
				 .text = why};

	h_step(h, &ev);
}

static void
come_back(struct harness *h, uint64_t id)
{
	h->incarnation[id] += 1000;
	h->alive[id] = true;
	h_register(h, id);
}

/* The device at an index. */
static const GpuSim__DeviceMetadata *
at(struct harness *h, size_t i)
{
	GpuSim__ListDevicesRequest q = GPU_SIM__LIST_DEVICES_REQUEST__INIT;
	uint64_t t = h_ask(h, 9, LIST_DEVICES, listdevices, &q);
	const GpuSim__ListDevicesResponse *l = h_reply(h, t)->listdevices;

	return i < l->n_devices ? l->devices[i] : NULL;
}

static void
t_exit(void)
{
	const GpuSim__DeviceLoss *l;
	struct harness h;

	begin(&h, GPUSIM_ON_FAILURE_ABORT, 4, 0);
	killed(&h, 2);
	l = at(&h, 1)->loss;
	ok(l && !strcmp(l->why, "killed by signal 9") && l->atms == H_EPOCH_MS + h.now &&
	       !*l->remedy,
	   "a device whose process has ended is lost, by that");
	exited(&h, h_pid(&h, 3), 2 << 8);
	h.alive[3] = false;
	ok(!strcmp(at(&h, 2)->loss->why, "ended with exit status 2"), "its exit status is told");
	exited(&h, 99999, 9);
	h.now += 3100;
	ok(h_failed(&h, h_comm_init(&h, 9, 4, false), RC_FAILED,
		    "needs 4 devices; 2 of 4 are available; device 0000000000000002 (gpu 0) was "
		    "lost 3.1 s "
		    "ago: killed by signal 9; device 0000000000000003 (gpu 0) was lost 3.1 s ago: "
		    "ended with exit status 2"),
	   "who wants more devices than there are hears of the lost ones");
	tick(&h);
	ok(h.spawned[2] == 0, "which stay lost");
	h_crash(&h);
	tick(&h);
	ok(at(&h, 1)->loss && !strcmp(at(&h, 1)->loss->why, "killed by signal 9"),
	   "a coordinator that is started again knows it still");
	come_back(&h, 2);
	ok(!at(&h, 1)->loss, "who is back is not lost");
	h_fini(&h);
}

/* By its connection, and then by its parent. */
static void
t_broke(void)
{
	struct coord_event ev = {.kind = COORD_UNREACHABLE, .device_id = 1, .text = "ipc:///dev1"};
	struct harness h;

	begin(&h, GPUSIM_ON_FAILURE_ABORT, 2, 0);
	h_step(&h, &ev);
	ok(!strcmp(at(&h, 0)->loss->why, "its connection broke and nothing listens at ipc:///dev1"),
	   "where nobody knows the status, the connection is the reason");
	killed(&h, 1);
	ok(!strcmp(at(&h, 0)->loss->why, "killed by signal 9"), "until its parent tells");
	exited(&h, h_pid(&h, 1), 15);
	ok(!strcmp(at(&h, 0)->loss->why, "killed by signal 9"), "once");
	h_fini(&h);
}

static void
t_respawn(void)
{
	struct harness h;
	uint64_t t, u;

	begin(&h, GPUSIM_ON_FAILURE_RESPAWN, 2, 0);
	killed(&h, 2);
	t = h_comm_init(&h, 9, 2, false);
	ok(h_code(&h, t) == -1, "who wants a device that is about to be back waits for it");
	tick(&h);
	ok(h.spawned[2] == 1 && !strcmp(at(&h, 1)->loss->remedy, "is being started again"),
	   "a free device is started again");
	spawned(&h, 2, 777, NULL);
	tick(&h);
	ok(h.spawned[2] == 1, "once");
	exited(&h, 777, 9);
	tick(&h);
	ok(h.spawned[2] == 2, "and again when it was killed before it came");
	come_back(&h, 2);
	h_serve(&h);
	ok(h_code(&h, t) == 0, "then there is one more");
	h_destroy(&h, 9, 1);
	h_serve(&h);

	killed(&h, 1);
	t = h_comm_init(&h, 9, 2, false);
	tick(&h);
	spawned(&h, 1, 778, NULL);
	exited(&h, 778, 5 << 8);
	ok(h_code(&h, t) == RC_FAILED &&
	       strstr(h_text(&h, t),
		      "killed by signal 9, was restarted and ended with exit status 5"),
	   "one that cannot come is not waited for: %s", h_text(&h, t));
	tick(&h);
	ok(h.spawned[1] == 1, "nor started any more");
	come_back(&h, 1);
	killed(&h, 1);
	t = h_comm_init(&h, 9, 2, false);
	h_advance(&h, H_RESPAWN_MS + 200);
	u = h_comm_init(&h, 9, 2, false);
	ok(h.spawned[1] == 2 && h_code(&h, t) > 0 && h_code(&h, u) == RC_FAILED &&
	       strstr(h_text(&h, u), "was restarted and did not register within 3.0s"),
	   "nor is one that does not come in time: %s", h_text(&h, u));
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

static void
t_respawn_comm(void)
{
	struct harness h;
	uint64_t t;

	begin(&h, GPUSIM_ON_FAILURE_ABORT, 2, 0);
	h.policy = GPUSIM_ON_FAILURE_RESPAWN;
	h_comm(&h, 9, 2);
	killed(&h, 2);
	h_serve(&h);
	t = h_status(&h, 9, 1, true);
	ok(h.spawned[2] == 1 && h_code(&h, t) == -1, "a rank's device is started again");
	spawned(&h, 2, 0, "its memory file /m is gone");
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->getcommstatus->status == GPU_SIM__STATUS__FAILED &&
	       strstr(
		   h_reply(&h, t)->getcommstatus->reason,
		   "lost: killed by signal 9; device 0000000000000002 cannot be started again: its "
		   "memory file /m is gone"),
	   "where it cannot be the communicator fails at once: %s",
	   h_reply(&h, t)->getcommstatus->reason);
	h_fini(&h);
}

static void
t_spare(void)
{
	struct harness h;
	uint64_t t;
	long i;

	begin(&h, GPUSIM_ON_FAILURE_SPARE, 4, 2);
	killed(&h, 1);
	t = h_comm_init(&h, 9, 2, false);
	ok(h_code(&h, t) == -1, "who wants a device that a spare replaces waits for it");
	tick(&h);
	i = h_find(&h, H_ADOPT, 3);
	ok(i >= 0 && strstr(at(&h, 0)->loss->remedy, "device 0000000000000003 is about to take"),
	   "a spare is to take over its memory");
	h_refuse(&h, (size_t)i, RC_FAILED, "no");
	ok(at(&h, 1)->deviceid->value == 3 && at(&h, 1)->ordinal == 0 && !at(&h, 1)->spare,
	   "where there was none it does not matter if it cannot; it has the place");
	ok(at(&h, 2)->deviceid->value == 1 && at(&h, 2)->spare && at(&h, 2)->ordinal == 3,
	   "and the lost one that of the spare");
	h_serve(&h);
	ok(h_code(&h, t) == 0, "a communicator takes it as any device");
	h_advance(&h, 2 * H_BEAT_MS);
	h_crash(&h);
	h_advance(&h, 2 * H_BEAT_MS);
	ok(at(&h, 1)->deviceid->value == 3 && !at(&h, 1)->spare,
	   "so it is after a restart of the coordinator, whatever the device says");
	come_back(&h, 1);
	ok(at(&h, 2)->deviceid->value == 1 && at(&h, 2)->spare,
	   "who was lost comes back as a spare");
	h_fini(&h);
}

static void
t_spare_with_memory(void)
{
	struct harness h;

	begin(&h, GPUSIM_ON_FAILURE_SPARE, 4, 2);
	h.used[1] = 4096;
	h_register(&h, 1);
	killed(&h, 1);
	tick(&h);
	h_refuse(&h, (size_t)h_find(&h, H_ADOPT, 3), RC_FAILED, "no");
	tick(&h);
	ok(at(&h, 0)->deviceid->value == 1 && h_find(&h, H_ADOPT, 4) >= 0,
	   "a memory with allocations is offered to another spare");
	come_back(&h, 1);
	h_accept(&h, (size_t)h_find(&h, H_ADOPT, 4));
	ok(at(&h, 0)->deviceid->value == 1 && !at(&h, 0)->spare && at(&h, 3)->spare,
	   "who is back meanwhile keeps its place");
	killed(&h, 1);
	tick(&h);
	tick(&h);
	ok(h_find(&h, H_ADOPT, 0) < 0 && at(&h, 0)->loss, "without a spare it stays lost");
	h_fini(&h);
}

/* The memory of a device that is lost for good goes, again and again until the process has let go of it. */
static void
t_discard(void)
{
	static const uint32_t goes[] = {GPUSIM_ON_FAILURE_ABORT, GPUSIM_ON_FAILURE_SHRINK};
	struct harness h;

	for (size_t i = 0; i < 2; i++) {
		begin(&h, goes[i], 2, 0);
		tick(&h);
		ok(!h.discarded[1] && !h.discarded[2], "those that live keep theirs");
		killed(&h, 2);
		tick(&h);
		ok(h.discarded[2] == 1 && !h.discarded[1], "one that is lost loses it");
		for (int k = 0; k < 12; k++)
			tick(&h);
		ok(h.discarded[2] == 2, "once a second");
		h_fini(&h);
	}
	begin(&h, GPUSIM_ON_FAILURE_RESPAWN, 2, 0);
	killed(&h, 2);
	for (int k = 0; k < 12; k++)
		tick(&h);
	ok(!h.discarded[2], "one that is started again keeps it");
	h_fini(&h);
	begin(&h, GPUSIM_ON_FAILURE_SPARE, 2, 0);
	killed(&h, 2);
	for (int k = 0; k < 12; k++)
		tick(&h);
	ok(!h.discarded[2], "so does one that a spare may come for");
	h_fini(&h);
}

int
main(void)
{
	t_exit();
	t_broke();
	t_respawn();
	t_respawn_comm();
	t_spare();
	t_spare_with_memory();
	t_discard();
	return tap_done();
}
