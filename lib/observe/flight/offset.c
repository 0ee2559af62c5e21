#include "flight/offset.h"

void
flight_answer_add(struct flight_answers *a, uint64_t sent_ns, uint64_t theirs_ns, uint64_t back_ns)
{
	uint64_t half;

	if (back_ns < sent_ns)
		return;
	half = (back_ns - sent_ns) / 2;
	a->v[a->n++ % FLIGHT_ANSWERS] =
	    (struct flight_answer){.offset_ns = (int64_t)(theirs_ns - (sent_ns + half)),
				   .error_ns = back_ns - sent_ns - half,
				   .at_ns = back_ns};
}

/* The answer's error now. */
static struct flight_answer
aged(struct flight_answer v, uint64_t now_ns)
{
	uint64_t age = now_ns > v.at_ns ? now_ns - v.at_ns : v.at_ns - now_ns;

	v.error_ns += age / 1000000 * FLIGHT_DRIFT_PPM;
	return v;
}

struct flight_answer
flight_answer_best(const struct flight_answers *a, uint64_t now_ns)
{
	struct flight_answer best = {.error_ns = UINT64_MAX};

	for (uint64_t i = 0; i < FLIGHT_ANSWERS && i < a->n; i++) {
		struct flight_answer v = aged(a->v[i], now_ns);

		if (v.error_ns < best.error_ns)
			best = v;
	}
	return best;
}
