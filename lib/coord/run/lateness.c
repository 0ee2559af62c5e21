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
	for (uint32_t r = 0; r < run->comm->nranks; r++)
		run->rank[r].held_ns = run->rank[r].waited_ns = 0;
}

void
late_answer(struct run *run, uint32_t r, const GpuSim__RunResponse *m)
{
	if (m->n_waitedns != run->comm->nranks)
		return;
	for (uint32_t q = 0; q < run->comm->nranks; q++) {
		uint64_t *held = &run->rank[q].held_ns;

		run->rank[r].waited_ns += m->waitedns[q];
		if (m->waitedns[q] > *held)
			*held = m->waitedns[q];
	}
}

void
late_count(const struct run *run)
{
	for (uint32_t r = 0; run->nops && r < run->comm->nranks; r++) {
		const struct run_rank *rr = &run->rank[r];
		struct lateness *late = &run->comm->rank[r].late;
		uint64_t own = rr->held_ns > rr->waited_ns ? rr->held_ns - rr->waited_ns : 0;

		late->operations += run->nops;
		late->sum_ns += own;
		if (own > late->max_ns)
			late->max_ns = own;
	}
}

bool
late_show(const struct comm *comm, GpuSim__Lateness **v, GpuSim__Lateness ***p)
{
	*v = alloc_zeroed(comm->nranks, sizeof **v);
	*p = alloc_zeroed(comm->nranks, sizeof **p);
	if (!*v || !*p)
		return false;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		GpuSim__Lateness *m = (*p)[r] = &(*v)[r];

		gpu_sim__lateness__init(m);
		m->rank = r;
		m->deviceid = device_id(comm->rank[r].dev);
		m->operations = comm->rank[r].late.operations;
		m->sumns = comm->rank[r].late.sum_ns;
		m->maxns = comm->rank[r].late.max_ns;
	}
	return true;
}
