/* A thread's recorder: operations, waits, steps and pauses as records; what other threads see; off means off. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "flight/read.h"
#include "tap.h"
#include "xport/progress.h"

#define RECORDS	   256u
#define AREA_BYTES FLIGHT_AREA_BYTES(4, RECORDS)

static void *area;
static struct flight *flight;
static union flight_record r[2 * RECORDS];
static size_t n;

static void
open_area(void)
{
	static const struct flight_identity me = {.device_id = 0xd1, .name = "gpudev"};
	struct err err;

	area = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED ||
	    flight_open(area, AREA_BYTES, RECORDS, &me, NULL, NULL, &flight, &err) != RC_OK)
		tap_bail("no area");
}

/* Read ring i into r[0..n). */
static bool
read_ring(uint32_t i, struct flight_ring *ring)
{
	struct flight_bytes bytes = {area, AREA_BYTES};
	struct flight_source s = flight_bytes_source(&bytes);
	uint64_t next = 0, lost = 0, bad = 0;
	struct flight_header h;
	struct err err;

	n = 0;
	return flight_read_header(&s, &h, &err) == RC_OK &&
	       flight_read_ring(&s, &h, i, ring, &err) == RC_OK &&
	       flight_read_records(&s, &h, i, &next, r, 2 * RECORDS, &n, &lost, &bad, &err) ==
		   RC_OK &&
	       bad == 0;
}

static void
begin(struct recorder *m, uint64_t seq)
{
	m->op.op = (struct flight_op){.kind = FLIGHT_OP,
				      .coll = 1,
				      .begin = recorder_now(m),
				      .comm = 5,
				      .seq = seq,
				      .count = 100,
				      .epoch = 2,
				      .rank = 1,
				      .nranks = 3};
	recorder_begin(m, 6);
}

static void
end(struct recorder *m, enum rc rc)
{
	struct recorder_result how = {.rc = rc, .nbytes = 400, .sent = 30, .received = 40};

	recorder_clock(m);
	recorder_done(m, &how);
	recorder_end(m);
}

/* For at least so long. */
static void
work(uint64_t us)
{
	uint64_t until = clock_now_ns() + us * 1000;

	while (clock_now_ns() < until)
		;
}

static void
wait_for(struct recorder *m, uint32_t peer, uint64_t us, enum rc rc)
{
	recorder_waits(m, peer);
	work(us);
	recorder_goes_on(m, rc);
}

static void
test_operation(struct recorder *m)
{
	struct flight_ring ring;
	struct progress p;

	begin(m, 7);
	recorder_step(m, 3, 2, 64);
	ok(recorder_read(m, &p) && p.comm == 5 && p.op == 7 && p.epoch == 2 && p.step == 3 &&
	       p.steps == 6 && !p.waits_for,
	   "other threads see the operation and its step");
	recorder_waits(m, 2);
	work(50);
	ok(recorder_read(m, &p) && p.waits_for == 3 && p.idle_ns >= 50000 &&
	       p.idle_ns < 60 * NS_PER_SEC,
	   "and for whom it waits since when");
	ok(read_ring(0, &ring) && atomic_load(&ring.live.turn) & 1 && ring.live.op.seq == 7 &&
	       atomic_load(&ring.live.waits_for) == 3 && atomic_load(&ring.live.waits_in) == 3 &&
	       atomic_load(&ring.live.bytes) == 64 && n == 0,
	   "so does who reads the area, where there is no record yet");
	recorder_goes_on(m, RC_OK);
	end(m, RC_OK);
	ok(!recorder_read(m, &p) && read_ring(0, &ring) && !(atomic_load(&ring.live.turn) & 1),
	   "no operation is at hand when it has ended");
	ok(n == 2 && r[0].kind == FLIGHT_WAIT && r[0].step.step == 3 && r[0].step.what == 2 &&
	       r[0].step.peer == 3 && r[0].step.seq == 7 && r[0].step.bytes == 64 &&
	       r[1].kind == FLIGHT_OP && r[1].op.seq == 7 && r[1].op.count == 100 &&
	       r[1].op.rank == 1 && r[1].op.begin <= r[0].step.begin &&
	       r[1].op.end >= r[0].step.end,
	   "its wait is a record, then itself");
	ok(atomic_load(&ring.counts.op[1][0].n) == 1 &&
	       atomic_load(&ring.counts.op[1][0].bytes) == 400 &&
	       atomic_load(&ring.counts.sent) == 30 && atomic_load(&ring.counts.received) == 40,
	   "and it is counted");
	begin(m, 8);
	wait_for(m, 0, 20, RC_TIMEOUT);
	end(m, RC_TIMEOUT);
	ok(read_ring(0, &ring) && n == 4 && r[3].op.result == RC_TIMEOUT &&
	       r[2].step.result == RC_TIMEOUT && atomic_load(&ring.counts.failed) == 1 &&
	       m->nmissing == 1 && m->missing[0] == 0,
	   "one that fails says so, and who was missing");
}

/* Recorded waits against what a communicator is told that it waited. */
static void
test_waits(struct recorder *m)
{
	uint64_t waited[3] = {0}, sum = 0, before, counted;
	struct flight_ring ring;
	size_t from;

	read_ring(0, &ring);
	from = n;
	before = atomic_load(&ring.counts.waited_ns);
	m->waited_ns = waited;
	begin(m, 9);
	recorder_step(m, 1, 1, 8);
	for (int i = 0; i < 5; i++)
		wait_for(m, 2, 10, RC_OK);
	recorder_step(m, 2, 1, 8);
	wait_for(m, 2, 10, RC_OK);
	wait_for(m, 0, 10, RC_OK);
	for (int i = 0; i < 3; i++) {
		recorder_step(m, 3 + (size_t)i, 1, 8);
		recorder_waits(m, 0);
		recorder_goes_on(m, RC_OK);
	}
	end(m, RC_OK);
	m->waited_ns = NULL;
	ok(read_ring(0, &ring) && n >= from + 4, "waits of an operation");
	for (size_t i = from; i + 1 < n; i++)
		sum += flight_ns(&m->w, r[i].step.waited);
	counted = atomic_load(&ring.counts.waited_ns) - before;
	ok(flight_ns(&m->w, r[from].step.waited) >= 50000 && r[from].step.step == 1 &&
	       r[from].step.peer == 3 && r[from + 1].step.step == 2 && r[from + 2].step.peer == 1,
	   "slices of a wait in one step for one peer are one record");
	/* Each of the ten waits is counted in whole nanoseconds, a record's as one. */
	ok(waited[0] + waited[2] == counted && sum <= counted + 10 && counted < sum + 4000,
	   "their sum is what is counted, but for waits below 1 us: %llu of %llu ns",
	   (unsigned long long)sum, (unsigned long long)counted);
}

/* The times that recorder_waits_on is told are made up; what it counts is not. */
static void
test_long_wait(struct recorder *m)
{
	struct flight_ring ring;
	uint64_t before, meanwhile, after, last;

	read_ring(0, &ring);
	before = atomic_load(&ring.counts.waited_ns);
	begin(m, 10);
	recorder_waits(m, 2);
	work(50);
	recorder_waits_on(m, NS_PER_SEC);
	read_ring(0, &ring);
	ok(atomic_load(&ring.counts.waited_ns) == before, "a wait is counted when it is over");
	recorder_waits_on(m, 2 * NS_PER_SEC);
	read_ring(0, &ring);
	meanwhile = atomic_load(&ring.counts.waited_ns) - before;
	recorder_goes_on(m, RC_OK);
	end(m, RC_OK);
	read_ring(0, &ring);
	after = atomic_load(&ring.counts.waited_ns) - before;
	last = flight_ns(&m->w, r[n - 2].step.waited);
	ok(meanwhile >= 50000 && after >= meanwhile && after <= last + 1 && last <= after + 1,
	   "a long one while it lasts, and not twice");
}

static void
test_chunks(struct recorder *m)
{
	struct flight_ring ring;
	uint64_t sent, received, ticks;

	read_ring(0, &ring);
	sent = atomic_load(&ring.counts.sent);
	received = atomic_load(&ring.counts.received);
	begin(m, 11);
	recorder_sends(m, 1, 5000, NS_PER_SEC);
	read_ring(0, &ring);
	ticks = atomic_load(&ring.live.way_end) - atomic_load(&ring.live.way_begin);
	ok(atomic_load(&ring.live.way_to) == 2 && atomic_load(&ring.live.way_bytes) == 5000 &&
	       ticks > ticks_hz() / 100 * 99 && ticks < ticks_hz() / 100 * 101 &&
	       atomic_load(&ring.counts.sent) == sent,
	   "a chunk is on its way to a peer, for so long");
	recorder_moved(m, 5000, 0);
	recorder_moved(m, 0, 70);
	read_ring(0, &ring);
	ok(atomic_load(&ring.live.way_to) == 0 && atomic_load(&ring.counts.sent) == sent + 5000 &&
	       atomic_load(&ring.counts.received) == received + 70,
	   "chunks count when they have gone and come");
	end(m, RC_OK);
}

static void
test_trace(struct recorder *m)
{
	struct recorder_step s = {.step = 4, .what = 2, .peer = 1, .bytes = 16};
	struct flight_ring ring;
	size_t from;

	read_ring(0, &ring);
	from = n;
	begin(m, 10);
	ok(!m->traces, "steps are recorded only while a trace is taken");
	end(m, RC_OK);
	flight_trace_until(flight, ticks_now() + ticks_hz());
	m->clock = 0;
	begin(m, 11);
	ok(m->traces, "which anybody may ask for");
	recorder_trace_begin(m, &s);
	wait_for(m, 0, 10, RC_OK);
	recorder_trace(m, &s, RC_OK);
	end(m, RC_OK);
	ok(read_ring(0, &ring) && n == from + 4 && r[from + 1].kind == FLIGHT_WAIT &&
	       r[from + 2].kind == FLIGHT_STEP && r[from + 2].step.step == 4 &&
	       r[from + 2].step.waited == r[from + 1].step.waited &&
	       r[from + 2].step.begin <= r[from + 1].step.begin,
	   "a step knows how long of it was waiting");
	recorder_pause(m, FLIGHT_PAUSE_EVENT, 3, m->clock);
	ok(read_ring(0, &ring) && n == from + 4, "a pause of no time is none");
}

static void
test_off(void)
{
	struct recorder m;
	struct progress p;

	recorder_init(&m);
	recorder_open(&m, NULL, FLIGHT_STREAM, 1, 1, 0, "stream");
	begin(&m, 1);
	wait_for(&m, 0, 5, RC_OK);
	ok(recorder_read(&m, &p) && p.op == 1, "without an area other threads see the operation");
	end(&m, RC_OK);
	recorder_copy(&m, &(struct flight_copy){.begin = m.clock});
	recorder_close(&m);
	recorder_begin(NULL, 1);
	recorder_waits(NULL, 1);
	recorder_goes_on(NULL, RC_OK);
	recorder_end(NULL);
	ok(!recorder_read(&m, &p), "nothing is recorded, and no recorder at all is one");
}

/* ---- a thread works, another looks */

static atomic_bool stop;

static void *
work_on(void *arg)
{
	struct recorder *m = arg;

	for (uint64_t i = 100; !stop; i++) {
		m->op.op = (struct flight_op){.kind = FLIGHT_OP,
					      .begin = recorder_now(m),
					      .comm = i,
					      .seq = i,
					      .count = i,
					      .epoch = (uint32_t)i};
		recorder_begin(m, 1);
		end(m, RC_OK);
	}
	return NULL;
}

static void
test_together(struct recorder *m)
{
	pthread_t thread;
	bool whole = true;
	struct progress p;
	int seen = 0;

	pthread_create(&thread, NULL, work_on, m);
	for (int i = 0; i < 20000 || (seen < 10 && i < 2000000); i++)
		if (recorder_read(m, &p)) {
			whole &= p.comm == p.op && p.epoch == (uint32_t)p.op;
			seen++;
		}
	stop = true;
	pthread_join(thread, NULL);
	ok(whole && seen, "who looks sees an operation whole");
}

/* Every byte may be something else: what is read makes sense, or is left out. */
static void
test_damage(void)
{
	struct flight_bytes bytes = {malloc(AREA_BYTES), AREA_BYTES};
	struct flight_source s = flight_bytes_source(&bytes);
	unsigned char *copy = (unsigned char *)(uintptr_t)bytes.at;
	char text[FLIGHT_TEXTS_MAX * FLIGHT_TEXT_BYTES + 1];
	struct buf out = {0};
	struct err err;

	srand(11);
	for (int round = 0; round < 3000; round++) {
		uint64_t next = 0, lost = 0, bad = 0;
		struct flight_header h;
		struct flight_ring ring;

		memcpy(copy, area, AREA_BYTES);
		for (int i = rand() % 200; i >= 0; i--) {
			size_t at = (size_t)rand() % (i % 8 ? AREA_BYTES : sizeof h);

			copy[at] = (unsigned char)(i % 3 ? rand() : 0xff);
		}
		if (flight_read_header(&s, &h, &err) != RC_OK)
			continue;
		for (uint32_t i = 0; i < h.nrings; i++) {
			if (flight_read_ring(&s, &h, i, &ring, &err) != RC_OK ||
			    flight_read_records(&s, &h, i, &next, r, 2 * RECORDS, &n, &lost, &bad,
						&err) != RC_OK)
				continue;
			for (size_t k = 0; k < n; k++)
				if (r[k].kind == FLIGHT_MARK)
					flight_text(r, n, k, text, sizeof text);
		}
		flight_copy(&s, &out, &err);
		buf_fini(&out);
		out = (struct buf){0};
	}
	free(copy);
	ok(true, "3000 damaged areas were read");
}

int
main(void)
{
	struct recorder m;

	open_area();
	recorder_init(&m);
	recorder_open(&m, flight, FLIGHT_STREAM, 3, 3, 0, "stream");
	test_operation(&m);
	test_waits(&m);
	test_long_wait(&m);
	test_chunks(&m);
	test_trace(&m);
	test_off();
	test_together(&m);
	flight_mark(&m.w, &(struct flight_mark){.what = FLIGHT_MARK_ABORT},
		    "a reason of some length");
	recorder_close(&m);
	test_damage();
	flight_close(flight);
	return tap_done();
}
