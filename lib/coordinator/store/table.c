#include "store/store_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct entry *
entry_new(const char *key, const void *value, size_t nbytes)
{
	size_t nkey = strlen(key) + 1;
	struct entry *e = malloc(sizeof *e + nkey + nbytes);

	if (!e)
		return NULL;
	e->nbytes = nbytes;
	memcpy(e->key, key, nkey);
	e->value = e->key + nkey;
	if (nbytes)
		memcpy(e->value, value, nbytes);
	return e;
}

bool
table_reserve(struct table *t, size_t more)
{
	size_t cap = t->n + t->n / 2 + more + 64;
	struct entry **v;

	if (t->cap > t->n + more)
		return true;
	v = alloc_resize(t->v, cap, sizeof *v);
	if (!v)
		return false;
	v[t->n] = NULL;
	t->v = v;
	t->cap = cap;
	return true;
}

/* The index of the first entry that is not before the key; *there: it has that key. */
static size_t
find(const struct table *t, const char *key, bool *there)
{
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(t->v[mid]->key, key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	*there = lo < t->n && strcmp(t->v[lo]->key, key) == 0;
	return lo;
}

static void
take_out(struct table *t, size_t i)
{
	t->nbytes -= strlen(t->v[i]->key) + t->v[i]->nbytes;
	free(t->v[i]);
}

void
table_put(struct table *t, struct entry *e)
{
	bool there;
	size_t i = find(t, e->key, &there);

	if (there)
		take_out(t, i);
	else
		memmove(&t->v[i + 1], &t->v[i], (++t->n - i) * sizeof *t->v);
	t->v[i] = e;
	t->nbytes += strlen(e->key) + e->nbytes;
}

void
table_drop(struct table *t, const char *key)
{
	bool there;
	size_t i = find(t, key, &there);

	if (!there)
		return;
	take_out(t, i);
	memmove(&t->v[i], &t->v[i + 1], (t->n-- - i) * sizeof *t->v);
}

const struct entry *
table_find(const struct table *t, const char *key)
{
	bool there;
	size_t i = find(t, key, &there);

	return there ? t->v[i] : NULL;
}

void
table_fini(struct table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i]);
	free(t->v);
	*t = (struct table){0};
}
