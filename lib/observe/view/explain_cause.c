/*
 * explain_cause.c - the ranks that hold up the current operation, and why: the ends of the chains of
 * waiting ranks.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/must.h"
#include "coll/plan.h"
#include "view/explain_impl.h"

/* Why the rank's device cannot proceed, in any operation. */
static enum cause
device_cause(const struct seen *a)
{
	char p = a->dev ? a->dev->process : 0;

	if (p == 't' || (p == 'T' && a->dev->tracer))
		return CAUSE_TRACED;
	if (p == 'T')
		return CAUSE_STOPPED; /* the coordinator may have given it up */
	if (!a->dev || a->dev->meta->state == 1)
		return CAUSE_LOST;
	return p == 'X' || p == 'Z' ? CAUSE_ENDED : CAUSE_NONE;
}

static bool
in_same(const struct scene *s, uint32_t r)
{
	const struct seen *a = &s->rank[r], *head = &s->rank[s->head];

	return a->here && a->op.seq == head->op.seq;
}

/* ---- ranks that differ */

static bool
differs(const struct flight_op *a, const struct flight_op *b)
{
	bool reduces = coll_reduces((enum gpusim_coll)a->coll);

	return a->coll != b->coll || a->dtype != b->dtype || a->root != b->root ||
	       (reduces && a->redop != b->redop) ||
	       (a->count != b->count && a->coll != GPUSIM_ALLTOALL);
}

static bool
is_pair(const struct flight_op *op)
{
	return coll_is_sendrecv((enum gpusim_coll)op->coll);
}

/* The rank of the current operation from which the fewest ranks differ. */
static uint32_t
most_usual(const struct scene *s)
{
	uint32_t best = s->head, fewest = UINT32_MAX;

	for (uint32_t r = 0; r < s->n; r++) {
		uint32_t n = 0;

		for (uint32_t q = 0; q < s->n && in_same(s, r) && s->rank[r].known; q++)
			n += in_same(s, q) && s->rank[q].known &&
			     differs(&s->rank[q].op, &s->rank[r].op);
		if (in_same(s, r) && s->rank[r].known && n < fewest) {
			fewest = n;
			best = r;
		}
	}
	return best;
}

static void
find_different(struct scene *s)
{
	uint32_t usual = most_usual(s);
	const struct flight_op *as = &s->rank[usual].op;

	if (is_pair(as) || !s->rank[usual].known)
		return;
	for (uint32_t r = 0; r < s->n; r++) {
		struct seen *a = &s->rank[r];

		if (!in_same(s, r) || !a->known || is_pair(&a->op) || a->cause != CAUSE_NONE ||
		    !differs(&a->op, as))
			continue;
		a->cause = a->op.coll != as->coll ? CAUSE_OTHER_OP : CAUSE_SHAPE;
		a->other = usual;
	}
}

/* ---- ends of chains */

static enum cause
task_cause(const struct seen *a)
{
	static const enum cause of[FLIGHT_NTASKS] = {
	    [FLIGHT_TASK_KERNEL] = CAUSE_KERNEL, [FLIGHT_TASK_HOST] = CAUSE_HOST,
	    [FLIGHT_TASK_COPY] = CAUSE_HOST,	 [FLIGHT_TASK_QUEUE] = CAUSE_EVENT,
	    [FLIGHT_TASK_EVENT] = CAUSE_EVENT,	 [FLIGHT_TASK_TURN] = CAUSE_MISSING};

	return a->task ? of[atomic_load(&a->task->ring.now.what)] : CAUSE_NONE;
}

static enum cause
absent_cause(const struct scene *s, const struct seen *a)
{
	enum cause task = task_cause(a);
	char p = a->own ? a->own->process : 0;

	if (task == CAUSE_KERNEL && a->task == a->own)
		return task;
	if (s->comm->queued && (is_held(a) || p == 'Z' || p == 'X'))
		return CAUSE_PROGRAM;
	if (task && a->task == a->own)
		return task;
	if (a->away)
		return CAUSE_CROSSED;
	if (a->grouped)
		return CAUSE_GROUP;
	if (task)
		return task;
	return a->refused_ns > a->last_ns ? CAUSE_MEMORY : CAUSE_MISSING;
}

/* The cause for a rank that waits for no rank while others wait for it. */
static enum cause
stuck_cause(const struct scene *s, const struct seen *a)
{
	if (!a->here)
		return absent_cause(s, a);
	return *a->fault ? CAUSE_SLOW : CAUSE_WORKS;
}

/*
 * Ranks wait for each other in a cycle, from r on. The network is cut if one waits for what another
 * sends: not if all only send, all only receive, or their operations do not match.
 */
static void
take_circle(struct scene *s, uint32_t r)
{
	struct seen *a = &s->rank[r], *b = &s->rank[a->waits_for - 1], *c = a;
	enum cause cause = CAUSE_APART;
	uint8_t ways = 0;
	bool pairs = true, any = false, both = false;

	do {
		pairs &= c->known && is_pair(&c->op);
		any |= c->known && is_pair(&c->op);
		both |= c->ways == (FLIGHT_SENDS | FLIGHT_RECEIVES);
		ways |= c->ways;
		c->other = c->waits_for - 1;
		c = &s->rank[c->other];
	} while (c != a);
	if (any && !both && a->waits_ns >= LONG_NS) {
		if (pairs && (ways == FLIGHT_SENDS || ways == FLIGHT_RECEIVES))
			cause = ways == FLIGHT_SENDS ? CAUSE_SENDS : CAUSE_RECEIVES;
		else if (&s->rank[b->other] != a || a->op.seq != b->op.seq)
			cause = CAUSE_OTHER_OP;
	}
	a->cause = cause;
	for (c = b; c != a && (cause == CAUSE_SENDS || cause == CAUSE_RECEIVES);
	     c = &s->rank[c->other])
		c->cause = cause;
	if (cause == CAUSE_APART) {
		b->cause = cause;
		b->other = r;
	}
}

static void
take_culprits(struct scene *s, const enum culprit *why)
{
	for (uint32_t r = 0; r < s->n; r++) {
		struct seen *a = &s->rank[r];

		if (a->cause == CAUSE_NONE && why[r] == CULPRIT_STUCK)
			a->cause = stuck_cause(s, a);
		if (a->cause == CAUSE_NONE && why[r] == CULPRIT_APART &&
		    why[a->waits_for - 1] == CULPRIT_APART &&
		    s->rank[a->waits_for - 1].cause == CAUSE_NONE)
			take_circle(s, r);
	}
}

/* If no rank waits for a particular one, all ranks that have not entered the collective hold it up. */
static void
take_absent(struct scene *s)
{
	const struct seen *head = &s->rank[s->head];

	for (uint32_t r = 0; r < s->n && !is_pair(&head->op); r++) {
		struct seen *a = &s->rank[r];

		if (!a->here && takes_part(s, &head->op, r) && a->cause == CAUSE_NONE &&
		    head->waits_ns >= LONG_NS && !(a->last.kind && a->last.seq >= head->op.seq))
			a->cause = absent_cause(s, a);
	}
}

/* Find each rank's distance from a culprit. */
static void
find_depths(struct scene *s)
{
	for (uint32_t r = 0; r < s->n; r++) {
		uint32_t at = r, n = 0;

		while (s->rank[at].cause == CAUSE_NONE && s->rank[at].here &&
		       s->rank[at].waits_for && n <= s->n) {
			at = s->rank[at].waits_for - 1;
			n++;
		}
		s->rank[r].depth = s->rank[at].cause != CAUSE_NONE && n <= s->n ? n : 0;
	}
}

bool
has_hard_cause(const struct scene *s)
{
	for (uint32_t r = 0; r < s->n; r++)
		if (s->rank[r].cause != CAUSE_NONE && s->rank[r].cause <= CAUSE_SHAPE)
			return true;
	return false;
}

uint64_t
longest_wait(const struct scene *s)
{
	uint64_t ns = 0;

	for (uint32_t r = 0; r < s->n; r++)
		if (s->rank[r].here && s->rank[r].waits_for && s->rank[r].waits_ns > ns)
			ns = s->rank[r].waits_ns;
	return ns;
}

bool
scene_stands(const struct scene *s)
{
	return s->nculprits && (has_hard_cause(s) || longest_wait(s) >= LONG_NS);
}

/* There is no operation: find what would hold up the next one. */
static void
find_obstacles(struct scene *s)
{
	for (uint32_t r = 0; r < s->n; r++) {
		struct seen *a = &s->rank[r];
		const struct world_recorder *rec = a->dev ? a->dev->recorder : NULL;

		if (a->cause != CAUSE_NONE)
			continue;
		if (is_held(a) && a->own->ring.kind == FLIGHT_QUEUE &&
		    (!s->holder || a->own->ring.pid != s->comm->pid))
			a->cause = CAUSE_PROGRAM;
		else if (a->grouped && a->grouped_ns + LONG_NS < s->w->now_ns)
			a->cause = CAUSE_GROUP;
		else if (a->task && s->comm->n_runs == 0 &&
			 world_ns_since(s->w, rec, a->task->ring.now.since) >= LONG_NS)
			a->cause = task_cause(a);
	}
}

/* ---- stragglers */

#define LATE_WINDOW_NS (15 * NS_PER_SEC)
#define LATE_RECENT_NS (5 * NS_PER_SEC) /* longest time since it was last late */
#define LATE_NS	       (50 * NS_PER_MS) /* least lateness each time; in all a quarter of the clock */
#define LATE_LEAST     3		/* times */

/* A rank's times in ns: the longest that one rank waited for it, its own waiting, and the waiting of
 * the current rank. */
struct late {
	uint64_t held, waited, row;
	uint32_t times, now; /* times it was late, at most; for the current rank */
};

static void
take_waits(const struct scene *s, uint32_t q, struct late *v, uint64_t *first, uint64_t *last)
{
	const struct world_recorder *rec = s->rank[q].dev ? s->rank[q].dev->recorder : NULL;

	for (size_t i = 0; rec && i < rec->nrings; i++)
		for (size_t k = 0; k < rec->ring[i].nrecords; k++) {
			const struct flight_step *w = &rec->ring[i].record[k].step;
			uint64_t end = flight_time_ns(&rec->clock, w->end),
				 ns = (uint64_t)((double)w->waited * rec->clock.ns_per_tick);

			if (w->kind != FLIGHT_WAIT || w->comm != s->comm->commid || !w->peer ||
			    w->peer > s->n || end + LATE_WINDOW_NS < s->w->now_ns)
				continue;
			*first = end - ns < *first ? end - ns : *first;
			*last = end > *last ? end : *last;
			v[q].waited += ns;
			v[w->peer - 1].row += ns;
			v[w->peer - 1].now += ns >= LATE_NS;
		}
}

/* Lateness is counted as in the coordinator: the longest time that any rank waited for a rank, less its
 * own waiting. */
static void
find_late(struct scene *s)
{
	struct late *v = must_alloc(s->n + 1, sizeof *v);
	uint64_t first = s->w->now_ns, last = 0, most = 0;

	for (uint32_t q = 0; q < s->n; q++) {
		take_waits(s, q, v, &first, &last);
		for (uint32_t r = 0; r < s->n; r++) {
			v[r].held = v[r].row > v[r].held ? v[r].row : v[r].held;
			v[r].times = v[r].now > v[r].times ? v[r].now : v[r].times;
			v[r].row = v[r].now = 0;
		}
	}
	for (uint32_t r = 0; r < s->n; r++)
		if (v[r].held > v[r].waited + most && v[r].times >= LATE_LEAST) {
			most = v[r].held - v[r].waited;
			s->late = r + 1;
			s->late_of = v[r].times;
			s->late_ns = most / v[r].times;
		}
	if (s->late_ns < LATE_NS || most < (last - first) / 4 ||
	    last + LATE_RECENT_NS < s->w->now_ns)
		s->late = 0;
	free(v);
}

void
scene_causes(struct scene *s)
{
	struct culprit_rank *v = must_alloc(s->n + 1, sizeof *v);
	enum culprit *why = must_alloc(s->n + 1, sizeof *why);
	uint32_t n = 0;

	for (uint32_t r = 0; r < s->n; r++) {
		struct seen *a = &s->rank[r];

		a->cause = device_cause(a);
		v[r] = (struct culprit_rank){.lost = a->cause != CAUSE_NONE,
					     .seq = a->op.seq,
					     .step = a->step,
					     .waits_for = a->here ? a->waits_for : 0};
	}
	if (s->at_hand) {
		find_different(s);
		must(culprits_find(v, s->n, why, &n, NULL) == RC_OK);
		take_culprits(s, why);
		take_absent(s);
	} else {
		find_obstacles(s);
	}
	find_depths(s);
	for (uint32_t r = 0; r < s->n; r++)
		s->nculprits += s->rank[r].cause != CAUSE_NONE;
	find_late(s);
	if (s->late && !scene_stands(s)) {
		for (uint32_t r = 0; r < s->n; r++)
			s->rank[r].cause = CAUSE_NONE;
		s->rank[s->late - 1].cause = CAUSE_LATE;
		s->nculprits = 1;
	}
	free(v);
	free(why);
}
