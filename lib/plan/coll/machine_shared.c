/*
 * machine_shared.c - one-sided steps: ranks synchronise, and access each other's memory.
 *
 * Two accesses to one element by different ranks, one of them a write, must be ordered: the second rank
 * in this run must know of the first access by its clock. Clocks record knowledge, not time, so one run
 * finds the races of every run.
 */
#include <stdlib.h>
#include <string.h>

#include "coll/machine.h"

bool
machine_touch(struct machine *m, uint32_t r, uint32_t q, uint64_t lo, uint64_t count, bool write,
	      struct err *err)
{
	struct touches *t = &m->run[q].touched;

	if (!m->mapped || !count)
		return true;
	if (q != r && !m->run[r].clock[q] && !m->run[r].syncs) {
		machine_bad(m, r, err, "%s memory of rank %u, which may not have begun",
			    write ? "writes" : "reads", q);
		return false;
	}
	for (size_t i = 0; i < t->n; i++) {
		const struct touch *o = &t->v[i];

		if (o->rank == r || !(o->write || write) || o->lo >= lo + count ||
		    lo >= o->lo + o->count || m->run[r].clock[o->rank] >= o->step)
			continue;
		machine_bad(m, r, err, "%s memory of rank %u that step %u of rank %u %s, unordered",
			    write ? "writes" : "reads", q, o->step - 1, o->rank,
			    o->write ? "writes" : "reads");
		return false;
	}
	if (!alloc_room(&t->v, t->n, &t->cap, sizeof *t->v)) {
		machine_no_memory(err);
		return false;
	}
	t->v[t->n++] = (struct touch){.rank = r,
				      .step = (uint32_t)m->run[r].pc + 1,
				      .write = write,
				      .lo = lo,
				      .count = count};
	return true;
}

enum rc
machine_left(const struct machine *m, uint32_t q, struct err *err)
{
	for (size_t i = 0; i < m->run[q].touched.n; i++) {
		const struct touch *t = &m->run[q].touched.v[i];

		if (m->run[q].clock[t->rank] < t->step)
			return err_set(err, RC_FAILED,
				       "%s: rank %u leaves, perhaps before step %u of rank %u %s "
				       "its memory",
				       coll_name(m->a->coll), q, t->step - 1, t->rank,
				       t->write ? "writes" : "reads");
	}
	return RC_OK;
}

/* The rank reaches a sync: publish its clock, and the elements that it shares. */
static enum progress
arrive(struct machine *m, uint32_t r, const struct plan_step *s, struct err *err)
{
	struct runner *run = &m->run[r];
	struct arrival *a = &run->arrival[(run->syncs + 1) % 2];
	size_t nclock = m->a->nranks * sizeof *a->clock;
	uint64_t lo;

	free(a->clock);
	free(a->value);
	*a = (struct arrival){.clock = malloc(nclock)};
	if (!a->clock)
		return machine_no_memory(err);
	memcpy(a->clock, run->clock, nclock);
	if (s->kind == STEP_SHARE) {
		if (!s->count || (m->a->share && s->count > m->a->share))
			return machine_bad(m, r, err, "shares %llu elements, not 1 to %llu",
					   (unsigned long long)s->count,
					   (unsigned long long)m->a->share);
		if (!machine_range(m, r, r, s->src, s->src_off, false, &lo, err) ||
		    !machine_defined(m, r, r, lo, s->src_off, s->count, err))
			return FAILED;
		a->count = s->count;
		a->value = alloc_zeroed(s->count, m->words * sizeof *a->value);
		if (!a->value)
			return machine_no_memory(err);
		memcpy(a->value, machine_at(m, r, lo), s->count * m->words * sizeof *a->value);
	}
	run->syncs++;
	run->waiting = true;
	return MOVED;
}

enum progress
machine_sync(struct machine *m, uint32_t r, const struct plan_step *s, struct err *err)
{
	struct runner *run = &m->run[r];

	if (!run->waiting && arrive(m, r, s, err) == FAILED)
		return FAILED;
	for (uint32_t q = 0; q < m->a->nranks; q++)
		if (m->run[q].syncs < run->syncs)
			return BLOCKED;
	for (uint32_t q = 0; q < m->a->nranks; q++) {
		const uint32_t *clock = m->run[q].arrival[run->syncs % 2].clock;

		for (uint32_t k = 0; k < m->a->nranks; k++)
			if (run->clock[k] < clock[k])
				run->clock[k] = clock[k];
	}
	run->waiting = false;
	return MOVED;
}

/* Rank q's elements of the step's source, for rank r to read; NULL: it may not read them. */
static const uint64_t *
source(struct machine *m, uint32_t r, uint32_t q, const struct plan_step *s, struct err *err)
{
	const struct arrival *a = &m->run[q].arrival[m->run[r].syncs % 2];
	uint64_t lo;

	if (s->src != PLAN_SHARED) {
		if (!machine_range(m, r, q, s->src, s->src_off, false, &lo, err) ||
		    !machine_defined(m, r, q, lo, s->src_off, s->count, err))
			return NULL;
		return machine_at(m, q, lo);
	}
	if (!m->run[r].syncs || s->src_off > a->count || s->count > a->count - s->src_off) {
		machine_bad(m, r, err, "rank %u has not shared elements %llu..+%llu", q,
			    (unsigned long long)s->src_off, (unsigned long long)s->count);
		return NULL;
	}
	return a->value + s->src_off * m->words;
}

static enum progress
reduce_by_tree(struct machine *m, uint32_t r, const struct plan_step *s, uint64_t *value,
	       struct err *err)
{
	const uint64_t **from = alloc_zeroed(m->a->nranks, sizeof *from);
	enum progress p = from ? MOVED : machine_no_memory(err);

	for (uint32_t q = 0; p == MOVED && q < m->a->nranks; q++)
		if (!(from[q] = source(m, r, q, s, err)))
			p = FAILED;
	if (p == MOVED)
		p = machine_reduce_tree(m, r, from, s->count, value, err);
	free(from);
	return p;
}

/* value = the reduction of all ranks' elements: by the canonical tree, or in rank order. */
static enum progress
reduce_ranks(struct machine *m, uint32_t r, const struct plan_step *s, uint64_t *value,
	     struct err *err)
{
	if (m->a->canonical)
		return reduce_by_tree(m, r, s, value, err);
	for (uint32_t q = 0; q < m->a->nranks; q++) {
		const uint64_t *from = source(m, r, q, s, err);

		if (!from)
			return FAILED;
		for (uint64_t i = 0; i < s->count; i++) {
			uint64_t *v = value + i * m->words;

			if (q == 0)
				memcpy(v, from + i * m->words, m->words * sizeof *v);
			else if (!machine_reduce(m, r, i, v, from + i * m->words, v, err))
				return FAILED;
		}
	}
	return MOVED;
}

/* value = the finished reduction of all ranks' elements. */
static enum progress
reduce_and_finish(struct machine *m, uint32_t r, const struct plan_step *s, uint64_t *value,
		  struct err *err)
{
	enum progress p = reduce_ranks(m, r, s, value, err);

	if (p != MOVED)
		return p;
	for (uint64_t i = 0; i < s->count; i++)
		for (uint32_t q = 0; q < m->a->nranks; q++)
			if (!machine_has(value + i * m->words, q))
				return machine_bad(m, r, err, "element %llu without rank %u",
						   (unsigned long long)i, q);
	for (uint64_t i = 0; i < s->count; i++)
		value[i * m->words + W_FINISHED] = 1;
	return MOVED;
}

enum progress
machine_reduce_all(struct machine *m, uint32_t r, const struct plan_step *s, struct err *err)
{
	size_t nbytes = s->count * m->words * sizeof(uint64_t);
	uint64_t *value, lo;
	enum progress p;

	if (!m->reduces)
		return machine_bad(m, r, err, "the collective does not reduce");
	if (s->peer != PLAN_EVERY && s->peer != r)
		return machine_bad(m, r, err, "writes to rank %u alone", s->peer);
	value = alloc_zeroed(s->count ? s->count : 1, m->words * sizeof *value);
	if (!value)
		return machine_no_memory(err);
	p = reduce_and_finish(m, r, s, value, err);
	for (uint32_t q = 0; q < m->a->nranks && p == MOVED; q++) {
		if (s->peer != PLAN_EVERY && q != r)
			continue;
		if (!machine_range(m, r, q, s->dst, s->dst_off, true, &lo, err) ||
		    !machine_may_write(m, q, lo, s->count, err))
			p = FAILED;
		else
			memcpy(machine_at(m, q, lo), value, nbytes);
	}
	free(value);
	return p;
}
