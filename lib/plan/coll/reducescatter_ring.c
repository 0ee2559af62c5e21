/*
 * reducescatter_ring.c - ring reduce-scatter.
 */
#include "coll/algo.h"

/*
 * plan_reducescatter_ring - append one rank's steps of a ring reduce-scatter.
 *
 *	a	in[n] -> out[part(rank)]; scratch n when p > 2
 *	out	[out] appended to
 *
 * Round t: rank r sends part r-t-1 (the first from IN) and reduces IN + message, part r-t-2, to
 * scratch; the last round's part is r's own and goes to OUT. Each part has its own place in the
 * scratch: before the last round a rank does not learn what its successor has consumed, so no place can
 * be used twice. The own part of IN is never posted and is read only by the step that writes OUT, so in
 * place is safe.
 * Cost of rank r: n - |part r| elements, each part in m messages of at most `chunk`: p-1
 * messages and n(p-1)/p elements when p divides n and chunk is 0. All ranks together: n(p-1)
 * elements, p-1 messages for each message that a part is cut in. Rounds: p-1.
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Patarasuk & Yuan, JPDC 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002 (its first phase)
 * Checked by: tests/unit/coll/t_coll_ring.c
 */
void
plan_reducescatter_ring(const struct plan_args *a, struct plan *out)
{
	struct span own = part_of(a, a->rank);

	if (a->nranks > 2)
		plan_scratch(out, a->nelem);
	for (uint32_t t = 0; t + 1 < a->nranks; t++) {
		bool last = t + 2 == a->nranks;
		struct span come = part_of(a, rank_before(a, t + 2));

		plan_exchange(a, out,
			      step_send(t ? PLAN_TMP : PLAN_IN, part_of(a, rank_before(a, t + 1)),
					rank_after(a, 1), t),
			      step_reduce(PLAN_IN, come.off, last ? PLAN_OUT : PLAN_TMP,
					  last ? first(come.count) : come, rank_before(a, 1), t));
	}
	plan_local(out, step_finish(PLAN_OUT, first(own.count), a->nranks - 2));
}
