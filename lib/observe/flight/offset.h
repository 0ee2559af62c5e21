/*
 * offset.h - another host's clock, from its answers. Pure.
 *
 * A question is sent at one moment of this host's clock, and the answer with the other's clock is back at a
 * later one. The other clock was read somewhere between, so the offset is known to half of the time between.
 * Of the last answers the one with the smallest error is used; the error grows with age, because clocks drift
 * apart.
 */
#ifndef FLIGHT_OFFSET_H
#define FLIGHT_OFFSET_H

#include <stdint.h>

#define FLIGHT_ANSWERS	 16
#define FLIGHT_DRIFT_PPM 20 /* by how much two clocks may differ in rate */

struct flight_answer {
	int64_t offset_ns; /* the other's clock less this one's */
	uint64_t error_ns;
	uint64_t at_ns; /* on this host's clock */
};

/* Initialise with {0}. */
struct flight_answers {
	struct flight_answer v[FLIGHT_ANSWERS];
	uint64_t n;
};

/* All by CLOCK_REALTIME: sent and back on this host, theirs on the other. Answers with times that go
 * backwards are ignored. */
void flight_answer_add(struct flight_answers *a, uint64_t sent_ns, uint64_t theirs_ns,
		       uint64_t back_ns);

/* The best estimate at a moment; error UINT64_MAX: there is none. */
struct flight_answer flight_answer_best(const struct flight_answers *a, uint64_t now_ns);

#endif
