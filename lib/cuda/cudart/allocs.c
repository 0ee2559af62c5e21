#include "cudart/allocs.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* The number of allocations that begin at or before p. */
static size_t
before(const struct allocs *a, const void *p)
{
	size_t lo = 0, hi = a->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if ((uintptr_t)a->v[mid].base <= (uintptr_t)p)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const struct memory *
allocs_find(const struct allocs *a, const void *p)
{
	size_t i = before(a, p);

	if (i == 0 || (uintptr_t)p - (uintptr_t)a->v[i - 1].base >= a->v[i - 1].nbytes)
		return NULL;
	return &a->v[i - 1];
}

void
allocs_around(const struct allocs *a, const void *p, struct memory *left, struct memory *right)
{
	uint64_t n;

	do {
		size_t i;

		while ((n = atomic_load(&a->changes)) % 2)
			sched_yield();
		i = before(a, p);
		*left = i > 0 ? a->v[i - 1] : (struct memory){.nbytes = 0};
		*right = i < a->n ? a->v[i] : (struct memory){.nbytes = 0};
	} while (atomic_load(&a->changes) != n);
}

bool
allocs_touches(const struct allocs *a, const void *p, uint64_t nbytes)
{
	size_t i = before(a, p);

	if (allocs_find(a, p))
		return true;
	return i < a->n && (uintptr_t)a->v[i].base - (uintptr_t)p < nbytes;
}

bool
allocs_add(struct allocs *a, const struct memory *m)
{
	size_t i = before(a, m->base);

	if (allocs_touches(a, m->base, m->nbytes))
		return false;
	if (a->n == a->room) {
		size_t room = a->room ? 2 * a->room : 64;
		struct memory *v = a->fixed ? NULL : realloc(a->v, room * sizeof *v);

		if (!v)
			return false;
		a->v = v;
		a->room = room;
	}
	atomic_fetch_add(&a->changes, 1);
	memmove(&a->v[i + 1], &a->v[i], (a->n - i) * sizeof *a->v);
	a->v[i] = *m;
	a->n++;
	atomic_fetch_add(&a->changes, 1);
	return true;
}

bool
allocs_take(struct allocs *a, const void *base, struct memory *out)
{
	size_t i = before(a, base);

	if (i == 0 || a->v[i - 1].base != base)
		return false;
	*out = a->v[--i];
	atomic_fetch_add(&a->changes, 1);
	a->n--;
	memmove(&a->v[i], &a->v[i + 1], (a->n - i) * sizeof *a->v);
	atomic_fetch_add(&a->changes, 1);
	return true;
}
