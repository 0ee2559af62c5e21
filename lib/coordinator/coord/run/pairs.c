#include "coord/run/run_impl.h"

#include <stdlib.h>
#include <string.h>

static size_t
home(uint64_t key, size_t nslot)
{
	/* Fibonacci hashing; nslot is a power of two. */
	return (size_t)((key * 0x9e3779b97f4a7c15ull) >> 32) & (nslot - 1);
}

static void
put(uint32_t *slot, size_t nslot, uint64_t key, size_t idx)
{
	size_t i = home(key, nslot);

	while (slot[i])
		i = (i + 1) & (nslot - 1);
	slot[i] = (uint32_t)idx + 1;
}

/* Half of the slots stay empty. */
static bool
grow(struct pairs *p)
{
	size_t cap = p->cap ? p->cap * 2 : 16;
	uint32_t *slot = alloc_zeroed(cap * 2, sizeof *slot);
	uint64_t *key = slot ? alloc_resize(p->key, cap, sizeof *key) : NULL;

	if (!key) {
		free(slot);
		return false;
	}
	for (size_t i = 0; i < p->n; i++)
		put(slot, cap * 2, key[i], i);
	free(p->slot);
	p->slot = slot;
	p->nslot = cap * 2;
	p->key = key;
	p->cap = cap;
	return true;
}

enum rc
pairs_index(struct pairs *p, uint32_t src, uint32_t dst, size_t *idx)
{
	uint64_t key = (uint64_t)src << 32 | dst;
	size_t i = p->nslot ? home(key, p->nslot) : 0;

	for (; p->nslot && p->slot[i]; i = (i + 1) & (p->nslot - 1))
		if (p->key[p->slot[i] - 1] == key) {
			*idx = p->slot[i] - 1;
			return RC_OK;
		}
	if (p->n == p->cap && !grow(p))
		return RC_NOMEM;
	put(p->slot, p->nslot, key, p->n);
	p->key[p->n] = key;
	*idx = p->n++;
	return RC_OK;
}

void *
pairs_beside(const struct pairs *p, size_t idx, void *v, size_t *vcap, size_t size)
{
	char *q;

	if (idx < *vcap)
		return v;
	q = alloc_resize(v, p->cap, size);
	if (!q)
		return NULL;
	memset(q + *vcap * size, 0, (p->cap - *vcap) * size);
	*vcap = p->cap;
	return q;
}

void
pairs_fini(struct pairs *p)
{
	free(p->key);
	free(p->slot);
	*p = (struct pairs){0};
}

struct pair_count *
work_pair(struct work *work, uint32_t src, uint32_t dst)
{
	struct pair_count *p;
	size_t i;

	if (pairs_index(&work->pairs, src, dst, &i) != RC_OK)
		return NULL;
	p = pairs_beside(&work->pairs, i, work->pair, &work->pair_cap, sizeof *p);
	if (!p)
		return NULL;
	work->pair = p;
	return &p[i];
}
