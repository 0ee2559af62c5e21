/*
 * alltoall_bruck.c - alltoall over doubling distances: few messages, for small blocks.
 */
#include "coll/algo.h"

#include <stdlib.h>

/* The current place of a block. */
struct place {
	enum plan_buf buf;
	uint64_t off;
};

/* Round k: pack the blocks with bit k, send them 2^k places on. at[j]: the block for the rank j places
 * on; *tmp: scratch used so far. */
static void
exchange(const struct plan_args *a, struct plan *out, struct place *at, uint32_t k, uint64_t *tmp)
{
	uint64_t block = a->nelem / a->nranks, packed = *tmp, n = 0, come;
	uint32_t d = 1u << k;

	for (uint32_t j = d; j < a->nranks; j++)
		if (j & d) {
			plan_local(out, step_copy(at[j].buf, at[j].off, PLAN_TMP,
						  (struct span){packed + n, block}, k));
			n += block;
		}
	come = packed + n;
	*tmp = come + n;
	plan_exchange(a, out, step_send(PLAN_TMP, (struct span){packed, n}, rank_after(a, d), k),
		      step_recv(PLAN_TMP, (struct span){come, n}, rank_before(a, d), k));
	for (uint32_t j = d; j < a->nranks; j++)
		if (j & d) {
			at[j] = (struct place){PLAN_TMP, come};
			come += block;
		}
}

/*
 * plan_alltoall_bruck - append one rank's steps of Bruck's alltoall.
 *
 *	a	in[p blocks of n/p] -> out[p blocks of n/p]; scratch for each block sent and
 *		received
 *	out	[out] appended to
 *
 * The block for the rank j places on travels by the bits of j: in round k all blocks with bit k are
 * packed and sent 2^k places on, and as many come. After the last round block j is from the rank j
 * places before. A rank never learns that its packed blocks were consumed, so no scratch is used twice:
 * up to 2 ceil(log2 p) n/2 in all.
 * Cost per rank: in round k the blocks whose number has bit k, in one message when chunk is 0: at
 * most n/2 elements. Rounds: ceil(log2 p).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Bruck, Ho, Kipnis, Upfal & Weathersby, IEEE TPDS 8(11), 1997, doi:10.1109/71.642949
 * Checked by: tests/unit/coll/t_coll_misc.c
 */
void
plan_alltoall_bruck(const struct plan_args *a, struct plan *out)
{
	uint64_t block = a->nelem / a->nranks, tmp = 0;
	struct place *at = alloc_zeroed(a->nranks, sizeof *at);
	uint32_t k = 0;

	if (!at || a->nelem > UINT64_MAX / 32)
		plan_fail(out, RC_NOMEM);
	for (uint32_t j = 0; j < a->nranks && !out->rc; j++)
		at[j] = (struct place){PLAN_IN, rank_after(a, j) * block};
	for (; 1u << k < a->nranks && !out->rc; k++)
		exchange(a, out, at, k, &tmp);
	for (uint32_t j = 0; j < a->nranks && !out->rc; j++)
		plan_local(out, step_copy(at[j].buf, at[j].off, PLAN_OUT,
					  (struct span){rank_before(a, j) * block, block}, k - 1));
	plan_scratch(out, tmp);
	free(at);
}
