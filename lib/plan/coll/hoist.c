#include "coll/hoist.h"

#include <stdbool.h>

#include "base/buf.h"

/* Bytes of an element in a buffer. */
static size_t
size_in(uint8_t buf, size_t elem)
{
	return buf == PLAN_WIDE ? sizeof(float) : elem;
}

/* Return true if step w writes any of the message's nbytes from `sent` on. */
static inline bool
feeds(const struct plan_step *w, const unsigned char *sent, size_t nbytes,
      unsigned char *const base[PLAN_NBUFS], size_t elem)
{
	const unsigned char *written;

	if (w->kind == STEP_SEND)
		return false;
	/* An empty message reports that its sender has reached this step. */
	if (nbytes == 0)
		return w->kind == STEP_RECV || w->kind == STEP_RECV_REDUCE;
	if (w->count == 0)
		return false;
	written = base[w->dst] + w->dst_off * size_in(w->dst, elem);
	return written < sent + nbytes && sent < written + w->count * size_in(w->dst, elem);
}

static uint32_t *
compute(const struct plan *plan, unsigned char *const base[PLAN_NBUFS], size_t elem, size_t work,
	size_t ahead)
{
	uint32_t *after = alloc_zeroed(plan->nstep + 1, sizeof *after);
	size_t back = HOIST_LOOKBACK, lowest = 0, between = 0; /* sends between lowest and j */

	if (plan->nstep > work / HOIST_LOOKBACK)
		back = work / plan->nstep;
	for (size_t j = 0; after && j < plan->nstep; j++) {
		const struct plan_step *s = &plan->step[j];
		size_t k = j, size = size_in(s->src, elem);

		if (s->kind != STEP_SEND)
			continue;
		while (between >= ahead || lowest + back < j)
			between -= plan->step[++lowest].kind == STEP_SEND;
		while (k > lowest && !feeds(&plan->step[k - 1], base[s->src] + s->src_off * size,
					    s->count * size, base, elem))
			k--;
		after[j] = (uint32_t)k;
		between += j > lowest;
	}
	return after;
}

uint32_t *
hoist_compute(const struct plan *plan, unsigned char *const base[PLAN_NBUFS], size_t elem)
{
	return compute(plan, base, elem, HOIST_WORK, plan->nstep);
}

#define APART (UINTPTR_MAX / 8) /* no buffer is longer */

uint32_t *
hoist_apart(const struct plan *plan, size_t elem, size_t work, size_t ahead)
{
	unsigned char *base[PLAN_NBUFS];

	for (uintptr_t i = 0; i < PLAN_NBUFS; i++)
		base[i] = (unsigned char *)((i + 1) * APART);
	return compute(plan, base, elem, work, ahead);
}
