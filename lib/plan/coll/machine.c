/*
 * machine.c - run every rank's plan to its end, and check the results.
 */
#include "coll/machine.h"

#include <stdlib.h>

/* ---- memory */

static size_t
words_of(const struct plan_args *a)
{
	return W_RANKS + (a->nranks + 63) / 64;
}

double
machine_bytes(const struct plan_args *a, const struct machine_rank *rank)
{
	double p = a->nranks, nmem = 0;

	for (uint32_t r = 0; r < a->nranks; r++) {
		for (int b = 0; b < PLAN_NBUFS; b++)
			nmem += (double)rank[r].buf[b].len;
	}
	return p * p * (sizeof(struct channel) + sizeof(uint32_t)) +
	       nmem * (double)(words_of(a) * sizeof(uint64_t));
}

static bool
fill_memory(struct machine *m, uint32_t r)
{
	const struct machine_rank *info = &m->info[r];
	uint64_t nmem = 0;

	for (int b = 0; b < PLAN_NBUFS; b++)
		if (nmem < info->buf[b].base + info->buf[b].len)
			nmem = info->buf[b].base + info->buf[b].len;
	m->run[r].mem = alloc_zeroed(nmem, m->words * sizeof(uint64_t));
	m->run[r].clock = alloc_zeroed(m->a->nranks, sizeof *m->run[r].clock);
	if (!m->run[r].mem || !m->run[r].clock)
		return false;
	for (uint64_t i = 0; i < nmem; i++)
		machine_at(m, r, i)[W_ELEM] = MACHINE_UNDEFINED;
	for (uint64_t i = 0; i < info->buf[PLAN_IN].len; i++) {
		uint64_t *v = machine_at(m, r, info->buf[PLAN_IN].base + i);

		v[W_ELEM] = info->first + i;
		v[W_TREE] = r;
		v[W_RANKS + r / 64] = 1ull << (r % 64);
	}
	return true;
}

struct machine *
machine_new(const struct plan_args *a, const struct machine_rank *rank, bool reduces)
{
	struct machine *m = alloc_zeroed(1, sizeof *m);
	bool good;

	if (!m)
		return NULL;
	m->a = a;
	m->info = rank;
	m->reduces = reduces;
	m->words = words_of(a);
	for (uint32_t r = 0; r < a->nranks; r++)
		m->mapped |= rank[r].plan->mapped;
	m->run = alloc_zeroed(a->nranks, sizeof *m->run);
	m->channel = alloc_zeroed((size_t)a->nranks * a->nranks, sizeof *m->channel);
	m->trees = a->canonical ? trees_new(a->nranks) : NULL;
	good = m->run && m->channel && (m->trees || !a->canonical);
	for (uint32_t r = 0; r < a->nranks && good; r++)
		good = fill_memory(m, r);
	if (good)
		return m;
	machine_free(m);
	return NULL;
}

void
machine_free(struct machine *m)
{
	if (!m)
		return;
	for (uint32_t r = 0; m->run && r < m->a->nranks; r++) {
		for (size_t i = 0; i < m->run[r].npost; i++)
			machine_message_free(m->run[r].post[i]);
		for (int k = 0; k < 2; k++) {
			free(m->run[r].arrival[k].clock);
			free(m->run[r].arrival[k].value);
		}
		free(m->run[r].touched.v);
		free(m->run[r].post);
		free(m->run[r].mem);
		free(m->run[r].clock);
	}
	trees_free(m->trees);
	free(m->run);
	free(m->channel);
	free(m);
}

/* ---- running */

/* Run a rank until it ends, waits or fails; *moved is set if it did a step. */
static enum progress
run_rank(struct machine *m, uint32_t r, bool *moved, struct err *err)
{
	struct runner *run = &m->run[r];

	while (run->pc < m->info[r].plan->nstep) {
		enum progress p = machine_step(m, r, err);

		if (p != MOVED)
			return p;
		run->clock[r] = (uint32_t)++run->pc;
		*moved = true;
	}
	return MOVED;
}

/* No rank can move: check that all have ended and that every message was received. */
static enum rc
at_rest(const struct machine *m, struct err *err)
{
	const struct runner *run = m->run;

	for (uint32_t r = 0; r < m->a->nranks; r++) {
		const struct plan *plan = m->info[r].plan;

		if (run[r].pc < plan->nstep) {
			const struct plan_step *s = &plan->step[run[r].pc];

			if (run[r].waiting)
				machine_bad(m, r, err, "deadlock: not every rank reaches it");
			else
				machine_bad(m, r, err, "deadlock: waits for rank %u to %s", s->peer,
					    s->kind == STEP_SEND ? "receive" : "send");
			return RC_FAILED;
		}
	}
	for (uint32_t r = 0; r < m->a->nranks; r++) {
		for (size_t i = 0; i < run[r].npost; i++) {
			if (!run[r].post[i]->received)
				return err_set(err, RC_FAILED,
					       "%s: rank %u step %zu: rank %u never receives it",
					       coll_name(m->a->coll), r, run[r].post[i]->step,
					       run[r].post[i]->peer);
		}
	}
	for (uint32_t r = 0; r < m->a->nranks; r++)
		if (machine_left(m, r, err))
			return RC_FAILED;
	return RC_OK;
}

enum rc
machine_run(struct machine *m, struct err *err)
{
	struct err local = {0};
	bool moved = true;

	while (moved) {
		moved = false;
		for (uint32_t r = 0; r < m->a->nranks; r++) {
			if (run_rank(m, r, &moved, &local) == FAILED)
				return err_set(err, local.rc, "%s", local.text);
		}
	}
	return at_rest(m, err);
}

/* ---- results */

enum rc
machine_expect(const struct machine *m, uint32_t rank, uint64_t i, uint64_t elem, uint32_t from,
	       struct err *err)
{
	const uint64_t *v = machine_at(m, rank, m->info[rank].buf[PLAN_OUT].base + i);
	const char *name = coll_name(m->a->coll);
	unsigned long long n = i;

	if (from == MACHINE_NOBODY)
		return v[W_ELEM] == MACHINE_UNDEFINED
			   ? RC_OK
			   : err_set(err, RC_FAILED,
				     "%s: rank %u out element %llu: written in a gap", name, rank,
				     n);
	if (v[W_ELEM] == MACHINE_UNDEFINED)
		return err_set(err, RC_FAILED, "%s: rank %u out element %llu: never written", name,
			       rank, n);
	if (v[W_ELEM] != elem)
		return err_set(
		    err, RC_FAILED, "%s: rank %u out element %llu: is input element %llu, not %llu",
		    name, rank, n, (unsigned long long)v[W_ELEM], (unsigned long long)elem);
	for (uint32_t q = 0; q < m->a->nranks; q++) {
		bool want = from == MACHINE_ALL || from == q;

		if (machine_has(v, q) != want)
			return err_set(err, RC_FAILED, "%s: rank %u out element %llu: %s rank %u",
				       name, rank, n, want ? "without" : "has", q);
	}
	if (m->reduces && !v[W_FINISHED])
		return err_set(err, RC_FAILED, "%s: rank %u out element %llu: never finished", name,
			       rank, n);
	if (m->reduces && m->trees && v[W_TREE] != trees_canonical(m->trees, 0, m->a->nranks))
		return err_set(err, RC_FAILED,
			       "%s: rank %u out element %llu: not reduced by the canonical tree",
			       name, rank, n);
	return RC_OK;
}

enum rc
machine_expect_barrier(const struct machine *m, struct err *err)
{
	for (uint32_t r = 0; r < m->a->nranks; r++) {
		for (uint32_t q = 0; q < m->a->nranks; q++) {
			if (q != r && !m->run[r].clock[q])
				return err_set(
				    err, RC_FAILED,
				    "%s: rank %u leaves without knowing that rank %u entered",
				    coll_name(m->a->coll), r, q);
		}
	}
	return RC_OK;
}
