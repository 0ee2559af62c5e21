/*
 * steps.c - the algorithms' building blocks: parts, ring neighbours, steps, messages of bounded size.
 */
#include "coll/algo.h"

struct span
recv_part_of(const struct plan_args *a, uint32_t r)
{
	return a->recv_part ? (struct span){a->recv_part[r].off, a->recv_part[r].count}
			    : part_of(a, r);
}

struct span
parts_of(const struct plan_args *a, uint32_t first, uint32_t end)
{
	struct span x = part_of(a, first), y = part_of(a, end - 1);

	return (struct span){x.off, y.off + y.count - x.off};
}

void
parts_around(const struct plan_args *a, uint32_t first, uint32_t n, struct span out[2])
{
	uint32_t p = a->nranks, upto = n < p - first ? first + n : p;

	out[0] = n ? parts_of(a, first, upto) : (struct span){0};
	out[1] = first + n > upto && n ? parts_of(a, 0, first + n - p) : (struct span){0};
}

uint32_t
rank_after(const struct plan_args *a, uint32_t d)
{
	return (a->rank + d) % a->nranks;
}

uint32_t
rank_before(const struct plan_args *a, uint32_t d)
{
	return (a->rank + a->nranks - d) % a->nranks;
}

uint32_t
rank_distance(const struct plan_args *a, uint32_t first)
{
	return (a->rank + a->nranks - first) % a->nranks;
}

uint64_t
plan_nmessages(uint64_t count, uint64_t chunk)
{
	if (!chunk)
		return count > 0;
	return count / chunk + (count % chunk > 0);
}

void
plan_fail(struct plan *out, enum rc rc)
{
	out->rc = out->rc ? out->rc : rc;
}

enum rc
plan_append(struct plan *plan, struct plan_step s)
{
	if (plan->nstep >= PLAN_MAX_STEPS)
		plan_fail(plan, RC_INVAL);
	if (plan->rc)
		return plan->rc;
	if (!alloc_room(&plan->step, plan->nstep, &plan->cap, sizeof *plan->step)) {
		plan_fail(plan, RC_NOMEM);
		return plan->rc;
	}
	plan->step[plan->nstep++] = s;
	plan->mapped |= s.kind >= STEP_SYNC && s.kind <= STEP_REDUCE_ALL;
	plan->stores |= s.kind == STEP_REDUCE_ALL && s.peer == PLAN_EVERY;
	return RC_OK;
}

void
plan_scratch(struct plan *out, uint64_t ntmp)
{
	if (out->ntmp < ntmp)
		out->ntmp = ntmp;
}

/* Reduce *s to its message number c; count 0: it has no such message. */
static void
plan_nth(struct plan_step *s, uint64_t chunk, uint64_t c)
{
	uint64_t done = c * chunk, left = s->count - done;

	if (c >= plan_nmessages(s->count, chunk)) {
		s->count = 0;
	} else if (chunk) {
		s->src_off += done;
		s->dst_off += done;
		s->count = left < chunk ? left : chunk;
	}
}

uint32_t
last_round(const struct plan *out)
{
	return out->nstep ? out->step[out->nstep - 1].round : 0;
}

void
plan_local(struct plan *out, struct plan_step s)
{
	if (s.count)
		plan_append(out, s);
}

void
plan_nth_local(const struct plan_args *a, struct plan *out, uint64_t c, struct plan_step s)
{
	plan_nth(&s, a->chunk, c);
	plan_local(out, s);
}

/* Interleave the messages of two steps, message c `pace * c` rounds later; the second step may be empty. */
static void
interleave(const struct plan_args *a, struct plan *out, struct plan_step x, struct plan_step y,
	   uint32_t pace)
{
	uint64_t m = plan_nmessages(x.count, a->chunk), n = plan_nmessages(y.count, a->chunk);

	for (uint64_t c = 0; (c < m || c < n) && !out->rc; c++) {
		plan_nth_local(a, out, c, x);
		plan_nth_local(a, out, c, y);
		x.round += pace;
		y.round += pace;
	}
}

void
plan_message(const struct plan_args *a, struct plan *out, struct plan_step s)
{
	interleave(a, out, s, (struct plan_step){0}, 0);
}

void
plan_exchange(const struct plan_args *a, struct plan *out, struct plan_step send,
	      struct plan_step recv)
{
	interleave(a, out, send, recv, 0);
}

void
plan_forward(const struct plan_args *a, struct plan *out, struct plan_step recv,
	     struct plan_step send)
{
	interleave(a, out, recv, send, 1);
}

void
plan_pipe(const struct plan_args *a, struct plan *out, struct plan_step s)
{
	interleave(a, out, s, (struct plan_step){0}, 1);
}

uint64_t
plan_most_messages(const struct plan_args *a)
{
	uint64_t most = 0;

	for (uint32_t r = 0; r < a->nranks; r++) {
		uint64_t n = plan_nmessages(part_of(a, r).count, a->chunk);

		if (most < n)
			most = n;
	}
	return most;
}

void
plan_nth_exchange(const struct plan_args *a, struct plan *out, uint64_t c, uint64_t at,
		  uint32_t round)
{
	struct span own = part_of(a, a->rank);

	for (uint32_t t = 1; t < a->nranks; t++)
		plan_nth_local(
		    a, out, c,
		    step_send(PLAN_IN, part_of(a, rank_after(a, t)), rank_after(a, t), round));
	plan_nth_local(
	    a, out, c,
	    step_recv_all(PLAN_IN, own.off, PLAN_OUT, (struct span){at, own.count}, round));
}
