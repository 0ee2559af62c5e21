/* Cuts the operations of a recording into units that have to run together. */
#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"
#include "coll/plan.h"
#include "replay/story.h"

/* ---- sets that grow together */

static uint32_t
root_of(uint32_t *parent, uint32_t i)
{
	while (parent[i] != i)
		i = parent[i] = parent[parent[i]];
	return i;
}

static void
join(uint32_t *parent, uint32_t a, uint32_t b)
{
	a = root_of(parent, a);
	b = root_of(parent, b);
	if (a < b)
		parent[b] = a;
	else
		parent[a] = b;
}

/* ---- orders of operations */

static int
compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* qsort_r's argument is the story. Parts of one operation become adjacent. */
static int
by_operation(const void *a, const void *b, void *arg)
{
	const struct story *s = arg;
	const struct story_op *x = &s->op[*(const uint32_t *)a], *y = &s->op[*(const uint32_t *)b];
	int d = compare(x->comm, y->comm);

	if (!d)
		d = compare(x->op, y->op);
	return d ? d : compare(*(const uint32_t *)a, *(const uint32_t *)b);
}

/* Compare by process, then stream or queue, then order. */
static int
by_lane(const void *a, const void *b, void *arg)
{
	const struct story *s = arg;
	const struct story_op *x = &s->op[*(const uint32_t *)a], *y = &s->op[*(const uint32_t *)b];
	int d = compare(x->proc, y->proc);

	if (!d)
		d = compare(x->by_queue, y->by_queue);
	if (!d)
		d = compare(x->lane, y->lane);
	return d ? d : compare(*(const uint32_t *)a, *(const uint32_t *)b);
}

static int
by_time(const void *a, const void *b, void *arg)
{
	const struct story *s = arg;
	int d = compare(s->op[*(const uint32_t *)a].at_ns, s->op[*(const uint32_t *)b].at_ns);

	return d ? d : compare(*(const uint32_t *)a, *(const uint32_t *)b);
}

static int
by_unit(const void *a, const void *b, void *arg)
{
	const struct story *s = arg;
	int d = compare(s->op[*(const uint32_t *)a].unit, s->op[*(const uint32_t *)b].unit);

	return d ? d : compare(*(const uint32_t *)a, *(const uint32_t *)b);
}

/* List the operations that are not dropped; returns their number. */
static size_t
sort(struct story *s, uint32_t *v, int (*order)(const void *, const void *, void *))
{
	size_t n = 0;

	for (size_t i = 0; i < s->nops; i++)
		if (!s->op[i].dropped)
			v[n++] = (uint32_t)i;
	qsort_r(v, n, sizeof *v, order, s);
	return n;
}

/* Return true if a rank's recording ended before the operation did; v[0..n-1]: its parts. */
static bool
is_unfinished(const struct story *s, const uint32_t *v, size_t n)
{
	const struct story_op *first = &s->op[v[0]];
	const struct story_comm *c = &s->comm[first->comm];
	size_t due = 0, ended = 0;

	for (uint32_t r = 0; r < c->nranks; r++)
		due += c->proc[r] != STORY_NONE && s->proc[c->proc[r]].stopped;
	for (size_t i = 0; i < n; i++) {
		const struct story_op *o = &s->op[v[i]];
		bool stopped = s->proc[o->proc].stopped;

		if (stopped && o->state == STORY_OPEN)
			return true;
		ended += stopped;
	}
	return coll_is_sendrecv((enum gpusim_coll)first->coll) ? due && n < 2 : ended < due;
}

/* Drop such operations, and their faults. v: sorted by_operation. */
static void
drop_unfinished(struct story *s, const uint32_t *v, size_t n)
{
	for (size_t i = 0, k; i < n; i = k) {
		bool drop;

		for (k = i + 1; k < n && s->op[v[k]].comm == s->op[v[i]].comm &&
				s->op[v[k]].op == s->op[v[i]].op;)
			k++;
		drop = is_unfinished(s, v + i, k - i);
		for (size_t j = i; j < k; j++)
			s->op[v[j]].dropped = drop;
	}
	for (size_t i = 0; i < s->nfaults; i++)
		if (s->fault[i].op != STORY_NONE && s->op[s->fault[i].op].dropped)
			s->fault[i].op = STORY_NONE;
}

/* parent[]: operations of one unit have the same root. */
static void
group(struct story *s, uint32_t *parent, uint32_t *v)
{
	size_t n;

	for (size_t i = 0; i < s->nops; i++)
		parent[i] = (uint32_t)i;
	if (s->stopped)
		drop_unfinished(s, v, sort(s, v, by_operation));
	n = sort(s, v, by_operation);
	for (size_t i = 1; i < n; i++) {
		const struct story_op *x = &s->op[v[i - 1]], *y = &s->op[v[i]];

		if (x->comm == y->comm && x->op == y->op)
			join(parent, v[i - 1], v[i]);
	}
	n = sort(s, v, by_lane);
	for (size_t i = 1; i < n; i++) {
		const struct story_op *x = &s->op[v[i - 1]];
		struct story_op *y = &s->op[v[i]];

		if (x->proc != y->proc || x->by_queue != y->by_queue || x->lane != y->lane)
			continue;
		y->before = v[i - 1];
		if (x->set && x->set == y->set)
			join(parent, v[i - 1], v[i]);
	}
}

/* ---- an order of units: depth first, each after the units that its operations follow */

struct walk {
	struct story *s;
	const uint32_t *parent;
	uint32_t *next;	      /* by operation: the next of its unit, or STORY_NONE */
	uint32_t *first;      /* by root */
	uint32_t *stack, *at; /* roots in progress; the current operation of each */
	uint8_t *seen;
};

static void
visit(struct walk *w, uint32_t root, uint32_t *nunits)
{
	size_t n = 0;

	w->stack[n] = root;
	w->at[n++] = w->first[root];
	w->seen[root] = 1;
	while (n) {
		uint32_t op = w->at[n - 1], before, r;

		if (op == STORY_NONE) {
			uint32_t done = w->stack[--n];

			for (op = w->first[done]; op != STORY_NONE; op = w->next[op])
				w->s->op[op].unit = *nunits;
			++*nunits;
			continue;
		}
		w->at[n - 1] = w->next[op];
		before = w->s->op[op].before;
		if (before == STORY_NONE)
			continue;
		r = before;
		while (w->parent[r] != r)
			r = w->parent[r];
		if (w->seen[r])
			continue; /* it comes before, or streams wait in a cycle */
		w->seen[r] = 1;
		w->stack[n] = r;
		w->at[n++] = w->first[r];
	}
}

static void
order_units(struct walk *w, uint32_t *v, uint32_t *nunits)
{
	struct story *s = w->s;
	size_t n;

	for (size_t i = 0; i < s->nops; i++)
		w->first[i] = w->next[i] = STORY_NONE;
	for (size_t i = s->nops; i-- > 0;) {
		uint32_t r = (uint32_t)i;

		if (s->op[i].dropped)
			continue;
		while (w->parent[r] != r)
			r = w->parent[r];
		w->next[i] = w->first[r];
		w->first[r] = (uint32_t)i;
	}
	n = sort(s, v, by_time);
	for (size_t i = 0; i < n; i++) {
		uint32_t r = v[i];

		while (w->parent[r] != r)
			r = w->parent[r];
		if (!w->seen[r])
			visit(w, r, nunits);
	}
}

void
story_units(struct story *s)
{
	size_t n = s->nops + 1, kept;
	uint32_t *room = must_alloc(6 * n, sizeof *room), nunits = 0;
	uint32_t *v = must_alloc(n, sizeof *v), *unit = must_alloc(n + 1, sizeof *unit);
	uint8_t *seen = must_alloc(n, 1);
	struct walk w = {.s = s,
			 .parent = room,
			 .next = room + n,
			 .first = room + 2 * n,
			 .stack = room + 3 * n,
			 .at = room + 4 * n,
			 .seen = seen};

	group(s, room, v);
	order_units(&w, v, &nunits);
	kept = sort(s, v, by_unit);
	for (size_t i = 0; i < kept; i++)
		unit[s->op[v[i]].unit + 1] = (uint32_t)i + 1;
	s->order = v;
	s->unit = unit;
	s->nunits = nunits;
	free(room);
	free(seen);
}

bool
story_unit_failed(const struct story *s, size_t unit)
{
	const struct story_op *o = &s->op[s->order[s->unit[unit]]];

	for (uint32_t i = s->unit[unit]; i < s->unit[unit + 1]; i++)
		if (s->op[s->order[i]].state != STORY_GOOD)
			return true;
	return !o->set && s->unit[unit + 1] - s->unit[unit] < s->comm[o->comm].nranks;
}

bool
story_unit_aborted(const struct story *s, size_t unit)
{
	uint64_t aborted = UINT64_MAX, failed = UINT64_MAX;

	for (uint32_t i = s->unit[unit]; i < s->unit[unit + 1]; i++) {
		const struct story_op *o = &s->op[s->order[i]];
		uint64_t *first = o->rc == GPUSIM_ABORTED ? &aborted : &failed;

		if (o->state == STORY_OPEN)
			return false;
		if (o->state == STORY_FAILED && o->end_ns < *first)
			*first = o->end_ns;
	}
	return failed == UINT64_MAX || aborted < failed;
}
