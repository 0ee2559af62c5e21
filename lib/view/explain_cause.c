/*
 * explain_cause.c - who holds up the operation at hand, and why: the ends of the chains of ranks that wait.
 */
#include <stdlib.h>

#include "coll/plan.h"
#include "view/explain_impl.h"

/* The rank's device cannot go on, whatever it is in. */
static enum cause
device_cause(const struct seen *a)
{
	char p = a->dev ? a->dev->process : 0;

	if (p == 'T')
		return CAUSE_STOPPED; /* the coordinator may have given it up */
	if (p == 't')
		return CAUSE_TRACED;
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

/* The rank of the operation at hand that the fewest differ from. */
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
absent_cause(const struct scene *s, const struct seen *a)
{
	char p = a->own ? a->own->process : 0;

	if (a->away)
		return CAUSE_CROSSED;
	if (s->comm->queued && (p == 'T' || p == 't' || p == 'Z' || p == 'X'))
		return CAUSE_PROGRAM;
	return CAUSE_MISSING;
}

/* A rank waits for nobody, and others wait for it. */
static enum cause
stuck_cause(const struct scene *s, const struct seen *a)
{
	if (!a->here)
		return absent_cause(s, a);
	return *a->fault ? CAUSE_SLOW : CAUSE_WORKS;
}

static void
take_culprits(struct scene *s, const enum culprit *why)
{
	uint32_t apart = UINT32_MAX;

	for (uint32_t r = 0; r < s->n; r++) {
		struct seen *a = &s->rank[r];

		if (a->cause != CAUSE_NONE)
			continue;
		if (why[r] == CULPRIT_STUCK)
			a->cause = stuck_cause(s, a);
		if (why[r] != CULPRIT_APART)
			continue;
		a->cause = CAUSE_APART;
		a->other = apart;
		if (apart != UINT32_MAX)
			s->rank[apart].other = r;
		apart = r;
	}
}

/* The ranks of a collective that are not in it, when nobody waits for them by name: all of them hold it up. */
static void
take_absent(struct scene *s)
{
	const struct seen *head = &s->rank[s->head];

	for (uint32_t r = 0; r < s->n && !is_pair(&head->op); r++) {
		struct seen *a = &s->rank[r];

		if (!a->here && a->cause == CAUSE_NONE && head->waits_ns >= LONG_NS &&
		    !(a->last.kind && a->last.seq >= head->op.seq))
			a->cause = absent_cause(s, a);
	}
}

/* How far from a culprit each rank waits. */
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

enum rc
scene_causes(struct scene *s, struct err *err)
{
	struct culprit_rank *v = alloc_zeroed(s->n + 1, sizeof *v);
	enum culprit *why = alloc_zeroed(s->n + 1, sizeof *why);
	uint32_t n = 0;
	enum rc rc = v && why ? RC_OK : err_set(err, RC_NOMEM, "out of memory");

	for (uint32_t r = 0; rc == RC_OK && r < s->n; r++) {
		struct seen *a = &s->rank[r];

		a->cause = device_cause(a);
		v[r] = (struct culprit_rank){.lost = a->cause != CAUSE_NONE,
					     .seq = a->op.seq,
					     .step = a->step,
					     .waits_for = a->here ? a->waits_for : 0};
	}
	if (rc == RC_OK && s->at_hand) {
		find_different(s);
		rc = culprits_find(v, s->n, why, &n, err);
	}
	if (rc == RC_OK && s->at_hand) {
		take_culprits(s, why);
		take_absent(s);
	}
	if (rc == RC_OK)
		find_depths(s);
	for (uint32_t r = 0; rc == RC_OK && r < s->n; r++)
		s->nculprits += s->rank[r].cause != CAUSE_NONE;
	free(v);
	free(why);
	return rc;
}
