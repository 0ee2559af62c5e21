/*
 * Records of a ring as slices and instants. A step is recorded when it ends, before its operation. So steps
 * are kept here until their operation, and written below it: outer slices first, each within the one around it.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "coll/plan.h"
#include "mem/dtype.h"
#include "mem/redop.h"
#include "view/timeline_impl.h"
#include "view/world.h"
#include "wire/frame.h"

#define LANES_MAX 256u /* threads of one ring, for operations that overlap */
#define DEPTH_MAX 8    /* of slices within a slice */

/*
 * Readers add a slice's time to its beginning in floating-point numbers of microseconds, and some cut
 * both to whole ns: an end that equals another's beginning or end may come out later. So a slice begins
 * GAP_NS after the previous one on its thread, and slices within it end INNER_NS before its end.
 */
#define GAP_NS	 1
#define INNER_NS 3

/* ---- threads */

/* Return true if it ended before the trace's beginning. */
static bool
timeline_before(const struct timeline *t, const struct flight_clock *c, uint64_t ticks)
{
	return flight_time_ns(c, ticks) < t->begin_ns;
}

static void
name_track(struct track *k, const struct timeline_ring *ring)
{
	const char *kind = flight_ring_name(ring->kind);

	switch (ring->kind) {
	case FLIGHT_STREAM:
		snprintf(k->name, sizeof k->name, "stream %" PRIu64, ring->id);
		break;
	case FLIGHT_QUEUE:
		snprintf(k->name, sizeof k->name, "queue %" PRIu64, ring->id);
		if (ring->stream != FLIGHT_OWN_STREAM)
			snprintf(k->name, sizeof k->name, "queue %" PRIu64 ", stream %" PRIu64,
				 ring->id, ring->stream);
		break;
	default:
		snprintf(k->name, sizeof k->name, "%.15s", ring->name[0] ? ring->name : kind);
	}
}

static struct lane *
add_lane(struct track *k)
{
	struct lane *more = alloc_resize(k->lane, k->nlanes + 1, sizeof *more), *lane;
	char name[96];

	if (!more)
		return NULL;
	k->lane = more;
	lane = &more[k->nlanes++];
	*lane = (struct lane){.tid = ++k->p->t->tids};
	if (k->nlanes == 1)
		snprintf(name, sizeof name, "%s", k->name);
	else
		snprintf(name, sizeof name, "%s (%zu)", k->name, k->nlanes);
	timeline_name(k->p->t, k->p->pid, lane->tid, "thread_name", name);
	timeline_order(k->p->t, k->p->pid, lane->tid, "thread_sort_index", lane->tid);
	return lane;
}

/* The lane's thread has a name. NULL: out of memory. */
static struct lane *
track_lane(struct track *k, uint64_t begin_ticks)
{
	struct lane *soonest = NULL;

	for (size_t i = 0; i < k->nlanes; i++) {
		if (k->lane[i].end_ticks <= begin_ticks)
			return &k->lane[i];
		if (!soonest || k->lane[i].end_ticks < soonest->end_ticks)
			soonest = &k->lane[i];
	}
	return k->nlanes < LANES_MAX ? add_lane(k) : soonest;
}

/* Move the beginning of a slice behind the lane's last one, and into the phase that begins with it. */
static uint64_t
after_last(struct track *k, const struct lane *lane, uint64_t begin_ns)
{
	if (begin_ns <= lane->end_ns)
		begin_ns = lane->end_ns + GAP_NS;
	if (k->begins && lane == k->lane) {
		k->begins = false;
		k->phase_ns = begin_ns;
		begin_ns += GAP_NS;
	}
	return begin_ns;
}

/* ---- contents of a slice */

static void
begin_slice(struct track *k, const struct lane *lane, const char *cat, uint64_t begin_ns,
	    uint64_t end_ns)
{
	struct trace_out *o = &k->p->t->out;

	trace_begin(o, 'X', k->p->pid, lane->tid);
	trace_us(o, "ts", begin_ns);
	trace_us(o, "dur", end_ns - begin_ns);
	trace_text(o, "cat", cat);
}

static void
put_result(struct trace_out *o, uint8_t result)
{
	trace_text(o, "result", rc_name((enum rc)result));
}

/* Ticks of an interval. */
static uint64_t
span_ns(const struct flight_clock *c, uint64_t ticks)
{
	double ns = (double)ticks * c->ns_per_tick;

	return ns < 9e18 ? (uint64_t)ns : UINT64_MAX;
}

static uint64_t
op_bytes(const struct flight_op *op)
{
	uint64_t nbytes;

	return __builtin_mul_overflow(op->count, dtype_size((enum gpusim_dtype)op->dtype), &nbytes)
		   ? 0
		   : nbytes;
}

static const char *
root_word(enum gpusim_coll coll)
{
	return coll_is_sendrecv(coll) ? "peer" : coll_has_root(coll) ? "root" : NULL;
}

static void
put_op(const struct timeline_process *p, struct trace_out *o, const struct flight_op *op)
{
	const struct flight_group *g =
	    op->group && op->group <= FLIGHT_GROUPS && op->group <= p->ngroups
		? &p->group[op->group - 1]
		: NULL;
	const struct plan_algo *algo = world_algo(op);
	enum gpusim_coll coll = (enum gpusim_coll)op->coll;

	trace_number(o, "comm", op->comm);
	trace_number(o, "epoch", op->epoch);
	trace_number(o, "seq", frame_op_shown(op->seq));
	trace_number(o, "rank", op->rank);
	if (g || !op->group)
		trace_number(o, "ranks", g ? g->n : op->nranks);
	if (g && *g->name)
		trace_text(o, "group", g->name);
	if (algo)
		trace_text(o, "algo", algo->name);
	trace_text(o, "type", dtype_name((enum gpusim_dtype)op->dtype));
	if (coll_reduces(coll))
		trace_text(o, "op", redop_name((enum gpusim_redop)op->redop));
	trace_number(o, "count", op->count);
	trace_number(o, "bytes", op_bytes(op));
	if (root_word(coll))
		trace_number(o, root_word(coll), op->root);
	trace_text(o, "path", op->flags & FLIGHT_BY_MEMORY ? "memory" : "frames");
}

static const char *
step_name(const struct flight_step *s)
{
	if (s->what)
		return plan_step_name(s->what - 1u);
	return s->step <= 1 ? "open" : "close";
}

static void
wait_name(struct trace_out *o, uint32_t peer)
{
	char name[40];

	snprintf(name, sizeof name, "wait for rank %" PRIu32, peer - 1);
	trace_text(o, "name", peer ? name : "wait");
}

static void
write_step(struct track *k, const struct lane *lane, const struct flight_clock *c,
	   const struct flight_step *s, uint64_t begin_ns, uint64_t end_ns, bool alone)
{
	struct trace_out *o = &k->p->t->out;

	begin_slice(k, lane, s->kind == FLIGHT_WAIT ? "wait" : "step", begin_ns, end_ns);
	if (s->kind == FLIGHT_WAIT)
		wait_name(o, s->peer);
	else
		trace_text(o, "name", step_name(s));
	trace_args(o);
	trace_number(o, "step", s->step);
	if (s->peer)
		trace_number(o, "peer", s->peer - 1);
	if (s->bytes)
		trace_number(o, "bytes", s->bytes);
	trace_us(o, "waited_us", span_ns(c, s->waited));
	put_result(o, s->result);
	if (alone) {
		/* The step's operation, if no slice around it names it. */
		trace_number(o, "comm", s->comm);
		trace_number(o, "epoch", s->epoch);
		trace_number(o, "seq", frame_op_shown(s->seq));
	}
	trace_end(o);
}

/* ---- steps of an operation */

/* Keep a step until its operation. RC_NOMEM. */
static enum rc
slice_keep(struct track *k, const union flight_record *r, struct err *err)
{
	if (k->nsteps == TIMELINE_STEPS) { /* their operations ended long ago */
		k->nsteps /= 2;
		memmove(k->step, k->step + k->nsteps, k->nsteps * sizeof *k->step);
		k->p->t->steps_given_up += k->nsteps;
	}
	if (!alloc_room(&k->step, k->nsteps, &k->room, sizeof *k->step))
		return err_set(err, RC_NOMEM, "out of memory");
	k->step[k->nsteps++] = *r;
	return RC_OK;
}

static bool
is_of(const struct flight_step *s, const struct flight_op *op)
{
	return s->comm == op->comm && s->seq == op->seq && s->epoch == op->epoch;
}

/* Take the operation's steps out of the others; return their number. */
static size_t
gather_steps(struct track *k, const struct flight_op *op, union flight_record **out)
{
	size_t n = 0, others = 0;

	for (size_t i = 0; i < k->nsteps; i++)
		n += is_of(&k->step[i].step, op);
	*out = NULL;
	if (n == 0 || !(*out = alloc_zeroed(n, sizeof **out)))
		return 0;
	n = 0;
	for (size_t i = 0; i < k->nsteps; i++)
		if (is_of(&k->step[i].step, op))
			(*out)[n++] = k->step[i];
		else
			k->step[others++] = k->step[i];
	k->nsteps = others;
	return n;
}

/* Outer slices first. */
static int
by_begin(const void *a, const void *b)
{
	const struct flight_step *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return (x->kind == FLIGHT_WAIT) - (y->kind == FLIGHT_WAIT);
}

/* The current operation, for its steps' arrows. */
struct arrows {
	const struct flight_op *op;
	bool wanted; /* all its steps were recorded */
};

static void
add_arrow(struct track *k, const struct lane *lane, const struct arrows *a,
	  const struct flight_step *s, uint64_t begin_ns, uint64_t end_ns)
{
	struct timeline *t = k->p->t;
	bool sends = s->what == STEP_SEND + 1;
	bool receives = s->what == STEP_RECV + 1 || s->what == STEP_RECV_REDUCE + 1;
	uint32_t peer = s->peer - 1;
	struct flow_end e;

	if (!a->wanted || s->kind != FLIGHT_STEP || !(sends || receives) || peer >= a->op->nranks ||
	    s->result != RC_OK)
		return;
	e = (struct flow_end){
	    .key = {.comm = s->comm,
		    .seq = s->seq,
		    .epoch = s->epoch,
		    .src = sends ? a->op->rank : peer,
		    .dst = sends ? peer : a->op->rank,
		    .n = t->count[2 * peer + receives]++},
	    .receives = receives,
	    .pid = k->p->pid,
	    .tid = lane->tid,
	    .at_ns = sends || end_ns == begin_ns ? begin_ns : end_ns - 1,
	};
	flow_add(t, &e);
}

/* Write sorted steps within an interval of a lane. Return the end of the last one. */
static uint64_t
write_steps(struct track *k, const struct lane *lane, const struct flight_clock *c,
	    const struct arrows *a, const union flight_record *v, size_t n, uint64_t begin_ns,
	    uint64_t end_ns)
{
	uint64_t ends[DEPTH_MAX] = {end_ns}, at = begin_ns, most = begin_ns, last;
	size_t depth = 1;

	for (size_t i = 0; i < n; i++) {
		const struct flight_step *s = &v[i].step;
		uint64_t b = timeline_ns(k->p->t, c, s->begin), e = timeline_ns(k->p->t, c, s->end);

		b = b > at ? b : at;
		while (depth > 1 && ends[depth - 1] <= b) {
			depth--;
			b = b > ends[depth] + GAP_NS ? b : ends[depth] + GAP_NS;
		}
		last = ends[depth - 1] > at + INNER_NS ? ends[depth - 1] - INNER_NS : at;
		if (b > last)
			b = last > at ? last + GAP_NS : at;
		e = e > last ? last : e;
		e = e > b && depth < DEPTH_MAX ? e : b;
		most = e > most ? e : most;
		write_step(k, lane, c, s, b, e, false);
		add_arrow(k, lane, a, s, b, e);
		if (depth < DEPTH_MAX)
			ends[depth++] = e;
		at = b;
	}
	return most;
}

/* ---- operations */

/* Return true if the operation's steps were recorded from the first on, so that chunks can be counted,
 * and there is memory to count. */
static bool
wants_arrows(struct timeline *t, const struct flight_op *op, const union flight_record *v, size_t n)
{
	size_t need = 2 * (size_t)op->nranks;
	bool first = false;
	uint32_t *more;

	for (size_t i = 0; i < n && !first; i++)
		first = v[i].kind == FLIGHT_STEP && v[i].step.step <= 1;
	if (!first)
		return false;
	if (need > t->ncounts) {
		more = alloc_resize(t->count, need, sizeof *more);
		if (!more)
			return false;
		t->count = more;
		t->ncounts = need;
	}
	memset(t->count, 0, need * sizeof *t->count);
	return true;
}

static uint64_t
waited(const struct flight_clock *c, const union flight_record *v, size_t n)
{
	uint64_t ticks = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i].kind == FLIGHT_WAIT)
			ticks += v[i].step.waited;
	return span_ns(c, ticks);
}

/* The end of an operation without a recorded end: its process was killed in it. */
static uint64_t
last_tick(const struct flight_op *op, const union flight_record *v, size_t n)
{
	uint64_t last = op->begin;

	for (size_t i = 0; i < n; i++)
		last = v[i].step.end > last ? v[i].step.end : last;
	return last;
}

static void
write_op(struct track *k, const struct lane *lane, const struct flight_clock *c,
	 const struct flight_op *op, const union flight_record *v, size_t n, uint64_t begin_ns,
	 uint64_t end_ns, const struct flight_live *live)
{
	struct trace_out *o = &k->p->t->out;

	begin_slice(k, lane, "op", begin_ns, end_ns);
	trace_text(o, "name", coll_name((enum gpusim_coll)op->coll));
	if (op->result != RC_OK)
		trace_text(o, "cname", "terrible");
	trace_args(o);
	put_op(k->p, o, op);
	trace_us(o, "queued_us", span_ns(c, (uint64_t)op->queued * 64));
	trace_us(o, "waited_us", waited(c, v, n));
	if (live)
		trace_number(o, "steps", atomic_load(&live->steps));
	if (live || op->end == 0)
		trace_text(o, "result", live ? "running" : "killed");
	else
		put_result(o, op->result);
	trace_end(o);
}

/* The wait that goes on. */
static void
write_waiting(struct track *k, const struct lane *lane, const struct flight_clock *c,
	      const struct flight_live *live, uint64_t from_ns, uint64_t end_ns)
{
	struct trace_out *o = &k->p->t->out;
	uint32_t peer = atomic_load(&live->waits_for);
	uint64_t since = timeline_ns(k->p->t, c, atomic_load(&live->since));

	since = since > from_ns + GAP_NS ? since : from_ns + GAP_NS;
	if (peer == 0 || since + INNER_NS > end_ns)
		return;
	begin_slice(k, lane, "wait", since, end_ns - INNER_NS);
	wait_name(o, peer);
	trace_args(o);
	trace_number(o, "step", atomic_load(&live->waits_in));
	trace_number(o, "peer", peer - 1);
	trace_us(o, "waited_us", end_ns - since);
	trace_text(o, "result", "running");
	trace_end(o);
}

/* An operation that has ended (now_ns 0) or runs, with its steps and waits. RC_NOMEM. */
static enum rc
slice_op(struct track *k, const struct flight_clock *c, const struct flight_op *op,
	 const struct flight_live *live, uint64_t now_ns, struct err *err)
{
	struct timeline *t = k->p->t;
	union flight_record *v;
	size_t n = gather_steps(k, op, &v);
	uint64_t end = op->end ? op->end : last_tick(op, v, n);
	uint64_t b = timeline_ns(t, c, op->begin), e = timeline_ns(t, c, end), until;
	struct arrows a = {op, wants_arrows(t, op, v, n)};
	struct lane *lane;

	if (live)
		e = now_ns > t->begin_ns ? now_ns - t->begin_ns : 0;
	else if (timeline_before(t, c, end)) {
		free(v);
		return RC_OK;
	}
	lane = track_lane(k, op->begin);
	if (!lane) {
		free(v);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	b = after_last(k, lane, b);
	e = e > b ? e : b;
	process_ranked(k->p, op->rank);
	write_op(k, lane, c, op, v, n, b, e, live);
	if (n)
		qsort(v, n, sizeof *v, by_begin);
	until = write_steps(k, lane, c, &a, v, n, b, e);
	if (live)
		write_waiting(k, lane, c, live, until, e);
	else if (op->result == RC_OK && op->end)
		process_moved(k->p, e, op_bytes(op));
	lane->end_ticks = live ? UINT64_MAX : end;
	lane->end_ns = e;
	free(v);
	return RC_OK;
}

/* ---- single records */

static const char *
copy_name(unsigned what)
{
	static const char *const names[] = {
	    [FLIGHT_COPY_DEVICE] = "copy",
	    [FLIGHT_COPY_IN] = "copy in",
	    [FLIGHT_COPY_OUT] = "copy out",
	    [FLIGHT_MEMSET] = "memset",
	    [FLIGHT_PAUSE_EVENT] = "wait for an event",
	    [FLIGHT_PAUSE_QUEUE] = "wait for a queue",
	    [FLIGHT_PAUSE_HOST] = "wait for the program",
	    [FLIGHT_PAUSE_TURN] = "wait for its turn",
	};

	return what < sizeof names / sizeof *names && names[what] ? names[what] : "?";
}

static void
write_kernel(struct trace_out *o, const struct flight_kernel *r)
{
	char grid[48];

	trace_text(o, "name", r->name);
	trace_args(o);
	if (r->grid[0]) {
		snprintf(grid, sizeof grid, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, r->grid[0],
			 r->grid[1], r->grid[2]);
		trace_text(o, "grid", grid);
		trace_number(o, "threads", r->threads);
	}
	trace_number(o, "argument_bytes", r->argbytes);
	put_result(o, r->result);
}

static void
write_copy(struct trace_out *o, const struct flight_copy *r)
{
	trace_text(o, "name", copy_name(r->what));
	trace_args(o);
	if (r->kind == FLIGHT_COPY) {
		trace_number(o, "bytes", r->nbytes);
		if (r->dst)
			trace_hex(o, "dst", r->dst);
		if (r->src)
			trace_hex(o, "src", r->src);
	} else if (r->with) {
		trace_number(o, "with", r->with);
	}
	put_result(o, r->result);
}

/* Kernels, copies and pauses have their interval at the same offset as steps. */
_Static_assert(offsetof(struct flight_kernel, begin) == offsetof(struct flight_step, begin) &&
		   offsetof(struct flight_copy, begin) == offsetof(struct flight_step, begin),
	       "one place");

/* A single record. RC_NOMEM. */
static enum rc
slice_alone(struct track *k, const struct flight_clock *c, const union flight_record *r,
	    struct err *err)
{
	struct trace_out *o = &k->p->t->out;
	uint64_t b = timeline_ns(k->p->t, c, r->step.begin),
		 e = timeline_ns(k->p->t, c, r->step.end);
	struct lane *lane;

	if (timeline_before(k->p->t, c, r->step.end))
		return RC_OK;
	lane = track_lane(k, r->step.begin);
	if (!lane)
		return err_set(err, RC_NOMEM, "out of memory");
	b = after_last(k, lane, b);
	e = e > b ? e : b;
	if (r->kind == FLIGHT_WAIT || r->kind == FLIGHT_STEP) {
		write_step(k, lane, c, &r->step, b, e, true);
	} else {
		begin_slice(k, lane, flight_kind_name(r->kind), b, e);
		if (r->kind == FLIGHT_KERNEL)
			write_kernel(o, &r->kernel);
		else
			write_copy(o, &r->copy);
		trace_end(o);
	}
	lane->end_ticks = r->step.end;
	lane->end_ns = e;
	return RC_OK;
}

/* Write the steps whose operation was not recorded. */
static void
slice_orphans(struct track *k, const struct flight_clock *c)
{
	if (k->nsteps)
		qsort(k->step, k->nsteps, sizeof *k->step, by_begin);
	for (size_t i = 0; i < k->nsteps; i++)
		slice_alone(k, c, &k->step[i], NULL);
	k->nsteps = 0;
}

/* ---- instants */

/* Return true for events of a whole device, false for those of a thread. */
static bool
is_grave(unsigned what)
{
	return what == FLIGHT_MARK_ABORT || what == FLIGHT_MARK_FAULT ||
	       what == FLIGHT_MARK_NOMEM || what == FLIGHT_MARK_LOST_RANK;
}

static void
put_mark(struct trace_out *o, const struct flight_mark *m, const char *text)
{
	if (*text)
		trace_text(o, "text", text);
	if (m->device)
		trace_hex(o, "device", m->device);
	if (m->comm) {
		trace_number(o, "comm", m->comm);
		trace_number(o, "epoch", m->epoch);
	}
	if (m->seq)
		trace_number(o, "seq", frame_op_shown(m->seq));
	if (m->rank)
		trace_number(o, "rank", m->rank - 1);
	if (m->step)
		trace_number(o, "step", m->step);
	if (m->client)
		trace_hex(o, "client", m->client);
	if (m->value)
		trace_number(o, "value", m->value);
	if (m->result)
		trace_text(o, "result", rc_name((enum rc)m->result));
}

static enum rc
write_mark(struct track *k, const struct flight_clock *clock, const union flight_record *r,
	   size_t n, size_t i, struct err *err)
{
	const struct flight_mark *m = &r[i].mark;
	uint64_t at = timeline_ns(k->p->t, clock, m->at);
	bool event = m->what == FLIGHT_MARK_EVENT;
	char text[TRACE_TEXT], name[WORLD_EVENT_NAME];

	if (timeline_before(k->p->t, clock, m->at) || (event && !k->p->t->events))
		return RC_OK;
	if (k->nlanes == 0 && !add_lane(k))
		return err_set(err, RC_NOMEM, "out of memory");
	flight_text(r, n, i, text, sizeof text);
	timeline_instant(k->p->t, k->p->pid, k->lane[0].tid, at,
			 event		     ? "g"
			 : is_grave(m->what) ? "p"
					     : "t");
	trace_text(&k->p->t->out, "name",
		   event ? world_event_name((int)m->value, "event", name)
			 : flight_mark_name(m->what));
	trace_text(&k->p->t->out, "cat", event ? "history" : "mark");
	trace_args(&k->p->t->out);
	put_mark(&k->p->t->out, m, text);
	trace_end(&k->p->t->out);
	return RC_OK;
}

/* ---- ranges of a program: a process of its own, with the program's threads */

#define PROGRAMS 1000000u /* + its pid: other processes of a trace have small numbers */

_Static_assert(offsetof(struct flight_range, begin) == offsetof(struct flight_step, begin),
	       "one place");

/* A name of a thread of the program, or of the ring's stream. */
static enum rc
write_range_name(struct track *k, const struct flight_range *r, struct err *err)
{
	char name[sizeof k->name];

	if (r->what == FLIGHT_RANGE_THREAD) {
		timeline_name(k->p->t, PROGRAMS + r->pid, r->tid, "thread_name", r->name);
		return RC_OK;
	}
	snprintf(name, sizeof name, "%s (%.24s)", r->name, k->name);
	memcpy(k->name, name, sizeof k->name);
	if (k->nlanes)
		timeline_name(k->p->t, k->p->pid, k->lane[0].tid, "thread_name", name);
	else if (!add_lane(k))
		return err_set(err, RC_NOMEM, "out of memory");
	return RC_OK;
}

static void
begin_range(struct track *k, const struct flight_range *r, char phase, uint64_t at_ns)
{
	struct trace_out *o = &k->p->t->out;

	trace_begin(o, phase, PROGRAMS + r->pid, r->tid);
	trace_us(o, "ts", at_ns);
	trace_text(o, "cat", "range");
	trace_text(o, "name", r->name);
	if (phase == 'b' || phase == 'e')
		trace_hex(o, "id", r->begin);
	else if (phase == 'i')
		trace_text(o, "s", "t");
}

/* A phase of the stream, around the slices since it began. */
static void
write_phase(struct track *k, const struct flight_clock *c, const struct flight_range *r)
{
	struct lane *lane = k->lane;
	uint64_t e = timeline_ns(k->p->t, c, r->end), b = k->phase_ns;

	if (r->what == FLIGHT_RANGE_BEGUN) {
		k->begins = true;
		return;
	}
	k->begins = false;
	k->phase_ns = 0;
	if (!b || !lane || timeline_before(k->p->t, c, r->end))
		return;
	e = (e > lane->end_ns ? e : lane->end_ns) + INNER_NS;
	begin_slice(k, lane, "phase", b, e);
	trace_text(&k->p->t->out, "name", r->name);
	trace_args(&k->p->t->out);
	trace_end(&k->p->t->out);
	lane->end_ns = e;
}

static enum rc
write_range(struct track *k, const struct flight_clock *c, const struct flight_range *r,
	    struct err *err)
{
	struct trace_out *o = &k->p->t->out;
	uint64_t b = timeline_ns(k->p->t, c, r->begin), e = timeline_ns(k->p->t, c, r->end);
	char text[40];

	if (r->what == FLIGHT_RANGE_THREAD || r->what == FLIGHT_RANGE_STREAM)
		return write_range_name(k, r, err);
	if (r->what == FLIGHT_RANGE_BEGUN || r->what == FLIGHT_RANGE_PHASE) {
		write_phase(k, c, r);
		return RC_OK;
	}
	if (timeline_before(k->p->t, c, r->end))
		return RC_OK;
	if (k->program != r->pid) {
		k->program = r->pid;
		snprintf(text, sizeof text, "program %" PRIu32, r->pid);
		timeline_name(k->p->t, PROGRAMS + r->pid, 0, "process_name", text);
		timeline_order(k->p->t, PROGRAMS + r->pid, 0, "process_sort_index", 0);
	}
	begin_range(k, r,
		    r->what == FLIGHT_RANGE_NESTED ? 'X'
		    : r->what == FLIGHT_RANGE_MARK ? 'i'
						   : 'b',
		    b);
	if (r->what == FLIGHT_RANGE_NESTED)
		trace_us(o, "dur", e - b);
	trace_args(o);
	if (r->category)
		trace_number(o, "category", r->category);
	if (r->colour) {
		snprintf(text, sizeof text, "#%06" PRIx32, r->colour & 0xffffff);
		trace_text(o, "colour", text);
	}
	trace_end(o);
	if (r->what == FLIGHT_RANGE_FREE) {
		begin_range(k, r, 'e', e);
		trace_end(o);
	}
	return RC_OK;
}

/* ---- a ring */

/* The ring's track; a new one if another stream has taken the ring. NULL: out of memory. */
static struct track *
find_track(struct timeline_process *p, const struct timeline_ring *ring,
	   const struct flight_clock *clock)
{
	struct track **at = &p->track[ring->index % FLIGHT_RINGS_MAX];

	if (*at && (*at)->opened == ring->opened)
		return *at;
	if (*at)
		slice_orphans(*at, clock);
	track_free(*at);
	*at = alloc_zeroed(1, sizeof **at);
	if (!*at)
		return NULL;
	(*at)->p = p;
	(*at)->opened = ring->opened;
	name_track(*at, ring);
	return *at;
}

enum rc
timeline_records(struct timeline_process *p, const struct timeline_ring *ring,
		 const struct flight_clock *clock, const union flight_record *r, size_t n,
		 struct err *err)
{
	struct track *k = find_track(p, ring, clock);
	enum rc rc = RC_OK;

	if (!k)
		return err_set(err, RC_NOMEM, "out of memory");
	for (size_t i = 0; i < n && rc == RC_OK; i++)
		switch ((enum flight_kind)r[i].kind) {
		case FLIGHT_OP:
			rc = slice_op(k, clock, &r[i].op, NULL, 0, err);
			break;
		case FLIGHT_WAIT:
		case FLIGHT_STEP:
			rc = slice_keep(k, &r[i], err);
			break;
		case FLIGHT_KERNEL:
		case FLIGHT_COPY:
		case FLIGHT_PAUSE:
			rc = slice_alone(k, clock, &r[i], err);
			break;
		case FLIGHT_MARK:
			rc = write_mark(k, clock, r, n, i, err);
			break;
		case FLIGHT_RANGE:
			rc = write_range(k, clock, &r[i].range, err);
			break;
		case FLIGHT_NONE:
		case FLIGHT_TEXT:
		case FLIGHT_NKINDS:
			break;
		}
	return rc;
}

enum rc
timeline_live(struct timeline_process *p, uint32_t index, const struct flight_ring *ring,
	      const struct flight_clock *clock, uint64_t now_ns, struct err *err)
{
	const struct timeline_ring r = timeline_ring(index, ring);
	struct track *k = find_track(p, &r, clock);
	enum rc rc = RC_OK;

	if (!k)
		return err_set(err, RC_NOMEM, "out of memory");
	if (flight_at_work(&ring->live))
		rc = slice_op(k, clock, &ring->live.op, &ring->live, now_ns, err);
	slice_orphans(k, clock);
	return rc;
}
