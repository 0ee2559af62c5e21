/* xport/shaper: latency and bandwidth as times. */
#include "tap.h"
#include "xport/shaper.h"

#define MS 1000000ull

/* 8 Mbit/s: a byte takes a microsecond. */
static struct shaper
link_of(uint64_t latency_ns, uint64_t bits_per_s)
{
	return (struct shaper){.latency_ns = latency_ns, .bits_per_s = bits_per_s};
}

static void
test_none(void)
{
	struct shaper s = link_of(0, 0);

	ok(shaper_out(&s, 5, 1000) == 0 && shaper_in(&s, 5, 1000) == 0 &&
	       shaper_transit_ns(&s, 1000) == 0,
	   "without limits nothing waits");
}

static void
test_latency(void)
{
	struct shaper s = link_of(5 * MS, 0);

	ok(shaper_out(&s, 7, 1000) == 0, "latency does not hold the sender");
	ok(shaper_in(&s, 7, 1000) == 7 + 5 * MS && shaper_in(&s, 8, 1000) == 8 + 5 * MS,
	   "each chunk is late by the latency, however many there are");
	ok(shaper_transit_ns(&s, 1000) == 5 * MS, "transit is the latency");
}

static void
test_out(void)
{
	struct shaper s = link_of(0, 8000000);

	ok(shaper_out(&s, 100 * MS, 1000) == 101 * MS, "a chunk takes its time on the link");
	ok(shaper_out(&s, 100 * MS, 2000) == 103 * MS, "the next goes behind it");
	ok(shaper_out(&s, 200 * MS, 1000) == 201 * MS, "an idle link saves up nothing");
	ok(shaper_out(&s, 0, 0) == 201 * MS, "an empty chunk takes no time of its own");
	shaper_woke(&s, 201 * MS, 205 * MS);
	ok(shaper_out(&s, 206 * MS, 1000) == 203 * MS, "a thread that woke late holds up no link");
	ok(shaper_out(&s, 206 * MS, 1000) == 207 * MS, "once");
	shaper_woke(&s, 0, 300 * MS);
	ok(shaper_out(&s, 300 * MS, 1000) == 301 * MS, "nor does one that did not wait");
	shaper_woke(&s, 1 * MS, 400 * MS);
	ok(shaper_out(&s, 400 * MS, 1000) == 302 * MS, "and no link is used twice");
}

static void
test_in(void)
{
	struct shaper s = link_of(2 * MS, 8000000);

	ok(shaper_in(&s, 100 * MS, 1000) == 102 * MS,
	   "a lone chunk came in while it went out: latency alone");
	ok(shaper_in(&s, 100 * MS, 1000) == 103 * MS,
	   "a second sender's chunk waits for the receiver's link");
	ok(shaper_in(&s, 105 * MS, 1000) == 107 * MS, "later the link is free again");
	ok(shaper_transit_ns(&s, 1000) == 3 * MS, "transit is wire and latency");
}

/* p-1 senders to a root, each paced by its own link: the root's link is what they share. */
static void
test_fan_in(void)
{
	enum { P = 8 };
	struct shaper root = link_of(0, 8000000), sender[P] = {{0}};
	uint64_t last = 0, lone = 0;

	for (unsigned r = 1; r < P; r++)
		sender[r] = link_of(0, 8000000);
	for (unsigned k = 0; k < 100; k++)
		for (unsigned r = 1; r < P; r++) {
			uint64_t gone = shaper_out(&sender[r], 0, 1000);
			uint64_t seen = shaper_in(&root, gone, 1000);

			last = seen ? seen : gone;
			lone = gone;
		}
	ok(lone == 100 * MS, "a sender's link is busy for its own vector");
	ok(last == (P - 1) * 100 * MS, "the root sees the last chunk after all vectors' time");
}

static void
test_extremes(void)
{
	struct shaper s = link_of(UINT64_MAX, 1);
	uint64_t before = 0, at;
	bool rising = true;

	for (unsigned i = 0; i < 1000; i++) {
		at = shaper_in(&s, 1, UINT64_MAX);
		rising &= at > before;
		before = at;
	}
	ok(rising, "absurd numbers saturate and do not wrap");
	ok(shaper_transit_ns(&s, UINT64_MAX) > shaper_transit_ns(&s, 1), "also in transit");
}

int
main(void)
{
	test_none();
	test_latency();
	test_out();
	test_in();
	test_fan_in();
	test_extremes();
	return tap_done();
}
