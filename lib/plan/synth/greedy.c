#include "synth/greedy.h"
#include "base/must.h"

#include <math.h>
#include <stdlib.h>

struct greedy {
	struct draft *d;
	const struct links *links;
	double nbytes;
	double *there;	    /* by rank and chunk: its arrival; INFINITY: not yet */
	uint32_t *round;    /* by rank and chunk: the first round in which it can be sent */
	double *busy;	    /* by link: until then */
	uint32_t *out, *in; /* by rank: the last round of sending and receiving */
	uint32_t *copies;   /* by chunk */
	uint64_t seed;
};

struct choice {
	double begin;
	uint32_t from, to, chunk, copies;
	uint64_t lot;
};

static uint64_t
draw(struct greedy *g)
{
	g->seed ^= g->seed << 13;
	g->seed ^= g->seed >> 7;
	g->seed ^= g->seed << 17;
	return g->seed;
}

static bool
better(const struct choice *a, const struct choice *b)
{
	if (!isfinite(b->begin))
		return true;
	if (fabs(a->begin - b->begin) > 1e-9 * (a->begin + b->begin))
		return a->begin < b->begin;
	return a->copies != b->copies ? a->copies < b->copies : a->lot < b->lot;
}

/* The best chunk that `from` has, or will have, for `to`. */
static void
consider(struct greedy *g, uint32_t from, uint32_t to, struct choice *best)
{
	struct route route = links_route(g->links, from, to);
	uint32_t n = g->d->nchunks;
	double free_at = 0;

	for (unsigned i = 0; i < route.n; i++)
		free_at = fmax(free_at, g->busy[route.link[i]]);
	if (isfinite(best->begin) && free_at > best->begin * (1 + 1e-9))
		return;
	for (uint32_t c = 0; c < n; c++) {
		struct choice x = {.from = from, .to = to, .chunk = c, .copies = g->copies[c]};

		if (isfinite(g->there[to * n + c]) || !isfinite(g->there[from * n + c]))
			continue;
		x.begin = fmax(free_at, g->there[from * n + c]);
		/* A message that takes longer, over the network, begins as if it ended that much later. */
		x.begin += route.latency_us * 1e-3;
		x.lot = draw(g);
		if (better(&x, best))
			*best = x;
	}
}

static void
carry_out(struct greedy *g, const struct choice *x)
{
	struct route route = links_route(g->links, x->from, x->to);
	uint32_t n = g->d->nchunks, *round = g->round;
	double begin = g->there[x->from * n + x->chunk], slowest = 0;
	uint32_t r = round[x->from * n + x->chunk];

	for (unsigned i = 0; i < route.n; i++) {
		begin = fmax(begin, g->busy[route.link[i]]);
		slowest = fmax(slowest, links_byte_us(g->links, route.link[i]));
	}
	for (unsigned i = 0; i < route.n; i++)
		g->busy[route.link[i]] = begin + g->nbytes * links_byte_us(g->links, route.link[i]);
	g->there[x->to * n + x->chunk] = begin + g->nbytes * slowest + route.latency_us;
	r = r > g->out[x->from] ? r : g->out[x->from];
	r = r > g->in[x->to] ? r : g->in[x->to];
	g->out[x->from] = g->in[x->to] = r;
	round[x->to * n + x->chunk] = r + 1;
	g->copies[x->chunk]++;
	draft_pass(g->d, r, x->from, x->to, x->chunk, 1);
}

static void
search(struct greedy *g, const uint32_t *owner)
{
	uint32_t n = g->d->nranks, m = g->d->nchunks;

	for (uint32_t i = 0; i < n * m; i++)
		g->there[i] = INFINITY;
	for (uint32_t c = 0; c < m; c++) {
		g->there[owner[c] * m + c] = 0;
		g->copies[c] = 1;
	}
	for (uint64_t left = (uint64_t)m * (n - 1); left && !g->d->full; left--) {
		struct choice best = {.begin = INFINITY};

		for (uint32_t from = 0; from < n; from++)
			for (uint32_t to = 0; to < n; to++)
				if (from != to)
					consider(g, from, to, &best);
		carry_out(g, &best);
	}
	draft_sort(g->d);
}

void
greedy_passes(struct draft *d, const struct links *links, const uint32_t *owner, double nbytes,
	      uint64_t seed)
{
	size_t cells = (size_t)d->nranks * d->nchunks;
	struct greedy g = {.d = d, .links = links, .nbytes = nbytes, .seed = seed | 1};

	g.there = must_alloc(cells, sizeof *g.there);
	g.round = must_alloc(cells, sizeof *g.round);
	g.busy = must_alloc(links_count(links) + 1ul, sizeof *g.busy);
	g.out = must_alloc(d->nranks, sizeof *g.out);
	g.in = must_alloc(d->nranks, sizeof *g.in);
	g.copies = must_alloc(d->nchunks, sizeof *g.copies);
	search(&g, owner);
	free(g.there);
	free(g.round);
	free(g.busy);
	free(g.out);
	free(g.in);
	free(g.copies);
}
