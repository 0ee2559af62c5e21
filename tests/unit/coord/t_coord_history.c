/*
 * What has happened: events of devices, communicators and the coordinator, waited for, over a restart, and
 * no more of them than there is room for.
 */
#include "coord_harness.h"

static uint64_t
ask(struct harness *h, uint64_t after, uint32_t wait_ms)
{
	GpuSim__EventsRequest q = GPU_SIM__EVENTS_REQUEST__INIT;

	q.after = after;
	q.waitms = wait_ms;
	return h_ask(h, 9, EVENTS, events, &q);
}

static const GpuSim__EventsResponse *
events(struct harness *h, uint64_t after)
{
	uint64_t t = ask(h, after, 0);

	return h_code(h, t) == 0 ? h_reply(h, t)->events : NULL;
}

/* Event i of them is of that kind, and says that. */
static bool
says(const GpuSim__EventsResponse *r, size_t i, GpuSim__EventKind kind, const char *text)
{
	bool good =
	    i < r->n_events && r->events[i]->kind == kind && strcmp(r->events[i]->text, text) == 0;

	if (!good && i < r->n_events)
		printf("# got %d '%s'\n# for %d '%s'\n", r->events[i]->kind, r->events[i]->text,
		       kind, text);
	return good;
}

static void
exited(struct harness *h, uint64_t id)
{
	struct coord_event ev = {.kind = COORD_EXITED, .pid = h_pid(h, id), .status = 9};

	h->alive[id] = false;
	h_step(h, &ev);
}

static void
come_back(struct harness *h, uint64_t id)
{
	h->incarnation[id] += 1000;
	h->alive[id] = true;
	h_register(h, id);
}

static void
t_story(void)
{
	const GpuSim__EventsResponse *r;
	struct harness h;

	h_init(&h);
	h.policy = GPUSIM_ON_FAILURE_SHRINK;
	h_devices(&h, 2);
	h_comm(&h, 9, 2);
	exited(&h, 2);
	h_serve(&h);
	come_back(&h, 2);
	r = events(&h, 0);
	ok(r->n_events == 6 && r->last == 6 && r->events[5]->number == 6 &&
	       r->events[5]->atms == H_EPOCH_MS + h.now,
	   "events have numbers and a time");
	ok(says(r, 0, GPU_SIM__EVENT_KIND__STARTED, "the coordinator started") &&
	       says(r, 1, GPU_SIM__EVENT_KIND__JOINED,
		    "device 0000000000000001 (gpu 0) joined at ipc:///dev1, pid 100501") &&
	       says(r, 2, GPU_SIM__EVENT_KIND__JOINED,
		    "device 0000000000000002 (gpu 0) joined at ipc:///dev2, pid 200502"),
	   "the coordinator starts, devices join");
	ok(says(r, 3, GPU_SIM__EVENT_KIND__LOST,
		"device 0000000000000002 (gpu 0), rank 1 of comm 1, lost: killed by signal 9") &&
	       r->events[3]->deviceid == 2 && r->events[3]->commid == 1 && r->events[3]->rank == 2,
	   "one is lost, a rank of a communicator");
	ok(r->events[4]->kind == GPU_SIM__EVENT_KIND__RECOVERED && r->events[4]->commid == 1 &&
	       strstr(r->events[4]->text,
		      "comm 1 has recovered: rank 1 (device 0000000000000002) lost"),
	   "which recovers");
	ok(says(r, 5, GPU_SIM__EVENT_KIND__RESTARTED,
		"device 0000000000000002 (gpu 0) was restarted, pid 201502"),
	   "then somebody starts it again");
	h.alive[1] = false;
	h_advance(&h, H_LOST_MS + 200);
	h_serve(&h);
	h.alive[1] = true;
	h_advance(&h, H_BEAT_MS);
	r = events(&h, 6);
	ok(r->n_events == 3 && r->events[0]->kind == GPU_SIM__EVENT_KIND__LOST &&
	       r->events[1]->kind == GPU_SIM__EVENT_KIND__COMM_FAILED &&
	       says(r, 2, GPU_SIM__EVENT_KIND__BACK,
		    "device 0000000000000001 (gpu 0), rank 0 of comm 1, has returned"),
	   "a communicator fails, a device is back");
	h_crash(&h);
	h_advance(&h, H_BEAT_MS);
	h_serve(&h);
	r = events(&h, 0);
	ok(r->n_events == 10 && r->last == 10 &&
	       says(r, 9, GPU_SIM__EVENT_KIND__STARTED,
		    "the coordinator was restarted, with 2 devices and 1 communicator"),
	   "all of it is there after a restart, and nothing twice");
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

static void
t_follow(void)
{
	struct harness h;
	uint64_t a, b, t;

	h_init(&h);
	h_devices(&h, 1);
	a = ask(&h, 2, 10000);
	b = ask(&h, 2, 2000);
	ok(h_code(&h, a) == -1 && h_code(&h, b) == -1, "what has not happened is waited for");
	h_advance(&h, 2100);
	ok(h_code(&h, b) == 0 && h_reply(&h, b)->events->n_events == 0 &&
	       h_reply(&h, b)->events->last == 2,
	   "for as long as was said");
	exited(&h, 1);
	ok(h_code(&h, a) == 0 && h_reply(&h, a)->events->n_events == 1 &&
	       h_reply(&h, a)->events->events[0]->number == 3,
	   "and told when it has");
	t = ask(&h, 99, 10000);
	ok(h_code(&h, t) == 0 && h_reply(&h, t)->events->last == 3,
	   "who knows more than there is hears at once");
	ok(h_clean(&h), "all answers came once");
	h_fini(&h);
}

/* Devices that come and go fill the ring, and no more than that is stored. */
static void
t_bound(void)
{
	const GpuSim__EventsResponse *r;
	struct harness h;
	size_t stored = 0;
	bool good = true;
	GpuSim__HistoryEvent m = GPU_SIM__HISTORY_EVENT__INIT;
	char text[] = "old";
	uint8_t old[64];
	struct err err = {0};

	h_init(&h);
	h_devices(&h, 1);
	for (int i = 0; i < 600; i++) {
		exited(&h, 1);
		come_back(&h, 1);
	}
	h_crash(&h);
	h_advance(&h, 100);
	for (size_t i = 0; i < h.nrecord; i++)
		stored += strncmp(h.record[i].key, "6/", 2) == 0;
	r = events(&h, 0);
	for (size_t i = 0; i < r->n_events; i++)
		good &= r->events[i]->number == r->last - r->n_events + 1 + i;
	ok(r->last == 1203 && r->n_events == 1024 && good && stored == 1024,
	   "the last 1024 are remembered");
	ok(events(&h, 1200)->n_events == 3, "of which one may ask for the newest");
	/* A ring of another size has left a record of an older event, which would have the same place. */
	m.number = 1203 - 1024;
	m.text = text;
	gpu_sim__history_event__pack(&m, old);
	ok(coord_restore(h.c, "6/event/0cb3", (const char *)old,
			 gpu_sim__history_event__get_packed_size(&m), &h.out, &err) == RC_OK &&
	       events(&h, 0)->n_events == 1024 && events(&h, 1202)->events[0]->number == 1203,
	   "an older record takes no newer event's place");
	h_fini(&h);
}

int
main(void)
{
	t_story();
	t_follow();
	t_bound();
	return tap_done();
}
