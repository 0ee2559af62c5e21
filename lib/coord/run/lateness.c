/*
 * lateness.c - stragglers: which rank the others wait for.
 *
 * Each rank says how long it waited for each other. Who waits late passes it on: in a ring the
 * successor of a late rank is late too. So from how long a rank was waited for, by whom that was
 * longest, is taken what it waited itself; what is left is its own. Only durations are compared, and
 * so clocks of several hosts need not agree.
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
