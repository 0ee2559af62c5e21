#include "store/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* FNV-1a. */
static uint64_t
hash_of(const char *key)
{
	uint64_t h = 14695981039346656037ull;

	for (; *key; key++)
		h = (h ^ (unsigned char)*key) * 0x100000001b3ull;
	return h ^ h >> 32;
}

struct entry *
entry_new(const char *key, const void *value, size_t nbytes)
{
	size_t nkey = strlen(key) + 1;
	struct entry *e = malloc(sizeof *e + nkey + nbytes);

	if (!e)
		return NULL;
	*e = (struct entry){.hash = hash_of(key), .nbytes = nbytes};
	memcpy(e->key, key, nkey);
	e->value = e->key + nkey;
	if (nbytes)
		memcpy(e->value, value, nbytes);
	return e;
}

bool
table_reserve(struct table *t)
{
	size_t nslot = t->nslot ? t->nslot * 2 : 64;
	struct entry **slot, *e, *next;

	if (t->n < t->nslot)
		return true;
	slot = alloc_zeroed(nslot, sizeof *slot);
	if (!slot)
		return t->nslot > 0; /* longer chains will do */
	for (size_t i = 0; i < t->nslot; i++)
		for (e = t->slot[i]; e; e = next) {
			next = e->next;
			e->next = slot[e->hash & (nslot - 1)];
			slot[e->hash & (nslot - 1)] = e;
		}
	free(t->slot);
	t->slot = slot;
	t->nslot = nslot;
	return true;
}

/* Where the entry of that key is, or would be. */
static struct entry **
place(const struct table *t, const char *key, uint64_t hash)
{
	struct entry **p = &t->slot[hash & (t->nslot - 1)];

	while (*p && ((*p)->hash != hash || strcmp((*p)->key, key) != 0))
		p = &(*p)->next;
	return p;
}

static void
take_out(struct table *t, struct entry **p)
{
	struct entry *e = *p;

	*p = e->next;
	t->n--;
	t->nbytes -= strlen(e->key) + e->nbytes;
	free(e);
}

void
table_put(struct table *t, struct entry *e)
{
	struct entry **p = place(t, e->key, e->hash);

	if (*p)
		take_out(t, p);
	e->next = *p;
	*p = e;
	t->n++;
	t->nbytes += strlen(e->key) + e->nbytes;
}

void
table_drop(struct table *t, const char *key)
{
	struct entry **p;

	if (t->nslot == 0)
		return;
	p = place(t, key, hash_of(key));
	if (*p)
		take_out(t, p);
}

const struct entry *
table_find(const struct table *t, const char *key)
{
	return t->nslot ? *place(t, key, hash_of(key)) : NULL;
}

static int
by_key(const void *a, const void *b)
{
	const struct entry *const *x = a, *const *y = b;

	return strcmp((*x)->key, (*y)->key);
}

const struct entry **
table_sorted(const struct table *t)
{
	const struct entry **v = alloc_zeroed(t->n + 1, sizeof *v);
	size_t n = 0;

	for (size_t i = 0; v && i < t->nslot; i++)
		for (const struct entry *e = t->slot[i]; e; e = e->next)
			v[n++] = e;
	if (v)
		qsort(v, n, sizeof *v, by_key);
	return v;
}

void
table_fini(struct table *t)
{
	for (size_t i = 0; i < t->nslot; i++)
		while (t->slot[i])
			take_out(t, &t->slot[i]);
	free(t->slot);
	*t = (struct table){0};
}
