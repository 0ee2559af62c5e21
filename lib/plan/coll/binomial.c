/*
 * binomial.c - the binomial tree that broadcast, reduce, gather and scatter go along.
 */
#include "coll/algo.h"

struct binomial
binomial_of(const struct plan_args *a)
{
	struct binomial t = {.place = rank_distance(a, a->root)};

	while (1u << t.depth < a->nranks)
		t.depth++;
	t.reach = t.place ? t.place & -t.place : 1u << t.depth;
	return t;
}

uint32_t
binomial_rank(const struct plan_args *a, uint32_t place)
{
	return (a->root + place) % a->nranks;
}

uint32_t
binomial_size(const struct plan_args *a, uint32_t place, uint32_t reach)
{
	return reach < a->nranks - place ? reach : a->nranks - place;
}
