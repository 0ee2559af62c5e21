#include "coll/hoist.h"

#include <stdbool.h>

#include "base/buf.h"

/* Bytes of an element in a buffer. */
static size_t
size_in(uint8_t buf, size_t elem)
{
	return buf == PLAN_WIDE ? sizeof(float) : elem;
}

/* Does step w write what send s reads? */
static bool
feeds(const struct plan_step *w, const struct plan_step *s, unsigned char *const base[PLAN_NBUFS],
      size_t elem)
{
	const unsigned char *written, *sent;

	if (w->kind == STEP_SEND)
		return false;
	/* An empty message tells that its sender has come so far. */
	if (s->count == 0)
		return w->kind == STEP_RECV || w->kind == STEP_RECV_REDUCE;
	if (w->count == 0)
		return false;
	written = base[w->dst] + w->dst_off * size_in(w->dst, elem);
	sent = base[s->src] + s->src_off * size_in(s->src, elem);
	return written < sent + s->count * size_in(s->src, elem) &&
	       sent < written + w->count * size_in(w->dst, elem);
}

static uint32_t *
compute(const struct plan *plan, unsigned char *const base[PLAN_NBUFS], size_t elem, size_t work)
{
	uint32_t *after = alloc_zeroed(plan->nstep + 1, sizeof *after);
	size_t back = HOIST_LOOKBACK;

	if (plan->nstep > work / HOIST_LOOKBACK)
		back = work / plan->nstep;
	for (size_t j = 0; after && j < plan->nstep; j++) {
		size_t lowest = j > back ? j - back : 0, k = j;

		if (plan->step[j].kind != STEP_SEND)
			continue;
		while (k > lowest && !feeds(&plan->step[k - 1], &plan->step[j], base, elem))
			k--;
		after[j] = (uint32_t)k;
	}
	return after;
}

uint32_t *
hoist_compute(const struct plan *plan, unsigned char *const base[PLAN_NBUFS], size_t elem)
{
	return compute(plan, base, elem, HOIST_WORK);
}

#define APART (UINTPTR_MAX / 8) /* no buffer is longer */

uint32_t *
hoist_apart(const struct plan *plan, size_t elem, size_t work)
{
	unsigned char *base[PLAN_NBUFS];

	for (uintptr_t i = 0; i < PLAN_NBUFS; i++)
		base[i] = (unsigned char *)((i + 1) * APART);
	return compute(plan, base, elem, work);
}
