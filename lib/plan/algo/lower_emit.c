/*
 * lower_emit.c - the steps of each rank's schedule.
 */
#include <stdlib.h>
#include <string.h>

#include "algo/lower_impl.h"
#include "base/buf.h"

/* A step of a rank, and its place in the rank's order. */
struct entry {
	uint32_t rank, round, phase, seq;
	struct schedule_step step;
};

struct emit {
	struct flow *f;
	struct entry *e;
	size_t n, cap;
	/* By round: its first round of the schedule; one for each range of its messages */
	uint32_t *first;
	bool full;
};

/* The place from which a value is read. A saved input has its copy in buf and at. */
struct loc {
	uint8_t buf;
	uint32_t at;
};

static struct loc
loc_of(const struct flow *f, uint32_t v)
{
	return (struct loc){f->val[v].buf, f->val[v].at};
}

static unsigned
partial_flag(const struct flow *f, uint32_t v, unsigned flag)
{
	return val_partial(f, &f->val[v]) ? flag : 0;
}

static bool
is_last(const struct flow *f, const struct val *v)
{
	return (v->made == MADE_SUM || v->made == MADE_RECV_SUM) && v->nranks == f->algo->nranks;
}

static void
add(struct emit *m, uint32_t rank, uint32_t round, enum phase phase, uint32_t seq,
    struct schedule_step step)
{
	if (!alloc_room(&m->e, m->n, &m->cap, sizeof *m->e)) {
		m->full = true;
		return;
	}
	step.round = round;
	m->e[m->n++] = (struct entry){rank, round, phase, seq, step};
}

/* ---- messages */

static bool
next_to(struct loc x, struct loc y)
{
	return x.buf == y.buf && y.at == x.at + 1;
}

/* Return true if one step can do both, v and then w. */
static bool
joins(const struct flow *f, uint32_t v, uint32_t w)
{
	const struct val *x = &f->val[v], *y = &f->val[w];

	if (x->made != y->made || y->chunk != x->chunk + 1 ||
	    !next_to(loc_of(f, x->from), loc_of(f, y->from)) ||
	    !next_to(loc_of(f, v), loc_of(f, w)) || val_partial(f, x) != val_partial(f, y) ||
	    is_last(f, x) != is_last(f, y) ||
	    val_partial(f, &f->val[x->from]) != val_partial(f, &f->val[y->from]))
		return false;
	if (x->made != MADE_RECV_SUM)
		return true;
	return val_partial(f, &f->val[x->a]) == val_partial(f, &f->val[y->a]) &&
	       next_to(loc_of(f, x->a), loc_of(f, y->a));
}

/* The number of values for which a step's operand and result are the same places, or disjoint. */
static uint32_t
apart(const struct flow *f, uint32_t v)
{
	const struct val *x = &f->val[v];
	struct loc a, to = loc_of(f, v);

	if (x->made != MADE_RECV_SUM)
		return UINT32_MAX;
	a = loc_of(f, x->a);
	if (a.buf != to.buf || a.at == to.at)
		return UINT32_MAX;
	return a.at < to.at ? to.at - a.at : a.at - to.at;
}

/* The number of values from item k of the message on that form one range on both sides. */
static uint32_t
range(const struct flow *f, const struct msg *x, uint32_t k)
{
	const uint32_t *item = f->item + x->first;
	uint32_t n = 1, most = apart(f, item[k]);

	while (k + n < x->n && n < most && joins(f, item[k + n - 1], item[k + n]))
		n++;
	return n;
}

static void
emit_range(struct emit *m, const struct msg *x, uint32_t v, uint32_t n, uint32_t round)
{
	const struct flow *f = m->f;
	const struct val *y = &f->val[v];
	struct loc from = loc_of(f, y->from), to = loc_of(f, v);
	struct schedule_step send = {.kind = STEP_SEND,
				     .src = from.buf,
				     .src_at = from.at,
				     .peer = x->to,
				     .chunk = y->chunk,
				     .count = n},
			     recv = {.kind = STEP_RECV,
				     .dst = to.buf,
				     .dst_at = to.at,
				     .peer = x->from,
				     .chunk = y->chunk,
				     .count = n};
	bool joined = from.buf != PLAN_TMP && to.buf != PLAN_TMP;

	if (y->made == MADE_RECV_SUM) {
		struct loc a = loc_of(f, y->a);

		recv.kind = STEP_RECV_REDUCE;
		recv.src = a.buf;
		recv.src_at = a.at;
		recv.flags |= partial_flag(f, y->a, SCHEDULE_SRC_PARTIAL);
		joined = joined && a.buf != PLAN_TMP;
	}
	recv.flags |= partial_flag(f, v, SCHEDULE_DST_PARTIAL);
	recv.flags |= is_last(f, y) ? SCHEDULE_LAST : 0;
	send.flags |= partial_flag(f, y->from, SCHEDULE_SRC_PARTIAL);
	send.flags |= joined ? SCHEDULE_JOINED : 0;
	recv.flags |= joined ? SCHEDULE_JOINED : 0;
	add(m, x->from, round, PHASE_SENDS, x->to, send);
	add(m, x->to, round, PHASE_RECVS, x->from, recv);
}

/* A round of the flow becomes as many rounds as its messages have ranges at most. */
static bool
number_rounds(struct emit *m)
{
	struct flow *f = m->f;

	m->first = alloc_zeroed((size_t)f->nround + 2, sizeof *m->first);
	if (!m->first)
		return false;
	for (uint32_t t = 0; t <= f->nround; t++)
		m->first[t + 1] = 1;
	for (size_t i = 0; i < f->nmsg; i++) {
		const struct msg *x = &f->msg[i];
		uint32_t n = 0;

		for (uint32_t k = 0; k < x->n; k += range(f, x, k))
			n++;
		if (n > m->first[x->round + 1])
			m->first[x->round + 1] = n;
	}
	for (uint32_t t = 0; t <= f->nround; t++)
		m->first[t + 1] += m->first[t];
	return true;
}

static void
emit_messages(struct emit *m)
{
	const struct flow *f = m->f;

	for (size_t i = 0; i < f->nmsg; i++) {
		const struct msg *x = &f->msg[i];
		uint32_t round = m->first[x->round];

		for (uint32_t k = 0, n; k < x->n; k += n, round++) {
			n = range(f, x, k);
			emit_range(m, x, f->item[x->first + k], n, round);
		}
	}
}

/* ---- local steps: saved inputs, then sums, then copies to outputs */

/* After round t of the flow. */
static uint32_t
end_of(const struct emit *m, uint32_t t)
{
	return m->first[t + 1] - 1;
}

static void
emit_saved(struct emit *m, uint32_t v)
{
	const struct val *x = &m->f->val[v];

	add(m, x->rank, 0, PHASE_BEFORE, 0,
	    (struct schedule_step){.kind = STEP_COPY,
				   .src = PLAN_IN,
				   .src_at = x->chunk,
				   .dst = PLAN_TMP,
				   .dst_at = x->tmp,
				   .chunk = x->chunk,
				   .count = 1});
}

static void
emit_sum(struct emit *m, uint32_t v)
{
	const struct flow *f = m->f;
	const struct val *x = &f->val[v];
	struct loc a = loc_of(f, x->a), b = loc_of(f, x->b);
	struct schedule_step s = {.kind = STEP_REDUCE,
				  .src = b.buf,
				  .src_at = b.at,
				  .with = a.buf,
				  .with_at = a.at,
				  .dst = x->buf,
				  .dst_at = x->at,
				  .chunk = x->chunk,
				  .count = 1};

	s.flags |= partial_flag(f, x->b, SCHEDULE_SRC_PARTIAL);
	s.flags |= partial_flag(f, x->a, SCHEDULE_WITH_PARTIAL);
	s.flags |= partial_flag(f, v, SCHEDULE_DST_PARTIAL);
	s.flags |= is_last(f, x) ? SCHEDULE_LAST : 0;
	if (x->avail)
		add(m, x->rank, end_of(m, x->avail - 1), PHASE_AFTER, v, s);
	else
		add(m, x->rank, 0, PHASE_BEFORE, v + 1, s);
}

static void
emit_copy(struct emit *m, uint32_t i)
{
	const struct flow *f = m->f;
	const struct out *o = &f->out[i];
	const struct val *x = &f->val[o->val];
	struct loc from = loc_of(f, o->val);

	add(m, o->rank, end_of(m, x->avail ? x->avail - 1 : 0), PHASE_AFTER, (uint32_t)f->nval + i,
	    (struct schedule_step){.kind = STEP_COPY,
				   .src = from.buf,
				   .src_at = from.at,
				   .dst = PLAN_OUT,
				   .dst_at = o->at,
				   .chunk = x->chunk,
				   .count = 1});
}

/* ---- all of it */

static int
in_order(const void *x, const void *y)
{
	const struct entry *a = x, *b = y;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->round != b->round)
		return a->round < b->round ? -1 : 1;
	if (a->phase != b->phase)
		return a->phase < b->phase ? -1 : 1;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static struct schedule *
fill(struct emit *m)
{
	const struct algo *a = m->f->algo;
	struct schedule *s = alloc_zeroed(a->nranks, sizeof *s);
	bool sends_partial = false;

	for (uint32_t r = 0; s && r < a->nranks; r++) {
		memcpy(s[r].name, a->name, sizeof a->name);
		s[r].coll = a->coll;
		s[r].rank = r;
		s[r].nranks = a->nranks;
		s[r].root = a->root;
		s[r].nchunks = a->nchunks;
		s[r].scratch = m->f->scratch[r];
		s[r].interval = 1;
	}
	for (size_t i = 0; s && i < m->n; i++) {
		sends_partial |=
		    m->e[i].step.kind == STEP_SEND && (m->e[i].step.flags & SCHEDULE_SRC_PARTIAL);
		if (!schedule_append(&s[m->e[i].rank], m->e[i].step)) {
			schedule_free_all(s, a->nranks);
			return NULL;
		}
	}
	for (uint32_t r = 0; s && r < a->nranks; r++)
		s[r].sends_partial = sends_partial;
	return s;
}

enum rc
flow_emit(struct flow *f, struct schedule **out, struct err *err)
{
	struct emit m = {.f = f, .full = false};
	struct schedule *s = NULL;

	if (number_rounds(&m)) {
		emit_messages(&m);
		for (uint32_t v = 0; v < f->nval; v++) {
			if (f->val[v].live && f->val[v].saved)
				emit_saved(&m, v);
			else if (f->val[v].live && f->val[v].made == MADE_SUM)
				emit_sum(&m, v);
		}
		for (uint32_t i = 0; i < f->nout; i++)
			if (f->out[i].copied)
				emit_copy(&m, i);
		if (!m.full) {
			qsort(m.e, m.n, sizeof *m.e, in_order);
			s = fill(&m);
		}
	}
	free(m.e);
	free(m.first);
	if (!s)
		return err_set(err, RC_NOMEM, "no memory to lower algorithm %s", f->algo->name);
	*out = s;
	return RC_OK;
}
