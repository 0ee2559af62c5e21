/*
 * allgather_bruck.c - allgather over doubling distances, for any number of ranks.
 */
#include "coll/algo.h"

/*
 * plan_allgather_bruck - append one rank's steps of Bruck's allgather.
 *
 *	a	in[part(rank)] -> out[n]; no scratch
 *	out	[out] appended to
 *
 * Before round k rank r has the parts of ranks r, r+1, ... r+2^k-1; it sends the first
 * min(2^k, p-2^k) of them to rank r-2^k and receives as many from rank r+2^k. Parts go straight to
 * their place in OUT instead of being turned there at the end, so a round that passes the end of
 * the vector is two messages.
 * Cost of rank r: in round k the parts r .. r+min(2^k, p-2^k)-1 in one message, or two where these
 * pass rank p-1 (and more of at most `chunk`): n(p-1)/p elements when p divides n. Rounds:
 * ceil(log2 p).
 * Errors: RC_NOMEM, RC_INVAL past PLAN_MAX_STEPS.
 * Source: Bruck, Ho, Kipnis, Upfal & Weathersby, IEEE TPDS 8(11), 1997, doi:10.1109/71.642949
 * Checked by: tests/unit/t_coll_doubling.c
 */
enum rc
plan_allgather_bruck(const struct plan_args *a, struct plan *out)
{
	struct span own = part_of(a, a->rank);
	enum rc rc = plan_local(out, (struct plan_step){.kind = STEP_COPY,
							.src = PLAN_IN,
							.dst = PLAN_OUT,
							.dst_off = own.off,
							.count = own.count});

	for (uint32_t d = 1, k = 0; d < a->nranks && !rc; d *= 2, k++) {
		uint32_t n = d < a->nranks - d ? d : a->nranks - d, from = rank_after(a, d);
		struct span gone[2], come[2];

		parts_around(a, a->rank, n, gone);
		parts_around(a, from, n, come);
		for (int i = 0; i < 2 && !rc; i++)
			rc = plan_exchange(a, out,
					   (struct plan_step){.kind = STEP_SEND,
							      .src = PLAN_OUT,
							      .peer = rank_before(a, d),
							      .round = k,
							      .src_off = gone[i].off,
							      .count = gone[i].count},
					   (struct plan_step){.kind = STEP_RECV,
							      .dst = PLAN_OUT,
							      .peer = from,
							      .round = k,
							      .dst_off = come[i].off,
							      .count = come[i].count});
	}
	return rc;
}
