/*
 * race.c - find the pairs of steps that must be ordered, and check that they are.
 *
 * Each read comes after the last write of its chunk, each write after the reads since. If those pairs are
 * ordered, all are. Most are ordered within their rank, by its blocks and dependencies: a clock for each
 * block of the rank decides. The others are ordered by messages through other ranks: they are checked in
 * passes over the graph, BATCH at a time.
 */
#include "algo/graph.h"

#include <stdlib.h>
#include <string.h>

#include "algo/cells.h"
#include "base/buf.h"

#define WORDS	   4u /* of a pass */
#define BATCH	   (64u * WORDS)
#define MAX_CLOCKS (1ul << 24)
#define MAX_PAIRS  (1ul << 22)
#define MAX_VISITS (1ull << 27) /* of nodes, in passes */

/* Step x must happen before step y of the same rank, because both touch the cell. */
struct pair {
	uint32_t x, y, cell;
};

struct search {
	const struct graph *g;
	struct pair *pair;
	size_t npair, cap;
	enum rc rc;
	/* The current rank. */
	uint32_t rank, nblock;
	uint64_t work; /* in a budget's units */
	/* by step of the rank and block: the block's steps that happen before; NULL: too many */
	uint32_t *clock;
	struct cell *cell;
	struct accesses accesses;
};

static bool
grow_pairs(struct search *s)
{
	size_t cap = s->cap ? 2 * s->cap : 1024;
	struct pair *p = cap <= MAX_PAIRS ? alloc_resize(s->pair, cap, sizeof *p) : NULL;

	if (!p) {
		s->rc = cap <= MAX_PAIRS ? RC_NOMEM : RC_INVAL;
		return false;
	}
	s->pair = p;
	s->cap = cap;
	return true;
}

static uint32_t *
clock_of(const struct search *s, uint32_t node)
{
	uint32_t first = s->g->first[s->g->rank_block[s->rank]];

	return s->clock + (size_t)(node - first) * s->nblock;
}

/* Within the rank. */
static bool
is_ordered(const struct search *s, uint32_t x, uint32_t y)
{
	uint32_t block = s->g->block_of[x];

	if (block == s->g->block_of[y])
		return true;
	return s->clock && clock_of(s, y)[block - s->g->rank_block[s->rank]] > graph_index(s->g, x);
}

static void
want_order(struct search *s, uint32_t x, uint32_t y, uint32_t cell)
{
	struct pair *last = s->npair ? &s->pair[s->npair - 1] : NULL;

	if (x == ALGO_NONE || x == y || s->rc || is_ordered(s, x, y) ||
	    (last && last->x == x && last->y == y))
		return;
	if (s->npair == s->cap && !grow_pairs(s))
		return;
	s->pair[s->npair++] = (struct pair){x, y, cell};
}

static void
advance_clock(struct search *s, uint32_t node)
{
	uint32_t before[] = {graph_prev(s->g, node), graph_dep(s->g, node)};
	uint32_t *c = clock_of(s, node);

	for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
		const uint32_t *b = before[i] == ALGO_NONE ? NULL : clock_of(s, before[i]);

		for (uint32_t k = 0; b && k < s->nblock; k++)
			if (b[k] > c[k])
				c[k] = b[k];
	}
	c[s->g->block_of[node] - s->g->rank_block[s->rank]] = graph_index(s->g, node) + 1;
}

static access_step
access_of(const struct search *s, uint32_t node)
{
	return (uint64_t)s->g->block_of[node] << 32 | node;
}

static void
see_read(struct search *s, uint32_t node, uint32_t cell)
{
	want_order(s, (uint32_t)s->cell[cell].writer, node, cell);
	if (!cell_read(&s->accesses, &s->cell[cell], access_of(s, node)))
		s->rc = RC_NOMEM;
}

static void
see_write(struct search *s, uint32_t node, uint32_t cell)
{
	const struct cell_reader *r;

	want_order(s, (uint32_t)s->cell[cell].writer, node, cell);
	for (uint32_t i = s->cell[cell].readers; i; i = r->next) {
		r = &s->accesses.reader[i - 1];
		want_order(s, (uint32_t)r->step, node, cell);
	}
	cell_written(&s->accesses, &s->cell[cell], access_of(s, node));
}

static void
see_step(struct search *s, uint32_t node)
{
	const struct algo_step *step = graph_step(s->g, node);
	struct cells r = step_reads(s->g->algo, s->rank, step);
	struct cells w = step_writes(s->g->algo, s->rank, step);

	s->work += s->nblock + 4ull * step->count;
	if (s->clock)
		advance_clock(s, node);
	for (uint32_t i = 0; i < r.count; i++)
		see_read(s, node, r.at + i);
	for (uint32_t i = 0; i < w.count; i++)
		see_write(s, node, w.at + i);
}

/* The pairs of one rank, whose nodes come in the order of the graph. */
static void
search_rank(struct search *s, uint32_t rank, const uint32_t *node, uint32_t n)
{
	uint32_t ncell = cells_of_rank(s->g->algo, rank);

	s->rank = rank;
	s->nblock = s->g->rank_block[rank + 1] - s->g->rank_block[rank];
	s->accesses.n = s->accesses.spare = 0;
	s->work = 0;
	s->clock = NULL;
	if ((uint64_t)n * s->nblock <= MAX_CLOCKS)
		s->clock = alloc_zeroed((size_t)n * s->nblock + 1, sizeof *s->clock);
	s->cell = alloc_zeroed(ncell + 1ul, sizeof *s->cell);
	if (s->cell) {
		for (uint32_t i = 0; i < ncell; i++)
			s->cell[i].writer = ACCESS_NONE;
		for (uint32_t i = 0; i < n && !s->rc; i++)
			see_step(s, node[i]);
	} else {
		s->rc = RC_NOMEM;
	}
	free(s->clock);
	free(s->cell);
}

/* ---- passes */

static int
by_first(const void *a, const void *b)
{
	const struct pair *p = a, *q = b;

	if (p->x != q->x)
		return p->x < q->x ? -1 : 1;
	return p->y < q->y ? -1 : p->y > q->y;
}

/* OR the sets of those that happen before the node at place i, from place `lo` on. */
static void
gather(const struct graph *g, uint64_t (*set)[WORDS], uint32_t lo, uint32_t i)
{
	uint32_t node = g->order[i];
	uint32_t before[] = {graph_prev(g, node), graph_dep(g, node), g->from[node]};

	for (size_t k = 0; k < sizeof before / sizeof *before; k++) {
		if (before[k] == ALGO_NONE || g->at[before[k]] < lo)
			continue;
		for (uint32_t w = 0; w < WORDS; w++)
			set[i - lo][w] |= set[g->at[before[k]] - lo][w];
	}
}

/* One pass for up to BATCH pairs, whose x and y are places here. The first unordered pair goes to *found.
 * Returns the number of nodes visited. */
static uint32_t
pass(const struct graph *g, uint64_t (*set)[WORDS], const struct pair *p, uint32_t n,
     struct pair *found)
{
	uint32_t lo = p[0].x, hi = 0, next = 0;

	for (uint32_t q = 0; q < n; q++)
		if (p[q].y > hi)
			hi = p[q].y;
	memset(set, 0, (hi - lo + 1ul) * sizeof *set);
	for (uint32_t i = lo; i <= hi; i++) {
		gather(g, set, lo, i);
		for (; next < n && p[next].x == i; next++)
			set[i - lo][next / 64] |= 1ull << next % 64;
	}
	for (uint32_t q = 0; q < n; q++)
		if (!(set[p[q].y - lo][q / 64] >> q % 64 & 1) && p[q].y < found->y)
			*found = p[q];
	return hi - lo + 1;
}

static enum rc
too_long(const struct graph *g, struct err *err)
{
	return err_set(
	    err, RC_INVAL,
	    "ordering its %u steps would take too long: add dependencies within the ranks",
	    g->nnode);
}

static enum rc
tell_race(const struct graph *g, struct pair p, struct err *err)
{
	uint32_t rank = graph_rank(g, p.x);
	const struct algo_step *x = graph_step(g, p.x), *y = graph_step(g, p.y);
	bool x_writes = cells_have(step_writes(g->algo, rank, x), p.cell);
	bool y_writes = cells_have(step_writes(g->algo, rank, y), p.cell);

	return err_set(err, RC_BADDATA, "race: %s %s %s, which %s %s, without a fixed order%s",
		       graph_name(g, p.y).text, y_writes ? "writes" : "reads",
		       cell_name(g->algo, rank, y, p.cell).text, graph_short_name(g, p.x).text,
		       x_writes ? "writes" : "reads", graph_line(g, p.y).text);
}

/* Search for paths between all pairs, which are places in the order. */
static enum rc
check_pairs(struct search *s, struct err *err)
{
	const struct graph *g = s->g;
	uint64_t(*set)[WORDS] = alloc_zeroed(g->nnode + 1ul, sizeof *set);
	struct pair found = {.y = ALGO_NONE};
	uint64_t visits = 0, last;
	enum rc rc = RC_OK;

	if (!s->npair) {
		free(set);
		return RC_OK;
	}
	if (!set)
		return err_set(err, RC_NOMEM, "out of memory");
	for (size_t i = 0; i < s->npair; i++) {
		s->pair[i].x = g->at[s->pair[i].x];
		s->pair[i].y = g->at[s->pair[i].y];
	}
	qsort(s->pair, s->npair, sizeof *s->pair, by_first);
	for (size_t i = 0; i < s->npair && !rc; i += BATCH) {
		uint32_t n = s->npair - i < BATCH ? (uint32_t)(s->npair - i) : BATCH;

		last = pass(g, set, s->pair + i, n, &found);
		visits += last;
		rc = visits > MAX_VISITS ? too_long(g, err)
					 : algo_spend(g->algo->budget, 2 * last, err);
	}
	free(set);
	if (rc || found.y == ALGO_NONE)
		return rc;
	return tell_race(g, (struct pair){g->order[found.x], g->order[found.y], found.cell}, err);
}

/* The nodes by rank, each rank's in the order of the graph: like counting sort. */
static uint32_t *
order_by_rank(const struct graph *g)
{
	const struct algo *a = g->algo;
	uint32_t *node = alloc_zeroed(g->nnode + 1ul, sizeof *node);
	uint32_t *next = alloc_zeroed(a->nranks, sizeof *next);

	for (uint32_t r = 0; node && next && r < a->nranks; r++)
		next[r] = g->first[g->rank_block[r]];
	for (uint32_t i = 0; node && next && i < g->nnode; i++)
		node[next[graph_rank(g, g->order[i])]++] = g->order[i];
	if (!next) {
		free(node);
		node = NULL;
	}
	free(next);
	return node;
}

enum rc
race_find(const struct graph *g, struct err *err)
{
	struct search s = {.g = g};
	uint32_t *node = order_by_rank(g);
	enum rc rc = RC_OK;

	if (!node)
		return err_set(err, RC_NOMEM, "out of memory");
	for (uint32_t r = 0; r < g->algo->nranks && !s.rc && !rc; r++) {
		uint32_t first = g->first[g->rank_block[r]];

		search_rank(&s, r, node + first, g->first[g->rank_block[r + 1]] - first);
		rc = algo_spend(g->algo->budget, cells_of_rank(g->algo, r) + s.work, err);
	}
	if (s.rc == RC_NOMEM)
		rc = err_set(err, RC_NOMEM, "out of memory");
	else if (!rc)
		rc = s.rc ? too_long(g, err) : check_pairs(&s, err);
	free(node);
	free(s.pair);
	free(s.accesses.reader);
	return rc;
}
