/*
 * steps.c - what algorithms are built with: parts, ring neighbours, messages of bounded size.
 */
#include "coll/algo.h"

struct span
part_of(const struct plan_args *a, uint32_t r)
{
	struct span s;

	plan_part(a->nelem, a->nranks, r, &s.off, &s.count);
	return s;
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
plan_scratch(struct plan *out, uint64_t ntmp)
{
	if (out->ntmp < ntmp)
		out->ntmp = ntmp;
}

void
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

/* Append message c of those that s is cut in; nothing when there is none. */
static enum rc
append_message(struct plan *out, struct plan_step s, uint64_t chunk, uint64_t c)
{
	plan_nth(&s, chunk, c);
	return plan_local(out, s);
}

/* Interleave the messages of two steps, message c `pace * c` rounds later; second may be empty. */
static enum rc
interleave(const struct plan_args *a, struct plan *out, struct plan_step first,
	   struct plan_step second, uint32_t pace)
{
	uint64_t m = plan_nmessages(first.count, a->chunk);
	uint64_t n = plan_nmessages(second.count, a->chunk);
	enum rc rc = RC_OK;

	for (uint64_t c = 0; (c < m || c < n) && !rc; c++) {
		rc = append_message(out, first, a->chunk, c);
		if (!rc)
			rc = append_message(out, second, a->chunk, c);
		first.round += pace;
		second.round += pace;
	}
	return rc;
}

enum rc
plan_message(const struct plan_args *a, struct plan *out, struct plan_step s)
{
	return interleave(a, out, s, (struct plan_step){0}, 0);
}

enum rc
plan_exchange(const struct plan_args *a, struct plan *out, struct plan_step send,
	      struct plan_step recv)
{
	return interleave(a, out, send, recv, 0);
}

enum rc
plan_forward(const struct plan_args *a, struct plan *out, struct plan_step recv,
	     struct plan_step send)
{
	return interleave(a, out, recv, send, 1);
}

enum rc
plan_pipe(const struct plan_args *a, struct plan *out, struct plan_step s)
{
	return interleave(a, out, s, (struct plan_step){0}, 1);
}

enum rc
plan_local(struct plan *out, struct plan_step s)
{
	return s.count ? plan_append(out, s) : RC_OK;
}

enum rc
naive_sum(const struct plan_args *a, struct plan *out, enum plan_buf to)
{
	enum rc rc = RC_OK;

	for (uint32_t k = 1; k < a->nranks && !rc; k++)
		rc = plan_message(a, out,
				  (struct plan_step){.kind = STEP_RECV_REDUCE,
						     .src = k > 1 ? to : PLAN_IN,
						     .dst = to,
						     .peer = k,
						     .round = k - 1,
						     .count = a->nelem});
	if (rc)
		return rc;
	return plan_local(
	    out, (struct plan_step){
		     .kind = STEP_FINISH, .dst = to, .round = a->nranks - 2, .count = a->nelem});
}

enum rc
naive_other(const struct plan_args *a, struct plan *out, uint64_t give, uint64_t get)
{
	enum rc rc = plan_message(
	    a, out,
	    (struct plan_step){
		.kind = STEP_SEND, .src = PLAN_IN, .peer = 0, .round = a->rank - 1, .count = give});

	if (rc)
		return rc;
	return plan_message(a, out,
			    (struct plan_step){.kind = STEP_RECV,
					       .dst = PLAN_OUT,
					       .peer = 0,
					       .round = a->nranks - 1 + a->rank - 1,
					       .count = get});
}
