/* Another host's clock, from answers: how well it is known. */
#include <stdlib.h>

#include "base/clock.h"
#include "flight/offset.h"
#include "tap.h"

/* An answer on its way: there for so long, and back. The other clock is `ahead`. */
static void
ask(struct flight_answers *a, uint64_t now, int64_t ahead, uint64_t there, uint64_t back)
{
	flight_answer_add(a, now, now + there + (uint64_t)ahead, now + there + back);
}

static void
test_exact(void)
{
	struct flight_answers a = {0};
	struct flight_answer best = flight_answer_best(&a, 0);

	ok(best.error_ns == UINT64_MAX, "without an answer nothing is known");
	ask(&a, NS_PER_SEC, -5000, 100, 100);
	best = flight_answer_best(&a, NS_PER_SEC + 200);
	ok(best.offset_ns == -5000 && best.error_ns == 100, "half of the way there and back");
	flight_answer_add(&a, 500, 600, 400);
	ok(a.n == 1, "an answer before its question is none");
}

/* The true offset is within the error, whatever the ways take. */
static void
test_bounds(void)
{
	struct flight_answers a = {0};
	uint64_t now = NS_PER_SEC;
	bool within = true;

	srand(7);
	for (int i = 0; i < 1000; i++, now += NS_PER_SEC) {
		int64_t ahead = 123456789 + i * 1000; /* 1 ppm */
		struct flight_answer best;

		ask(&a, now, ahead, (uint64_t)rand() % 3000000, (uint64_t)rand() % 3000000);
		best = flight_answer_best(&a, now + 6000000);
		within &= best.offset_ns - ahead <= (int64_t)best.error_ns &&
			  ahead - best.offset_ns <= (int64_t)best.error_ns;
	}
	ok(within, "the offset is within its error, while clocks drift apart");
	ask(&a, now, 77, 10, 10);
	for (int i = 0; i < FLIGHT_ANSWERS - 1; i++)
		ask(&a, now + 1000, 5000000, 9000000, 9000000);
	ok(flight_answer_best(&a, now + 2000).offset_ns == 77, "the best of the last answers");
	ask(&a, now + 1000, 5000000, 9000000, 9000000);
	ok(flight_answer_best(&a, now + 2000).offset_ns != 77, "older ones are forgotten");
}

int
main(void)
{
	test_exact();
	test_bounds();
	return tap_done();
}
