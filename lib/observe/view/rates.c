#include "view/rates.h"

static uint64_t
counter(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

static void
add_count(const struct flight_count *c, struct rates_work *s)
{
	uint64_t n = counter(&c->n);

	if (n == 0)
		return;
	s->ops += n;
	s->ns += counter(&c->ns);
	for (unsigned i = 0; i < FLIGHT_BUCKETS; i++)
		s->bucket[i] += counter(&c->bucket[i]);
}

uint64_t
rates_on_way(const struct world *w, const struct world_recorder *r, const struct flight_live *l,
	     double *share)
{
	double begin = (double)atomic_load(&l->way_begin), end = (double)atomic_load(&l->way_end);
	double ns = (end - begin) * r->clock.ns_per_tick;

	if (!flight_at_work(l) || atomic_load(&l->way_to) == 0 || !(ns > 0))
		return 0;
	*share = (double)world_ns_since(w, r, atomic_load(&l->way_begin)) / ns;
	*share = *share < 1 ? *share : 1;
	return (uint64_t)((double)(atomic_load(&l->way_bytes) & UINT32_MAX) * *share);
}

/* A ring's counters, including the current operation so far. */
static struct rates_work
sum_up(const struct world *w, const struct world_recorder *r, const struct flight_ring *ring)
{
	const struct flight_counts *c = &ring->counts;
	struct rates_work s = {.sent = counter(&c->sent),
			       .received = counter(&c->received),
			       .busy_ns = counter(&c->busy_ns),
			       .waited_ns = counter(&c->waited_ns)};
	double share;

	s.sent += rates_on_way(w, r, &ring->live, &share);
	if (flight_at_work(&ring->live))
		s.busy_ns += world_ns_since(w, r, ring->live.op.begin);
	for (unsigned k = 0; k < FLIGHT_COLLS * FLIGHT_CLASSES; k++)
		add_count(&c->op[k / FLIGHT_CLASSES][k % FLIGHT_CLASSES], &s);
	return s;
}

static uint64_t
grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/* Recorders are read a little after their world's time, so a time may have grown by more than the
 * elapsed time. */
static uint64_t
grown_time(uint64_t now, uint64_t before, uint64_t passed)
{
	uint64_t ns = grown(now, before);

	return ns < passed ? ns : passed;
}

static void
add_growth(const struct rates_work *now, const struct rates_work *before, uint64_t passed,
	   struct rates_work *out)
{
	out->ops += grown(now->ops, before->ops);
	out->ns += grown(now->ns, before->ns);
	out->sent += grown(now->sent, before->sent);
	out->received += grown(now->received, before->received);
	out->busy_ns += grown_time(now->busy_ns, before->busy_ns, passed);
	out->waited_ns += grown_time(now->waited_ns, before->waited_ns, passed);
	for (unsigned i = 0; i < FLIGHT_BUCKETS; i++)
		out->bucket[i] += grown(now->bucket[i], before->bucket[i]);
}

bool
rates_of_device(const struct world *now, const struct world *before, size_t i,
		struct rates_work *out)
{
	const struct world_device *d = &now->device[i], *was;
	const struct world_recorder *r = d->recorder;
	uint64_t passed;

	*out = (struct rates_work){0};
	was = before && d->meta->deviceid ? world_device(before, d->meta->deviceid->value) : NULL;
	if (!r || !was || !was->recorder || now->now_ns <= before->now_ns ||
	    was->recorder->header.incarnation != r->header.incarnation)
		return false;
	passed = now->now_ns - before->now_ns;
	for (size_t k = 0, j = 0; k < r->nrings; k++) {
		struct rates_work a = sum_up(now, r, &r->ring[k].ring), b = {0};

		/* Rings are in the order of their indices, and none disappears. */
		if (j < was->recorder->nrings && was->recorder->ring[j].index == r->ring[k].index)
			b = sum_up(before, was->recorder, &was->recorder->ring[j++].ring);
		add_growth(&a, &b, passed, out);
	}
	if (out->waited_ns > passed)
		out->waited_ns = passed;
	return true;
}

/* The p-quantile of the operations' times, evenly spread within a bucket. */
static double
quantile_us(const struct rates_work *s, double p)
{
	double n = 0, before = 0, low = 0, high = 1;

	for (unsigned i = 0; i < FLIGHT_BUCKETS; i++)
		n += (double)s->bucket[i];
	for (unsigned i = 0; i < FLIGHT_BUCKETS && n > 0; i++, low = high, high *= 2) {
		double here = (double)s->bucket[i];

		if (here > 0 && before + here >= p * n)
			return low + (high - low) * (p * n - before) / here;
		before += here;
	}
	return 0;
}

void
rates_between(const struct world *now, const struct world *before, struct rates *out)
{
	struct rates_work total = {0}, none = {0}, w;
	size_t n = 0;

	*out = (struct rates){0};
	if (!before || now->now_ns <= before->now_ns)
		return;
	for (size_t i = 0; i < now->ndevices; i++)
		if (rates_of_device(now, before, i, &w)) {
			add_growth(&w, &none, UINT64_MAX, &total);
			n++;
		}
	out->seconds = (double)(now->now_ns - before->now_ns) / 1e9;
	out->ops = (double)total.ops / out->seconds;
	out->bytes = (double)total.sent / out->seconds;
	out->mean_us = total.ops ? (double)total.ns / 1e3 / (double)total.ops : 0;
	out->p50_us = quantile_us(&total, 0.5);
	out->p99_us = quantile_us(&total, 0.99);
	out->waiting = n ? (double)total.waited_ns / 1e9 / out->seconds / (double)n : 0;
}
