/*
 * explain.c - a communicator's paragraph: its failure, its current operation, or calls that wait to
 * become one.
 */
#include "view/explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "view/explain_impl.h"
#include "wire/frame.h"

const char *
explain_state_name(enum explain_state s)
{
	static const char *const name[] = {
	    [EXPLAIN_IDLE] = "idle",
	    [EXPLAIN_GOES_ON] = "goes-on",
	    [EXPLAIN_WAITS] = "waits",
	    [EXPLAIN_FAILED] = "failed",
	};

	return name[s];
}

/* ---- the first sentence */

static bool
has_failed(const struct scene *s)
{
	return s->comm->status == GPU_SIM__STATUS__FAILED;
}

static const GpuSim__HistoryEvent *
last_event(const struct scene *s, GpuSim__EventKind kind)
{
	const GpuSim__EventsResponse *e = s->w->events;

	for (size_t i = e ? e->n_events : 0; i > 0; i--)
		if (e->events[i - 1]->kind == kind && e->events[i - 1]->commid == s->comm->commid)
			return e->events[i - 1];
	return NULL;
}

/* The reason without "comm 3: ", which has been printed. */
static const char *
reason_of(const struct scene *s)
{
	char own[32];
	size_t n = (size_t)snprintf(own, sizeof own, "comm %" PRIu64 ": ", s->comm->commid);

	return strncmp(s->comm->reason, own, n) == 0 ? s->comm->reason + n : s->comm->reason;
}

static enum explain_state
say_failed(struct words *t, const struct scene *s)
{
	const GpuSim__HistoryEvent *e = last_event(s, GPU_SIM__EVENT_KIND__COMM_FAILED);

	say(t, "has failed%s%s: %s", e ? " at " : "", e ? part_when(t, e->atms * NS_PER_MS) : "",
	    reason_of(s));
	t->cause = strstr(s->comm->reason, "disagree on the operation") ? "disagree" : "failed";
	return EXPLAIN_FAILED;
}

static bool
has_slow(const struct scene *s)
{
	for (uint32_t r = 0; r < s->n; r++)
		if (s->rank[r].cause == CAUSE_SLOW || s->rank[r].cause == CAUSE_LATE)
			return true;
	return false;
}

static enum explain_state
say_at_hand(struct words *t, const struct scene *s)
{
	const struct seen *head = &s->rank[s->head];
	uint64_t waits = longest_wait(s);
	bool stands = scene_stands(s);

	say(t, "%s", part_op(t, &head->op, head->known));
	if (head->known)
		say(t, " (%s)", part_shape(t, s, &head->op));
	if (!stands && !has_slow(s)) {
		say(t, " has been running for %s", part_time(t, s->age_ns));
		if (head->steps)
			say(t, ": rank %" PRIu32 " is in step %" PRIu32 " of %" PRIu32, s->head,
			    head->step, head->steps);
		return EXPLAIN_GOES_ON;
	}
	say(t, " has been %s for %s: ", stands ? "waiting" : "slow",
	    part_time(t, stands && waits ? waits : s->age_ns));
	say_culprits(t, s);
	say_waiters(t, s);
	return stands ? EXPLAIN_WAITS : EXPLAIN_GOES_ON;
}

/* ---- calls that wait to meet */

static bool
has_called(const struct scene *s, uint32_t r, uint32_t arg)
{
	return (s->rank[r].call != NULL) == (arg != 0);
}

static bool
calls_differ(const GpuSim__Work *a, const GpuSim__Work *b)
{
	return a->known && b->known &&
	       (a->coll != b->coll || a->dtype != b->dtype || a->redop != b->redop ||
		a->nelem != b->nelem || a->root != b->root);
}

static enum explain_state
say_calls(struct words *t, const struct scene *s)
{
	const GpuSim__Work *first = s->comm->calls[0], *c;
	uint64_t ms = 0;

	for (size_t i = 0; i < s->comm->n_calls; i++)
		ms = s->comm->calls[i]->forms > ms ? s->comm->calls[i]->forms : ms;
	say(t, "%s has been waiting for %s: ", part_work(t, first), part_time(t, ms * NS_PER_MS));
	say(t, "%s %s not called it; ", part_ranks(t, s, has_called, 0),
	    count_ranks(s, has_called, 0) == 1 ? "has" : "have");
	say(t, "%s %s", part_ranks(t, s, has_called, 1),
	    count_ranks(s, has_called, 1) == 1 ? "has" : "have");
	t->cause = "not-called";
	for (size_t i = 1; i < s->comm->n_calls; i++) {
		c = s->comm->calls[i];
		if (!calls_differ(c, first))
			continue;
		t->cause = "disagree";
		say(t, "; they do not agree: rank %" PRIu32 " calls %s, and rank %" PRIu32 " %s",
		    first->rank, part_work(t, first), c->rank, part_work(t, c));
		break;
	}
	return ms >= LONG_NS / NS_PER_MS ? EXPLAIN_WAITS : EXPLAIN_GOES_ON;
}

/* ---- runs and groups */

static bool
is_unanswered(const struct scene *s, uint32_t r, uint32_t arg)
{
	const GpuSim__Work *m = s->comm->runs[arg];

	for (size_t i = 0; i < m->n_unanswered; i++)
		if (m->unanswered[i] == r)
			return true;
	return false;
}

/* Name the tasks of ranks that have not ended their parts. */
static void
say_tasks(struct words *t, const struct scene *s)
{
	uint32_t told = 0;

	for (uint32_t r = 0; r < s->n && told < 4; r++) {
		if (!is_unanswered(s, r, 0) || !s->rank[r].task)
			continue;
		say(t, told++ ? "; rank %" PRIu32 ": " : ": rank %" PRIu32 ": ", r);
		say_task(t, s, &s->rank[r]);
		t->cause = atomic_load(&s->rank[r].task->ring.now.what) == FLIGHT_TASK_KERNEL
			       ? "kernel"
			       : "event";
	}
	if (!told)
		say(t, ", which is a kernel, a copy, or a wait for an event");
}

/* No rank is in an operation between ranks: kernels, copies, or waits for events. */
static enum explain_state
say_run(struct words *t, const struct scene *s)
{
	const GpuSim__Work *m = s->comm->runs[0];
	bool hard = has_hard_cause(s);

	say(t, "a run of %s", part_work(t, m));
	if (m->known && m->nops > s->n)
		say(t, " and more, %" PRIu64 " operations in all,", m->nops);
	say(t, " %s for %s", m->started ? "has not ended" : "has waited",
	    part_time(t, m->forms * NS_PER_MS));
	if (m->n_unanswered)
		say(t, ": %s %s", part_ranks(t, s, is_unanswered, 0),
		    count_ranks(s, is_unanswered, 0) == 1 ? "has not ended its part"
							  : "have not ended their parts");
	if (hard) {
		say(t, "; ");
		say_culprits(t, s);
	} else if (m->started && m->n_unanswered) {
		say_tasks(t, s);
	}
	return hard || m->forms >= LONG_NS / NS_PER_MS ? EXPLAIN_WAITS : EXPLAIN_GOES_ON;
}

static const char *
part_client(struct words *t, const struct scene *s, uint64_t client)
{
	const GpuSim__CommSummary *c = s->comm;

	if (client != c->clientid || !c->pid)
		return part(t, "client %016" PRIx64, client);
	return part(t, "client %016" PRIx64 " (%s, pid %" PRIu32 ")", client,
		    *c->program ? c->program : "program", c->pid);
}

static enum explain_state
say_groups(struct words *t, const struct scene *s)
{
	const GpuSim__Work *g = s->comm->groups[0];

	t->cause = "group";
	say(t, "a group has been open for %s: it holds %" PRIu64 " operation%s of %s",
	    part_time(t, g->forms * NS_PER_MS), g->nops, g->nops == 1 ? "" : "s",
	    part_client(t, s, g->clientid));
	if (g->known)
		say(t, ", the first is %s", part_work(t, g));
	say(t, "; none of them runs before the group ends");
	if (s->comm->n_groups > 1)
		say(t, "; %zu more groups are open", s->comm->n_groups - 1);
	return g->nops && g->forms >= LONG_NS / NS_PER_MS ? EXPLAIN_WAITS : EXPLAIN_GOES_ON;
}

static enum explain_state
say_idle(struct words *t, const struct scene *s)
{
	const struct world_holder *h = s->holder;
	bool waits = h || has_hard_cause(s);

	for (uint32_t r = 0; r < s->n; r++)
		waits |= s->rank[r].cause == CAUSE_PROGRAM || s->rank[r].cause == CAUSE_GROUP ||
			 s->rank[r].cause == CAUSE_EVENT;
	if (!h && !s->nculprits) {
		say(t, "is idle");
		return EXPLAIN_IDLE;
	}
	say(t, waits && !h ? "is in no operation, and the next one will wait: "
			   : "is in no operation: ");
	if (h) {
		t->cause = h->tracer || h->process == 't' ? "debugger" : "program";
		say(t, "its %s %s%s", part_client(t, s, s->comm->clientid),
		    part_process(t, h->process, h->tracer), s->nculprits ? "; " : "");
	}
	say_culprits(t, s);
	return waits ? EXPLAIN_WAITS : EXPLAIN_GOES_ON;
}

static enum explain_state
say_first(struct words *t, const struct scene *s)
{
	if (has_failed(s))
		return say_failed(t, s);
	if (*s->comm->cause) {
		say(t, "recovers: %s", s->comm->cause);
		return EXPLAIN_GOES_ON;
	}
	if (s->at_hand)
		return say_at_hand(t, s);
	if (s->comm->n_runs)
		return say_run(t, s);
	if (s->comm->n_calls)
		return say_calls(t, s);
	if (s->comm->n_groups)
		return say_groups(t, s);
	return say_idle(t, s);
}

/* ---- the rest of the paragraph */

static bool
has_finished(const struct scene *s, uint32_t r, uint32_t arg)
{
	uint64_t at;
	const struct flight_op *op = scene_last(s, false, &at);

	return takes_part(s, op, r) && rank_finished(s, r, op) == (arg != 0);
}

static void
say_last(struct words *t, const struct scene *s)
{
	uint64_t at;
	const struct flight_op *op = scene_last(s, false, &at);
	bool blind = false;

	for (uint32_t r = 0; r < s->n; r++)
		blind |= !s->rank[r].dev || !s->rank[r].dev->recorder;
	if (op && has_failed(s) && count_ranks(s, has_finished, 0)) {
		say(t, "  %s failed, although %s finished it: ", part_op(t, op, true),
		    part_ranks(t, s, has_finished, 1));
		say(t, "%s did not.\n", part_ranks(t, s, has_finished, 0));
	}
	op = scene_last(s, true, &at);
	if (op)
		say(t, "  Last finished%s: %s at %s.\n", blind ? ", as far as recorders tell" : "",
		    part_op(t, op, true), part_when(t, at));
}

/* The first failure that a rank recorded; the others may be its consequences. */
static void
say_first_failure(struct words *t, const struct scene *s)
{
	const struct seen *first = NULL;

	for (uint32_t r = 0; r < s->n; r++)
		if (s->rank[r].last.kind && s->rank[r].last.result != RC_OK &&
		    s->rank[r].last.result != RC_ABORTED &&
		    (!first || s->rank[r].last_ns < first->last_ns))
			first = &s->rank[r];
	if (first)
		say(t, "  First to fail: rank %u in %s (%s) at %s: %s.\n",
		    (unsigned)(first - s->rank), part_op(t, &first->last, true),
		    part_shape(t, s, &first->last), part_when(t, first->last_ns),
		    rc_name((enum rc)first->last.result));
}

/* Events of the communicator's devices, and of itself. */
static bool
concerns(const struct scene *s, const GpuSim__HistoryEvent *e)
{
	if (e->kind == GPU_SIM__EVENT_KIND__STARTED || e->kind == GPU_SIM__EVENT_KIND__JOINED)
		return false;
	if (e->commid)
		return e->commid == s->comm->commid;
	for (uint32_t r = 0; e->deviceid && r < s->n; r++)
		if (s->comm->deviceids[r] == e->deviceid)
			return true;
	return false;
}

#define STORY 5

static void
say_story(struct words *t, const struct scene *s)
{
	const GpuSim__EventsResponse *e = s->w->events;
	size_t n = 0, from = e ? e->n_events : 0;

	while (from > 0 && n < STORY)
		n += concerns(s, e->events[--from]);
	if (n)
		say(t, "  What happened:\n");
	for (size_t i = from; e && i < e->n_events; i++)
		if (concerns(s, e->events[i]))
			say(t, "    %s %s\n", part_when(t, e->events[i]->atms * NS_PER_MS),
			    e->events[i]->text);
}

/* A device that was given up and is only stopped can come back. */
static void
say_stopped(struct words *t, const struct scene *s)
{
	for (uint32_t r = 0; r < s->n; r++) {
		const struct seen *a = &s->rank[r];

		if (a->cause != CAUSE_STOPPED && a->cause != CAUSE_TRACED)
			continue;
		say(t, "  Now: rank %" PRIu32 " (%s) %s; to resume its device: %s.\n", r,
		    part_device(t, a->dev), part_process(t, a->dev->process, a->dev->tracer),
		    part_release(t, a->dev->meta->pid, a->dev->tracer));
		return;
	}
}

static void
say_how_on(struct words *t, const struct scene *s, enum explain_state state)
{
	const struct world_holder *h = s->holder;
	uint64_t id = s->comm->commid;

	if (state == EXPLAIN_FAILED) {
		say(t, "  To go on: ");
		if (strstr(s->comm->reason, "disagree on the operation"))
			say(t, "have all ranks call the same operations, of the same size, type "
			       "and root, in the same order; ");
		say(t,
		    "gpuctl comm-shrink %" PRIu64
		    " makes a communicator of the surviving ranks; gpuctl comm-destroy %" PRIu64
		    " ends it.\n",
		    id, id);
		return;
	}
	if (state != EXPLAIN_WAITS && !has_slow(s))
		return;
	say(t, "  To go on: ");
	if (h)
		say(t, "%s, or ", part_release(t, s->comm->pid, h->tracer));
	if (s->nculprits) {
		say_remedies(t, s);
		say(t, ", or ");
	} else if (s->comm->n_runs == 0 && s->comm->n_calls) {
		say(t, "have the missing ranks call it, or ");
	} else if (s->comm->n_runs == 0 && s->comm->n_groups) {
		say(t, "end the group, or ");
	}
	say(t, "gpuctl comm-abort %" PRIu64 ".", id);
	if (s->at_hand && s->comm->optimeoutms && s->comm->optimeoutms != UINT32_MAX)
		say(t, " It fails by itself after %s without progress.",
		    part_time(t, s->comm->optimeoutms * NS_PER_MS));
	say(t, "\n");
}

/* Print the holder if the first sentence has not. */
static void
say_holder(struct words *t, const struct scene *s)
{
	const struct world_holder *h = s->holder;

	if (h && (s->at_hand || s->comm->n_runs || s->comm->n_calls || s->comm->n_groups))
		say(t, "  Its %s %s.\n", part_client(t, s, s->comm->clientid),
		    part_process(t, h->process, h->tracer));
}

static void
say_behind(struct words *t, const struct scene *s)
{
	uint64_t n = s->comm->pending;

	if (n > 1)
		say(t, "  %" PRIu64 " more run%s wait%s after it.\n", n - 1, n == 2 ? "" : "s",
		    n == 2 ? "s" : "");
	if (s->comm->n_groups && (s->at_hand || s->comm->n_runs || s->comm->n_calls))
		say(t, "  %zu group%s open.\n", s->comm->n_groups,
		    s->comm->n_groups == 1 ? " is" : "s are");
}

enum rc
explain_comm(const struct world *w, uint64_t comm, bool brief, struct buf *out,
	     struct explanation *how, struct err *err)
{
	enum explain_state *state = &how->state;
	const GpuSim__CommSummary *c = world_comm(w, comm);
	struct words t = {.out = out};
	struct scene s;

	if (!c)
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64, comm);
	scene_init(w, c, &s);
	scene_causes(&s);
	say(&t, "comm %" PRIu64 " (%" PRIu32 " rank%s, epoch %" PRIu32 "): ", comm, s.n,
	    s.n == 1 ? "" : "s", c->epoch);
	*state = say_first(&t, &s);
	how->cause = t.cause && *state != EXPLAIN_IDLE ? t.cause : "";
	if (!brief) {
		say(&t, ".\n");
		if (*state == EXPLAIN_FAILED) {
			say_first_failure(&t, &s);
			say_story(&t, &s);
			say_stopped(&t, &s);
		}
		if (s.comm->recoveries)
			say(&t,
			    "  Recovered %" PRIu32 " time%s, so its epoch is %" PRIu32 ": %s.\n",
			    s.comm->recoveries, s.comm->recoveries == 1 ? "" : "s", s.comm->epoch,
			    s.comm->recovered);
		say_behind(&t, &s);
		say_holder(&t, &s);
		say_last(&t, &s);
		say_how_on(&t, &s, *state);
	}
	scene_fini(&s);
	return RC_OK;
}
