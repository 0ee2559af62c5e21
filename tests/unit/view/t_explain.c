/* A world in words: each test sets one up, and looks for a sentence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "tap.h"
#include "view/explain.h"
#include "world_test.h"

#define RANKS 4u
#define NOW   UINT64_C(1700000000000000000)

/* A communicator of four ranks with a recorder each. */
struct stage {
	GpuSim__StatusResponse status;
	GpuSim__DeviceMetadata m[RANKS], *mp[RANKS];
	GpuSim__DeviceId id[RANKS];
	GpuSim__CommSummary comm, *commp[1];
	GpuSim__DeviceLoss loss;
	GpuSim__Work work[RANKS], *workp[RANKS];
	uint64_t ids[RANKS];
	struct area *area[RANKS];
	struct flight_writer w[RANKS];
	char process[RANKS];
	uint32_t tracer[RANKS];
	char client[RANKS]; /* the state of the process of a queue, and of a thread */
	struct world_holder holder;
	bool alone; /* communicators are only known from recorders */
	struct buf text;
	struct explanation how;
};

static void
stage_init(struct stage *g)
{
	memset(g, 0, sizeof *g);
	gpu_sim__status_response__init(&g->status);
	gpu_sim__comm_summary__init(&g->comm);
	gpu_sim__device_loss__init(&g->loss);
	g->status.n_devices = RANKS;
	g->status.devices = g->mp;
	g->status.n_comms = 1;
	g->status.comms = g->commp;
	g->commp[0] = &g->comm;
	g->comm.commid = 7;
	g->comm.epoch = 1;
	g->comm.optimeoutms = 30000;
	g->comm.n_deviceids = RANKS;
	g->comm.deviceids = g->ids;
	for (uint32_t r = 0; r < RANKS; r++) {
		gpu_sim__device_metadata__init(&g->m[r]);
		gpu_sim__device_id__init(&g->id[r]);
		gpu_sim__work__init(&g->work[r]);
		g->workp[r] = &g->work[r];
		g->mp[r] = &g->m[r];
		g->m[r].deviceid = &g->id[r];
		g->m[r].ordinal = r;
		g->m[r].commid = 7;
		g->m[r].pid = 4710 + r;
		g->ids[r] = g->id[r].value = r + 1;
		g->process[r] = 'S';
		g->area[r] = area_new();
		area_open(g->area[r], r + 1);
		flight_take(g->area[r]->flight, FLIGHT_STREAM, 0, 0, 0, "stream 0", &g->w[r]);
	}
}

/* Rank r is in an operation and has waited for a rank, + 1, for 5 s. */
static struct flight_live *
enter(struct stage *g, uint32_t r, unsigned coll, uint64_t seq, uint32_t step, uint32_t waits_for)
{
	struct flight_live *l = &g->w[r].ring->live;
	struct flight_moment now;

	ticks_moment(&now);
	l->op = (struct flight_op){.kind = FLIGHT_OP,
				   .coll = (uint8_t)coll,
				   .dtype = GPUSIM_F32,
				   .begin = now.ticks - 6 * ticks_hz(),
				   .comm = 7,
				   .seq = seq,
				   .count = 2 << 20,
				   .epoch = 1,
				   .rank = (uint16_t)r,
				   .nranks = RANKS};
	atomic_store(&l->step, step);
	atomic_store(&l->steps, 6);
	atomic_store(&l->waits_for, waits_for);
	atomic_store(&l->since, now.ticks - 5 * ticks_hz());
	atomic_store(&l->turn, 1);
	return l;
}

/* The text, and the end of the stage. */
static void
stage_explain(struct stage *g)
{
	struct world *w = NULL;
	struct err err = {0};

	world_new(message_copy(&g->status), NULL, clock_wall_ms() * NS_PER_MS, &w, &err);
	for (uint32_t r = 0; r < RANKS; r++) {
		flight_beat(g->area[r]->flight, 0, 0);
		flight_offset(g->area[r]->flight, 0, 0);
		world_read(w, r, &g->area[r]->source, SIZE_MAX, &err);
		w->device[r].process = g->process[r];
		w->device[r].tracer = g->tracer[r];
		for (size_t i = 0; i < w->device[r].recorder->nrings; i++)
			w->device[r].recorder->ring[i].process =
			    w->device[r].recorder->ring[i].thread = g->client[r];
	}
	w->holder[0] = g->holder;
	world_clocks(w);
	if (g->alone && world_alone(w, &err) != RC_OK)
		tap_bail("no communicators");
	explain_world(w, &g->text, &g->how);
	must_add(&g->text, "", 1);
	world_free(w);
	for (uint32_t r = 0; r < RANKS; r++) {
		flight_give(&g->w[r]);
		area_close(g->area[r]);
		free(g->area[r]);
	}
}

/* All of these are in the text; NULL ends them. It is freed. */
static bool
says(struct stage *g, enum explain_state state, const char *const *want)
{
	bool good = g->how.state == state;

	for (; *want; want++)
		if (!strstr(g->text.data, *want)) {
			printf("# not in it: %s\n", *want);
			good = false;
		}
	if (!good)
		printf("# state %s:\n# %s\n", explain_state_name(g->how.state), g->text.data);
	buf_fini(&g->text);
	return good;
}

#define SAYS(g, state, ...) says((g), (state), (const char *const[]){__VA_ARGS__, NULL})

static void
ring_but(struct stage *g, uint32_t odd)
{
	for (uint32_t r = 0; r < RANKS; r++)
		if (r != odd)
			enter(g, r, GPUSIM_ALLREDUCE, 7, 3, (r + RANKS - 1) % RANKS + 1);
}

static void
test_idle(void)
{
	struct stage g;

	stage_init(&g);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_IDLE, "comm 7 (4 ranks, epoch 1): is idle.", "Nothing waits."),
	   "there is no operation");
}

static void
test_stopped(void)
{
	struct stage g;

	stage_init(&g);
	ring_but(&g, RANKS);
	g.process[2] = 'T';
	stage_explain(&g);
	ok(SAYS(
	       &g, EXPLAIN_WAITS,
	       "allreduce #7 (4 ranks, 8 MiB of f32, sum) has been waiting for 5.",
	       "rank 2 (device 0000000000000003, pid 4712) is stopped in step 3 of 6; rank 3 waits "
	       "for it; ranks 0 and 1 wait in turn.",
	       "To go on: kill -CONT 4712, or gpuctl comm-abort 7. It fails by itself after 30.0 s "
	       "without progress."),
	   "a device is stopped in the operation");
}

static void
test_missing(void)
{
	struct stage g;

	stage_init(&g);
	ring_but(&g, 1);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS, "rank 1 (device 0000000000000002, pid 4711) has not called it",
		"rank 2 waits for it; ranks 0 and 3 wait in turn",
		"have the rank's program call it, or gpuctl comm-abort 7"),
	   "a rank has not called");
}

/* Rank 1 is in a collective of ranks 1 and 2. */
static void
test_members(void)
{
	static const uint32_t members[] = {1, 2};
	struct stage g;
	bool alone;

	stage_init(&g);
	enter(&g, 1, GPUSIM_ALLREDUCE, 7, 3, 3)->op.group =
	    flight_group(g.area[1]->flight, "tp1", members, 2);
	stage_explain(&g);
	alone = !strstr(g.text.data, "rank 0 ") && !strstr(g.text.data, "rank 3 ");
	ok(alone && SAYS(&g, EXPLAIN_WAITS,
			 "allreduce #7 (tp1 of 2 ranks, 8 MiB of f32, sum) has been waiting",
			 "rank 2 (device 0000000000000003, pid 4712) has not called it; rank 1 "
			 "waits for it"),
	   "a member has not called");
}

static void
test_lost(void)
{
	struct stage g;

	stage_init(&g);
	ring_but(&g, RANKS);
	g.m[0].state = 1;
	g.m[0].loss = &g.loss;
	g.loss.why = (char *)"killed by signal 9";
	g.loss.remedy = (char *)"is being started again";
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		"rank 0 (device 0000000000000001, pid 4710) is lost, killed by signal 9 in",
		"it is being started again", "wait until it is back"),
	   "a device is lost");
}

static void
test_differ(void)
{
	struct stage g;

	stage_init(&g);
	ring_but(&g, 3);
	enter(&g, 3, GPUSIM_BROADCAST, 7, 1, 0);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		"rank 3 (device 0000000000000004, pid 4713) is in broadcast #7 (4 ranks, 8 MiB of "
		"f32, root 0), and rank 0 in allreduce #7",
		"the same operations in the same order"),
	   "a rank is in another operation");
	stage_init(&g);
	ring_but(&g, 3);
	enter(&g, 3, GPUSIM_ALLREDUCE, 7, 1, 3)->op.dtype = GPUSIM_F64;
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		"rank 3 (device 0000000000000004, pid 4713) is in allreduce #7 (4 ranks, 16 MiB of "
		"f64, sum), and rank 0 in allreduce #7 (4 ranks, 8 MiB of f32, sum)",
		"same size, type, reduction and root"),
	   "or of another type");
}

static void
test_apart(void)
{
	struct stage g;

	stage_init(&g);
	ring_but(&g, RANKS);
	enter(&g, 2, GPUSIM_ALLREDUCE, 7, 2, 2);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		"are alive, but receive nothing from each other: the network between them is cut",
		"repair the network"),
	   "two ranks receive nothing from each other");
}

static void
test_slow(void)
{
	struct stage g;

	stage_init(&g);
	ring_but(&g, RANKS);
	enter(&g, 1, GPUSIM_ALLREDUCE, 7, 2, 0);
	flight_mark(&g.w[1], &(struct flight_mark){.what = FLIGHT_MARK_FAULT}, "slow by=2s");
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		"rank 1 (device 0000000000000002, pid 4711) is slow in step 2 of 6 (fault: slow "
		"by=2s)",
		"gpuctl inject clear"),
	   "a fault slows a rank down");
}

static void
test_calls(void)
{
	struct stage g;

	stage_init(&g);
	for (uint32_t r = 0; r < 3; r++) {
		g.work[r].rank = r;
		g.work[r].forms = 2500;
		g.work[r].known = true;
		g.work[r].dtype = GPU_SIM__DATA_TYPE__F64;
		g.work[r].nelem = 128 << r / 2;
	}
	g.comm.calls = g.workp;
	g.comm.n_calls = 3;
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		"allreduce of 1 KiB of f64, sum has been waiting for 2.5 s: rank 3 has not called "
		"it; ranks "
		"0-2 have",
		"they do not agree: rank 0 calls allreduce of 1 KiB of f64, sum, and rank 2 "
		"allreduce of 2 KiB of f64, sum"),
	   "calls that wait to meet");
}

static void
test_group(void)
{
	struct stage g;

	stage_init(&g);
	g.work[0].forms = 3000;
	g.work[0].clientid = 9;
	g.work[0].nops = 4;
	g.comm.groups = g.workp;
	g.comm.n_groups = 1;
	g.comm.clientid = 9;
	g.comm.program = (char *)"lab";
	g.comm.pid = 99;
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		"a group has been open for 3.0 s: it holds 4 operations of client "
		"0000000000000009 (lab, pid 99)",
		"end the group, or gpuctl comm-abort 7"),
	   "a group that never ends");
}

/* Rank r does something else, for 5 s. */
static struct flight_now *
busy(struct stage *g, uint32_t r, enum flight_task what)
{
	struct flight_now *now = &g->w[r].ring->now;

	g->w[r].ring->kind = FLIGHT_QUEUE;
	g->w[r].ring->pid = 99;
	now->since = ticks_now() - 5 * ticks_hz();
	atomic_store(&now->what, what);
	return now;
}

static void
test_tasks(void)
{
	struct stage g;
	struct flight_now *now;

	stage_init(&g);
	ring_but(&g, 1);
	strcpy(busy(&g, 1, FLIGHT_TASK_KERNEL)->name, "spin");
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		"pid 4711) has not reached it: its stream runs kernel spin for 5.",
		"wait for the kernel") &&
	       strcmp(g.how.cause, "kernel") == 0,
	   "a kernel runs before it");
	stage_init(&g);
	ring_but(&g, 1);
	busy(&g, 1, FLIGHT_TASK_HOST)->tid = 98;
	g.client[1] = 'R';
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		"waits for a host function of its program, pid 99, which computes (thread 98)",
		"see where thread 98 of pid 99 is blocked"),
	   "a host function computes");
	stage_init(&g);
	ring_but(&g, 1);
	busy(&g, 1, FLIGHT_TASK_HOST);
	g.comm.queued = true;
	g.client[1] = 'T';
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS, "has not called it: its program, pid 99, is stopped",
		"kill -CONT 99") &&
	       strcmp(g.how.cause, "program") == 0,
	   "or its program is stopped");
	stage_init(&g);
	ring_but(&g, 1);
	now = busy(&g, 1, FLIGHT_TASK_QUEUE);
	g.w[0].ring->kind = FLIGHT_QUEUE;
	now->queue = g.w[0].ring->id = 3;
	now->device = 1;
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS, "its stream waits for an event of another stream for 5.",
		"; that stream is in allreduce #7 of comm 7, where it waits for rank 3") &&
	       strcmp(g.how.cause, "event") == 0,
	   "an event after the operation itself, on another device");
	stage_init(&g);
	ring_but(&g, 1);
	busy(&g, 1, FLIGHT_TASK_COPY)->what = FLIGHT_NTASKS;
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS, "has not called it"), "a task of no known kind is none");
}

static void
test_marks(void)
{
	struct flight_mark group = {.what = FLIGHT_MARK_GROUP, .comm = 7, .epoch = 1, .value = 2};
	struct stage g;

	stage_init(&g);
	ring_but(&g, 1);
	group.at = ticks_now() - 3 * ticks_hz();
	flight_mark(&g.w[1], &group, NULL);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		"has called it in a group: its program holds 2 operations in a group that is open "
		"for 3.",
		"ncclGroupEnd"),
	   "a group is open");
	stage_init(&g);
	flight_mark(&g.w[1], &group, NULL);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS, "is in no operation, and the next one will wait: rank 1") &&
	       strcmp(g.how.cause, "group") == 0,
	   "without an operation");
	stage_init(&g);
	ring_but(&g, 1);
	flight_mark(&g.w[1], &group, NULL);
	group.value = 0;
	flight_mark(&g.w[1], &group, NULL);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS, "pid 4711) has not called it;"), "it has ended");
	stage_init(&g);
	ring_but(&g, 1);
	flight_mark(&g.w[1], &(struct flight_mark){.what = FLIGHT_MARK_NOMEM, .value = 65 << 20},
		    NULL);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS, "has not called it: its device had no memory for 65 MiB at",
		"free memory, or start devices with a larger --mem") &&
	       strcmp(g.how.cause, "no-memory") == 0,
	   "it had no memory");
}

/* All four send to the next, or receive from it. */
static void
circle(struct stage *g, unsigned coll, uint8_t ways)
{
	for (uint32_t r = 0; r < RANKS; r++) {
		struct flight_live *l = enter(g, r, coll, 100 + r, 1, (r + 1) % RANKS + 1);

		l->op.root = (r + 1) % RANKS;
		l->op.flags = ways;
	}
}

static void
test_circles(void)
{
	struct stage g;

	stage_init(&g);
	circle(&g, GPUSIM_SEND, FLIGHT_SENDS);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS, "ranks 0-3 send, and none of them receives.",
		"group the sends with the receives: ncclGroupStart") &&
	       strcmp(g.how.cause, "all-send") == 0,
	   "all send");
	stage_init(&g);
	circle(&g, GPUSIM_RECV, FLIGHT_RECEIVES);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS, "ranks 0-3 receive, and none of them sends."), "all receive");
	stage_init(&g);
	circle(&g, GPUSIM_SEND, FLIGHT_SENDS | FLIGHT_RECEIVES);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS, "the network between them is cut"), "in groups they do both");
	stage_init(&g);
	enter(&g, 0, GPUSIM_ALLREDUCE, 7, 2, 2);
	enter(&g, 1, GPUSIM_RECV, 100, 1, 1)->op.flags = FLIGHT_RECEIVES;
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		" is in allreduce #7 (4 ranks, 8 MiB of f32, sum), and rank 1 in recv",
		"the same operations in the same order"),
	   "a collective here, a receive there");
	stage_init(&g);
	enter(&g, 0, GPUSIM_SEND, 100, 1, 2)->op.flags = FLIGHT_SENDS;
	enter(&g, 1, GPUSIM_RECV, 100, 1, 1)->op.flags = FLIGHT_RECEIVES;
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS, "the network between them is cut"), "a matching pair");
}

static void
test_processes(void)
{
	struct stage g;

	stage_init(&g);
	ring_but(&g, RANKS);
	g.process[2] = 't';
	g.tracer[2] = 77;
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS, "pid 4712) is held by a debugger, pid 77 in step 3 of 6",
		"have the debugger, pid 77, continue or detach pid 4712") &&
	       strcmp(g.how.cause, "debugger") == 0,
	   "a debugger has a device");
	stage_init(&g);
	g.comm.clientid = 9;
	g.comm.pid = 99;
	g.comm.program = (char *)"lab";
	g.holder.process = 'T';
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		"is in no operation: its client 0000000000000009 (lab, pid 99) is stopped.",
		"To go on: kill -CONT 99, or gpuctl comm-abort 7."),
	   "the client that holds it is stopped");
	stage_init(&g);
	ring_but(&g, 1);
	g.comm.clientid = 9;
	g.comm.pid = 99;
	g.comm.program = (char *)"lab";
	g.holder = (struct world_holder){'t', 77};
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_WAITS,
		"Its client 0000000000000009 (lab, pid 99) is held by a debugger, pid 77."),
	   "also during an operation");
}

/* An operation of rank r has ended; *wait: for a rank, in it. */
static void
finish(struct stage *g, uint32_t r, uint64_t seq, double begin_s, double end_s, enum rc rc,
       uint32_t waited_for)
{
	union flight_record *to = flight_next(&g->w[r]);
	uint64_t now = ticks_now(), begin = now - (uint64_t)(begin_s * (double)ticks_hz()),
		 end = now - (uint64_t)(end_s * (double)ticks_hz());

	if (waited_for) {
		*to = (union flight_record){.step = {.kind = FLIGHT_WAIT,
						     .step = 1,
						     .begin = begin,
						     .end = end,
						     .comm = 7,
						     .seq = seq,
						     .waited = end - begin,
						     .epoch = 1,
						     .peer = waited_for}};
		flight_put(&g->w[r]);
		to = flight_next(&g->w[r]);
	}
	*to = (union flight_record){.op = {.kind = FLIGHT_OP,
					   .coll = GPUSIM_ALLREDUCE,
					   .result = (uint8_t)rc,
					   .begin = begin,
					   .end = end,
					   .comm = 7,
					   .seq = seq,
					   .epoch = 1,
					   .rank = (uint16_t)r,
					   .nranks = RANKS}};
	flight_put(&g->w[r]);
}

static void
test_late(void)
{
	struct stage g;

	stage_init(&g);
	for (uint64_t n = 0; n < 5; n++)
		for (uint32_t r = 0; r < RANKS; r++)
			finish(&g, r, n, r == 2 ? 5.01 - (double)n : 5.7 - (double)n, 5 - (double)n,
			       RC_OK, r == 2 ? 0 : 3);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_GOES_ON, "rank 2 (device 0000000000000003, pid 4712) is late by ",
		" ms an operation, on average of the last 5", "gpuctl stragglers") &&
	       strcmp(g.how.cause, "straggler") == 0,
	   "a straggler");
	stage_init(&g);
	for (uint64_t n = 0; n < 5; n++)
		for (uint32_t r = 0; r < RANKS; r++)
			finish(&g, r, n, 5.7 - (double)n, 5.69 - (double)n, RC_OK,
			       (r + n) % RANKS + 1);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_IDLE, "is idle."), "all wait for all, and not for long");
}

static void
test_last(void)
{
	struct stage g;

	stage_init(&g);
	g.comm.status = GPU_SIM__STATUS__FAILED;
	g.comm.reason = (char *)"rank 1 is lost";
	for (uint32_t r = 0; r < RANKS; r++)
		finish(&g, r, 1, 3, 2, RC_OK, 0);
	finish(&g, 0, 2, 2, 1, RC_OK, 0);
	finish(&g, 2, 2, 2, 1, RC_ABORTED, 0);
	finish(&g, 3, 2, 2, 0.9, RC_OK, 0);
	enter(&g, 1, GPUSIM_ALLREDUCE, 2, 3, 0);
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_FAILED,
		"allreduce #2 failed, although ranks 0 and 3 finished it: ranks 1 and 2 did not.",
		"Last finished: allreduce #1 at"),
	   "an operation that some ranks finished has failed");
}

/* The same recorders without the coordinator's answers. */
static void
test_alone(void)
{
	struct stage g;

	stage_init(&g);
	ring_but(&g, RANKS);
	g.process[2] = 'T';
	for (uint32_t r = 0; r < RANKS; r++)
		flight_mark(&g.w[r],
			    &(struct flight_mark){
				.what = FLIGHT_MARK_ATTACH, .comm = 7, .epoch = 1, .rank = r + 1},
			    NULL);
	g.status.n_comms = 0;
	g.alone = true;
	stage_explain(&g);
	ok(SAYS(
	       &g, EXPLAIN_WAITS, "comm 7 (4 ranks, epoch 1): allreduce #7",
	       "rank 2 (device 0000000000000003, pid 4712) is stopped in step 3 of 6; rank 3 waits "
	       "for it"),
	   "communicators are found in recorders");
	stage_init(&g);
	for (uint32_t r = 0; r < RANKS; r++)
		flight_mark(&g.w[r],
			    &(struct flight_mark){
				.what = FLIGHT_MARK_ATTACH, .comm = 9, .epoch = 2, .rank = r + 1},
			    NULL);
	for (uint32_t r = 0; r < RANKS; r++) {
		finish(&g, r, 1, 3, 2, RC_OK, 0);
		flight_mark(&g.w[r], &(struct flight_mark){.what = FLIGHT_MARK_DETACH, .comm = 7},
			    NULL);
	}
	g.status.n_comms = 0;
	g.alone = true;
	stage_explain(&g);
	ok(SAYS(&g, EXPLAIN_IDLE, "comm 9 (4 ranks, epoch 2): is idle") &&
	       g.how.state == EXPLAIN_IDLE,
	   "those that were destroyed are not");
}

int
main(void)
{
	test_idle();
	test_stopped();
	test_missing();
	test_members();
	test_lost();
	test_differ();
	test_apart();
	test_slow();
	test_calls();
	test_group();
	test_tasks();
	test_marks();
	test_circles();
	test_processes();
	test_late();
	test_last();
	test_alone();
	return tap_done();
}
