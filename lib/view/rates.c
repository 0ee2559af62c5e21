#include "view/rates.h"

struct sums {
	uint64_t ops, ns, sent, waited_ns;
	uint64_t bucket[FLIGHT_BUCKETS];
};

static uint64_t
counter(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

static void
add_count(const struct flight_count *c, struct sums *s)
{
	uint64_t n = counter(&c->n);

	if (n == 0)
		return;
	s->ops += n;
	s->ns += counter(&c->ns);
	for (unsigned i = 0; i < FLIGHT_BUCKETS; i++)
		s->bucket[i] += counter(&c->bucket[i]);
}

static void
sum_up(const struct world_recorder *r, struct sums *s)
{
	*s = (struct sums){0};
	for (size_t i = 0; i < r->nrings; i++) {
		const struct flight_counts *c = &r->ring[i].ring.counts;

		s->sent += counter(&c->sent);
		s->waited_ns += counter(&c->waited_ns);
		for (unsigned k = 0; k < FLIGHT_COLLS * FLIGHT_CLASSES; k++)
			add_count(&c->op[k / FLIGHT_CLASSES][k % FLIGHT_CLASSES], s);
	}
}

static uint64_t
grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void
add_growth(const struct sums *now, const struct sums *before, struct sums *out)
{
	out->ops += grown(now->ops, before->ops);
	out->ns += grown(now->ns, before->ns);
	out->sent += grown(now->sent, before->sent);
	out->waited_ns += grown(now->waited_ns, before->waited_ns);
	for (unsigned i = 0; i < FLIGHT_BUCKETS; i++)
		out->bucket[i] += grown(now->bucket[i], before->bucket[i]);
}

/* The time below which the share p of the operations took, evenly spread within a bucket. */
static double
quantile_us(const struct sums *s, double p)
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
	struct sums total = {0}, a, b;
	size_t n = 0;

	*out = (struct rates){0};
	if (!before || now->now_ns <= before->now_ns)
		return;
	for (size_t i = 0; i < now->ndevices; i++) {
		const struct world_device *d = &now->device[i], *was;

		was = d->meta->deviceid ? world_device(before, d->meta->deviceid->value) : NULL;
		if (!d->recorder || !was || !was->recorder ||
		    was->recorder->header.incarnation != d->recorder->header.incarnation)
			continue;
		sum_up(d->recorder, &a);
		sum_up(was->recorder, &b);
		add_growth(&a, &b, &total);
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
