/* Recorders as a trace: which events come of which records, how they nest, which arrows are drawn, and what is left out. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "chance.h"
#include "coll/plan.h"
#include "tap.h"
#include "view/timeline.h"
#include "world_test.h"

/* ---- what is written, kept */

static struct buf text;
static bool disk_full;

static enum rc
keep(void *arg, const void *data, size_t n, struct err *err)
{
	(void)arg;
	if (disk_full)
		return err_set(err, RC_FAILED, "No space left on device");
	return buf_add(&text, data, n) ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

static void
keep_nothing(void)
{
	buf_fini(&text);
	buf_add(&text, "", 0);
}

static unsigned
count(const char *what)
{
	unsigned n = 0;

	for (const char *p = text.data; p && (p = strstr(p, what)); p++)
		n++;
	return n;
}

/* A slice as its line has it */
struct slice {
	unsigned pid, tid;
	double begin, dur;
	char cat[16];
};

static bool
slice_of(const char *line, struct slice *out)
{
	return sscanf(line,
		      "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%lf,\"dur\":%lf,\"cat\":\"%15[a-"
		      "z]\"",
		      &out->pid, &out->tid, &out->begin, &out->dur, out->cat) == 5;
}

/* As readers have a slice's times: in floating-point numbers; rounded to ns; cut to ns. */
static double
seen(const struct slice *s, unsigned how, bool end)
{
	if (how == 0)
		return s->begin + (end ? s->dur : 0);
	if (how == 1)
		return nearbyint(s->begin * 1000) + (end ? nearbyint(s->dur * 1000) : 0);
	return trunc(s->begin * 1000) + (end ? trunc(s->dur * 1000) : 0);
}

/* Does each slice either lie within the one before it that is open on its thread, or begin after it? */
static bool
nests_as(unsigned how)
{
	static struct slice open[64][16];
	static unsigned depth[64];
	char *copy = strdup(text.data), *save = NULL;
	bool good = true;

	memset(depth, 0, sizeof depth);
	for (char *l = strtok_r(copy, "\n", &save); l && good; l = strtok_r(NULL, "\n", &save)) {
		struct slice s, *top;

		if (!slice_of(l, &s))
			continue;
		if (s.tid >= 64)
			return false;
		while (depth[s.tid] &&
		       seen(&open[s.tid][depth[s.tid] - 1], how, true) <= seen(&s, how, false))
			depth[s.tid]--;
		top = depth[s.tid] ? &open[s.tid][depth[s.tid] - 1] : NULL;
		good = !top ||
		       (strcmp(s.cat, "op") != 0 && seen(&s, how, true) <= seen(top, how, true) &&
			seen(&s, how, false) >= seen(top, how, false));
		if (!good)
			printf("# (%u) %s: %.3f + %.3f after %.3f + %.3f\n", how, s.cat, s.begin,
			       s.dur, top->begin, top->dur);
		if (depth[s.tid] < 16)
			open[s.tid][depth[s.tid]++] = s;
	}
	free(copy);
	return good;
}

static bool
nests(void)
{
	return nests_as(0) && nests_as(1) && nests_as(2);
}

/* One event a line, in an array that is closed. */
static bool
is_array(void)
{
	char *copy = strdup(text.data), *save = NULL;
	bool good = strncmp(copy, "[\n{", 3) == 0 && strcmp(copy + strlen(copy) - 4, "}\n]\n") == 0;

	for (char *l = strtok_r(copy, "\n", &save); l && good; l = strtok_r(NULL, "\n", &save)) {
		size_t n = strlen(l);

		if (n > 1)
			good = l[0] == '{' && (l[n - 1] == '}' || strcmp(l + n - 2, "},") == 0);
	}
	free(copy);
	return good;
}

/* ---- records, at ticks from a base on */

static uint64_t base;

static void
put(struct flight_writer *w, union flight_record r)
{
	*flight_next(w) = r;
	flight_put(w);
}

static void
op(struct flight_writer *w, unsigned coll, uint32_t rank, uint64_t seq, uint64_t begin,
   uint64_t end)
{
	put(w, (union flight_record){.op = {.kind = FLIGHT_OP,
					    .coll = (uint8_t)coll,
					    .dtype = GPUSIM_F32,
					    .algo = 1,
					    .begin = base + begin,
					    .end = end ? base + end : 0,
					    .comm = 7,
					    .epoch = 3,
					    .seq = seq,
					    .count = 1000,
					    .rank = (uint16_t)rank,
					    .nranks = 2}});
}

static void
step(struct flight_writer *w, unsigned kind, unsigned what, uint32_t n, uint32_t peer, uint64_t seq,
     uint64_t begin, uint64_t end)
{
	put(w, (union flight_record){.step = {.kind = (uint8_t)kind,
					      .what = (uint8_t)what,
					      .step = n,
					      .begin = base + begin,
					      .end = base + end,
					      .comm = 7,
					      .seq = seq,
					      .bytes = 2000,
					      .waited = kind == FLIGHT_WAIT ? end - begin : 0,
					      .epoch = 3,
					      .peer = peer + 1}});
}

/* Two devices, of which a test fills the streams. */
struct pair {
	struct area *area[2];
	struct flight_writer w[2];
	struct world *world;
};

static void
begin_pair(struct pair *p)
{
	for (unsigned i = 0; i < 2; i++) {
		p->area[i] = area_new();
		area_open(p->area[i], i + 1);
		flight_take(p->area[i]->flight, FLIGHT_STREAM, i, 0, 0, "", &p->w[i]);
	}
	base = ticks_now();
	p->world = world_of_two();
}

/* All that the devices recorded as a trace. */
static enum rc
trace(struct pair *p, uint64_t last_ns, struct timeline_sum *sum, struct err *err)
{
	struct flight_moment now;
	enum rc rc;

	ticks_moment(&now);
	p->world->now_ns = now.wall_ns + NS_PER_SEC;
	for (unsigned i = 0; i < 2; i++) {
		flight_beat(p->area[i]->flight, 4096, 1 << 20);
		flight_offset(p->area[i]->flight, 0, 1500);
		world_read(p->world, i, &p->area[i]->source, SIZE_MAX, err);
	}
	world_clocks(p->world);
	keep_nothing();
	rc = timeline_of_world(p->world, last_ns, keep, NULL, sum, err);
	buf_add(&text, "", 1);
	return rc;
}

static void
end_pair(struct pair *p)
{
	world_free(p->world);
	for (unsigned i = 0; i < 2; i++) {
		area_close(p->area[i]);
		free(p->area[i]);
	}
}

/* ---- tests */

static void
test_steps(void)
{
	struct timeline_sum sum;
	struct pair p;
	struct err err = {0};

	begin_pair(&p);
	for (uint32_t r = 0; r < 2; r++) {
		step(&p.w[r], FLIGHT_STEP, STEP_SEND + 1, 1, 1 - r, 5, 1000, 2000);
		step(&p.w[r], FLIGHT_WAIT, STEP_RECV_REDUCE + 1, 2, 1 - r, 5, 2500, 8000);
		step(&p.w[r], FLIGHT_STEP, STEP_RECV_REDUCE + 1, 2, 1 - r, 5, 2000, 9000);
		step(&p.w[r], FLIGHT_STEP, STEP_SEND + 1, 3, 1 - r, 5, 9000, 9500);
		step(&p.w[r], FLIGHT_STEP, STEP_RECV + 1, 4, 1 - r, 5, 9500, 9900);
		op(&p.w[r], GPUSIM_ALLREDUCE, r, 5, 900, 10000);
	}
	ok(trace(&p, 0, &sum, &err) == RC_OK, "a world as a trace: %s", err.text);
	ok(is_array(), "one event a line, in an array");
	ok(nests(), "steps lie within operations, waits within steps");
	ok(count("\"name\":\"allreduce\"") == 2, "an operation a rank");
	ok(count("\"cat\":\"step\"") == 8 && count("\"cat\":\"wait\"") == 2, "steps and waits");
	ok(count("\"ph\":\"s\"") == 4 && count("\"ph\":\"f\"") == 4, "each send has its arrow");
	ok(count("\"name\":\"wait for rank 1\"") == 1 && count("\"name\":\"wait for rank 0\"") == 1,
	   "a wait names the rank");
	ok(count("\"name\":\"gpu 1 (rank 1)\"") == 1 && count("\"name\":\"stream 1\"") == 1,
	   "a device's name and rank, a stream's number");
	ok(count("\"comm\":7,\"epoch\":3,\"seq\":5,\"rank\":1,\"ranks\":2,\"algo\":") == 1 &&
	       count("\"count\":1000,\"bytes\":4000") == 2,
	   "what an operation was");
	ok(count("\"name\":\"bytes/s\"") == 4 && count("\"memory\":4096") == 2, "counters");
	ok(count("\"error_us\":1.500") == 2, "how far the clocks may be wrong");
	ok(sum.lost == 0 && sum.events == count("\n{"), "events are counted");
	end_pair(&p);
}

static void
test_overlap(void)
{
	struct pair p;
	struct err err = {0};

	begin_pair(&p);
	op(&p.w[0], GPUSIM_SEND, 0, 1, 1000, 5000);
	op(&p.w[0], GPUSIM_RECV, 0, 2, 2000, 6000);
	op(&p.w[0], GPUSIM_SEND, 0, 3, 500, 7000);
	op(&p.w[0], GPUSIM_RECV, 0, 4, 5000, 8000);
	trace(&p, 0, NULL, &err);
	ok(nests() && count("\"cat\":\"op\"") == 4,
	   "operations that overlap do not lie within each other");
	ok(count("\"name\":\"stream 0\"") == 1 && count("\"name\":\"stream 0 (2)\"") == 1 &&
	       count("\"name\":\"stream 0 (3)\"") == 1 && count("stream 0 (4)") == 0,
	   "but on as many threads as they need");
	end_pair(&p);
}

static uint64_t
chance_to(uint64_t *state, uint64_t most)
{
	return xorshift(state) % (most + 1);
}

/* Operations end to end, with steps and waits that begin and end where others do, at any time of a day. */
static void
test_random(void)
{
	const struct timeline_ring ring = {.kind = FLIGHT_STREAM, .opened = 1};
	uint64_t state = 7, at, hour = UINT64_C(3600) * NS_PER_SEC;
	GpuSim__DeviceMetadata meta = GPU_SIM__DEVICE_METADATA__INIT;
	GpuSim__DeviceId id = GPU_SIM__DEVICE_ID__INIT;
	bool good = true;

	id.value = 9;
	meta.deviceid = &id;
	for (unsigned round = 0; round < 40 && good; round++) {
		struct flight_clock clock = {.ns_per_tick = round % 2 ? 1 : 0.3337};
		struct timeline_process *p;
		struct timeline *t;
		struct err err = {0};

		keep_nothing();
		timeline_new(keep, NULL, 0, &t, &err);
		p = timeline_process(t, &meta);
		at = chance_to(&state, 24 * hour);
		for (uint64_t seq = 0; seq < 100; seq++) {
			uint64_t begin = at, end = at + chance_to(&state, round % 4 ? 3000 : 12);
			union flight_record r[9] = {0};
			unsigned n = (unsigned)chance_to(&state, 8);

			for (unsigned i = 0; i < n; i++) {
				uint64_t most = end - begin, b = begin + chance_to(&state, most);

				b = i && chance_to(&state, 2) ? r[i - 1].step.end : b;
				r[i].step = (struct flight_step){
				    .kind = i % 2 ? FLIGHT_WAIT : FLIGHT_STEP,
				    .what = 1,
				    .peer = 1,
				    .begin = b,
				    .end =
					chance_to(&state, 2) ? end : b + chance_to(&state, end - b),
				    .comm = 7,
				    .seq = seq};
			}
			r[n].op = (struct flight_op){.kind = FLIGHT_OP,
						     .dtype = GPUSIM_F32,
						     .begin = begin,
						     .end = end,
						     .comm = 7,
						     .seq = seq,
						     .nranks = 2};
			timeline_records(p, &ring, &clock, r, n + 1, &err);
			at = end + (chance_to(&state, 3) ? 0 : chance_to(&state, 500));
		}
		timeline_end(t, NULL, &err);
		buf_add(&text, "", 1);
		good = count("\"cat\":\"op\"") == 100 && nests();
	}
	ok(good, "slices nest for all who read their times");
}

static void
test_half_traced(void)
{
	struct pair p;
	struct err err = {0};

	begin_pair(&p);
	/* The trace began in the middle of rank 0's operation: which of its chunks these are is not known. */
	step(&p.w[0], FLIGHT_STEP, STEP_SEND + 1, 3, 1, 5, 9000, 9500);
	op(&p.w[0], GPUSIM_ALLREDUCE, 0, 5, 900, 10000);
	step(&p.w[1], FLIGHT_STEP, STEP_RECV + 1, 1, 0, 5, 1000, 2000);
	step(&p.w[1], FLIGHT_STEP, STEP_RECV + 1, 2, 0, 5, 2000, 3000);
	op(&p.w[1], GPUSIM_ALLREDUCE, 1, 5, 900, 10000);
	/* Another epoch's chunk is another chunk. */
	trace(&p, 0, NULL, &err);
	ok(count("\"cat\":\"flow\"") == 0, "no arrow is drawn from half of an operation");
	ok(count("\"cat\":\"step\"") == 3 && nests(), "its steps are shown");
	end_pair(&p);
}

static void
test_running(void)
{
	struct flight_live *live;
	struct pair p;
	struct err err = {0};

	begin_pair(&p);
	live = &p.w[0].ring->live;
	step(&p.w[0], FLIGHT_WAIT, STEP_RECV + 1, 2, 1, 6, 2000, 3000);
	live->op = (struct flight_op){.kind = FLIGHT_OP,
				      .coll = GPUSIM_ALLREDUCE,
				      .dtype = GPUSIM_F32,
				      .begin = base + 1000,
				      .comm = 7,
				      .epoch = 3,
				      .seq = 6,
				      .nranks = 2};
	atomic_store(&live->steps, 6);
	atomic_store(&live->waits_for, 2);
	atomic_store(&live->waits_in, 3);
	atomic_store(&live->since, base + 4000);
	atomic_store(&live->turn, 1);
	trace(&p, 0, NULL, &err);
	ok(count("\"result\":\"running\"") == 2 && count("wait for rank 1") == 2 && nests(),
	   "an operation that runs is shown, and the wait that it is in");
	op(&p.w[1], GPUSIM_ALLREDUCE, 1, 6, 1000, 0);
	trace(&p, 0, NULL, &err);
	ok(count("\"result\":\"killed\"") == 1, "one whose process was killed in it, too");
	end_pair(&p);
}

static void
test_others(void)
{
	struct flight_mark m = {
	    .what = FLIGHT_MARK_FAULT, .comm = 7, .seq = 1, .rank = 1, .step = 2};
	struct pair p;
	struct err err = {0};

	begin_pair(&p);
	put(&p.w[0], (union flight_record){.kernel = {.kind = FLIGHT_KERNEL,
						      .begin = base + 10,
						      .end = base + 2000,
						      .grid = {4, 2, 1},
						      .threads = 128,
						      .name = "say \"hi\""}});
	put(&p.w[0], (union flight_record){.copy = {.kind = FLIGHT_COPY,
						    .what = FLIGHT_COPY_IN,
						    .begin = base + 2000,
						    .end = base + 3000,
						    .nbytes = 77}});
	put(&p.w[0], (union flight_record){.copy = {.kind = FLIGHT_PAUSE,
						    .what = FLIGHT_PAUSE_EVENT,
						    .begin = base + 3000,
						    .end = base + 4000}});
	m.at = 0;
	flight_mark(&p.w[0], &m, "drop of \"rank\" 1 \xc3\xa4");
	/* An operation that never ended, and whose ring goes on. */
	step(&p.w[0], FLIGHT_WAIT, STEP_RECV + 1, 2, 1, 99, 5000, 6000);
	trace(&p, 0, NULL, &err);
	ok(count("\"name\":\"say \\\"hi\\\"\"") == 1 &&
	       count("\"grid\":\"4x2x1\",\"threads\":128") == 1,
	   "a kernel");
	ok(count("\"name\":\"copy in\"") == 1 && count("\"bytes\":77") == 1, "a copy");
	ok(count("\"name\":\"wait for an event\"") == 1, "a pause");
	ok(count("\"text\":\"drop of \\\"rank\\\" 1 \xc3\xa4\"") == 1 && count("\"s\":\"p\"") >= 1,
	   "a fault at its moment, with its text");
	ok(count("\"comm\":7,\"epoch\":3,\"seq\":99") == 1,
	   "a wait without its operation names it");
	ok(is_array() && nests(), "all in an array");
	end_pair(&p);
}

static void
test_last(void)
{
	struct pair p;
	struct err err = {0};

	begin_pair(&p);
	base -= 100 * ticks_hz(); /* 100 s ago */
	op(&p.w[0], GPUSIM_ALLREDUCE, 0, 1, 1000, 5000);
	base += 100 * ticks_hz();
	op(&p.w[0], GPUSIM_ALLREDUCE, 0, 2, 1000, 5000);
	trace(&p, 0, NULL, &err);
	ok(count("\"cat\":\"op\"") == 2, "all of the past");
	trace(&p, 50 * NS_PER_SEC, NULL, &err);
	ok(count("\"cat\":\"op\"") == 1 && count("\"seq\":2") == 1, "or the last of it");
	end_pair(&p);
}

static void
test_bounds(void)
{
	const struct flight_clock clock = {.ticks = 0, .wall_ns = 1000, .ns_per_tick = 1};
	const struct timeline_ring ring = {.kind = FLIGHT_STREAM, .opened = 1};
	GpuSim__DeviceMetadata meta = GPU_SIM__DEVICE_METADATA__INIT;
	GpuSim__DeviceId id = GPU_SIM__DEVICE_ID__INIT;
	union flight_record r = {.step = {.kind = FLIGHT_WAIT, .comm = 1, .peer = 1}};
	struct timeline_process *p;
	struct timeline_sum sum;
	struct timeline *t;
	struct err err = {0};
	enum rc rc = RC_OK;

	id.value = 9;
	meta.deviceid = &id;
	keep_nothing();
	timeline_new(keep, NULL, 1000, &t, &err);
	p = timeline_process(t, &meta);
	ok(p == timeline_process(t, &meta), "a device has one process");
	for (uint32_t i = 1; i < 3; i++) {
		const struct timeline_ring queue = {.index = i,
						    .kind = FLIGHT_QUEUE,
						    .id = i,
						    .stream = i == 1 ? FLIGHT_OWN_STREAM : 5,
						    .opened = 1};
		const union flight_record k = {
		    .kernel = {.kind = FLIGHT_KERNEL, .begin = 10, .end = 20}};

		timeline_records(p, &queue, &clock, &k, 1, &err);
	}
	for (uint64_t i = 0; i < 3 * TIMELINE_STEPS && rc == RC_OK; i++) {
		r.step.begin = r.step.end = 10 + i;
		r.step.seq = i;
		rc = timeline_records(p, &ring, &clock, &r, 1, &err);
	}
	timeline_lost(t, 12, 3);
	ok(rc == RC_OK && timeline_end(t, &sum, &err) == RC_OK && sum.lost == 12,
	   "steps whose operation does not end take no more memory");
	buf_add(&text, "", 1);
	ok(count("\"name\":\"queue 1\"") == 1 && count("\"name\":\"queue 2, stream 5\"") == 1,
	   "a queue's stream, where it has one with a number");
	ok(count("\"lost_records\":12,\"damaged_records\":3,\"steps_left_out\":") == 1,
	   "the trace reports what it lacks");
	timeline_new(keep, NULL, 1000, &t, &err);
	disk_full = true;
	p = timeline_process(t, &meta);
	ok(timeline_flush(t, &err) == RC_FAILED && timeline_end(t, &sum, &err) == RC_FAILED &&
	       strstr(err.text, "No space left"),
	   "a full disk: %s", err.text);
	disk_full = false;
}

int
main(void)
{
	test_steps();
	test_overlap();
	test_random();
	test_half_traced();
	test_running();
	test_others();
	test_last();
	test_bounds();
	buf_fini(&text);
	return tap_done();
}
