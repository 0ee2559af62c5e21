/*
 * Operations among the threads of a warp: each lane stores its operand and waits; the last lane computes all results,
 * so that no lane reads a replaced operand.
 */
#include "cudart/fiber_impl.h"

#include <string.h>

#include "gpusim_cuda.h"

static bool
has(uint32_t set, unsigned lane)
{
	return set >> lane & 1;
}

/* ---- results */

static uint64_t
fold(uint32_t op, uint64_t a, uint64_t b)
{
	switch (op) {
	case GPUSIM_WARP_ADD:
		return a + b;
	case GPUSIM_WARP_MIN:
		return (int64_t)b < (int64_t)a ? b : a;
	case GPUSIM_WARP_MAX:
		return (int64_t)b > (int64_t)a ? b : a;
	case GPUSIM_WARP_UMIN:
		return b < a ? b : a;
	case GPUSIM_WARP_UMAX:
		return b > a ? b : a;
	case GPUSIM_WARP_AND:
		return a & b;
	case GPUSIM_WARP_OR:
		return a | b;
	default:
		return a ^ b;
	}
}

/* A result that is the same for all lanes of `group`: a mask or a sum. */
static uint64_t
common(const struct fiber_warp *w, uint32_t group, uint32_t op)
{
	unsigned first = (unsigned)__builtin_ctz(group);
	uint64_t out = op == GPUSIM_WARP_BALLOT ? 0 : w->value[first];
	bool same = true;

	if (op == GPUSIM_WARP_ACTIVE || op == GPUSIM_WARP_SYNC)
		return group;
	for (unsigned l = first; l < FIBER_WARP; l++) {
		if (!has(group, l))
			continue;
		if (op == GPUSIM_WARP_BALLOT)
			out |= (uint64_t)(w->value[l] != 0) << l;
		else if (op == GPUSIM_WARP_MATCH_ALL)
			same = same && w->value[l] == w->value[first];
		else if (l != first)
			out = fold(op, out, w->value[l]);
	}
	return op == GPUSIM_WARP_MATCH_ALL ? (same ? group : 0) : out;
}

static void
shuffle(struct fiber_warp *w, uint32_t group)
{
	uint64_t old[FIBER_WARP];

	memcpy(old, w->value, sizeof old);
	for (unsigned l = 0; l < FIBER_WARP; l++) {
		uint32_t from = w->arg[l] % FIBER_WARP;

		if (has(group, l) && has(group, from))
			w->value[l] = old[from];
	}
}

static void
match(struct fiber_warp *w, uint32_t group)
{
	uint64_t old[FIBER_WARP];

	memcpy(old, w->value, sizeof old);
	for (unsigned l = 0; l < FIBER_WARP; l++) {
		if (!has(group, l))
			continue;
		w->value[l] = 0;
		for (unsigned k = 0; k < FIBER_WARP; k++)
			if (has(group, k) && old[k] == old[l])
				w->value[l] |= UINT64_C(1) << k;
	}
}

/* All lanes of `group` wait for the same operation: give them its results. */
static void
complete(struct fiber_gang *g, struct fiber_warp *w, uint32_t group)
{
	uint32_t op = w->op[__builtin_ctz(group)];

	if (op == GPUSIM_WARP_SHFL) {
		shuffle(w, group);
	} else if (op == GPUSIM_WARP_MATCH) {
		match(w, group);
	} else {
		uint64_t all = common(w, group, op);

		for (unsigned l = 0; l < FIBER_WARP; l++)
			if (has(group, l))
				w->value[l] = all;
	}
	for (uint32_t left = group; left; left &= left - 1)
		fiber_add(&g->ready, w->lane[__builtin_ctz(left)]);
	w->waiting &= ~group;
}

/* ---- waiting */

/* Return true if the lanes a and b wait for the same operation. */
static bool
agree(const struct fiber_warp *w, unsigned a, unsigned b)
{
	return w->op[a] == w->op[b] && w->mask[a] == w->mask[b] &&
	       (w->op[a] != GPUSIM_WARP_ACTIVE || w->arg[a] == w->arg[b]);
}

/* Return true if all lanes that lane l waits for have reached the same operation. */
static bool
is_complete(const struct fiber_warp *w, unsigned l, uint32_t *group)
{
	*group = w->mask[l] & w->alive;
	if (*group & ~w->waiting)
		return false;
	if (!w->mixed)
		return true;
	for (uint32_t left = *group; left; left &= left - 1)
		if (!agree(w, l, (unsigned)__builtin_ctz(left)))
			return false;
	return true;
}

void
fiber_warp_ended(struct fiber_gang *g, uint32_t thread)
{
	struct fiber_warp *w = &g->warp[thread / FIBER_WARP];
	uint32_t group;

	for (unsigned l = 0; l < FIBER_WARP; l++)
		if (has(w->waiting, l) && is_complete(w, l, &group))
			complete(g, w, group);
}

bool
fiber_warp_settle(struct fiber_gang *g)
{
	bool any = false;

	for (uint32_t i = 0; i * FIBER_WARP < g->nthreads; i++) {
		struct fiber_warp *w = &g->warp[i];
		uint32_t group = 0;
		unsigned first = FIBER_WARP;

		for (unsigned l = 0; l < FIBER_WARP; l++) {
			if (!has(w->waiting, l) || w->op[l] != GPUSIM_WARP_ACTIVE)
				continue;
			if (first == FIBER_WARP)
				first = l;
			if (w->arg[l] == w->arg[first])
				group |= 1u << l;
		}
		if (group) {
			complete(g, w, group);
			any = true;
		}
	}
	return any;
}

unsigned long long
__gpusim_warp(int op, unsigned mask, unsigned long long value, unsigned arg)
{
	struct fiber_gang *g = fiber_here;
	struct fiber *f = g ? g->current : NULL;
	struct fiber_warp *w;
	uint32_t lane, group;

	if (!f)
		return value;
	fiber_must_be_thread(g);
	w = &g->warp[f->thread / FIBER_WARP];
	lane = f->thread % FIBER_WARP;
	w->op[lane] = (uint32_t)op;
	w->mask[lane] = mask | 1u << lane;
	w->value[lane] = value;
	w->arg[lane] = arg;
	w->lane[lane] = f;
	if (!w->waiting)
		w->mixed = false;
	else if (!w->mixed)
		w->mixed = !agree(w, lane, (unsigned)__builtin_ctz(w->waiting));
	w->waiting |= 1u << lane;
	if (is_complete(w, lane, &group))
		complete(g, w, group);
	fiber_wait(g);
	return w->value[lane];
}
