/*
 * A thread's live line and records. See progress.h.
 *
 * Design notes. The live line is written before `turn` becomes odd and after it becomes even, so a reader
 * that sees the same odd number before and after has a consistent operation. The fields after it change
 * one by one.
 *
 * A transport that drives several operations waits in slices. Slices of one wait are one record with one
 * start, which is written when something else happens. Records are written at ends, so intervals of a
 * ring nest: a wait precedes its operation, and never crosses the end of another.
 *
 * Other processes of the user can write to the area, so the thread never reads its live line back.
 */
#include <stdio.h>
#include <string.h>

#include "xport/progress.h"
#include "xport/times.h"

#define LEAST_NS 1000 /* shortest wait or pause that is recorded */

/* Read and written by several threads, word by word. */
typedef uint64_t __attribute__((may_alias)) word;

static void
set(struct recorder *m, struct flight_live *to)
{
	atomic_store_explicit(&m->live, to, memory_order_release);
}

void
recorder_init(struct recorder *m)
{
	size_t into;

	memset(m, 0, sizeof *m);
	into = (uintptr_t)m->own % FLIGHT_LINE;
	set(m, (struct flight_live *)(void *)(m->own + (into ? FLIGHT_LINE - into : 0)));
}

void
recorder_open(struct recorder *m, struct flight *f, enum flight_ring_kind kind, uint64_t id,
	      uint64_t stream, uint32_t pid, const char *name)
{
	if (!flight_take(f, kind, id, stream, pid, name, &m->w))
		return;
	m->turn = (atomic_load(&m->w.ring->live.turn) | 1u) + 1;
	atomic_store(&m->w.ring->live.turn, m->turn);
	atomic_store(&m->w.ring->live.waits_for, 0);
	recorder_task(m, NULL);
	atomic_store(&m->w.ring->live.way_to, 0);
	set(m, &m->w.ring->live);
}

/* ---- the pending wait */

static void
put_wait(struct recorder *m)
{
	if (flight_ns(&m->w, m->wait.step.waited) >= LEAST_NS) {
		*flight_next(&m->w) = m->wait;
		flight_put(&m->w);
	}
	m->wait.kind = FLIGHT_NONE;
}

static inline void
settle_wait(struct recorder *m)
{
	if (m->wait.kind)
		put_wait(m);
}

void
recorder_close(struct recorder *m)
{
	struct flight_writer w = m->w;

	settle_wait(m);
	recorder_end(m);
	recorder_init(m);
	flight_give(&w);
}

/* ---- an operation */

/* Clear the live line. */
static void
no_op(struct recorder *m)
{
	atomic_store_explicit(&recorder_live(m)->turn, ++m->turn, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

static bool
is_shown(const struct recorder *m)
{
	return recorder_at_work(m) && m->shown_seq == m->op.op.seq &&
	       m->shown_comm == m->op.op.comm && m->shown_epoch == m->op.op.epoch;
}

static void
show(struct recorder *m, struct flight_live *l)
{
	word *to = (word *)(void *)&l->op;

	if (recorder_at_work(m))
		no_op(m);
	for (int i = 0; i < 8; i++)
		__atomic_store_n(&to[i], m->op.words[i], __ATOMIC_RELAXED);
	atomic_store_explicit(&l->turn, ++m->turn, memory_order_release);
	m->shown_seq = m->op.op.seq;
	m->shown_comm = m->op.op.comm;
	m->shown_epoch = m->op.op.epoch;
}

void
recorder_begin(struct recorder *m, size_t steps)
{
	struct flight_live *l;

	if (!m)
		return;
	l = recorder_live(m);
	m->nmissing = 0;
	m->idle_ns = 0;
	m->what = 0;
	m->bytes = 0;
	m->step = 1;
	m->steps = (uint32_t)steps;
	m->traces = flight_on(&m->w) && flight_traces(&m->w, m->op.op.begin);
	atomic_store_explicit(&l->step, 1, memory_order_relaxed);
	atomic_store_explicit(&l->steps, m->steps, memory_order_relaxed);
	if (!is_shown(m))
		show(m, l);
}

void
recorder_end(struct recorder *m)
{
	if (m && recorder_at_work(m))
		no_op(m);
}

static void
count(struct recorder *m, const struct recorder_result *how, uint64_t ns)
{
	struct flight_counts *c = &m->w.ring->counts;

	if (how->rc == RC_OK)
		flight_count_op(&m->w, m->op.op.coll, how->nbytes, ns);
	else
		flight_add(&c->failed, 1);
	flight_add(&c->sent, how->sent);
	flight_add(&c->received, how->received);
	flight_add(&c->busy_ns, ns);
}

void
recorder_done(struct recorder *m, const struct recorder_result *how)
{
	union flight_record *r;

	if (!m || !flight_on(&m->w))
		return;
	settle_wait(m);
	r = flight_next(&m->w);
	*r = m->op;
	r->op.end = m->clock;
	r->op.result = (uint8_t)how->rc;
	r->op.flags |= how->flags;
	flight_put(&m->w);
	count(m, how, flight_ns(&m->w, m->clock - m->op.op.begin));
}

/* ---- steps and waits: both records are of m->op */

static void
fill_step(const struct recorder *m, enum flight_kind kind, struct flight_step *r)
{
	*r = (struct flight_step){.kind = (uint8_t)kind,
				  .comm = m->op.op.comm,
				  .seq = m->op.op.seq,
				  .epoch = m->op.op.epoch};
}

void
recorder_trace_begin(struct recorder *m, struct recorder_step *s)
{
	s->begin = ticks_now();
	s->waited = m->waited;
}

void
recorder_trace(struct recorder *m, const struct recorder_step *s, enum rc rc)
{
	struct flight_step *r;

	if (!flight_on(&m->w))
		return;
	settle_wait(m);
	r = &flight_next(&m->w)->step;
	fill_step(m, FLIGHT_STEP, r);
	r->what = s->what;
	r->result = (uint8_t)rc;
	r->step = s->step;
	r->begin = s->begin;
	r->end = recorder_clock(m);
	r->bytes = s->bytes;
	r->waited = m->waited - s->waited;
	r->peer = s->peer;
	flight_put(&m->w);
}

/* The pending wait continues with this peer. */
static bool
is_same_wait(const struct recorder *m, uint32_t peer)
{
	const struct flight_step *w = &m->wait.step;

	return w->kind && w->peer == peer + 1 && w->step == m->step && w->what == m->what &&
	       w->seq == m->op.op.seq && w->comm == m->op.op.comm && w->epoch == m->op.op.epoch;
}

void
recorder_waits(struct recorder *m, uint32_t peer)
{
	struct flight_live *l;
	uint64_t now;

	if (!m)
		return;
	l = recorder_live(m);
	now = recorder_clock(m);
	m->waits = true;
	m->waits_from = now;
	m->told_ns = m->at_ns = 0;
	if (!is_same_wait(m, peer)) {
		if (flight_on(&m->w))
			settle_wait(m);
		fill_step(m, FLIGHT_WAIT, &m->wait.step);
		m->wait.step.what = m->what;
		m->wait.step.step = m->step;
		m->wait.step.begin = now;
		m->wait.step.bytes = m->bytes;
		m->wait.step.peer = peer + 1;
	}
	atomic_store_explicit(&l->since, m->wait.step.begin, memory_order_relaxed);
	atomic_store_explicit(&l->bytes, m->bytes, memory_order_relaxed);
	atomic_store_explicit(&l->waits_in, m->step, memory_order_relaxed);
	atomic_store_explicit(&l->waits_for, peer + 1, memory_order_release);
}

void
recorder_waits_on(struct recorder *m, uint64_t now_ns)
{
	uint64_t ns;

	if (!m || !m->waits || !flight_on(&m->w))
		return;
	if (m->at_ns == 0)
		m->at_ns = now_ns;
	if (now_ns - m->at_ns < TELL_WAIT_MS * NS_PER_MS)
		return;
	m->at_ns = now_ns;
	ns = flight_ns(&m->w, ticks_now() - m->waits_from);
	flight_add(&m->w.ring->counts.waited_ns, ns - m->told_ns);
	m->told_ns = ns;
}

void
recorder_goes_on(struct recorder *m, enum rc rc)
{
	uint64_t ticks, ns;
	uint32_t peer;

	if (!m || !m->waits)
		return;
	m->waits = false;
	peer = m->wait.step.peer;
	ticks = recorder_clock(m) - m->waits_from;
	ns = flight_on(&m->w) ? flight_ns(&m->w, ticks) : ticks_to_ns(ticks, ticks_hz());
	atomic_store_explicit(&recorder_live(m)->waits_for, 0, memory_order_relaxed);
	if (m->waited_ns)
		__atomic_fetch_add(&m->waited_ns[peer - 1], ns, __ATOMIC_RELAXED);
	if (rc != RC_OK) {
		m->idle_ns = ns;
		recorder_missing(m, peer - 1);
	}
	m->waited += ticks;
	m->wait.step.waited += ticks;
	m->wait.step.end = m->clock;
	m->wait.step.result = (uint8_t)rc;
	if (flight_on(&m->w))
		flight_add(&m->w.ring->counts.waited_ns, ns > m->told_ns ? ns - m->told_ns : 0);
}

/* ---- chunks */

void
recorder_sends(struct recorder *m, uint32_t peer, uint64_t nbytes, uint64_t ns)
{
	struct flight_live *l;
	uint64_t now;

	if (!m)
		return;
	l = recorder_live(m);
	now = ticks_now();
	atomic_store_explicit(&l->way_bytes, nbytes, memory_order_relaxed);
	atomic_store_explicit(&l->way_begin, now, memory_order_relaxed);
	atomic_store_explicit(&l->way_end, now + (uint64_t)((double)ns * (double)ticks_hz() / 1e9),
			      memory_order_relaxed);
	atomic_store_explicit(&l->way_to, peer + 1, memory_order_release);
}

void
recorder_moved(struct recorder *m, uint64_t sent, uint64_t received)
{
	if (!m)
		return;
	atomic_store_explicit(&recorder_live(m)->way_to, 0, memory_order_relaxed);
	if (!flight_on(&m->w))
		return;
	flight_add(&m->w.ring->counts.sent, sent);
	flight_add(&m->w.ring->counts.received, received);
}

/* ---- other work */

void
recorder_kernel(struct recorder *m, const struct flight_kernel *k)
{
	struct flight_kernel *r;
	uint64_t ns;

	if (!flight_on(&m->w))
		return;
	r = &flight_next(&m->w)->kernel;
	*r = *k;
	r->kind = FLIGHT_KERNEL;
	r->end = m->clock;
	flight_put(&m->w);
	ns = flight_ns(&m->w, r->end - r->begin);
	flight_add(&m->w.ring->counts.kernels, 1);
	flight_add(&m->w.ring->counts.kernel_ns, ns);
	flight_add(&m->w.ring->counts.busy_ns, ns);
}

void
recorder_copy(struct recorder *m, const struct flight_copy *c)
{
	struct flight_copy *r;
	uint64_t ns;

	if (!flight_on(&m->w))
		return;
	r = &flight_next(&m->w)->copy;
	*r = *c;
	r->kind = FLIGHT_COPY;
	r->end = m->clock;
	flight_put(&m->w);
	ns = flight_ns(&m->w, r->end - r->begin);
	flight_add(&m->w.ring->counts.copies, 1);
	flight_add(&m->w.ring->counts.copy_ns, ns);
	flight_add(&m->w.ring->counts.copy_bytes, r->nbytes);
	flight_add(&m->w.ring->counts.busy_ns, ns);
}

void
recorder_range(struct recorder *m, const struct flight_range *r)
{
	struct flight_range *next;

	if (!flight_on(&m->w))
		return;
	next = &flight_next(&m->w)->range;
	*next = *r;
	next->kind = FLIGHT_RANGE;
	flight_put(&m->w);
}

void
recorder_phase(struct recorder *m, uint64_t number, const char *name)
{
	if (number == m->phase_number && (!number || strcmp(name, m->phase.name) == 0))
		return;
	if (m->phase_number) {
		if (m->phase.end < m->phase.begin)
			m->phase.end = m->phase.begin;
		recorder_range(m, &m->phase);
	}
	m->phase_number = number;
	if (!number)
		return;
	m->phase = (struct flight_range){.what = FLIGHT_RANGE_BEGUN, .begin = recorder_now(m)};
	m->phase.end = m->phase.begin;
	snprintf(m->phase.name, sizeof m->phase.name, "%s", name);
	recorder_range(m, &m->phase);
	m->phase.what = FLIGHT_RANGE_PHASE;
}

void
recorder_pause(struct recorder *m, enum flight_copy_kind what, uint64_t with, uint64_t begin)
{
	if (!flight_on(&m->w) || flight_ns(&m->w, m->clock - begin) < LEAST_NS)
		return;
	*flight_next(&m->w) = (union flight_record){.copy = {.kind = FLIGHT_PAUSE,
							     .what = (uint8_t)what,
							     .begin = begin,
							     .end = m->clock,
							     .with = with}};
	flight_put(&m->w);
}

void
recorder_task(struct recorder *m, const struct flight_now *now)
{
	struct flight_now *to;

	if (!flight_on(&m->w))
		return;
	to = &m->w.ring->now;
	if (now) {
		to->tid = now->tid;
		to->since = now->since;
		to->queue = now->queue;
		to->device = now->device;
		memcpy(to->name, now->name, sizeof to->name);
	}
	atomic_store_explicit(&to->what, now ? now->what : FLIGHT_TASK_NONE, memory_order_release);
}

/* ---- on other threads */

/* Between two readings of the same odd turn. */
static bool
read_once(const struct flight_live *l, struct progress *out)
{
	const word *op = (const word *)(const void *)&l->op;
	uint32_t turn = atomic_load_explicit(&l->turn, memory_order_acquire);
	/* Before `since`, which was stored before it. */
	uint32_t waits_for = atomic_load_explicit(&l->waits_for, memory_order_acquire);
	union flight_record r;

	for (int i = 0; i < 8; i++)
		r.words[i] = __atomic_load_n(&op[i], __ATOMIC_RELAXED);
	*out = (struct progress){.comm = turn & 1 ? r.op.comm : 0,
				 .op = r.op.seq,
				 .epoch = r.op.epoch,
				 .step = atomic_load_explicit(&l->step, memory_order_relaxed),
				 .steps = atomic_load_explicit(&l->steps, memory_order_relaxed),
				 .waits_for = waits_for,
				 .idle_ns = atomic_load_explicit(&l->since, memory_order_relaxed)};
	atomic_thread_fence(memory_order_acquire);
	return turn == atomic_load_explicit(&l->turn, memory_order_relaxed);
}

bool
recorder_read(const struct recorder *m, struct progress *out)
{
	const struct flight_live *l = atomic_load_explicit(&m->live, memory_order_acquire);
	uint64_t now;

	for (int i = 0; i < 100 && !read_once(l, out); i++)
		;
	now = ticks_now();
	out->idle_ns =
	    out->waits_for && now > out->idle_ns ? ticks_to_ns(now - out->idle_ns, ticks_hz()) : 0;
	return out->comm != 0;
}
