/*
 * explain_say.c - why a rank holds up the others, and what helps: a sentence's part for each cause.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "view/explain_impl.h"
#include "wire/frame.h"

#define ROW_OF(name, word, many, remedy) [CAUSE_##name] = {word, many, remedy},
static const struct {
	const char *word, *many, *remedy;
} row[CAUSE_NCAUSES] = {CAUSES(ROW_OF)};

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

void
say_process(struct words *t, char process, uint32_t tracer)
{
	if (process == 'Z' || process == 'X')
		say(t, "has ended");
	else if (tracer)
		say(t, "is held by a debugger, pid %" PRIu32, tracer);
	else
		say(t, process == 't' ? "is held by a debugger" : "is stopped");
}

void
say_release(struct words *t, uint32_t pid, uint32_t tracer)
{
	if (tracer)
		say(t, "have the debugger, pid %" PRIu32 ", continue or detach pid %" PRIu32,
		    tracer, pid);
	else
		say(t, "kill -CONT %" PRIu32, pid);
}

/* ---- what a stream does instead */

/* The ring of a command queue; NULL: it is not to be seen. */
static const struct world_ring *
queue_ring(const struct world_recorder *rec, uint64_t id)
{
	for (size_t i = 0; rec && i < rec->nrings; i++)
		if (rec->ring[i].ring.kind == FLIGHT_QUEUE && rec->ring[i].ring.id == id &&
		    atomic_load(&rec->ring[i].ring.state) == FLIGHT_RING_USED)
			return &rec->ring[i];
	return NULL;
}

static void
say_op_of(struct words *t, const struct flight_live *l)
{
	say_op(t, &l->op, true);
	say(t, " of comm %" PRIu64, l->op.comm);
	if (atomic_load(&l->waits_for))
		say(t, ", where it waits for rank %" PRIu32, atomic_load(&l->waits_for) - 1);
}

#define CHAIN_MAX 8 /* streams that wait for streams */

static void
say_ring(struct words *t, const struct scene *s, const struct world_device *dev,
	 const struct world_ring *r, unsigned depth)
{
	static const char *const does[FLIGHT_NTASKS] = {
	    [FLIGHT_TASK_NONE] = "does nothing",
	    [FLIGHT_TASK_KERNEL] = "runs kernel ",
	    [FLIGHT_TASK_HOST] = "waits for a host function of its program, pid ",
	    [FLIGHT_TASK_COPY] = "waits for a copy of its program, pid ",
	    [FLIGHT_TASK_QUEUE] = "waits for an event of another stream",
	    [FLIGHT_TASK_EVENT] = "waits for event ",
	    [FLIGHT_TASK_TURN] = "waits for its turn"};
	const struct flight_now *now = &r->ring.now;
	const uint32_t what = atomic_load(&now->what);
	const struct world_device *of = now->device ? world_device(s->w, now->device) : dev;
	const struct world_ring *next;
	uint64_t ns = world_ns_since(s->w, dev->recorder, now->since);

	say(t, "%s", does[what]);
	if (what == FLIGHT_TASK_KERNEL)
		say(t, "%s", *now->name ? now->name : "of its program");
	else if (what == FLIGHT_TASK_EVENT)
		say(t, "%" PRIu64, now->queue);
	else if (what == FLIGHT_TASK_HOST || what == FLIGHT_TASK_COPY)
		say(t, "%" PRIu32, r->ring.pid);
	if (what == FLIGHT_TASK_HOST && r->thread)
		say(t, r->thread == 'R' ? ", which computes" : ", which sleeps");
	if (now->tid)
		say(t,
		    r->thread == 'T' ? " (thread %" PRIu32 ", stopped)" : " (thread %" PRIu32 ")",
		    now->tid);
	say(t, " for ");
	say_time(t, ns);
	if (what != FLIGHT_TASK_QUEUE || !of || depth == CHAIN_MAX)
		return;
	next = queue_ring(of->recorder, now->queue);
	if (next && flight_at_work(&next->ring.live)) {
		say(t, "; that one is in ");
		say_op_of(t, &next->ring.live);
	} else if (next && atomic_load(&next->ring.now.what)) {
		say(t, "; that one ");
		say_ring(t, s, of, next, depth + 1);
	}
}

void
say_task(struct words *t, const struct scene *s, const struct seen *a)
{
	say(t, a->task->ring.kind == FLIGHT_QUEUE ? "its stream " : "its device ");
	say_ring(t, s, a->dev, a->task, 0);
}

/* ---- causes */

static void
say_call(struct words *t, const struct scene *s)
{
	say(t, s->at_hand ? "has not called it" : "calls nothing");
}

static void
say_missing(struct words *t, const struct scene *s, const struct seen *a)
{
	say_call(t, s);
	if (a->cause == CAUSE_MEMORY) {
		say(t, ": its device had no memory for ");
		say_bytes(t, a->refused);
		say(t, " at ");
		say_when(t, a->refused_ns);
	}
	if (a->own && a->own->ring.pid && a->own->ring.kind == FLIGHT_QUEUE)
		say(t, ", its program is pid %" PRIu32, a->own->ring.pid);
	if (a->last.kind) {
		say(t, ", its last was ");
		say_op(t, &a->last, true);
	}
}

static void
say_group(struct words *t, const struct scene *s, const struct seen *a)
{
	say(t, "has called %s: its program", s->at_hand ? "it in a group" : "in a group");
	if (a->own && a->own->ring.pid)
		say(t, ", pid %" PRIu32 ",", a->own->ring.pid);
	say(t, " holds %" PRIu64 " operation%s in a group that is open for ", a->grouped,
	    a->grouped == 1 ? "" : "s");
	say_time(t, s->w->now_ns > a->grouped_ns ? s->w->now_ns - a->grouped_ns : 0);
	say(t, ", and none of them runs before the group ends");
}

static void
say_late(struct words *t, const struct scene *s)
{
	say(t, "late by ");
	say_time(t, s->late_ns);
	say(t, " an operation, on average of the last %" PRIu32, s->late_of);
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
		say_process(t, a->dev->process, a->dev->tracer);
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
		say_op_of(t, a->away);
		break;
	case CAUSE_PROGRAM:
		say_call(t, s);
		say(t, ": its program, pid %" PRIu32 ", ", a->own->ring.pid);
		say_process(t, a->own->process, a->own->tracer);
		break;
	case CAUSE_GROUP:
		say_group(t, s, a);
		break;
	case CAUSE_KERNEL:
	case CAUSE_HOST:
	case CAUSE_EVENT:
		say(t, s->at_hand ? "has not come to it: " : "is busy: ");
		say_task(t, s, a);
		break;
	case CAUSE_MEMORY:
	case CAUSE_MISSING:
		say_missing(t, s, a);
		break;
	case CAUSE_SLOW:
		say(t, "is slow");
		say_step(t, a);
		break;
	case CAUSE_LATE:
		say(t, "is ");
		say_late(t, s);
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
	case CAUSE_SENDS: /* always together */
	case CAUSE_RECEIVES:
	case CAUSE_NONE:
	case CAUSE_NCAUSES:
		break;
	}
	if (s->late && a == &s->rank[s->late - 1] && a->cause > CAUSE_SHAPE &&
	    a->cause != CAUSE_LATE) {
		say(t, "; it was ");
		say_late(t, s);
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
	say_ranks(t, s, has_cause, cause);
	say(t, " %s", row[cause].many);
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

		if (n && !t->cause)
			t->cause = row[cause].word;
		if (n > TOLD_MAX || (n && (cause == CAUSE_SENDS || cause == CAUSE_RECEIVES))) {
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
	case CAUSE_TRACED:
		say_release(t, a->dev->meta->pid, a->dev->tracer);
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
		if (is_held(a))
			say_release(t, a->own->ring.pid, a->own->tracer);
		else
			say(t, "start the program again");
		break;
	case CAUSE_HOST:
		say(t,
		    "look where thread %" PRIu32 " of pid %" PRIu32 " stands (gdb -p %" PRIu32
		    "), and have it return",
		    a->task->ring.now.tid, a->task->ring.pid, a->task->ring.pid);
		break;
	case CAUSE_LATE:
		say(t, *a->fault ? "gpuctl inject clear"
				 : "see what it does meanwhile: gpuctl trace, gpuctl stragglers");
		break;
	case CAUSE_APART:
		say(t, *a->fault ? "gpuctl inject clear" : "mend the network between their hosts");
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
