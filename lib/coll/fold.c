/*
 * fold.c - a power of two of the ranks, for algorithms that want one.
 */
#include "coll/algo.h"

struct fold
fold_of(const struct plan_args *a)
{
	struct fold f = {.size = 1};

	while (f.size <= a->nranks / 2) {
		f.size *= 2;
		f.log2++;
	}
	f.extra = a->nranks - f.size;
	f.folded = a->rank < 2 * f.extra;
	f.idle = f.folded && a->rank % 2 == 0;
	f.place = f.folded ? a->rank / 2 : a->rank - f.extra;
	return f;
}

uint32_t
fold_rank(const struct fold *f, uint32_t place)
{
	return place < f->extra ? 2 * place + 1 : place + f->extra;
}

/* The first of the ranks at a place, and so of the parts. */
static uint32_t
first_rank(const struct fold *f, uint32_t place)
{
	return place + (place < f->extra ? place : f->extra);
}

struct span
fold_parts(const struct plan_args *a, const struct fold *f, uint32_t first, uint32_t end)
{
	return parts_of(a, first_rank(f, first), first_rank(f, end));
}

enum rc
fold_idle(const struct plan_args *a, struct plan *out, uint64_t give, uint64_t get,
	  uint32_t last_round)
{
	enum rc rc = plan_message(
	    a, out,
	    (struct plan_step){
		.kind = STEP_SEND, .src = PLAN_IN, .peer = a->rank + 1, .count = give});

	return rc ? rc
		  : plan_message(a, out,
				 (struct plan_step){.kind = STEP_RECV,
						    .dst = PLAN_OUT,
						    .peer = a->rank + 1,
						    .round = last_round,
						    .count = get});
}

enum rc
fold_give(const struct plan_args *a, const struct fold *f, struct plan *out, uint32_t last_round)
{
	if (!f->folded)
		return RC_OK;
	return plan_message(a, out,
			    (struct plan_step){.kind = STEP_SEND,
					       .src = PLAN_OUT,
					       .peer = a->rank - 1,
					       .round = last_round,
					       .count = a->nelem});
}
