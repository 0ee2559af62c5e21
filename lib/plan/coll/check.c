/*
 * check.c - compare the results of plans on the machine with the collective's definition.
 */
#include "coll/check.h"

#include <stdlib.h>

#include "coll/algo.h"
#include "coll/shape.h"
#include "coll/machine.h"

/* Lay the rank's buffers out: one after the other, or IN and OUT shared as plan.h says. */
static void
lay_out(const struct plan_args *a, uint32_t r, enum plan_place place, const struct plan *plan,
	struct machine_rank *rank)
{
	struct span part = part_of(a, r);
	bool in_is_part = a->coll == GPUSIM_ALLGATHER || a->coll == GPUSIM_GATHER;
	bool out_is_part = a->coll == GPUSIM_REDUCESCATTER || a->coll == GPUSIM_SCATTER;
	struct plan_args mine;
	struct shape s;

	if (!plan_args_of(a, r, &mine))
		mine.coll = GPUSIM_BARRIER;
	s = shape_of_args(&mine);
	*rank = (struct machine_rank){.plan = plan, .first = in_is_part ? part.off : 0};
	rank->buf[PLAN_IN].len = s.in;
	rank->buf[PLAN_OUT].len = s.out;
	rank->buf[PLAN_TMP].len = plan->ntmp;
	rank->buf[PLAN_WIDE].len = plan->nwide;
	if (place == PLAN_OUT_OF_PLACE || !s.in || !s.out) {
		rank->buf[PLAN_OUT].base = s.in;
		rank->buf[PLAN_TMP].base = s.in + s.out;
		rank->buf[PLAN_WIDE].base = s.in + s.out + plan->ntmp;
		return;
	}
	if (in_is_part)
		rank->buf[PLAN_IN].base = part.off;
	if (out_is_part)
		rank->buf[PLAN_OUT].base = part.off;
	rank->buf[PLAN_TMP].base = s.in > s.out ? s.in : s.out;
	rank->buf[PLAN_WIDE].base = rank->buf[PLAN_TMP].base + plan->ntmp;
}

/* The part that element i is in. */
static uint32_t
find_part(const struct plan_part *part, uint32_t n, uint64_t i)
{
	for (uint32_t r = 0; r < n; r++)
		if (i >= part[r].off && i - part[r].off < part[r].count)
			return r;
	return MACHINE_NOBODY;
}

/* The rank whose part input element i is in; MACHINE_NOBODY: it is in a gap. */
static uint32_t
owner_of(const struct plan_args *a, uint64_t i)
{
	if (a->part)
		return find_part(a->part, a->nranks, i);
	return (uint32_t)(((i + 1) * a->nranks - 1) / a->nelem);
}

/* OUT[i] of rank r should be input element *elem of rank *from; MACHINE_NOBODY: nothing. */
static void
expected(const struct plan_args *a, uint32_t r, uint64_t i, uint64_t *elem, uint32_t *from)
{
	uint64_t block = a->nelem / a->nranks;

	*elem = i;
	*from = MACHINE_ALL;
	switch (a->coll) {
	case GPUSIM_ALLREDUCE:
	case GPUSIM_REDUCE:
	case GPUSIM_BARRIER:
	case GPUSIM_NCOLLS:
		break;
	case GPUSIM_REDUCESCATTER:
		*elem = part_of(a, r).off + i;
		break;
	case GPUSIM_BROADCAST:
		*from = a->root;
		break;
	case GPUSIM_ALLGATHER:
	case GPUSIM_GATHER:
		*from = owner_of(a, i);
		break;
	case GPUSIM_SCATTER:
		*elem = part_of(a, r).off + i;
		*from = a->root;
		break;
	case GPUSIM_ALLTOALL:
		if (a->recv_part) {
			const struct plan_part *recv = a->recv_part + (size_t)r * a->nranks;
			uint32_t q = find_part(recv, a->nranks, i);

			/* Blocks of any size. */
			*from = q;
			*elem = q == MACHINE_NOBODY
				    ? 0
				    : a->part[(size_t)q * a->nranks + r].off + (i - recv[q].off);
			break;
		}
		*elem = r * block + i % block;
		*from = (uint32_t)(i / block);
		break;
	case GPUSIM_SEND:
	case GPUSIM_RECV:
		*from = a->coll == GPUSIM_SEND ? a->rank : a->root;
		break;
	}
}

static enum rc
check_outputs(const struct plan_args *a, const struct machine *m, const struct machine_rank *rank,
	      struct err *err)
{
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < a->nranks && !rc; r++) {
		for (uint64_t i = 0; i < rank[r].buf[PLAN_OUT].len && !rc; i++) {
			uint64_t elem;
			uint32_t from;

			expected(a, r, i, &elem, &from);
			rc = machine_expect(m, r, i, elem, from, err);
		}
	}
	if (!rc && a->coll == GPUSIM_BARRIER)
		rc = machine_expect_barrier(m, err);
	return rc;
}

/* Count one rank's one-sided steps. */
static void
count_shared(const struct plan *plan, uint32_t nranks, struct plan_counts *c)
{
	uint64_t read = 0, written = 0;
	uint32_t syncs = 0;

	for (size_t i = 0; i < plan->nstep; i++) {
		const struct plan_step *s = &plan->step[i];

		syncs += s->kind == STEP_SYNC || s->kind == STEP_SHARE;
		if (s->kind == STEP_SHARE) {
			read += s->count;
			written += s->count;
		} else if (s->kind == STEP_REDUCE_ALL) {
			read += s->count * nranks;
			written += s->count * (s->peer == PLAN_EVERY ? nranks : 1);
		}
	}
	if (c->syncs < syncs)
		c->syncs = syncs;
	if (c->max_read < read)
		c->max_read = read;
	if (c->max_written < written)
		c->max_written = written;
}

void
plan_count(const struct plan *plans, uint32_t nranks, struct plan_counts *counts)
{
	struct plan_counts c = {0};

	for (uint32_t r = 0; r < nranks; r++) {
		uint64_t messages = 0, elements = 0, received = 0;

		for (size_t i = 0; i < plans[r].nstep; i++) {
			const struct plan_step *s = &plans[r].step[i];

			if (s->kind > STEP_RECV_REDUCE && s->kind != STEP_RECV_ALL)
				continue;
			if (s->kind == STEP_SEND) {
				messages++;
				elements += s->count;
				c.total_wide += s->src == PLAN_WIDE ? s->count : 0;
			} else {
				received +=
				    s->kind == STEP_RECV_ALL ? s->count * (nranks - 1) : s->count;
			}
			if (c.rounds <= s->round)
				c.rounds = s->round + 1;
		}
		count_shared(&plans[r], nranks, &c);
		c.total_messages += messages;
		c.total_elements += elements;
		if (c.max_messages < messages)
			c.max_messages = messages;
		if (c.max_elements < elements)
			c.max_elements = elements;
		if (c.max_recv_elements < received)
			c.max_recv_elements = received;
	}
	*counts = c;
}

enum rc
plan_check_plans(const struct plan_args *a, enum plan_place place, const struct plan *plans,
		 struct plan_counts *counts, struct err *err)
{
	struct plan_args first = *a;
	struct machine_rank *rank;
	struct machine *m = NULL;
	enum rc rc;

	if (!coll_is_sendrecv(a->coll))
		first.rank = 0;
	rc = plan_args_check(&first, err);
	if (rc)
		return rc;
	if (a->coll == GPUSIM_ALLTOALL && place == PLAN_IN_PLACE)
		return err_set(err, RC_INVAL, "%s: has no in-place form", coll_name(a->coll));
	rank = alloc_zeroed(a->nranks, sizeof *rank);
	if (!rank)
		return err_set(err, RC_NOMEM, "no memory to check %u ranks", a->nranks);
	for (uint32_t r = 0; r < a->nranks; r++)
		lay_out(a, r, place, &plans[r], &rank[r]);
	if (machine_bytes(a, rank) > (double)CHECK_MAX_BYTES) {
		rc = err_set(err, RC_INVAL, "%s: %u ranks of %llu elements: too large to check",
			     coll_name(a->coll), a->nranks, (unsigned long long)a->nelem);
		goto out;
	}
	m = machine_new(a, rank, coll_reduces(a->coll));
	if (!m) {
		rc = err_set(err, RC_NOMEM, "no memory to check %u ranks", a->nranks);
		goto out;
	}
	rc = machine_run(m, err);
	if (!rc)
		rc = check_outputs(a, m, rank, err);
	if (!rc && counts)
		plan_count(plans, a->nranks, counts);
out:
	machine_free(m);
	free(rank);
	return rc;
}

enum rc
plan_check(const struct plan_args *a, const char *algo, enum plan_place place,
	   struct plan_counts *counts, struct err *err)
{
	struct plan *plans;
	enum rc rc = plan_build_all(a, algo, &plans, err);

	if (rc)
		return rc;
	rc = plan_check_plans(a, place, plans, counts, err);
	plan_free_all(plans, a->nranks);
	return rc;
}
