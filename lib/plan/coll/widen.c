/*
 * widen.c - partial sums of short floats as f32: where a plan would round them, they go to PLAN_WIDE instead.
 *
 * Algorithms do not know of this. Their steps are walked in order, keeping track of the ranges of OUT
 * and TMP that hold partial sums at each step: a receive-reduce makes one, and a plain receive ends it.
 * The data of such a range lie in PLAN_WIDE instead. So the order of the steps, and with it everything
 * that the plan guarantees, is unchanged. A sum that only a finish reads is not a partial sum: the
 * receive-reduce that makes it finishes it.
 */
#include <stdlib.h>
#include <string.h>

#include "coll/algo.h"

/* Elements [lo, hi) of a buffer; at: where they begin in PLAN_WIDE. */
struct range {
	uint64_t lo, hi, at;
};

/* Disjoint and in order; neighbours are one. */
struct ranges {
	struct range *v;
	size_t n, cap;
};

/* The first range that ends after x. */
static size_t
find(const struct ranges *r, uint64_t x)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (r->v[mid].hi > x)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* Replace n ranges from k on by m others. */
static bool
splice(struct ranges *r, size_t k, size_t n, const struct range *by, size_t m)
{
	if (r->n + m - n > r->cap) {
		size_t cap = 2 * r->cap + 8;
		struct range *v = alloc_resize(r->v, cap, sizeof *v);

		if (!v)
			return false;
		r->v = v;
		r->cap = cap;
	}
	memmove(r->v + k + m, r->v + k + n, (r->n - k - n) * sizeof *r->v);
	for (size_t i = 0; i < m; i++)
		r->v[k + i] = by[i];
	r->n += m - n;
	return true;
}

static bool
add(struct ranges *r, uint64_t lo, uint64_t hi)
{
	size_t k = find(r, lo ? lo - 1 : 0), end = k;
	struct range all = {lo, hi, 0};

	for (; end < r->n && r->v[end].lo <= hi; end++) {
		if (all.lo > r->v[end].lo)
			all.lo = r->v[end].lo;
		if (all.hi < r->v[end].hi)
			all.hi = r->v[end].hi;
	}
	return splice(r, k, end - k, &all, 1);
}

static bool
cut(struct ranges *r, uint64_t lo, uint64_t hi)
{
	size_t k = find(r, lo), end = k, m = 0;
	struct range left[2];

	while (end < r->n && r->v[end].lo < hi)
		end++;
	if (end > k && r->v[k].lo < lo)
		left[m++] = (struct range){r->v[k].lo, lo, 0};
	if (end > k && r->v[end - 1].hi > hi)
		left[m++] = (struct range){hi, r->v[end - 1].hi, 0};
	return end == k || splice(r, k, end - k, left, m);
}

/* The range that contains all of [lo, hi); NULL: none does. */
static const struct range *
around(const struct ranges *r, uint64_t lo, uint64_t hi)
{
	size_t k = find(r, lo);

	return k < r->n && r->v[k].lo <= lo && hi <= r->v[k].hi ? &r->v[k] : NULL;
}

/* By buffer, the ranges: partial sums at this step (now), at any step (ever); read by a finish before
 * any other step (taken); finished by receive-reduces (last). */
struct widening {
	struct ranges now[PLAN_WIDE], ever[PLAN_WIDE], taken[PLAN_WIDE], last[PLAN_WIDE];
};

/* Return true if dst is a sum of src and something else. */
static bool
sums(const struct plan_step *s)
{
	return s->kind == STEP_RECV_REDUCE || s->kind == STEP_REDUCE;
}

/* Look at a step, in reverse order. */
static bool
look_back(struct widening *w, struct plan_step *s)
{
	uint64_t end = s->dst_off + s->count;
	bool good = true;

	if (s->kind == STEP_FINISH)
		return add(&w->taken[s->dst], s->dst_off, end);
	if (sums(s) && around(&w->taken[s->dst], s->dst_off, end)) {
		s->last = true;
		good = add(&w->last[s->dst], s->dst_off, end);
	}
	if (s->kind != STEP_SEND)
		good = good && cut(&w->taken[s->dst], s->dst_off, end);
	if (s->kind != STEP_RECV)
		good = good && cut(&w->taken[s->src], s->src_off, s->src_off + s->count);
	if (s->kind == STEP_REDUCE)
		good = good && cut(&w->taken[s->with], s->with_off, s->with_off + s->count);
	return good;
}

/* Let receive-reduces do all finishing, and remove the finishes. */
static enum rc
find_last(struct widening *w, struct plan *p, size_t from)
{
	size_t kept = from;

	for (size_t i = p->nstep; i > from; i--)
		if (!look_back(w, &p->step[i - 1]))
			return RC_NOMEM;
	for (size_t i = from; i < p->nstep; i++) {
		const struct plan_step *s = &p->step[i];

		if (s->kind != STEP_FINISH)
			p->step[kept++] = *s;
		else if (!around(&w->last[s->dst], s->dst_off, s->dst_off + s->count))
			return RC_INTERNAL;
	}
	p->nstep = kept;
	return RC_OK;
}

static bool
find_ever(struct widening *w, struct plan *p, size_t from)
{
	uint64_t at = p->nwide;

	for (size_t i = from; i < p->nstep; i++) {
		const struct plan_step *s = &p->step[i];

		if (sums(s) && !s->last &&
		    !add(&w->ever[s->dst], s->dst_off, s->dst_off + s->count))
			return false;
	}
	for (int b = 0; b < PLAN_WIDE; b++)
		for (size_t k = 0; k < w->ever[b].n; k++) {
			w->ever[b].v[k].at = at;
			at += w->ever[b].v[k].hi - w->ever[b].v[k].lo;
		}
	p->nwide = at;
	return true;
}

/* Replace a range of a buffer by its place in PLAN_WIDE. */
static void
move(const struct widening *w, uint8_t *buf, uint64_t *off, uint64_t count)
{
	const struct range *r = around(&w->ever[*buf], *off, *off + count);

	*off = r->at + (*off - r->lo);
	*buf = PLAN_WIDE;
}

static bool
is_wide(const struct widening *w, uint8_t buf, uint64_t off, uint64_t count)
{
	return around(&w->now[buf], off, off + count) != NULL;
}

static bool
widen_step(struct widening *w, struct plan_step *s)
{
	uint64_t end = s->dst_off + s->count;
	bool reads = s->kind == STEP_SEND || sums(s);

	if (reads && is_wide(w, s->src, s->src_off, s->count))
		move(w, &s->src, &s->src_off, s->count);
	if (s->kind == STEP_REDUCE && is_wide(w, s->with, s->with_off, s->count)) {
		uint8_t with = s->with;
		uint64_t off = s->with_off;

		move(w, &with, &off, s->count);
		s->with = with;
		s->with_off = off;
	}
	if (sums(s) && !s->last) {
		bool good = add(&w->now[s->dst], s->dst_off, end);

		move(w, &s->dst, &s->dst_off, s->count);
		return good;
	}
	return s->kind == STEP_SEND || cut(&w->now[s->dst], s->dst_off, end);
}

void
plan_widen(struct plan *out, size_t from)
{
	struct widening w = {0};
	enum rc rc = find_last(&w, out, from);
	bool good = rc == RC_OK && find_ever(&w, out, from);

	for (size_t i = from; i < out->nstep && good; i++)
		good = widen_step(&w, &out->step[i]);
	if (!good)
		plan_fail(out, rc == RC_OK ? RC_NOMEM : rc);
	for (int b = 0; b < PLAN_WIDE; b++) {
		free(w.now[b].v);
		free(w.ever[b].v);
		free(w.taken[b].v);
		free(w.last[b].v);
	}
}
