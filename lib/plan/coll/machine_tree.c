/*
 * machine_tree.c - the order in which an element was reduced: a tree over ranks.
 *
 * Equal trees have equal numbers: rank r alone is r, and each new pair of trees gets the next number.
 * So orders are compared exactly, by comparing numbers.
 */
#include <stdlib.h>

#include "coll/algo.h"
#include "coll/machine.h"

#define FIRST_SLOTS 256

struct trees {
	struct {
		uint64_t left, right;
	} * pair;
	size_t npair, cap;
	uint32_t *slot; /* of an open hash: number of a pair + 1 */
	size_t nslot;	/* a power of two, at least twice npair */
	uint32_t nranks;
	bool full; /* out of memory: nothing more is proved */
};

struct trees *
trees_new(uint32_t nranks)
{
	struct trees *t = alloc_zeroed(1, sizeof *t);

	if (!t)
		return NULL;
	t->nranks = nranks;
	t->nslot = FIRST_SLOTS;
	t->slot = alloc_zeroed(t->nslot, sizeof *t->slot);
	if (t->slot)
		return t;
	free(t);
	return NULL;
}

void
trees_free(struct trees *t)
{
	if (!t)
		return;
	free(t->pair);
	free(t->slot);
	free(t);
}

static size_t
slot_of(const struct trees *t, uint64_t left, uint64_t right)
{
	uint64_t h = (left * 0x9e3779b97f4a7c15u ^ right) * 0xbf58476d1ce4e5b9u;
	size_t at = (h ^ h >> 31) & (t->nslot - 1);

	while (t->slot[at] &&
	       (t->pair[t->slot[at] - 1].left != left || t->pair[t->slot[at] - 1].right != right))
		at = (at + 1) & (t->nslot - 1);
	return at;
}

/* Room for one pair more. */
static bool
grow(struct trees *t)
{
	if (t->npair == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : FIRST_SLOTS / 2;
		void *pair = alloc_resize(t->pair, cap, sizeof *t->pair);
		uint32_t *slot = alloc_zeroed(2 * cap, sizeof *slot);

		if (pair)
			t->pair = pair;
		if (!pair || !slot) {
			free(slot);
			return false;
		}
		free(t->slot);
		t->slot = slot;
		t->nslot = 2 * cap;
		t->cap = cap;
		for (size_t i = 0; i < t->npair; i++)
			t->slot[slot_of(t, t->pair[i].left, t->pair[i].right)] = (uint32_t)i + 1;
	}
	return true;
}

uint64_t
trees_join(struct trees *t, uint64_t left, uint64_t right)
{
	size_t at = slot_of(t, left, right);

	if (t->slot[at])
		return t->nranks + t->slot[at] - 1u;
	if (t->full || !grow(t)) {
		t->full = true;
		return UINT64_MAX;
	}
	at = slot_of(t, left, right);
	t->pair[t->npair].left = left;
	t->pair[t->npair].right = right;
	t->slot[at] = (uint32_t)++t->npair;
	return t->nranks + t->npair - 1;
}

uint64_t
trees_canonical(struct trees *t, uint32_t first, uint32_t n)
{
	uint32_t left = plan_left_half(n);

	if (n == 1)
		return first;
	return trees_join(t, trees_canonical(t, first, left),
			  trees_canonical(t, first + left, n - left));
}
