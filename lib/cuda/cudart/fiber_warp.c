/*
 * Operations among the threads of a warp. Each lane stores its operand and waits; the last lane
 * computes all results, so that no lane reads a replaced operand.
 */
#include "cudart/fiber_impl.h"

#include "gpusim_cuda.h"

static bool
has(uint32_t set, unsigned lane)
{
	return set >> lane & 1;
}

/* ---- results, for a lane among those of `group` */

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

/* A result that is the same for all lanes: a mask or a sum. */
static uint64_t
common(const struct fiber_warp *w, uint32_t group, uint32_t op)
{
	uint64_t out = 0;
	bool first = true, same = true;
	const struct fiber *any = w->lane[__builtin_ctz(group)];

	for (unsigned l = 0; l < FIBER_WARP; l++) {
		if (!has(group, l))
			continue;
		if (op == GPUSIM_WARP_BALLOT)
			out |= (uint64_t)(w->lane[l]->value != 0) << l;
		else
			out = first ? w->lane[l]->value : fold(op, out, w->lane[l]->value);
		same = same && w->lane[l]->value == any->value;
		first = false;
	}
	if (op == GPUSIM_WARP_ACTIVE)
		return group;
	return op == GPUSIM_WARP_MATCH_ALL ? (same ? group : 0) : out;
}

static uint64_t
own(const struct fiber_warp *w, uint32_t group, unsigned lane)
{
	const struct fiber *f = w->lane[lane];
	uint64_t out = 0;

	if (f->op == GPUSIM_WARP_SHFL)
		return has(group, f->arg % FIBER_WARP) ? w->lane[f->arg % FIBER_WARP]->value
						       : f->value;
	for (unsigned l = 0; l < FIBER_WARP; l++)
		if (has(group, l) && w->lane[l]->value == f->value)
			out |= UINT64_C(1) << l;
	return out;
}

static void
complete(struct fiber_gang *g, struct fiber_warp *w, uint32_t group)
{
	uint32_t op = w->lane[__builtin_ctz(group)]->op;
	bool each = op == GPUSIM_WARP_SHFL || op == GPUSIM_WARP_MATCH;
	uint64_t all = each ? 0 : common(w, group, op), result[FIBER_WARP];

	for (unsigned l = 0; l < FIBER_WARP; l++)
		if (has(group, l))
			result[l] = each ? own(w, group, l) : all;
	for (unsigned l = 0; l < FIBER_WARP; l++)
		if (has(group, l)) {
			w->lane[l]->value = result[l];
			fiber_add(&g->ready, w->lane[l]);
		}
	w->waiting &= ~group;
}

/* ---- waiting */

/* Return true if all lanes that f waits for have reached the same operation. */
static bool
is_complete(const struct fiber_warp *w, const struct fiber *f, uint32_t *group)
{
	*group = f->mask & w->alive;
	if (*group & ~w->waiting)
		return false;
	for (unsigned l = 0; l < FIBER_WARP; l++)
		if (has(*group, l) && (w->lane[l]->op != f->op || w->lane[l]->mask != f->mask ||
				       (f->op == GPUSIM_WARP_ACTIVE && w->lane[l]->arg != f->arg)))
			return false;
	return true;
}

void
fiber_warp_ended(struct fiber_gang *g, uint32_t thread)
{
	struct fiber_warp *w = &g->warp[thread / FIBER_WARP];
	uint32_t group;

	for (unsigned l = 0; l < FIBER_WARP; l++)
		if (has(w->waiting, l) && is_complete(w, w->lane[l], &group))
			complete(g, w, group);
}

bool
fiber_warp_settle(struct fiber_gang *g)
{
	bool any = false;

	for (uint32_t i = 0; i * FIBER_WARP < g->nthreads; i++) {
		struct fiber_warp *w = &g->warp[i];
		uint32_t group = 0;
		const struct fiber *first = NULL;

		for (unsigned l = 0; l < FIBER_WARP; l++) {
			if (!has(w->waiting, l) || w->lane[l]->op != GPUSIM_WARP_ACTIVE)
				continue;
			if (!first)
				first = w->lane[l];
			if (w->lane[l]->arg == first->arg)
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
	struct fiber_gang *g = fiber_gang_here;
	struct fiber *f = g ? g->current : NULL;
	struct fiber_warp *w;
	uint32_t lane, group;

	if (!f)
		return value;
	w = &g->warp[f->thread / FIBER_WARP];
	lane = f->thread % FIBER_WARP;
	f->op = (uint32_t)op;
	f->mask = mask | 1u << lane;
	f->value = value;
	f->arg = arg;
	w->lane[lane] = f;
	w->waiting |= 1u << lane;
	if (is_complete(w, f, &group))
		complete(g, w, group);
	fiber_wait(g);
	return f->value;
}
