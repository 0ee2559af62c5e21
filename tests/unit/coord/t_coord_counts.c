/* What the coordinator counts: requests by kind, events by kind, recoveries and failures by cause, heartbeats. */
#include "coord_harness.h"

static const GpuSim__StatusResponse *
status(struct harness *h)
{
	GpuSim__StatusRequest q = GPU_SIM__STATUS_REQUEST__INIT;
	uint64_t t = h_ask(h, 9, STATUS, status, &q);

	return h_code(h, t) == 0 ? h_reply(h, t)->status : NULL;
}

static uint64_t
requests(struct harness *h, GpuSim__Request__BodyCase kind)
{
	const GpuSim__StatusResponse *r = status(h);

	for (size_t i = 0; i < r->n_requests; i++)
		if (r->requests[i]->kind == (uint32_t)kind)
			return r->requests[i]->count;
	return 0;
}

static uint64_t
events(struct harness *h, GpuSim__EventKind kind)
{
	const GpuSim__StatusResponse *r = status(h);

	return (size_t)kind < r->n_eventcounts ? r->eventcounts[kind] : UINT64_MAX;
}

static void
die(struct harness *h, uint64_t id)
{
	struct coord_event ev = {.kind = COORD_EXITED, .pid = h_pid(h, id), .status = 9};

	h->alive[id] = false;
	h_step(h, &ev);
	h_serve(h);
}

/* Its connection breaks; then its parent tells, once. Who watches events must hear of both. */
static void
t_ended(void)
{
	struct coord_event broke = {
	    .kind = COORD_UNREACHABLE, .device_id = 2, .text = "ipc:///dev2"};
	struct harness h;

	h_init(&h);
	h_devices(&h, 2);
	h_step(&h, &broke);
	ok(events(&h, GPU_SIM__EVENT_KIND__LOST) == 1 &&
	       events(&h, GPU_SIM__EVENT_KIND__ENDED) == 0,
	   "a device is lost, and nobody knows how it ended");
	die(&h, 2);
	ok(events(&h, GPU_SIM__EVENT_KIND__LOST) == 1 &&
	       events(&h, GPU_SIM__EVENT_KIND__ENDED) == 1,
	   "how it ended is an event of its own");
	die(&h, 2);
	ok(events(&h, GPU_SIM__EVENT_KIND__ENDED) == 1, "once");
	h_fini(&h);
}

static void
t_requests(void)
{
	struct harness h;

	h_init(&h);
	ok(requests(&h, GPU_SIM__REQUEST__BODY_STATUS) == 1 &&
	       requests(&h, GPU_SIM__REQUEST__BODY_STATUS) == 2,
	   "a request is counted, the one that asks too");
	h_devices(&h, 3);
	ok(requests(&h, GPU_SIM__REQUEST__BODY_REGISTER_DEVICE) == 3 &&
	       requests(&h, GPU_SIM__REQUEST__BODY_COMM_INIT) == 0,
	   "by its kind");
	h_fini(&h);
}

static void
t_failures(void)
{
	const GpuSim__StatusResponse *r;
	struct harness h;

	h_init(&h);
	h.policy = GPUSIM_ON_FAILURE_SHRINK;
	h_devices(&h, 4);
	h_comm(&h, 9, 2);
	r = status(&h);
	ok(r->n_recoveries == 0 && r->n_failures == 0, "nothing has failed yet");
	die(&h, 2);
	r = status(&h);
	ok(r->n_recoveries == 1 && r->n_failures == 0 &&
	       r->recoveries[0]->onfailure == GPU_SIM__ON_FAILURE__SHRINK &&
	       r->recoveries[0]->code == RC_UNREACHABLE && r->recoveries[0]->count == 1,
	   "a recovery, by policy and cause");
	h.policy = GPUSIM_ON_FAILURE_ABORT;
	h_comm(&h, 9, 2);
	die(&h, 3);
	r = status(&h);
	ok(r->n_recoveries == 1 && r->n_failures == 1 &&
	       r->failures[0]->onfailure == GPU_SIM__ON_FAILURE__ABORT &&
	       r->failures[0]->code == RC_UNREACHABLE && r->failures[0]->count == 1,
	   "a failure for good");
	ok(events(&h, GPU_SIM__EVENT_KIND__STARTED) == 1 &&
	       events(&h, GPU_SIM__EVENT_KIND__JOINED) == 4 &&
	       events(&h, GPU_SIM__EVENT_KIND__LOST) == 2 &&
	       events(&h, GPU_SIM__EVENT_KIND__BACK) == 0 &&
	       events(&h, GPU_SIM__EVENT_KIND__RECOVERED) == 1 &&
	       events(&h, GPU_SIM__EVENT_KIND__COMM_FAILED) == 1,
	   "events by kind");
	h_fini(&h);
}

static void
t_heartbeats(void)
{
	struct harness h;
	uint64_t missed;

	h_init(&h);
	h_devices(&h, 2);
	h_advance(&h, 10 * H_BEAT_MS);
	ok(status(&h)->beatsmissed == 0, "none is missed of devices that live");
	h.alive[2] = false;
	h_advance(&h, 3 * H_BEAT_MS);
	h.alive[2] = true;
	h_advance(&h, H_BEAT_MS);
	missed = status(&h)->beatsmissed;
	ok(missed == 3, "three are, which their device's next word settles");
	h.alive[1] = false;
	h_advance(&h, 2 * H_LOST_MS);
	ok(events(&h, GPU_SIM__EVENT_KIND__LOST) == 1 && status(&h)->beatsmissed == missed + 4,
	   "and those of a silence that is its loss");
	missed = status(&h)->beatsmissed;
	h_advance(&h, 2 * H_LOST_MS);
	ok(status(&h)->beatsmissed == missed, "a lost device misses no more");
	h_fini(&h);
}

int
main(void)
{
	t_requests();
	t_ended();
	t_failures();
	t_heartbeats();
	return tap_done();
}
