/* The flight recorder's area: records are written and read, before and after a kill, torn, damaged or gone round. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "flight/read.h"
#include "flight/write.h"
#include "tap.h"

#define RECORDS	   256u
#define RINGS	   20u
#define AREA_BYTES FLIGHT_AREA_BYTES(RINGS, RECORDS)

static const struct flight_identity me = {
    .device_id = 0xd1, .incarnation = 7, .ordinal = 3, .name = "gpudev"};

static void *
new_area(void)
{
	void *p = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static struct flight *
open_area(void *area)
{
	struct flight *f = NULL;
	struct err err;

	flight_open(area, AREA_BYTES, RECORDS, &me, NULL, NULL, &f, &err);
	return f;
}

static void
put_op(struct flight_writer *w, uint64_t seq)
{
	uint64_t now = ticks_now();

	flight_next(w)->op = (struct flight_op){.kind = FLIGHT_OP,
						.begin = now,
						.end = now + 10,
						.comm = 1,
						.seq = seq,
						.count = seq * 2,
						.nranks = 2};
	flight_put(w);
}

struct reading {
	struct flight_bytes bytes;
	struct flight_source s;
	struct flight_header h;
	union flight_record r[2 * RECORDS];
	size_t n;
	uint64_t next, lost, bad;
};

static enum rc
begin_reading(struct reading *r, const void *area, uint64_t nbytes)
{
	struct err err;

	memset(r, 0, sizeof *r);
	r->bytes = (struct flight_bytes){area, nbytes};
	r->s = flight_bytes_source(&r->bytes);
	return flight_read_header(&r->s, &r->h, &err);
}

static enum rc
read_ring(struct reading *r, uint32_t i, size_t max)
{
	struct err err;

	return flight_read_records(&r->s, &r->h, i, &r->next, r->r, max, &r->n, &r->lost, &r->bad,
				   &err);
}

static void
test_write_and_read(void)
{
	static struct reading r;
	void *area = new_area();
	struct flight *f = open_area(area);
	struct flight_writer w, none;
	struct flight_ring ring;
	struct err err;
	char text[128];

	ok(f && flight_take(f, FLIGHT_STREAM, 0, 0, 0, "stream 0", &w), "a ring is taken");
	put_op(&w, 1);
	flight_mark(&w, &(struct flight_mark){.what = FLIGHT_MARK_FAULT, .rank = 3},
		    "a text that is longer than one record of text can be, so that it takes two of "
		    "them: \xc3\xa9\n");
	put_op(&w, 2);
	flight_count_op(&w, 2, 8192, 3000);
	ok(begin_reading(&r, area, AREA_BYTES) == RC_OK && r.h.device_id == 0xd1 &&
	       r.h.ordinal == 3 && strcmp(r.h.name, "gpudev") == 0 && r.h.pid == (uint32_t)getpid(),
	   "the header says whose it is");
	ok(flight_read_ring(&r.s, &r.h, 0, &ring, &err) == RC_OK && ring.kind == FLIGHT_STREAM &&
	       strcmp(ring.name, "stream 0") == 0,
	   "the ring says whose it is");
	ok(ring.counts.op[2][1].n == 1 && ring.counts.op[2][1].bytes == 8192 &&
	       ring.counts.op[2][1].ns == 3000 && ring.counts.op[2][1].bucket[2] == 1,
	   "an operation of 8 KiB in 3 us is counted in its class and bucket");
	ok(flight_read_ring(&r.s, &r.h, 1, &ring, &err) == RC_NOTFOUND, "another was never used");
	ok(read_ring(&r, 0, 64) == RC_OK && r.n == 5 && r.r[0].op.seq == 1 && r.r[4].op.seq == 2 &&
	       r.next == 5,
	   "records come in their order");
	flight_text(r.r, r.n, 1, text, sizeof text);
	ok(strcmp(text,
		  "a text that is longer than one record of text can be, so that it takes two of "
		  "them: \xc3\xa9?") == 0,
	   "a mark's text comes whole");
	flight_text(r.r, r.n, 1, text, 8);
	ok(strcmp(text, "a text ") == 0, "or cut");
	ok(read_ring(&r, 0, 64) == RC_OK && r.n == 0, "nothing is read twice");
	put_op(&w, 3);
	ok(read_ring(&r, 0, 64) == RC_OK && r.n == 1 && r.r[0].op.seq == 3, "what is new is read");
	ok(!flight_take(NULL, FLIGHT_STREAM, 0, 0, 0, "x", &none) && !flight_on(&none),
	   "a recorder that is off takes no ring");
	flight_mark(&none, &(struct flight_mark){.what = FLIGHT_MARK_START}, "");
	flight_close(f);
	munmap(area, AREA_BYTES);
}

static void
test_round(void)
{
	static struct reading r;
	void *area = new_area();
	struct flight *f = open_area(area);
	struct flight_writer w;
	bool ordered = true;

	flight_take(f, FLIGHT_STREAM, 0, 0, 0, "stream 0", &w);
	for (uint64_t i = 1; i <= 10; i++)
		put_op(&w, i);
	begin_reading(&r, area, AREA_BYTES);
	read_ring(&r, 0, 64);
	for (uint64_t i = 11; i <= 1000; i++)
		put_op(&w, i);
	ok(read_ring(&r, 0, 2 * RECORDS) == RC_OK && r.n == RECORDS - FLIGHT_MARGIN &&
	       r.lost == 990 - r.n,
	   "what was overwritten is counted");
	for (size_t i = 0; i < r.n; i++)
		ordered &= r.r[i].op.seq == 1000 - r.n + i + 1;
	ok(ordered, "and the rest is in order");
	r.next = r.lost = 0;
	ok(read_ring(&r, 0, 64) == RC_OK && r.n == 64 && r.lost == 0,
	   "whoever begins has lost nothing, and reads in parts");
	flight_close(f);
	munmap(area, AREA_BYTES);
}

/* A part that ends within a mark's texts ends before the mark. */
static void
test_parts(void)
{
	static struct reading r;
	void *area = new_area();
	struct flight *f = open_area(area);
	struct flight_writer w;
	char text[900];
	size_t marks = 0;

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	flight_take(f, FLIGHT_SERVICE, 0, 0, 0, "service", &w);
	for (int i = 0; i < 8; i++) {
		put_op(&w, 1);
		flight_mark(&w, &(struct flight_mark){.what = FLIGHT_MARK_ABORT}, text);
	}
	begin_reading(&r, area, AREA_BYTES);
	do {
		read_ring(&r, 0, 2 * FLIGHT_MARGIN);
		for (size_t i = 0; i < r.n; i++)
			if (r.r[i].kind == FLIGHT_MARK) {
				char got[1000];

				flight_text(r.r, r.n, i, got, sizeof got);
				marks += strcmp(got, text) == 0;
			}
	} while (r.n);
	ok(marks == 8 && r.bad == 0, "no text is torn between two parts");
	flight_close(f);
	munmap(area, AREA_BYTES);
}

static void
test_rings(void)
{
	void *area = new_area();
	struct flight *f = open_area(area);
	struct flight_writer w[RINGS + 1];
	struct flight_ring *second;
	static struct reading r;
	unsigned taken = 0;

	for (unsigned i = 0; i <= RINGS; i++)
		taken += flight_take(f, FLIGHT_QUEUE, i, 0, 4711, "queue", &w[i]);
	ok(taken == RINGS && !flight_on(&w[RINGS]), "there are as many rings as fit");
	begin_reading(&r, area, AREA_BYTES);
	ok(r.h.unrecorded == 1, "who found none is counted");
	second = w[2].ring;
	put_op(&w[2], 5);
	flight_give(&w[2]);
	flight_give(&w[1]);
	flight_take(f, FLIGHT_QUEUE, 77, 0, 4711, "queue", &w[1]);
	ok(w[1].ring == second, "the ring that ended first is taken again");
	ok(read_ring(&r, 2, 64) == RC_OK && r.n == 0,
	   "and its former records are not its new one's");
	flight_close(f);
	munmap(area, AREA_BYTES);
}

/* A child records for ever and is killed: all that head has counted is whole. */
static void
test_kill(void)
{
	static struct reading r;
	void *area = new_area();
	struct flight *f;
	struct flight_writer w;
	struct flight_ring ring;
	struct err err;
	bool whole = true;
	pid_t pid = fork();
	uint64_t begin;

	if (pid == 0) {
		f = open_area(area);
		flight_take(f, FLIGHT_STREAM, 0, 0, 0, "stream 0", &w);
		w.ring->live.op = (struct flight_op){.begin = ticks_now(), .seq = 99, .nranks = 2};
		atomic_store(&w.ring->live.turn, 1);
		for (uint64_t i = 1;; i++)
			put_op(&w, i);
	}
	while (begin_reading(&r, area, AREA_BYTES) != RC_OK ||
	       flight_read_ring(&r.s, &r.h, 0, &ring, &err) != RC_OK || ring.head < 3 * RECORDS)
		;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ok(begin_reading(&r, area, AREA_BYTES) == RC_OK && read_ring(&r, 0, 2 * RECORDS) == RC_OK &&
	       r.n == RECORDS - FLIGHT_MARGIN && r.bad == 0,
	   "a killed process leaves its records");
	for (size_t i = 1; i < r.n; i++)
		whole &=
		    r.r[i].op.seq == r.r[i - 1].op.seq + 1 && r.r[i].op.count == 2 * r.r[i].op.seq;
	ok(whole, "whole and in order");
	begin = r.next;
	f = open_area(area);
	flight_take(f, FLIGHT_STREAM, 0, 0, 0, "stream 0", &w);
	put_op(&w, 5);
	begin_reading(&r, area, AREA_BYTES);
	r.next = begin;
	ok(read_ring(&r, 0, 64) == RC_OK && r.n + r.bad >= 1 && r.r[0].op.seq == 99 &&
	       r.r[0].op.end == 0 && r.r[0].op.result == RC_ABORTED,
	   "the next process records the operation that it was killed in, and goes on behind");
	flight_close(f);
	munmap(area, AREA_BYTES);
}

static void
test_copy(void)
{
	static struct reading r;
	void *area = new_area();
	struct flight *f = open_area(area);
	struct flight_writer a, b;
	struct buf copy = {0};
	struct err err;

	flight_take(f, FLIGHT_STREAM, 0, 0, 0, "stream 0", &a);
	flight_take(f, FLIGHT_STREAM, 5, 5, 0, "stream 5", &b);
	for (uint64_t i = 1; i <= 700; i++)
		put_op(&b, i);
	begin_reading(&r, area, AREA_BYTES);
	ok(flight_copy(&r.s, &copy, &err) == RC_OK && copy.len == FLIGHT_AREA_BYTES(2, RECORDS),
	   "a copy has the rings that were used");
	ok(begin_reading(&r, copy.data, copy.len) == RC_OK && read_ring(&r, 1, 300) == RC_OK &&
	       r.n == RECORDS - FLIGHT_MARGIN && r.r[r.n - 1].op.seq == 700,
	   "and reads as the area does");
	ok(begin_reading(&r, copy.data, copy.len - 1) == RC_OK &&
	       read_ring(&r, 1, 300) == RC_BADDATA,
	   "one that is cut is refused where it ends");
	ok(begin_reading(&r, copy.data, 100) == RC_BADDATA, "or at once");
	buf_fini(&copy);
	flight_close(f);
	munmap(area, AREA_BYTES);
}

static void
test_groups(void)
{
	static struct reading r;
	static const uint32_t up[] = {1, 9, 400}, down[] = {9, 1, 400};
	void *area = new_area();
	struct flight *f = open_area(area);
	const struct flight_group *g;
	struct flight_op op = {0};
	uint8_t last = 0;

	ok(flight_group(f, "tp0", up, 3) == 1 && flight_group(f, "tp0", down, 3) == 2 &&
	       flight_group(f, "dp0", up, 3) == 3 && flight_group(f, "tp0", up, 3) == 1,
	   "groups of other names, or in another order, are others");
	begin_reading(&r, area, AREA_BYTES);
	op.group = 1;
	g = flight_group_of(&r.h, &op);
	ok(g && strcmp(g->name, "tp0") == 0 && g->n == 3 && g->ascending && g->rank[0] == 2 &&
	       g->rank[1] == 2 && g->rank[400 / 8 % 44] == 0,
	   "a group has its ranks, as far as there is room");
	op.group = 4;
	ok(!flight_group_of(&r.h, &op), "an unknown one is none");
	flight_close(f);
	f = open_area(area);
	for (uint32_t i = 0; i < 2 * FLIGHT_GROUPS; i++)
		last = flight_group(f, "", &i, 1);
	begin_reading(&r, area, AREA_BYTES);
	op.group = last;
	ok(last == FLIGHT_GROUPS + 1 && !flight_group_of(&r.h, &op) &&
	       flight_group(f, "dp0", up, 3) == 3,
	   "the next process goes on with them; past the last, nothing is known");
	flight_close(f);
	munmap(area, AREA_BYTES);
}

static void
test_clock(void)
{
	struct flight_header h = {.hz = 2000000000,
				  .first = {1000, 0, 5000000000},
				  .last = {4000001000, 2000000000, 7000000000},
				  .offset_ns = -1000,
				  .error_ns = 50};
	struct flight_clock c;

	flight_clock_of(&h, &c);
	ok(flight_time_ns(&c, 4000001000) == 6999999000, "the moment itself, on the other clock");
	ok(flight_time_ns(&c, 4000001200) + 1 - 6999999100 <= 2,
	   "later by half a nanosecond a tick");
	ok(flight_time_ns(&c, 4000000800) + 1 - 6999998900 <= 2, "earlier too");
	ok(c.error_ns == 50, "with its error");
	ok(ticks_to_ns(3000000000, 3000000000) == NS_PER_SEC, "ticks to time");
}

/* Bytes changed at random: what is read makes sense, and nothing else happens. */
static void
test_damage(void)
{
	static struct reading r;
	void *area = new_area();
	struct flight *f = open_area(area);
	struct flight_writer w;
	unsigned char *bytes = area;
	unsigned seed = 1, odd = 0, read = 0;
	struct buf copy = {0};
	struct err err;

	flight_take(f, FLIGHT_STREAM, 0, 0, 0, "stream 0", &w);
	for (int i = 0; i < 300; i++) {
		put_op(&w, (uint64_t)i);
		flight_mark(&w, &(struct flight_mark){.what = FLIGHT_MARK_ABORT}, "why");
	}
	for (int i = 0; i < 20000; i++) {
		struct flight_ring ring;
		size_t at = (size_t)rand_r(&seed) %
			    (i % 2 ? sizeof(struct flight_header) : FLIGHT_AREA_BYTES(1, RECORDS));
		unsigned char was = bytes[at];

		bytes[at] = (unsigned char)rand_r(&seed);
		if (begin_reading(&r, area, AREA_BYTES) == RC_OK &&
		    flight_read_ring(&r.s, &r.h, 0, &ring, &err) == RC_OK &&
		    read_ring(&r, 0, 2 * RECORDS) == RC_OK) {
			read++;
			for (size_t k = 0; k < r.n; k++)
				odd += r.r[k].kind == FLIGHT_OP && r.r[k].op.end &&
				       r.r[k].op.end < r.r[k].op.begin;
		}
		if (i % 64 == 0) {
			copy.len = 0;
			flight_copy(&r.s, &copy, &err);
		}
		bytes[at] = was;
	}
	ok(read > 1000 && odd == 0, "damaged areas are read as far as they make sense (%u)", read);
	buf_fini(&copy);
	flight_close(f);
	munmap(area, AREA_BYTES);
}

/* Others fill header and rings' heads with a byte while the writer goes on: it stays within its rings, keeps
 * them apart, and numbers its records as before. */
static void
test_scribbled(void)
{
	static const unsigned char bytes[] = {0x00, 0xff, 0x01, 0x7f, 0x80};
	bool good = true;

	for (size_t b = 0; b < sizeof bytes; b++) {
		void *area = new_area();
		struct flight *f = open_area(area);
		struct flight_writer w[RINGS], other;

		for (unsigned i = 0; i < RINGS; i++) {
			flight_take(f, FLIGHT_QUEUE, i, 0, 0, "queue", &w[i]);
			put_op(&w[i], 1);
		}
		memset(area, bytes[b], sizeof(struct flight_header));
		for (unsigned i = 0; i < RINGS; i++)
			memset(w[i].ring, bytes[b], sizeof(struct flight_ring));
		good = good && !flight_take(f, FLIGHT_QUEUE, 99, 0, 0, "queue", &other);
		for (unsigned i = RINGS; i-- > 0;) {
			put_op(&w[i], 2);
			flight_beat(f, 1, 2);
			flight_give(&w[i]);
			memset(area, bytes[b], sizeof(struct flight_header));
		}
		good = good && flight_take(f, FLIGHT_QUEUE, 3, 0, 0, "queue", &w[0]) &&
		       flight_take(f, FLIGHT_QUEUE, 99, 0, 0, "queue", &w[1]);
		good = good && w[0].ring == (void *)((char *)area + FLIGHT_RING_AT(3, RECORDS)) &&
		       w[1].ring == (void *)((char *)area + FLIGHT_RING_AT(RINGS - 1, RECORDS)) &&
		       w[0].head == 2 && w[0].ring->first == 0 && w[1].ring->first == 2 &&
		       flight_ns(&w[0], ticks_hz()) <= NS_PER_SEC &&
		       flight_ns(&w[0], ticks_hz()) >= NS_PER_SEC - 10;
		flight_close(f);
		munmap(area, AREA_BYTES);
	}
	ok(good, "what others write over header and rings steers no writer");
}

int
main(void)
{
	test_write_and_read();
	test_round();
	test_parts();
	test_rings();
	test_kill();
	test_copy();
	test_groups();
	test_clock();
	test_damage();
	test_scribbled();
	return tap_done();
}
