/*
 * progress.c - ranks' progress, reported with each heartbeat, and which rank holds up the others.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdlib.h>

#include "coll/culprit.h"
#include "wire/frame.h"

static struct member *
find_member(struct coord *c, const struct device *d, uint64_t id)
{
	struct comm *comm = comm_any(c, id);

	for (uint32_t r = 0; comm && r < comm->nranks; r++)
		if (comm->rank[r].dev == d)
			return &comm->rank[r];
	return NULL;
}

/* The time of its last move as reported; if it has not moved, not later than reported before. */
static uint64_t
moved_ms(const struct coord *c, const struct progress *old, const GpuSim__Progress *m)
{
	uint64_t t = m->idlems < c->now_ms ? c->now_ms - m->idlems : 0;
	bool same = old->report && old->seq == m->operation && old->step == m->step &&
		    old->epoch == m->epoch;

	return same && old->moved_ms < t ? old->moved_ms : t;
}

/* A rank that has left a queued communicator makes no more calls. All that it sent has arrived, so a rank
 * that waits this long for it waits in vain. */
#define LEFT_MS 500

static void
look_for_left(struct coord *c, struct comm *comm, const struct progress *p)
{
	uint32_t other = p->waits_for - 1;
	struct err why;

	if (!comm->queued || comm->failed.rc != RC_OK || p->waits_for == 0 ||
	    other >= comm->nowners || !comm->owners[other].left || p->epoch != comm->epoch ||
	    c->now_ms < p->moved_ms + LEFT_MS)
		return;
	err_set(&why, RC_ABORTED, "comm %" PRIu64 ": rank %u has left, and others wait for it",
		comm->id, other);
	comm->rec.final = true;
	comm_happens(c, comm, COMM_ABORTED, &why);
}

void
progress_heard(struct coord *c, struct device *d, const GpuSim__RegisterRequest *q)
{
	for (size_t i = 0; i < q->n_progress; i++) {
		const GpuSim__Progress *m = q->progress[i];
		struct member *member = device_is_reserved(d) ? find_member(c, d, m->commid) : NULL;
		struct progress *p = member ? &member->progress : NULL;
		uint64_t moved;

		if (!p)
			continue;
		/* Of several streams take the one that is furthest behind. */
		if (p->report == device_reports(d) && p->seq < m->operation)
			continue;
		moved = moved_ms(c, p, m);
		*p = (struct progress){.report = device_reports(d),
				       .moved_ms = moved,
				       .seq = m->operation,
				       .epoch = m->epoch,
				       .step = m->step,
				       .steps = m->steps,
				       .waits_for = m->waitsfor};
		look_for_left(c, comm_any(c, m->commid), p);
	}
}

void
operations_heard(struct coord *c, struct device *d, const GpuSim__RegisterRequest *q)
{
	for (size_t i = 0; i < q->n_queued && device_is_reserved(d); i++) {
		const GpuSim__QueuedCount *k = q->queued[i];
		const struct comm *comm = comm_any(c, k->commid);
		struct member *m = find_member(c, d, k->commid);

		if (!m)
			continue;
		m->counted = device_reports(d);
		if (k->operations > m->operations)
			m->operations = k->operations;
		if (!comm || k->n_waitedns != comm->nranks)
			continue;
		/* When out of memory, the next report brings it. */
		if (!m->waited_ns)
			m->waited_ns = alloc_zeroed(comm->nranks, sizeof *m->waited_ns);
		for (uint32_t r = 0; m->waited_ns && r < comm->nranks; r++)
			m->waited_ns[r] = k->waitedns[r];
	}
}

/* The operation that rank r is in, or NULL. */
static const struct progress *
progress_of(const struct comm *comm, uint32_t r)
{
	const struct member *m = &comm->rank[r];
	const struct progress *p = &m->progress;

	return p->report && p->report == device_reports(m->dev) && p->epoch == comm->epoch ? p
											   : NULL;
}

size_t
progress_show(const struct coord *c, const struct comm *comm, GpuSim__Progress **v, size_t room)
{
	size_t n = 0;

	for (uint32_t r = 0; r < comm->nranks && n < room; r++) {
		const struct progress *p = progress_of(comm, r);
		GpuSim__Progress *m = v[n];

		if (!p)
			continue;
		m->commid = comm->id;
		m->epoch = comm->epoch;
		m->operation = frame_op_shown(p->seq);
		m->step = p->step;
		m->steps = p->steps;
		m->idlems = c->now_ms - p->moved_ms;
		m->waitsfor = p->waits_for;
		m->rank = r;
		m->deviceid = device_id(comm->rank[r].dev);
		n++;
	}
	return n;
}

/* The state of each rank. */
static struct culprit_rank *
gather(const struct coord *c, const struct comm *comm)
{
	struct culprit_rank *v = alloc_zeroed(comm->nranks, sizeof *v);

	for (uint32_t r = 0; v && r < comm->nranks; r++) {
		const struct progress *p = progress_of(comm, r);

		v[r].lost = device_is_lost(comm->rank[r].dev);
		if (p) {
			v[r].seq = p->seq;
			v[r].step = p->step;
			v[r].waits_for = device_is_silent(c, comm->rank[r].dev) ? 0 : p->waits_for;
		}
	}
	return v;
}

static void
describe(const struct coord *c, const struct comm *comm, uint32_t r, enum culprit why,
	 struct text *t)
{
	const struct progress *p = progress_of(comm, r);
	const struct device *d = comm->rank[r].dev;
	double idle = p ? (double)(c->now_ms - p->moved_ms) / 1e3 : 0;

	text_add(t, "rank %u (device %016" PRIx64 ") ", r, device_id(d));
	if (why == CULPRIT_APART)
		text_add(t, "has received nothing from rank %u (device %016" PRIx64 ") for %.1fs",
			 p->waits_for - 1, device_id(comm->rank[p->waits_for - 1].dev), idle);
	else if (device_is_silent(c, d))
		text_add(t, "is stuck: no heartbeat for %.1fs",
			 (double)(c->now_ms - device_heard_ms(d)) / 1e3);
	else if (p)
		text_add(t, "is stuck: it is alive, and has been in step %u of %u for %.1fs",
			 p->step, p->steps, idle);
	else
		text_add(t, "is stuck: it is alive, and has not reached the operation");
}

/* Of two ranks that cannot reach each other one has to leave: the one that the other waits for. */
static bool
leaves_to(const struct comm *comm, const enum culprit *why, uint32_t r)
{
	const struct progress *p = progress_of(comm, r);
	const struct progress *q;
	uint32_t to = p && p->waits_for ? p->waits_for - 1 : comm->nranks;

	if (why[r] != CULPRIT_APART || to >= comm->nranks || why[to] != CULPRIT_APART)
		return false;
	q = progress_of(comm, to);
	/* They wait for each other: the lower rank stays. */
	return !(q && q->waits_for == r + 1 && to < r);
}

/* Of such two ranks, do not report one for which only the other waits. */
static bool
starves(const struct comm *comm, const enum culprit *why, uint32_t r)
{
	const struct progress *p = progress_of(comm, r);

	return why[r] != CULPRIT_APART || (p && p->waits_for && p->waits_for <= comm->nranks &&
					   why[p->waits_for - 1] == CULPRIT_APART);
}

bool
progress_culprits(const struct coord *c, const struct comm *comm, bool *by_rank, char *text,
		  size_t room)
{
	struct culprit_rank *v = gather(c, comm);
	enum culprit *why = alloc_zeroed(comm->nranks, sizeof *why);
	struct text t = {text, room};
	uint32_t n = 0;

	text[0] = '\0';
	if (v && why && culprits_find(v, comm->nranks, why, &n, NULL) != RC_OK)
		n = 0;
	for (uint32_t r = 0; n && r < comm->nranks; r++) {
		bool guilty = why[r] == CULPRIT_STUCK || why[r] == CULPRIT_APART;

		if (by_rank)
			by_rank[r] = guilty && !leaves_to(comm, why, r);
		if (!guilty || !starves(comm, why, r))
			continue;
		if (text[0])
			text_add(&t, ", ");
		describe(c, comm, r, why[r], &t);
	}
	free(v);
	free(why);
	return text[0];
}
