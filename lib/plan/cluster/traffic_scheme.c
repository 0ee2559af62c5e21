/*
 * Schemes on links. If that would be too many steps, two smaller runs are simulated, and the rest is
 * extrapolated: per unit, and for a tree, whose pieces fill it level by level, also per doubling of the
 * hosts.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/must.h"
#include "cluster/traffic_impl.h"

/* One number of units, simulated. */
static enum rc
run(const struct scheme *scheme, const struct scheme_ask *a, const struct scheme_size *s,
    const struct links *l, uint64_t units, double *us, struct flow_report *report, struct err *err)
{
	size_t n = (size_t)s->nplans * s->blocks;
	struct plan *plan = must_alloc(n, sizeof *plan);
	struct flow_plans p = {plan, s->nplans, a->nranks, 1, s->blocks, false};
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < s->nplans && rc == RC_OK; r++) {
		struct plan *of = &plan[(size_t)r * s->blocks];

		scheme->build(a, l, s, units, r, of);
		for (uint32_t b = 0; b < s->blocks && rc == RC_OK; b++)
			rc = of[b].rc
				 ? err_set(err, of[b].rc, "rank %" PRIu32 ": %s", r,
					   of[b].rc == RC_NOMEM ? "no memory" : "too many steps")
				 : RC_OK;
	}
	if (rc == RC_OK)
		rc = flow_simulate(&p, l, us, report, err);
	for (size_t i = 0; i < n; i++)
		plan_fini(&plan[i]);
	free(plan);
	return rc;
}

/* The use of a link in the other report; NULL: none. */
static const struct flow_link *
same_link(const struct flow_report *r, const uint32_t *place, uint32_t link)
{
	return place[link] ? &r->link[place[link] - 1] : NULL;
}

/* All that links do grows with the units, `times` what it is more than in the shorter run. The path stays the
 * longer run's. */
static void
stretch_links(struct flow_report *r, const struct flow_report *shorter, const struct links *l,
	      double times)
{
	uint32_t *place = must_alloc((size_t)links_count(l) + 1, sizeof *place);

	for (size_t i = 0; i < shorter->nlinks; i++)
		place[shorter->link[i].link] = (uint32_t)i + 1;
	for (size_t i = 0; i < r->nlinks; i++) {
		struct flow_link *x = &r->link[i];
		const struct flow_link *was = same_link(shorter, place, x->link);

		if (!was)
			continue;
		x->nbytes += times * (x->nbytes - was->nbytes);
		x->busy_us += times * (x->busy_us - was->busy_us);
		x->bottleneck_us += times * (x->bottleneck_us - was->bottleneck_us);
	}
	free(place);
}

/* Time, and its parts: those of `base`, and `times` what they are more than in a lesser run. */
static void
stretch_time(struct flow_report *r, const struct flow_report *base,
	     const struct flow_report *lesser, double times)
{
	double more = times * (base->us - lesser->us), sum = 0;

	r->us += more;
	for (int w = 0; w < FLOW_NWHY; w++) {
		r->why_us[w] += times * (base->why_us[w] - lesser->why_us[w]);
		r->why_us[w] = fmax(0, r->why_us[w]);
		sum += r->why_us[w];
	}
	for (int w = 0; w < FLOW_NWHY && sum > 0; w++)
		r->why_us[w] *= r->us / sum;
}

/* The part that is simulated. */
struct part {
	struct scheme_ask ask; /* of fewer ranks */
	struct links links;
	struct scheme_size size;
	uint64_t units;
	double unit_times, level_times; /* the missing part, over the difference of the two runs */
};

/* A tree of half of the hosts, until it is affordable. */
static void
fewer_hosts(const struct scheme_ask *a, struct part *p, double most_steps)
{
	uint32_t per = a->nranks <= p->links.domain ? a->nranks : p->size.hosts_of,
		 hosts = a->nranks / per, kept = 1;
	double depth = ceil(log2(hosts)), rank_steps = p->size.unit_steps / a->nranks;

	while (2 * kept < hosts)
		kept *= 2;
	while (kept > SCHEME_LEAST_HOSTS && rank_steps * kept * per * (double)p->units > most_steps)
		kept /= 2;
	p->level_times = depth - log2(kept);
	p->ask.nranks = p->links.nranks = p->size.nplans = kept * per;
}

static void
fewer_units(struct part *p, uint64_t units)
{
	units -= units % (2 * p->size.every);
	if (units == 0)
		units = 2 * p->size.every;
	if (units >= p->units)
		return;
	p->unit_times = 2 * (double)(p->units - units) / (double)units;
	p->units = units;
}

static void
choose_part(const struct scheme_ask *a, double most_steps, struct part *p)
{
	if (p->size.unit_steps * (double)p->units <= most_steps)
		return;
	if (!p->size.hosts_of || a->nranks / p->size.hosts_of <= SCHEME_LEAST_HOSTS) {
		fewer_units(p, (uint64_t)(most_steps / p->size.unit_steps));
		return;
	}
	fewer_units(p, SCHEME_MOST_PIECES);
	fewer_hosts(a, p, most_steps);
}

/* The part, with half of the units, and with half of the hosts. */
static enum rc
extrapolate(const struct scheme *scheme, const struct part *p, struct flow_report *report,
	    struct err *err)
{
	struct flow_report base = {0}, shorter = {0}, smaller = {0};
	struct part half = *p;
	double us;
	enum rc rc = run(scheme, &p->ask, &p->size, &p->links, p->units, &us, report, err);

	base.us = report->us;
	for (int w = 0; w < FLOW_NWHY; w++)
		base.why_us[w] = report->why_us[w];
	if (rc == RC_OK && p->unit_times > 0) {
		rc = run(scheme, &p->ask, &p->size, &p->links, p->units / 2, &us, &shorter, err);
		if (rc == RC_OK) {
			stretch_links(report, &shorter, &p->links, p->unit_times);
			stretch_time(report, &base, &shorter, p->unit_times);
		}
	}
	half.ask.nranks = half.links.nranks = half.size.nplans = p->ask.nranks / 2;
	if (rc == RC_OK && p->level_times > 0) {
		rc = run(scheme, &half.ask, &half.size, &half.links, p->units, &us, &smaller, err);
		if (rc == RC_OK)
			stretch_time(report, &base, &smaller, p->level_times);
	}
	if (rc != RC_OK)
		flow_report_fini(report);
	flow_report_fini(&shorter);
	flow_report_fini(&smaller);
	return rc;
}

/* Messages between domains have the longest latency, so that domains are alike. */
static void
all_far(struct links *l)
{
	for (unsigned k = 0; k < l->nlevels; k++) {
		if (k == 0 || l->level[k - 1].ranks < l->nranks)
			l->nic_latency_us += l->level[k].latency_us;
		l->level[k].latency_us = 0;
	}
}

enum rc
traffic_scheme(const struct scheme *scheme, const struct scheme_ask *a, double most_steps,
	       struct traffic_answer *out, struct flow_report *report, struct err *err)
{
	struct part p = {.ask = *a,
			 .links = out->links,
			 .size = {.blocks = 1,
				  .units = 1,
				  .every = 1,
				  .channels = 1,
				  .port_share = 1,
				  .nic_share = 1}};
	struct flow_report r = {0};
	enum rc rc;

	p.ask.coll = scheme->coll;
	if (scheme->far)
		all_far(&p.links);
	scheme->size(&p.ask, &p.links, &p.size);
	p.units = p.size.units;
	p.links.port_byte_us *= p.size.port_share;
	p.links.nic_byte_us *= p.size.nic_share;
	for (unsigned k = 0; k < p.links.nlevels; k++)
		p.links.level[k].byte_us *= p.size.channels;
	p.links.reduce_byte_us *= p.size.channels;
	choose_part(a, most_steps, &p);
	rc = extrapolate(scheme, &p, &r, err);
	if (rc != RC_OK)
		return rc;
	out->us = out->launch_us + r.us;
	out->simulated = p.size.nplans;
	out->message_bytes = p.size.message_bytes / (p.size.slices ? p.size.slices : 1);
	out->channels = p.size.channels;
	out->extrapolated = p.unit_times > 0 || p.level_times > 0;
	out->links = p.links;
	if (report)
		*report = r;
	else
		flow_report_fini(&r);
	return RC_OK;
}
