/* Worlds as the rows of top: states, rates, waiting, the culprit, cells, order, filter. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "view/rates.h"
#include "view/top.h"
#include "world_test.h"

#define N      4
#define WALL   UINT64_C(1700000000000000000)
#define SECOND UINT64_C(1000000000)

/* Devices 1 to 4 are ranks 3 to 0 of communicator 7. A tick is a ns, tick 0 is at WALL. */
static struct world *
world_of_four(uint64_t ns)
{
	GpuSim__StatusResponse status = GPU_SIM__STATUS_RESPONSE__INIT;
	GpuSim__DeviceMetadata m[N], *devices[N];
	GpuSim__DeviceId id[N];
	GpuSim__MemAddr least = GPU_SIM__MEM_ADDR__INIT, most = GPU_SIM__MEM_ADDR__INIT;
	GpuSim__CommSummary comm = GPU_SIM__COMM_SUMMARY__INIT, *comms[1] = {&comm};
	uint64_t ids[N] = {4, 3, 2, 1};
	struct world *w = NULL;

	most.value = 256 << 20;
	for (uint32_t i = 0; i < N; i++) {
		gpu_sim__device_metadata__init(&m[i]);
		gpu_sim__device_id__init(&id[i]);
		id[i].value = i + 1;
		m[i].deviceid = &id[i];
		m[i].minmemaddr = &least;
		m[i].maxmemaddr = &most;
		m[i].usedbytes = 1536 << 10;
		m[i].ordinal = i;
		m[i].pid = 4710 + i;
		m[i].commid = 7;
		devices[i] = &m[i];
	}
	comm.commid = 7;
	comm.epoch = 3;
	comm.operations = ns / SECOND * 5;
	comm.n_deviceids = N;
	comm.deviceids = ids;
	status.n_devices = N;
	status.devices = devices;
	status.n_comms = 1;
	status.comms = comms;
	world_new(message_copy(&status), NULL, WALL + ns, &w, NULL);
	for (uint32_t i = 0; i < N; i++) {
		struct world_recorder *r = calloc(1, sizeof *r);

		r->ring = aligned_alloc(FLIGHT_LINE, 2 * sizeof *r->ring);
		memset(r->ring, 0, 2 * sizeof *r->ring);
		r->nrings = 2;
		r->clock = (struct flight_clock){0, WALL, 1, 0};
		w->device[i].recorder = r;
		w->device[i].process = 'S';
	}
	return w;
}

static struct flight_ring *
ring_of(struct world *w, size_t device, size_t i)
{
	return &w->device[device].recorder->ring[i].ring;
}

/* The device's stream is in all-reduce #7 since 1 s and waits for a rank since a time; -1: for nobody. */
static void
put_live(struct world *w, size_t device, uint32_t step, int waits_for, uint64_t since)
{
	struct flight_live *l = &ring_of(w, device, 1)->live;

	l->turn = 13;
	l->op = (struct flight_op){.kind = FLIGHT_OP,
				   .coll = GPUSIM_ALLREDUCE,
				   .dtype = GPUSIM_F32,
				   .algo = 1,
				   .begin = SECOND,
				   .comm = 7,
				   .seq = 7,
				   .count = 2 << 20,
				   .rank = (uint16_t)(N - 1 - device),
				   .nranks = N};
	l->step = step;
	l->steps = 6;
	l->waits_for = (uint32_t)(waits_for + 1);
	l->since = since;
}

static bool
shows(const struct top_device *d, enum top_column c, const char *text)
{
	char cell[TOP_CELL];

	top_cell(d, c, cell);
	if (strcmp(cell, text) != 0)
		printf("# %s: %s\n", top_heading(c), cell);
	return strcmp(cell, text) == 0;
}

static void
test_rates(void)
{
	struct world *before = world_of_four(10 * SECOND), *now = world_of_four(12 * SECOND);
	struct top *t;

	ring_of(before, 1, 0)->counts.sent = 1000;
	ring_of(now, 1, 0)->counts.sent = 1000 + (3 << 20);
	ring_of(now, 1, 1)->counts.sent = 1 << 20;
	ring_of(now, 1, 0)->counts.received = 2000;
	ring_of(now, 1, 0)->counts.busy_ns = SECOND;
	ring_of(now, 1, 0)->counts.op[2][1].n = 5;
	ring_of(now, 1, 1)->counts.op[0][5].n = 4;
	ring_of(now, 2, 0)->counts.sent = 7;
	now->device[2].recorder->header.incarnation = 9;
	put_live(now, 3, 1, -1, 0);
	ring_of(now, 3, 1)->live.op.begin = 11 * SECOND;
	ok(top_new(now, before, &t, NULL) == RC_OK && t->seconds == 2, "two worlds");
	ok(shows(&t->device[1], TOP_OUT, "2M") && shows(&t->device[1], TOP_IN, "1K"),
	   "bytes a second over all rings");
	ok(shows(&t->device[1], TOP_BUSY, "50%") && shows(&t->device[1], TOP_OPS, "4.5"),
	   "the share of busy time, operations a second");
	ok(shows(&t->device[0], TOP_OUT, "-") && shows(&t->device[0], TOP_BUSY, "0%"),
	   "nothing happened");
	ok(t->device[2].out == 0, "a device that was started again has no rate yet");
	ok(shows(&t->device[3], TOP_BUSY, "50%"), "an operation that runs counts so far");
	ok(t->ncomms == 1 && t->comm[0].ops == 5, "operations of the communicator");
	top_free(t);
	ok(top_new(now, NULL, &t, NULL) == RC_OK && t->seconds == 0 && t->device[1].out == 0,
	   "one world has no rates");
	top_free(t);
	ok(top_new(before, now, &t, NULL) == RC_OK && t->device[1].out == 0 && t->comm[0].ops == 0,
	   "a clock that went back has none");
	top_free(t);
	world_free(before);
	world_free(now);
}

/* States and shares are of the time between two worlds, and no share of one stream is more than all of it. */
static void
test_between(void)
{
	struct world *before = world_of_four(10 * SECOND), *now = world_of_four(11 * SECOND);
	struct rates r;
	struct top *t;

	for (unsigned i = 0; i < N; i++) {
		put_live(now, i, 1, -1, 0);
		ring_of(now, i, 1)->live.turn = 14; /* it has ended */
	}
	ring_of(now, 0, 1)->counts.busy_ns = SECOND * 9 / 10;
	ring_of(now, 1, 1)->counts.busy_ns = SECOND / 1000;
	ring_of(now, 2, 1)->counts.busy_ns = SECOND + SECOND / 100;
	now->status->devices[3]->commid = 0;
	ring_of(now, 3, 1)->counts.busy_ns = SECOND / 2;
	for (unsigned i = 0; i < 2; i++)
		for (unsigned k = 0; k < N; k++)
			ring_of(now, k, i)->counts.waited_ns = 3 * SECOND;
	ok(top_new(now, before, &t, NULL) == RC_OK && t->device[0].state == TOP_RUNS &&
	       shows(&t->device[0], TOP_BUSY, "90%") &&
	       shows(&t->device[0], TOP_OP, "allreduce #7 8M ring") &&
	       shows(&t->device[0], TOP_STEP, "-"),
	   "a device that has worked is running, also between two operations");
	ok(t->device[1].state == TOP_IDLE && shows(&t->device[1], TOP_BUSY, "0%"),
	   "a device that has hardly worked is idle");
	ok(shows(&t->device[2], TOP_BUSY, "100%"), "a stream is busy all of the time at most");
	ok(t->device[3].state == TOP_RUNS, "of a communicator that has ended, too");
	rates_between(now, before, &r);
	ok(r.waiting == 1, "and waits all of the time at most: %g", r.waiting);
	top_free(t);
	ok(top_new(now, NULL, &t, NULL) == RC_OK && t->device[0].state == TOP_IDLE &&
	       t->device[3].state == TOP_FREE,
	   "a single world has no more information");
	top_free(t);
	world_free(before);
	world_free(now);
}

/* Device 0 (rank 3) sends a chunk of 10,000 bytes to rank 1 (device 2), which takes 4 s, since 9 s. */
static void
test_slow_link(void)
{
	struct world *before = world_of_four(10 * SECOND), *now = world_of_four(11 * SECOND),
		     *w[] = {before, now};
	struct top *t;

	for (unsigned i = 0; i < 2; i++) {
		struct flight_live *l = &ring_of(w[i], 0, 1)->live;

		put_live(w[i], 0, 2, -1, 0);
		put_live(w[i], 2, 2, 3, 9 * SECOND);
		l->way_to = 2;
		l->way_bytes = 10000;
		l->way_begin = 9 * SECOND;
		l->way_end = 13 * SECOND;
	}
	top_new(now, before, &t, NULL);
	ok(t->device[0].out == 2500 && t->device[2].in == 2500 && t->device[0].in == 0 &&
	       t->device[2].out == 0,
	   "a chunk on its way counts as far as it is, at both ends: %g %g", t->device[0].out,
	   t->device[2].in);
	ok(shows(&t->device[0], TOP_STEP, "2/6:50%") && shows(&t->device[2], TOP_STEP, "2/6:50%") &&
	       shows(&t->device[1], TOP_STEP, "-"),
	   "how far it is");
	top_free(t);
	ring_of(now, 0, 1)->live.way_to = 0;
	ring_of(now, 0, 1)->counts.sent = ring_of(now, 2, 1)->counts.received = 10000;
	ok(top_new(now, before, &t, NULL) == RC_OK && t->device[0].out == 7500 &&
	       t->device[2].in == 7500 && shows(&t->device[0], TOP_STEP, "#--- 2/6"),
	   "when it has come the rest counts");
	top_free(t);
	ring_of(now, 0, 1)->live.way_to = 77;
	ring_of(now, 0, 1)->live.way_end = 1;
	ok(top_new(now, before, &t, NULL) == RC_OK && t->device[0].share < 0, "nonsense is none");
	top_free(t);
	world_free(before);
	world_free(now);
}

static void
test_states(void)
{
	struct world *w = world_of_four(3 * SECOND);
	struct top *t;

	put_live(w, 0, 3, 2, 2 * SECOND);
	put_live(w, 1, 2, 3, 3 * SECOND - 1000);
	w->device[2].process = 'T';
	w->status->devices[3]->state = 1;
	w->status->devices[3]->loss = malloc(sizeof(GpuSim__DeviceLoss));
	gpu_sim__device_loss__init(w->status->devices[3]->loss);
	w->status->devices[3]->loss->why = strdup("killed by signal 9");
	w->status->devices[3]->loss->remedy = strdup("is being started again");
	ok(top_new(w, NULL, &t, NULL) == RC_OK && t->device[0].state == TOP_WAITS &&
	       t->device[1].state == TOP_RUNS && t->device[2].state == TOP_STOPPED &&
	       t->device[3].state == TOP_LOST,
	   "waits, runs, stopped, lost");
	ok(t->count[TOP_WAITS] == 1 && t->count[TOP_LOST] == 1 && t->count[TOP_IDLE] == 0,
	   "counted");
	ok(shows(&t->device[0], TOP_RANK, "7:3") &&
	       shows(&t->device[0], TOP_OP, "allreduce #7 8M ring") &&
	       shows(&t->device[0], TOP_STEP, "##-- 3/6") &&
	       shows(&t->device[0], TOP_WAIT, "r2:1.0s"),
	   "rank, operation, step, waiting");
	ok(shows(&t->device[0], TOP_MEM, "1.5M") && shows(&t->device[0], TOP_PID, "4710") &&
	       shows(&t->device[0], TOP_ID, "0000000000000001"),
	   "memory, process, id");
	ok(t->device[1].waits_rank < 0 && shows(&t->device[2], TOP_WAIT, "<-1"),
	   "a short wait is none; the stopped one is waited for");
	ok(strcmp(t->device[3].note, "killed by signal 9, is being started again") == 0,
	   "why one was lost");
	ok(t->device[0].waits_for == 1, "rank 2 is device 1");
	top_free(t);
	world_free(w);
}

static void
test_culprit(void)
{
	struct world *w = world_of_four(3 * SECOND);
	struct top *t;

	/* Ranks 3, 2 and 1 are devices 0, 1 and 2; each waits for the one before; rank 0 is stopped. */
	for (size_t i = 0; i < 3; i++)
		put_live(w, i, 4 - (uint32_t)i, 2 - (int)i, 2 * SECOND);
	put_live(w, 3, 1, 3, 2 * SECOND);
	w->device[3].process = 'T';
	ok(top_new(w, NULL, &t, NULL) == RC_OK && t->device[3].blamed &&
	       t->device[3].waited_by == 3 && !t->device[0].blamed,
	   "all wait for the stopped one");
	ok(t->comm[0].culprit == 3 && shows(&t->device[3], TOP_WAIT, "<-3"),
	   "it is the communicator's");
	ok(strcmp(t->culprit,
		  "3 wait 1.0 s for rank 7:0 (device 0000000000000004, pid 4713): stopped "
		  "in step 1/6 of allreduce #7 8M ring") == 0,
	   "%s", t->culprit);
	top_free(t);
	w->device[3].process = 'S';
	ok(top_new(w, NULL, &t, NULL) == RC_OK && t->device[3].blamed,
	   "in a cycle it is the one with the least progress");
	top_free(t);
	put_live(w, 2, 1, 0, 2 * SECOND);
	ok(top_new(w, NULL, &t, NULL) == RC_OK && t->comm[0].culprit == TOP_NOBODY && !*t->culprit,
	   "of two that are equally far it is neither");
	top_free(t);
	w->device[3].recorder->ring[1].ring.live.turn = 14;
	ok(top_new(w, NULL, &t, NULL) == RC_OK && t->device[3].state == TOP_IDLE &&
	       t->device[3].blamed && strstr(t->culprit, "in no operation"),
	   "so is a rank that has not entered the operation");
	top_free(t);
	w->device[3].recorder->ring[1].ring.live.turn = 13;
	for (size_t i = 0; i < N; i++)
		put_live(w, i, 1, i == 1 ? 3 : -1, 2 * SECOND);
	w->device[2].process = 'T';
	ok(top_new(w, NULL, &t, NULL) == RC_OK && t->device[2].blamed && !t->device[0].blamed,
	   "a chain that ends at a rank without a recorded wait ends at the stopped one");
	top_free(t);
	w->device[2].process = 'S';
	w->status->comms[0]->n_deviceids = 0;
	ok(top_new(w, NULL, &t, NULL) == RC_OK && !*t->culprit, "ranks that are not there");
	top_free(t);
	world_free(w);
}

/* A device whose recorder is off: heartbeats report. */
static void
test_told(void)
{
	struct world *w = world_of_four(3 * SECOND);
	GpuSim__Progress *p = malloc(sizeof *p);
	GpuSim__CommSummary *c = w->status->comms[0];
	struct top *t;

	free(w->device[1].recorder->ring);
	free(w->device[1].recorder);
	w->device[1].recorder = NULL;
	strcpy(w->device[1].why_not, "its recorder is off");
	gpu_sim__progress__init(p);
	p->commid = 7;
	p->operation = 41;
	p->step = 2;
	p->steps = 3;
	p->idlems = 900;
	p->waitsfor = 1;
	p->rank = 2;
	p->deviceid = 2;
	c->progress = malloc(sizeof *c->progress);
	c->progress[0] = p;
	c->n_progress = 1;
	ok(top_new(w, NULL, &t, NULL) == RC_OK && t->device[1].state == TOP_WAITS &&
	       shows(&t->device[1], TOP_OP, "#41") && shows(&t->device[1], TOP_WAIT, "r0:0.9s") &&
	       t->device[3].blamed && !strcmp(t->device[1].note, "its recorder is off"),
	   "the progress that heartbeats reported of a device without a recorder");
	top_free(t);
	world_free(w);
}

static void
test_order(void)
{
	struct world *before = world_of_four(10 * SECOND), *now = world_of_four(12 * SECOND);
	struct top *t;

	for (size_t i = 0; i < 3; i++)
		ring_of(now, i, 0)->counts.sent = 1000 * (i % 2 + 1);
	put_live(now, 2, 2, 1, 11 * SECOND);
	top_new(now, before, &t, NULL);
	top_sort(t, TOP_OUT, false);
	ok(t->device[0].index == 1 && t->device[1].index == 0 && t->device[2].index == 2 &&
	       t->device[3].index == 3,
	   "rates: largest first, ties by device");
	top_sort(t, TOP_OUT, true);
	ok(t->device[0].index == 3 && t->device[1].index == 0 && t->device[3].index == 1,
	   "and reversed");
	top_sort(t, TOP_DEVICE, true);
	ok(t->device[0].index == 3 && t->device[3].index == 0, "devices reversed");
	top_sort(t, TOP_RANK, false);
	ok(t->device[0].rank == 0 && t->device[3].rank == 3, "by rank");
	for (unsigned c = 0; c < TOP_NCOLUMNS; c++)
		top_sort(t, (enum top_column)c, false);
	top_sort(t, TOP_DEVICE, false);
	ok(t->device[0].index == 0 && t->device[3].index == 3, "and by device again");
	ok(top_matches(&t->device[2], "ALLRED") && !top_matches(&t->device[0], "allred"),
	   "the filter looks at the operation, in any case");
	ok(top_matches(&t->device[0], "idle") && !top_matches(&t->device[2], "idle") &&
	       top_matches(&t->device[0], "") && top_matches(&t->device[0], "4710") &&
	       !top_matches(&t->device[0], "nothing"),
	   "at states, processes; nothing is in all");
	top_free(t);
	world_free(before);
	world_free(now);
}

static void
test_sizes(void)
{
	static const struct {
		double v;
		const char *text;
	} cases[] = {{0, "-"},		{0.4, "-"},
		     {1, "1B"},		{999, "999B"},
		     {1000, "1K"},	{1536, "1.5K"},
		     {10 << 10, "10K"}, {256 << 20, "256M"},
		     {1.2e9, "1.1G"},	{1024.0 * 1024 * 1024 * 1023, "1T"},
		     {-1, "-"}};
	char text[16];
	bool wide = false;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		top_size(cases[i].v, text);
		ok(!strcmp(text, cases[i].text), "%.0f: %s", cases[i].v, text);
	}
	for (double v = 1; v < 1e18; v *= 1.01) {
		top_size(v, text);
		wide = wide || strlen(text) > 4;
	}
	ok(!wide, "at most 4 characters");
}

int
main(void)
{
	test_rates();
	test_between();
	test_slow_link();
	test_states();
	test_culprit();
	test_told();
	test_order();
	test_sizes();
	return tap_done();
}
