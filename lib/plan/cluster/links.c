#include "cluster/links.h"
#include "base/must.h"

#include <inttypes.h>

struct links
links_flat(uint32_t nranks, const struct cost_model *m)
{
	return (struct links){.nranks = nranks,
			      .domain = nranks,
			      .port_byte_us = m->beta_us,
			      .port_latency_us = m->alpha_us,
			      .host_us = m->host_us,
			      .reduce_byte_us = m->gamma_us};
}

/* Microseconds per byte at a rate in GB/s. */
static double
byte_us(double gbs)
{
	return gbs > 0 ? 1 / (1e3 * gbs) : 0;
}

static struct links_level
level_of_cluster(const struct cluster *c, unsigned k)
{
	const struct cluster_level *v = &c->level[k];
	double below = v->hosts * cluster_host_gbs(c) * c->nic_share;
	uint32_t ranks = v->hosts * c->gpus_per_host;

	/* Switches without oversubscription let through all that NICs can bring. */
	return (struct links_level){
	    .ranks = ranks > c->domain ? ranks : c->domain,
	    .byte_us = v->oversubscription > 1 ? byte_us(below / v->oversubscription) : 0,
	    .latency_us = k ? 2 * c->switch_us : 0};
}

struct links
links_of_cluster(const struct cluster *c, uint32_t nranks, enum cluster_proto proto)
{
	const struct cluster_class *in = &c->in[proto], *out = &c->out[proto];
	uint32_t nics = (uint32_t)((uint64_t)c->domain * c->nics / c->gpus_per_host);
	struct links l = {.nranks = nranks,
			  .domain = c->domain,
			  .ring = c->inside == CLUSTER_RING_OF_LINKS,
			  .port_byte_us = byte_us(c->inside_gbs * c->inside_share * in->share),
			  .port_latency_us = in->us,
			  .nics = nics || !c->nics ? nics : 1,
			  .host_nics = c->nics,
			  .nic_byte_us = byte_us(c->nic_gbs * c->nic_share * out->share),
			  .nic_latency_us = out->us + c->switch_us,
			  .host_us = 0,
			  .reduce_byte_us = byte_us(c->reduce_gbs)};

	if (!nics && c->nics) /* domains of a host share one */
		l.nic_byte_us *= (double)c->gpus_per_host / (c->domain * c->nics);
	if (l.ring)
		l.port_byte_us *= 2; /* a GPU's bandwidth is that of its two links */
	while (l.nlevels < CLUSTER_MAX_LEVELS && c->level[l.nlevels].hosts) {
		l.level[l.nlevels] = level_of_cluster(c, l.nlevels);
		l.nlevels++;
	}
	return l;
}

static uint32_t
groups(const struct links *l, uint32_t ranks)
{
	return (l->nranks + ranks - 1) / ranks;
}

static uint32_t
nics(const struct links *l)
{
	return groups(l, l->domain) * l->nics;
}

/* A rank's NIC among all: ranks of a domain share its NICs evenly, neighbours the same one. */
static uint32_t
nic_of(const struct links *l, uint32_t rank)
{
	uint64_t place = rank % l->domain;

	return rank / l->domain * l->nics + (uint32_t)(place * l->nics / l->domain);
}

/* The number of the level's first way up, and past the last level, of all links. */
static uint32_t
level_base(const struct links *l, unsigned level)
{
	uint32_t n = 2 * l->nranks + 2 * nics(l);

	for (unsigned k = 0; k < level; k++)
		n += 2 * groups(l, l->level[k].ranks);
	return n;
}

uint32_t
links_count(const struct links *l)
{
	return level_base(l, l->nlevels);
}

/* The level of a link; nlevels: none. */
static unsigned
level_of(const struct links *l, uint32_t link)
{
	unsigned k = 0;

	while (k < l->nlevels && (link < level_base(l, k) || link >= level_base(l, k + 1)))
		k++;
	return k;
}

double
links_byte_us(const struct links *l, uint32_t link)
{
	if (link < 2 * l->nranks)
		return l->port_byte_us;
	if (link < level_base(l, 0))
		return l->nic_byte_us;
	return l->level[level_of(l, link)].byte_us;
}

static void
take(struct route *r, uint32_t link, double byte_us)
{
	if (byte_us > 0)
		r->link[r->n++] = link;
}

/* Up and down again, until a switch joins both. */
static void
climb(const struct links *l, uint32_t from, uint32_t to, struct route *r)
{
	for (unsigned k = 0; k < l->nlevels; k++) {
		const struct links_level *v = &l->level[k];
		uint32_t a = from / v->ranks, b = to / v->ranks;

		r->latency_us += v->latency_us;
		if (a == b)
			return;
		take(r, level_base(l, k) + a, v->byte_us);
		take(r, level_base(l, k) + groups(l, v->ranks) + b, v->byte_us);
	}
}

/* Ranks of the rank's domain, the last one of which may have fewer than the others. */
static uint32_t
ring_of(const struct links *l, uint32_t rank, uint32_t *first)
{
	*first = rank / l->domain * l->domain;
	return l->nranks - *first < l->domain ? l->nranks - *first : l->domain;
}

_Static_assert(CLUSTER_MAX_RING / 2 <= LINKS_MAX_ROUTE, "half a ring is a route");

static struct route
around(const struct links *l, uint32_t from, uint32_t to)
{
	struct route r = {0};
	uint32_t first, n = ring_of(l, from, &first), at = from - first;
	uint32_t ahead = (to - first + n - at) % n;
	bool next = 2 * ahead <= n;

	for (uint32_t left = next ? ahead : n - ahead; left; left--) {
		take(&r, (next ? 0 : l->nranks) + first + at, l->port_byte_us);
		at = (at + (next ? 1 : n - 1)) % n;
		r.latency_us += l->port_latency_us;
	}
	return r;
}

struct route
links_route(const struct links *l, uint32_t from, uint32_t to)
{
	struct route r = {.latency_us = l->port_latency_us};

	if (l->ring && from / l->domain == to / l->domain)
		return around(l, from, to);
	if (from / l->domain == to / l->domain) {
		take(&r, from, l->port_byte_us);
		take(&r, l->nranks + to, l->port_byte_us);
		return r;
	}
	r.latency_us = l->nic_latency_us;
	take(&r, 2 * l->nranks + nic_of(l, from), l->nic_byte_us);
	take(&r, 2 * l->nranks + nics(l) + nic_of(l, to), l->nic_byte_us);
	climb(l, from, to, &r);
	return r;
}

/* NICs of a host are numbered in it, where a domain is a host or several. */
static void
nic_name(const struct links *l, uint32_t nic, bool out, struct buf *text)
{
	uint32_t each = l->host_nics && l->nics % l->host_nics == 0 ? l->host_nics : l->nics;

	must_addf(text, "%s %" PRIu32 "'s NIC %" PRIu32 " %s",
		  each == l->host_nics ? "host" : "domain", nic / each, nic % each,
		  out ? "out" : "in");
}

static void
ring_name(const struct links *l, uint32_t link, struct buf *out)
{
	uint32_t first, rank = link % l->nranks, n = ring_of(l, rank, &first);
	uint32_t to = first + (rank - first + (link < l->nranks ? 1 : n - 1)) % n;

	must_addf(out, "GPU %" PRIu32 "'s link to GPU %" PRIu32, rank, to);
}

void
links_name(const struct links *l, uint32_t link, struct buf *out)
{
	static const char *const levels[] = {"leaf", "spine", "core"};
	uint32_t n = l->nranks, at;
	unsigned k;

	if (l->ring && link < 2 * n) {
		ring_name(l, link, out);
		return;
	}
	if (link < 2 * n) {
		must_addf(out, "GPU %" PRIu32 "'s way %s its domain", link % n,
			  link < n ? "into" : "from");
		return;
	}
	if (link < level_base(l, 0)) {
		nic_name(l, (link - 2 * n) % nics(l), link - 2 * n < nics(l), out);
		return;
	}
	k = level_of(l, link);
	at = link - level_base(l, k);
	n = groups(l, l->level[k].ranks);
	must_addf(out, "%s switch %" PRIu32 "'s way %s", levels[k], at % n, at < n ? "up" : "down");
}

/* Return true if it matters below which switch of the level a rank is. */
static bool
tells_apart(const struct links *l, unsigned level)
{
	return l->level[level].byte_us > 0 ||
	       (level + 1 < l->nlevels && l->level[level + 1].latency_us > 0);
}

uint32_t
links_period(const struct links *l)
{
	uint32_t p = l->domain >= l->nranks ? 1 : l->domain;

	for (unsigned k = 0; k < l->nlevels; k++)
		if (l->level[k].ranks < l->nranks && tells_apart(l, k))
			p = l->level[k].ranks;
	return p < l->nranks && l->nranks % p == 0 ? p : l->nranks;
}

uint32_t
links_fold(const struct links *l, uint32_t period, uint32_t link)
{
	uint32_t base = 0, n = l->nranks, each = period;

	if (period == n)
		return link;
	if (link >= 2 * l->nranks && link < level_base(l, 0)) {
		base = 2 * l->nranks;
		n = nics(l);
		each = period / l->domain * l->nics;
	} else if (link >= 2 * l->nranks) {
		unsigned k = level_of(l, link);

		base = level_base(l, k);
		n = groups(l, l->level[k].ranks);
		each = period / l->level[k].ranks;
	}
	if (each == 0)
		each = 1;
	return base + (link - base) / n * n + (link - base) % n % each;
}
