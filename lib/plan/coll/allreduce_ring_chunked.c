/*
 * allreduce_ring_chunked.c - ring allreduce, slice by slice.
 */
#include "coll/algo.h"

/*
 * plan_allreduce_ring_chunked - append one rank's steps of a ring allreduce, slice by slice.
 *
 *	a	in[n] -> out[n]; no scratch
 *	out	[out] appended to
 *
 * The vector is cut in k = ceil(n / (p chunk)) slices, as even as parts are (1 when chunk is 0),
 * and each goes round the ring as a whole before the next: a part of a slice is one message, and the
 * current slice is small enough for a cache. A device posts the first message of the next slice while
 * the last of this one are on their way, so the links do not fall idle.
 * Cost of rank r: over all slices s, 2|s| - |part r of s| - |part r+1 of s| elements, one message
 * for each part that is not empty: 2k(p-1) messages and 2n(p-1)/p elements when kp divides n.
 * Rounds: 2k(p-1).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: the loop of NCCL's ring all-reduce over a channel's buffer; each slice as in
 * allreduce_ring.c
 * Checked by: tests/unit/coll/t_coll_ring.c
 */
void
plan_allreduce_ring_chunked(const struct plan_args *a, struct plan *out)
{
	uint32_t p = a->nranks;
	uint64_t most = a->chunk && a->chunk < a->nelem / p + 1 ? a->chunk * p : a->nelem;
	uint64_t k = plan_nmessages(a->nelem, most);

	if (k > PLAN_MAX_STEPS)
		plan_fail(out, RC_INVAL);
	for (uint32_t s = 0; s < k && !out->rc; s++) {
		struct span slice;

		plan_part(a->nelem, (uint32_t)k, s, &slice.off, &slice.count);
		plan_ring_slice(a, out, slice, s * 2 * (p - 1));
	}
}
