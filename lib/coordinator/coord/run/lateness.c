/*
 * lateness.c - stragglers: the ranks that others wait for.
 *
 * Each rank reports how long it waited for each other rank. A rank that waits passes its delay on: in a
 * ring the successor of a late rank is late too. So a rank's own lateness is the longest that any rank
 * waited for it, less its own wait. Only durations are compared, so clocks of different hosts need not
 * agree.
 */
#include "coord/run/run_impl.h"

#include <stdlib.h>

void
late_begin(struct run *run)
{
	for (uint32_t r = 0; r < comm_nranks(run->comm); r++)
		run->rank[r].held_ns = run->rank[r].waited_ns = 0;
}

void
late_answer(struct run *run, uint32_t r, const GpuSim__RunResponse *m)
{
	if (m->n_waitedns != comm_nranks(run->comm))
		return;
	for (uint32_t q = 0; q < comm_nranks(run->comm); q++) {
		uint64_t *held = &run->rank[q].held_ns;

		run->rank[r].waited_ns += m->waitedns[q];
		if (m->waitedns[q] > *held)
			*held = m->waitedns[q];
	}
}

void
late_count(const struct run *run)
{
	for (uint32_t r = 0; run->nops && r < comm_nranks(run->comm); r++) {
		const struct run_rank *rr = &run->rank[r];
		uint64_t own = rr->held_ns > rr->waited_ns ? rr->held_ns - rr->waited_ns : 0;

		comm_late(run->comm, r, run->nops, own);
	}
}
