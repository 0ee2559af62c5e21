/*
 * exact.c - breadth-first search over states. A state has a bit for each rank and chunk. Having more is
 * never worse, so a round carries as much as fits.
 */
#include "synth/exact.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

#define MAX_WORK (1u << 18) /* choices looked at */
#define NSTATES	 (1u << EXACT_MAX_CELLS)

/* Found in a round, from the state before it. */
struct found {
	uint32_t before;
	uint8_t round; /* plus 1; 0: not yet */
	uint8_t nmove;
	uint8_t from[EXACT_MAX_CELLS], cell[EXACT_MAX_CELLS]; /* of its moves */
};

struct exact {
	struct draft *d;
	uint32_t n, m, most, goal;
	const struct route *route; /* from rank to rank */
	uint32_t *load;		   /* by link, in this round */
	struct found *found;
	uint32_t *next; /* states that were found, in order */
	uint32_t nnext, work;
	struct found now; /* the round that is being put together */
};

static bool
fits(const struct exact *x, uint32_t from, uint32_t to)
{
	const struct route *r = &x->route[from * x->n + to];

	for (unsigned i = 0; i < r->n; i++)
		if (x->load[r->link[i]] >= x->most)
			return false;
	return true;
}

static void
load(struct exact *x, uint32_t from, uint32_t to, int by)
{
	const struct route *r = &x->route[from * x->n + to];

	for (unsigned i = 0; i < r->n; i++)
		x->load[r->link[i]] += (uint32_t)by;
}

static bool
has(uint32_t state, uint32_t cell)
{
	return state >> cell & 1;
}

/* Return true if the missing cells of a state could still arrive in this round. */
static bool
has_room(const struct exact *x, uint32_t state, uint32_t got)
{
	for (uint32_t cell = 0; cell < x->n * x->m; cell++)
		for (uint32_t from = 0; from < x->n && !has(state | got, cell); from++)
			if (has(state, from * x->m + cell % x->m) && fits(x, from, cell / x->m))
				return true;
	return false;
}

static void
note(struct exact *x, uint32_t state, uint32_t got)
{
	struct found *f = &x->found[state | got];

	if (f->round || has_room(x, state, got))
		return;
	*f = x->now;
	f->before = state;
	f->round = (uint8_t)(x->found[state].round + 1);
	x->next[x->nnext++] = state | got;
}

/* Try all ways in which the cells from `cell` on may arrive in this round. */
static void
rounds_from(struct exact *x, uint32_t state, uint32_t cell, uint32_t got)
{
	uint32_t to = cell / x->m;

	if (++x->work > MAX_WORK || x->found[x->goal].round)
		return;
	if (cell == x->n * x->m) {
		note(x, state, got);
		return;
	}
	for (uint32_t from = 0; from < x->n && !has(state, cell); from++) {
		if (!has(state, from * x->m + cell % x->m) || !fits(x, from, to))
			continue;
		load(x, from, to, 1);
		x->now.from[x->now.nmove] = (uint8_t)from;
		x->now.cell[x->now.nmove++] = (uint8_t)cell;
		rounds_from(x, state, cell + 1, got | 1u << cell);
		x->now.nmove--;
		load(x, from, to, -1);
	}
	rounds_from(x, state, cell + 1, got);
}

static bool
search(struct exact *x, uint32_t start)
{
	x->found[start].round = 1;
	x->next[x->nnext++] = start;
	for (uint32_t i = 0; i < x->nnext && !x->found[x->goal].round; i++)
		rounds_from(x, x->next[i], 0, 0);
	return x->found[x->goal].round && x->work <= MAX_WORK;
}

static void
append(struct exact *x, uint32_t start)
{
	for (uint32_t state = x->goal; state != start; state = x->found[state].before) {
		const struct found *f = &x->found[state];

		for (uint32_t i = 0, k; i < f->nmove; i += k) {
			uint32_t at = f->cell[i] % x->m;

			for (k = 1; i + k < f->nmove && at + k < x->m; k++)
				if (f->from[i + k] != f->from[i] ||
				    f->cell[i + k] != f->cell[i] + k)
					break;
			draft_pass(x->d, f->round - 2u, f->from[i], f->cell[i] / x->m, at, k);
		}
	}
	draft_sort(x->d);
}

static struct route *
routes(const struct links *l, uint32_t n)
{
	struct route *r = must_alloc((size_t)n * n, sizeof *r);

	for (uint32_t from = 0; r && from < n; from++)
		for (uint32_t to = 0; to < n; to++)
			if (from != to)
				r[from * n + to] = links_route(l, from, to);
	return r;
}

bool
exact_passes(struct draft *d, const struct links *links, const uint32_t *owner, uint32_t most)
{
	struct exact x = {.d = d, .n = d->nranks, .m = d->nchunks, .most = most};
	struct route *route = routes(links, x.n);
	uint32_t start = 0;
	bool found;

	for (uint32_t c = 0; c < x.m; c++)
		start |= 1u << (owner[c] * x.m + c);
	x.goal = (uint32_t)((UINT64_C(1) << x.n * x.m) - 1);
	x.route = route;
	x.load = must_alloc(links_count(links) + 1ul, sizeof *x.load);
	x.found = must_alloc(NSTATES, sizeof *x.found);
	x.next = must_alloc(NSTATES, sizeof *x.next);
	found = search(&x, start);
	if (found)
		append(&x, start);
	free(route);
	free(x.load);
	free(x.found);
	free(x.next);
	return found;
}
