/*
 * explain_say.c - why a rank holds up the others, and what helps: a sentence's part for each cause.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "view/explain_impl.h"
#include "wire/frame.h"

static void
say_step(struct words *t, const struct seen *a)
{
	if (a->here && a->steps)
		say(t, " in step %" PRIu32 " of %" PRIu32, a->step, a->steps);
}

static void
say_lost(struct words *t, const struct seen *a)
{
	const GpuSim__DeviceLoss *loss = a->dev ? a->dev->meta->loss : NULL;

	say(t, "is lost");
	if (loss && *loss->why)
		say(t, ", %s", loss->why);
	if (loss && loss->atms) {
		say(t, " at ");
		say_when(t, loss->atms * 1000000);
	}
	say_step(t, a);
	if (loss && *loss->remedy)
		say(t, "; it %s", loss->remedy);
}

/* "in allreduce #7 (2 ranks, 8 MiB of f32, sum)" */
static void
say_in(struct words *t, const struct scene *s, const struct flight_op *op)
{
	say(t, "in ");
	say_op(t, op, true);
	say(t, " (");
	say_shape(t, op, op->nranks ? op->nranks : s->n);
	say(t, ")");
}

static void
say_program(struct words *t, const struct seen *a)
{
	bool ended = a->own->process == 'Z' || a->own->process == 'X';

	say(t, "has not called it: its program, pid %" PRIu32 ", %s", a->own->ring.pid,
	    ended ? "has ended" : "is stopped");
}

static void
say_missing(struct words *t, const struct seen *a)
{
	say(t, "has not called it");
	if (a->own && a->own->ring.pid && a->own->ring.kind == FLIGHT_QUEUE)
		say(t,
		    ", or its stream waits for a kernel, an event or a host function of its "
		    "program, pid %" PRIu32,
		    a->own->ring.pid);
	if (a->last.kind) {
		say(t, ", its last was ");
		say_op(t, &a->last, true);
	}
}

static void
say_cause(struct words *t, const struct scene *s, const struct seen *a)
{
	switch (a->cause) {
	case CAUSE_LOST:
		say_lost(t, a);
		break;
	case CAUSE_ENDED:
		say(t, "has ended");
		say_step(t, a);
		break;
	case CAUSE_STOPPED:
		say(t, "is stopped");
		say_step(t, a);
		break;
	case CAUSE_TRACED:
		say(t, "is held by a debugger");
		say_step(t, a);
		break;
	case CAUSE_OTHER_OP:
	case CAUSE_SHAPE:
		say(t, "is ");
		say_in(t, s, &a->op);
		say(t, ", and rank %" PRIu32 " ", a->other);
		say_in(t, s, &s->rank[a->other].op);
		break;
	case CAUSE_CROSSED:
		say(t, "has not come to it: it is in ");
		say_op(t, &a->away->op, true);
		say(t, " of comm %" PRIu64, a->away->op.comm);
		if (atomic_load(&a->away->waits_for))
			say(t, ", where it waits for rank %" PRIu32,
			    atomic_load(&a->away->waits_for) - 1);
		break;
	case CAUSE_PROGRAM:
		say_program(t, a);
		break;
	case CAUSE_PAUSED:
	case CAUSE_MISSING:
		say_missing(t, a);
		break;
	case CAUSE_SLOW:
		say(t, "is slow");
		say_step(t, a);
		break;
	case CAUSE_WORKS:
		say(t, "works");
		say_step(t, a);
		say(t, " and waits for nobody");
		break;
	case CAUSE_APART:
		say(t,
		    "and rank %" PRIu32
		    " live, and neither hears the other: the network between them is cut",
		    a->other);
		say_step(t, a);
		break;
	case CAUSE_NONE:
	case CAUSE_NCAUSES:
		break;
	}
	if (*a->fault && a->cause >= CAUSE_SLOW)
		say(t, " (fault: %s)", a->fault);
}

/* Two that are apart are told of once. */
static bool
is_told(const struct scene *s, uint32_t r)
{
	const struct seen *a = &s->rank[r];

	return a->cause == CAUSE_APART && a->other < r && s->rank[a->other].cause == CAUSE_APART;
}

#define TOLD_MAX 4

static bool
has_cause(const struct scene *s, uint32_t r, uint32_t cause)
{
	return s->rank[r].cause == (enum cause)cause;
}

/* Many ranks with the same cause, which needs no details. */
static void
say_many(struct words *t, const struct scene *s, enum cause cause)
{
	static const char *const what[CAUSE_NCAUSES] = {
	    [CAUSE_LOST] = "are lost",
	    [CAUSE_ENDED] = "have ended",
	    [CAUSE_STOPPED] = "are stopped",
	    [CAUSE_TRACED] = "are held by a debugger",
	    [CAUSE_OTHER_OP] = "are in other operations",
	    [CAUSE_SHAPE] = "are in operations of another shape",
	    [CAUSE_CROSSED] = "are in operations of other communicators",
	    [CAUSE_PROGRAM] = "have not called it, and their programs are stopped or have ended",
	    [CAUSE_PAUSED] = "have not come to it",
	    [CAUSE_MISSING] = "have not called it",
	    [CAUSE_SLOW] = "are slow",
	    [CAUSE_WORKS] = "work and wait for nobody",
	    [CAUSE_APART] = "do not hear each other",
	};

	say_ranks(t, s, has_cause, cause);
	say(t, " %s", what[cause]);
}

static void
say_culprit(struct words *t, const struct scene *s, uint32_t r)
{
	say(t, "rank %" PRIu32 " (", r);
	say_device(t, s->rank[r].dev);
	say(t, ") ");
	say_cause(t, s, &s->rank[r]);
}

void
say_culprits(struct words *t, const struct scene *s)
{
	const char *join = "";

	for (unsigned cause = CAUSE_NONE + 1; cause < CAUSE_NCAUSES; cause++) {
		uint32_t n = count_ranks(s, has_cause, cause);

		if (n > TOLD_MAX) {
			say(t, "%s", join);
			say_many(t, s, (enum cause)cause);
			join = "; ";
			continue;
		}
		for (uint32_t r = 0; n && r < s->n; r++)
			if (s->rank[r].cause == (enum cause)cause && !is_told(s, r)) {
				say(t, "%s", join);
				say_culprit(t, s, r);
				join = "; ";
			}
	}
}

/* ---- who waits */

static bool
waits_for(const struct scene *s, uint32_t r, uint32_t other)
{
	return s->rank[r].cause == CAUSE_NONE && s->rank[r].here &&
	       s->rank[r].waits_for == other + 1;
}

static bool
waits_in_turn(const struct scene *s, uint32_t r, uint32_t arg)
{
	(void)arg;
	return s->rank[r].cause == CAUSE_NONE && s->rank[r].depth > 1;
}

void
say_waiters(struct words *t, const struct scene *s)
{
	uint32_t n;

	for (uint32_t r = 0; r < s->n && s->nculprits <= TOLD_MAX; r++) {
		n = s->rank[r].cause == CAUSE_NONE ? 0 : count_ranks(s, waits_for, r);
		if (n == 0)
			continue;
		say(t, "; ");
		say_ranks(t, s, waits_for, r);
		say(t, n == 1 ? " waits for " : " wait for ");
		if (s->nculprits == 1)
			say(t, "it");
		else
			say(t, "rank %" PRIu32, r);
	}
	n = count_ranks(s, waits_in_turn, 0);
	if (n == 0)
		return;
	say(t, "; ");
	say_ranks(t, s, waits_in_turn, 0);
	say(t, n == 1 ? " waits in turn" : " wait in turn");
}

/* ---- what helps */

static void
say_remedy(struct words *t, const struct scene *s, const struct seen *a)
{
	switch (a->cause) {
	case CAUSE_STOPPED:
		say(t, "kill -CONT %" PRIu32, a->dev->meta->pid);
		break;
	case CAUSE_TRACED:
		say(t, "let the debugger of pid %" PRIu32 " go on", a->dev->meta->pid);
		break;
	case CAUSE_LOST:
		say(t, a->dev && a->dev->meta->loss && *a->dev->meta->loss->remedy
			   ? "wait until it is back"
			   : "start the device again");
		break;
	case CAUSE_ENDED:
		say(t, "wait until the coordinator has found out");
		break;
	case CAUSE_OTHER_OP:
		say(t, "have all ranks call the same operations in the same order");
		break;
	case CAUSE_SHAPE:
		say(t, "have all ranks call it with the same size, type, reduction and root");
		break;
	case CAUSE_CROSSED:
		say(t,
		    "have all ranks use comm %" PRIu64 " and comm %" PRIu64
		    " in the same order, or in different streams",
		    s->comm->commid, a->away->op.comm);
		break;
	case CAUSE_PROGRAM:
		if (a->own->process == 'T')
			say(t, "kill -CONT %" PRIu32, a->own->ring.pid);
		else
			say(t, "start the program again");
		break;
	case CAUSE_PAUSED:
	case CAUSE_MISSING:
		say(t, "have the rank's program call it");
		break;
	case CAUSE_SLOW:
		say(t, "gpuctl inject clear, or wait");
		break;
	case CAUSE_APART:
		say(t, *a->fault ? "gpuctl inject clear" : "mend the network between their hosts");
		break;
	case CAUSE_WORKS:
		say(t, "wait");
		break;
	case CAUSE_NONE:
	case CAUSE_NCAUSES:
		break;
	}
}

void
say_remedies(struct words *t, const struct scene *s)
{
	const char *join = "";
	uint32_t told = 0;

	for (uint32_t r = 0; r < s->n && told < TOLD_MAX; r++) {
		enum cause cause = s->rank[r].cause;
		bool each =
		    cause == CAUSE_STOPPED || cause == CAUSE_TRACED || cause == CAUSE_PROGRAM;
		uint32_t first = 0;

		while (s->rank[first].cause != cause)
			first++;
		if (cause == CAUSE_NONE || (!each && first != r))
			continue;
		say(t, "%s", join);
		say_remedy(t, s, &s->rank[r]);
		join = ", or ";
		told++;
	}
}
