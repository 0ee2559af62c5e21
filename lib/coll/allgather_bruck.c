/*
 * allgather_bruck.c - allgather over doubling distances, for any number of ranks.
 */
#include "coll/algo.h"

/* Elements of n parts from that of this rank on. */
static uint64_t
elements(const struct plan_args *a, uint32_t n)
{
	struct span s[2];

	parts_around(a, a->rank, n, s);
	return s[0].count + s[1].count;
}

/* Scratch begins with the own part, OUT with rank 0's. */
static enum rc
unroll(const struct plan_args *a, struct plan *out, uint32_t round)
{
	struct span own = part_of(a, a->rank);
	uint64_t behind = a->nelem - own.off;
	enum rc rc = plan_local(out, (struct plan_step){.kind = STEP_COPY,
							.src = PLAN_TMP,
							.dst = PLAN_OUT,
							.round = round,
							.dst_off = own.off,
							.count = behind});

	return rc ? rc
		  : plan_local(out, (struct plan_step){.kind = STEP_COPY,
						       .src = PLAN_TMP,
						       .dst = PLAN_OUT,
						       .round = round,
						       .src_off = behind,
						       .count = own.off});
}

/*
 * plan_allgather_bruck - append one rank's steps of Bruck's allgather.
 *
 *	a	in[part(rank)] -> out[n]; scratch n
 *	out	[out] appended to
 *
 * Before round k rank r has in scratch the parts of ranks r, r+1, ... r+2^k-1, one behind the
 * other; it sends the first min(2^k, p-2^k) of them to rank r-2^k and receives as many from rank
 * r+2^k behind its own. In the end they are copied to their places.
 * Cost of rank r: in round k the parts r .. r+min(2^k, p-2^k)-1 in one message (or more of at most
 * `chunk`): n(p-1)/p elements in ceil(log2 p) messages when p divides n and chunk is 0. Rounds:
 * ceil(log2 p).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Bruck, Ho, Kipnis, Upfal & Weathersby, IEEE TPDS 8(11), 1997, doi:10.1109/71.642949
 * Checked by: tests/unit/t_coll_doubling.c
 */
enum rc
plan_allgather_bruck(const struct plan_args *a, struct plan *out)
{
	uint32_t k = 0;
	enum rc rc = plan_local(
	    out, (struct plan_step){
		     .kind = STEP_COPY, .src = PLAN_IN, .dst = PLAN_TMP, .count = elements(a, 1)});

	plan_scratch(out, a->nelem);
	for (uint32_t d = 1; d < a->nranks && !rc; d *= 2, k++) {
		uint32_t n = d < a->nranks - d ? d : a->nranks - d;
		uint64_t have = elements(a, d);

		rc = plan_exchange(a, out,
				   (struct plan_step){.kind = STEP_SEND,
						      .src = PLAN_TMP,
						      .peer = rank_before(a, d),
						      .round = k,
						      .count = elements(a, n)},
				   (struct plan_step){.kind = STEP_RECV,
						      .dst = PLAN_TMP,
						      .peer = rank_after(a, d),
						      .round = k,
						      .dst_off = have,
						      .count = elements(a, d + n) - have});
	}
	return rc ? rc : unroll(a, out, k - 1);
}
