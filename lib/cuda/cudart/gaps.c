#include "cudart/gaps.h"

#include <stdlib.h>
#include <string.h>

/* The number of gaps that begin before an offset. */
static size_t
before(const struct gaps *g, uint64_t off)
{
	size_t lo = 0, hi = g->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (g->v[mid].off < off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void
drop(struct gaps *g, size_t i)
{
	memmove(&g->v[i], &g->v[i + 1], (--g->n - i) * sizeof *g->v);
}

uint64_t
gaps_take(struct gaps *g, uint64_t nbytes)
{
	for (size_t i = 0; i < g->n; i++) {
		uint64_t off = g->v[i].off;

		if (g->v[i].nbytes < nbytes)
			continue;
		g->v[i].off += nbytes;
		g->v[i].nbytes -= nbytes;
		if (!g->v[i].nbytes)
			drop(g, i);
		return off;
	}
	return UINT64_MAX;
}

bool
gaps_give(struct gaps *g, uint64_t off, uint64_t nbytes)
{
	size_t i = before(g, off), room = g->room ? 2 * g->room : 16;
	bool left = i > 0 && g->v[i - 1].off + g->v[i - 1].nbytes == off;
	bool right = i < g->n && off + nbytes == g->v[i].off;
	struct gap *v;

	if (left) {
		g->v[i - 1].nbytes += nbytes + (right ? g->v[i].nbytes : 0);
		if (right)
			drop(g, i);
		return true;
	}
	if (right) {
		g->v[i].off = off;
		g->v[i].nbytes += nbytes;
		return true;
	}
	if (g->n == g->room) {
		v = realloc(g->v, room * sizeof *v);
		if (!v)
			return false;
		g->v = v;
		g->room = room;
	}
	memmove(&g->v[i + 1], &g->v[i], (g->n++ - i) * sizeof *g->v);
	g->v[i] = (struct gap){off, nbytes};
	return true;
}

bool
gaps_cut(struct gaps *g, uint64_t off, uint64_t nbytes)
{
	size_t i = before(g, off + 1);
	struct gap *at = i > 0 ? &g->v[i - 1] : NULL;
	uint64_t end = at ? at->off + at->nbytes : 0, last = off + nbytes;

	if (!at || end < last)
		return false;
	at->nbytes = off - at->off;
	if (!at->nbytes)
		drop(g, i - 1);
	return end == last || gaps_give(g, last, end - last);
}
