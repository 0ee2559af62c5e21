/*
 * explain_say.c - why a rank holds up the others, and the remedy: a part of a sentence for each cause.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "view/explain_impl.h"
#include "wire/frame.h"

#define ROW_OF(name, word, many, remedy) [CAUSE_##name] = {word, many, remedy},
static const struct {
	const char *word, *many, *remedy;
} row[CAUSE_NCAUSES] = {CAUSES(ROW_OF)};

static const char *
part_step(struct words *t, const struct seen *a)
{
	if (!a->here || !a->steps)
		return "";
	return part(t, " in step %" PRIu32 " of %" PRIu32, a->step, a->steps);
}

static void
say_lost(struct words *t, const struct seen *a)
{
	const GpuSim__DeviceLoss *loss = a->dev ? a->dev->meta->loss : NULL;

	say(t, "is lost");
	if (loss && *loss->why)
		say(t, ", %s", loss->why);
	if (loss && loss->atms)
		say(t, " at %s", part_when(t, loss->atms * NS_PER_MS));
	say(t, "%s", part_step(t, a));
	if (loss && *loss->remedy)
		say(t, "; it %s", loss->remedy);
}

/* "in allreduce #7 (2 ranks, 8 MiB of f32, sum)" */
static const char *
part_in(struct words *t, const struct scene *s, const struct flight_op *op)
{
	return part(t, "in %s (%s)", part_op(t, op, true), part_shape(t, s, op));
}

/* ---- the other work of a stream */

static const char *
part_live(struct words *t, const struct flight_live *l)
{
	uint32_t peer = atomic_load(&l->waits_for);

	return part(t, "%s of comm %" PRIu64 "%s", part_op(t, &l->op, true), l->op.comm,
		    peer ? part(t, ", where it waits for rank %" PRIu32, peer - 1) : "");
}

/* "waits for event 3 for 2.0 s" */
static void
say_ring(struct words *t, const struct scene *s, const struct world_device *dev,
	 const struct world_ring *r)
{
	const struct flight_now *now = &r->ring.now;

	switch (atomic_load(&now->what)) {
	case FLIGHT_TASK_KERNEL:
		say(t, "runs kernel %s", *now->name ? now->name : "of its program");
		break;
	case FLIGHT_TASK_HOST:
		say(t, "waits for a host function of its program, pid %" PRIu32 "%s", r->ring.pid,
		    !r->thread	       ? ""
		    : r->thread == 'R' ? ", which computes"
				       : ", which sleeps");
		break;
	case FLIGHT_TASK_COPY:
		say(t, "waits for a copy of its program, pid %" PRIu32, r->ring.pid);
		break;
	case FLIGHT_TASK_QUEUE:
		say(t, "waits for an event of another stream");
		break;
	case FLIGHT_TASK_EVENT:
		say(t, "waits for event %" PRIu64, now->queue);
		break;
	default:
		say(t, "waits for its turn");
		break;
	}
	if (now->tid)
		say(t, " (thread %" PRIu32 "%s)", now->tid, r->thread == 'T' ? ", stopped" : "");
	say(t, " for %s", part_time(t, world_ns_since(s->w, dev->recorder, now->since)));
}

/* The ring of the command queue that a ring waits for, and its device; NULL: it is not visible. */
static const struct world_ring *
awaited(const struct scene *s, const struct world_ring *r, const struct world_device **dev)
{
	const struct flight_now *now = &r->ring.now;

	if (atomic_load(&now->what) != FLIGHT_TASK_QUEUE)
		return NULL;
	if (now->device)
		*dev = world_device(s->w, now->device);
	for (size_t i = 0; *dev && (*dev)->recorder && i < (*dev)->recorder->nrings; i++) {
		const struct world_ring *q = &(*dev)->recorder->ring[i];

		if (q->ring.kind == FLIGHT_QUEUE && q->ring.id == now->queue &&
		    atomic_load(&q->ring.state) == FLIGHT_RING_USED)
			return q;
	}
	return NULL;
}

#define CHAIN_MAX 8 /* streams that wait for streams */

void
say_task(struct words *t, const struct scene *s, const struct seen *a)
{
	const struct world_device *dev = a->dev;
	const struct world_ring *r = a->task;

	say(t, r->ring.kind == FLIGHT_QUEUE ? "its stream " : "its device ");
	say_ring(t, s, dev, r);
	for (int i = 0; i < CHAIN_MAX && (r = awaited(s, r, &dev)); i++) {
		if (flight_at_work(&r->ring.live)) {
			say(t, "; that stream is in %s", part_live(t, &r->ring.live));
			return;
		}
		if (!atomic_load(&r->ring.now.what))
			return;
		say(t, "; that stream ");
		say_ring(t, s, dev, r);
	}
}

/* ---- causes */

static const char *
word_call(const struct scene *s)
{
	return s->at_hand ? "has not called it" : "makes no calls";
}

static void
say_missing(struct words *t, const struct scene *s, const struct seen *a)
{
	say(t, "%s", word_call(s));
	if (a->cause == CAUSE_MEMORY)
		say(t, ": its device had no memory for %s at %s", part_bytes(t, a->refused),
		    part_when(t, a->refused_ns));
	if (a->own && a->own->ring.pid && a->own->ring.kind == FLIGHT_QUEUE)
		say(t, ", its program is pid %" PRIu32, a->own->ring.pid);
	if (a->last.kind)
		say(t, ", its last was %s", part_op(t, &a->last, true));
}

static void
say_group(struct words *t, const struct scene *s, const struct seen *a)
{
	uint64_t open_ns = s->w->now_ns > a->grouped_ns ? s->w->now_ns - a->grouped_ns : 0;

	say(t, "has called %s: its program", s->at_hand ? "it in a group" : "in a group");
	if (a->own && a->own->ring.pid)
		say(t, ", pid %" PRIu32 ",", a->own->ring.pid);
	say(t,
	    " holds %" PRIu64 " operation%s in a group that is open for %s, and none of them runs "
	    "before the group ends",
	    a->grouped, a->grouped == 1 ? "" : "s", part_time(t, open_ns));
}

static const char *
part_late(struct words *t, const struct scene *s)
{
	return part(t, "late by %s an operation, on average of the last %" PRIu32,
		    part_time(t, s->late_ns), s->late_of);
}

static void
say_cause(struct words *t, const struct scene *s, const struct seen *a)
{
	switch (a->cause) {
	case CAUSE_LOST:
		say_lost(t, a);
		break;
	case CAUSE_ENDED:
	case CAUSE_STOPPED:
	case CAUSE_TRACED:
		say(t, "%s%s", part_process(t, a->dev->process, a->dev->tracer), part_step(t, a));
		break;
	case CAUSE_OTHER_OP:
	case CAUSE_SHAPE:
		say(t, "is %s, and rank %" PRIu32 " %s", part_in(t, s, &a->op), a->other,
		    part_in(t, s, &s->rank[a->other].op));
		break;
	case CAUSE_CROSSED:
		say(t, "has not reached it: it is in %s", part_live(t, a->away));
		break;
	case CAUSE_PROGRAM:
		say(t, "%s: its program, pid %" PRIu32 ", %s", word_call(s), a->own->ring.pid,
		    part_process(t, a->own->process, a->own->tracer));
		break;
	case CAUSE_GROUP:
		say_group(t, s, a);
		break;
	case CAUSE_KERNEL:
	case CAUSE_HOST:
	case CAUSE_EVENT:
		say(t, s->at_hand ? "has not reached it: " : "is busy: ");
		say_task(t, s, a);
		break;
	case CAUSE_MEMORY:
	case CAUSE_MISSING:
		say_missing(t, s, a);
		break;
	case CAUSE_SLOW:
		say(t, "is slow%s", part_step(t, a));
		break;
	case CAUSE_LATE:
		say(t, "is %s", part_late(t, s));
		break;
	case CAUSE_WORKS:
		say(t, "works%s and waits for no rank", part_step(t, a));
		break;
	case CAUSE_APART:
		say(t,
		    "and rank %" PRIu32 " are alive, but receive nothing from each other: the "
		    "network between them is cut%s",
		    a->other, part_step(t, a));
		break;
	case CAUSE_SENDS: /* always together */
	case CAUSE_RECEIVES:
	case CAUSE_NONE:
	case CAUSE_NCAUSES:
		break;
	}
	if (s->late && a == &s->rank[s->late - 1] && a->cause > CAUSE_SHAPE &&
	    a->cause != CAUSE_LATE)
		say(t, "; it was %s", part_late(t, s));
	if (*a->fault && a->cause >= CAUSE_SLOW)
		say(t, " (fault: %s)", a->fault);
}

/* A pair that is apart is reported once. */
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

void
say_culprits(struct words *t, const struct scene *s)
{
	const char *join = "";

	for (unsigned cause = CAUSE_NONE + 1; cause < CAUSE_NCAUSES; cause++) {
		uint32_t n = count_ranks(s, has_cause, cause);

		if (n && !t->cause)
			t->cause = row[cause].word;
		/* For many ranks with one cause, details are left out. */
		if (n > TOLD_MAX || (n && (cause == CAUSE_SENDS || cause == CAUSE_RECEIVES))) {
			say(t, "%s%s %s", join, part_ranks(t, s, has_cause, cause),
			    row[cause].many);
			join = "; ";
			continue;
		}
		for (uint32_t r = 0; n && r < s->n; r++) {
			if (s->rank[r].cause != (enum cause)cause || is_told(s, r))
				continue;
			say(t, "%srank %" PRIu32 " (%s%s) ", join, r, part_place(t, s, r, ", "),
			    part_device(t, s->rank[r].dev));
			say_cause(t, s, &s->rank[r]);
			join = "; ";
		}
	}
}

/* ---- waiting ranks */

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
		if (n)
			say(t, "; %s %s for %s", part_ranks(t, s, waits_for, r),
			    n == 1 ? "waits" : "wait",
			    s->nculprits == 1 ? "it" : part(t, "rank %" PRIu32, r));
	}
	n = count_ranks(s, waits_in_turn, 0);
	if (n)
		say(t, "; %s %s in turn", part_ranks(t, s, waits_in_turn, 0),
		    n == 1 ? "waits" : "wait");
}

/* ---- remedies */

static void
say_remedy(struct words *t, const struct scene *s, const struct seen *a)
{
	switch (a->cause) {
	case CAUSE_STOPPED:
	case CAUSE_TRACED:
		say(t, "%s", part_release(t, a->dev->meta->pid, a->dev->tracer));
		break;
	case CAUSE_LOST:
		say(t, a->dev && a->dev->meta->loss && *a->dev->meta->loss->remedy
			   ? "wait until it is back"
			   : "start the device again");
		break;
	case CAUSE_CROSSED:
		say(t,
		    "have all ranks use comm %" PRIu64 " and comm %" PRIu64
		    " in the same order, or in different streams",
		    s->comm->commid, a->away->op.comm);
		break;
	case CAUSE_PROGRAM:
		say(t, "%s",
		    is_held(a) ? part_release(t, a->own->ring.pid, a->own->tracer)
			       : "start the program again");
		break;
	case CAUSE_HOST:
		say(t,
		    "see where thread %" PRIu32 " of pid %" PRIu32 " is blocked (gdb -p %" PRIu32
		    "), and have it return",
		    a->task->ring.now.tid, a->task->ring.pid, a->task->ring.pid);
		break;
	case CAUSE_LATE:
		say(t, *a->fault ? "gpuctl inject clear"
				 : "see what it does meanwhile: gpuctl trace, gpuctl stragglers");
		break;
	case CAUSE_APART:
		say(t,
		    *a->fault ? "gpuctl inject clear" : "repair the network between their hosts");
		break;
	default:
		say(t, "%s", row[a->cause].remedy);
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
		bool each = cause == CAUSE_STOPPED || cause == CAUSE_TRACED ||
			    cause == CAUSE_PROGRAM || cause == CAUSE_HOST;
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
