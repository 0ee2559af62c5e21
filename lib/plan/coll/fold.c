/*
 * fold.c - a power of two of the ranks, for algorithms that need one.
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

void
fold_idle(const struct plan_args *a, struct plan *out, uint64_t give, uint64_t get, uint32_t last)
{
	plan_message(a, out, step_send(PLAN_IN, first(give), a->rank + 1, 0));
	plan_message(a, out, step_recv(PLAN_OUT, first(get), a->rank + 1, last));
}

void
fold_give(const struct plan_args *a, const struct fold *f, struct plan *out, uint32_t last)
{
	if (f->folded)
		plan_message(a, out, step_send(PLAN_OUT, whole(a), a->rank - 1, last));
}
