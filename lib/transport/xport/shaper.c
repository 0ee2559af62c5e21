#include "xport/shaper.h"

#define TIME_MAX (1ull << 50) /* 13 days: sums of thousands do not overflow */

static uint64_t
wire_time_ns(const struct shaper *s, uint64_t nbytes)
{
	double t = s->bits_per_s ? (double)nbytes * 8e9 / (double)s->bits_per_s : 0;

	return t < (double)TIME_MAX ? (uint64_t)t : TIME_MAX;
}

static uint64_t
latency_ns(const struct shaper *s)
{
	return s->latency_ns < TIME_MAX ? s->latency_ns : TIME_MAX;
}

void
shaper_woke(struct shaper *s, uint64_t due_ns, uint64_t now_ns)
{
	s->late_ns = due_ns && due_ns < now_ns ? now_ns - due_ns : 0;
}

uint64_t
shaper_out(struct shaper *s, uint64_t now_ns, uint64_t nbytes)
{
	if (!s->bits_per_s)
		return 0;
	now_ns -= s->late_ns < now_ns ? s->late_ns : now_ns;
	s->late_ns = 0;
	if (s->out_free_ns < now_ns)
		s->out_free_ns = now_ns;
	s->out_free_ns += wire_time_ns(s, nbytes);
	return s->out_free_ns;
}

uint64_t
shaper_in(struct shaper *s, uint64_t now_ns, uint64_t nbytes)
{
	uint64_t at = now_ns;

	/* The chunk's bytes arrived while they were sent; only another sender's bytes delay it. */
	if (s->bits_per_s) {
		s->in_free_ns += wire_time_ns(s, nbytes);
		if (s->in_free_ns < now_ns)
			s->in_free_ns = now_ns;
		at = s->in_free_ns;
	}
	at += latency_ns(s);
	return at > now_ns ? at : 0;
}

uint64_t
shaper_transit_ns(const struct shaper *s, uint64_t nbytes)
{
	return latency_ns(s) + wire_time_ns(s, nbytes);
}
