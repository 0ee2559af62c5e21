#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "store/store_impl.h"

#define DROP_AT_ONCE 64 /* records; in etcd a commit has at most 126 */

/* ---- the records in memory, by key */

/* A copy of key and value, in no table; free() releases it. NULL: out of memory. */
static struct entry *
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

/* Make room for n more entries. False: out of memory. */
static bool
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

/* Add it, or replace the entry of its key. Takes it. There must be room. */
static void
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

/* Free the entry of that key, if there is one. */
static void
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

/* ---- the interface */

static bool
is_etcd(const char *where)
{
	return strncmp(where, "etcd://", 7) == 0 || strncmp(where, "etcds://", 8) == 0;
}

bool
store_apply(struct table *t, const struct store_change *c)
{
	struct entry *e;

	if (!c->value) {
		table_drop(t, c->key);
		return true;
	}
	e = table_reserve(t, 1) ? entry_new(c->key, c->value, c->nbytes) : NULL;
	if (e)
		table_put(t, e);
	return e != NULL;
}

enum rc
store_open(const char *where, store_fn *each, void *arg, struct store **out, struct err *err)
{
	struct store *s = alloc_zeroed(1, sizeof *s);
	enum rc rc;

	if (!s)
		return err_set(err, RC_NOMEM, "%s: out of memory", where);
	s->medium = is_etcd(where) ? &store_etcd : &store_dir;
	rc = s->medium->open(s, where, err);
	if (rc != RC_OK) {
		store_close(s, STORE_KEEP, NULL);
		return rc;
	}
	for (size_t i = 0; i < s->table.n; i++) {
		const struct entry *e = s->table.v[i];

		each(arg, e->key, e->value, e->nbytes);
	}
	*out = s;
	return RC_OK;
}

const char *
store_note(const struct store *s)
{
	return s->note.text;
}

static void
free_entries(struct entry **v, size_t n)
{
	for (size_t i = 0; v && i < n; i++)
		free(v[i]);
	free(v);
}

/* The entries that the changes put, made before anything is written; NULL: out of memory. */
static struct entry **
prepare(struct store *s, const struct store_change *change, size_t n)
{
	struct entry **v = table_reserve(&s->table, n) ? alloc_zeroed(n, sizeof *v) : NULL;

	for (size_t i = 0; v && i < n; i++) {
		if (!change[i].value)
			continue;
		v[i] = entry_new(change[i].key, change[i].value, change[i].nbytes);
		if (!v[i]) {
			free_entries(v, n);
			return NULL;
		}
	}
	return v;
}

enum rc
store_commit(struct store *s, const struct store_change *change, size_t n,
	     enum store_durability durability, struct err *err)
{
	struct entry **v;
	enum rc rc;

	if (n == 0)
		return RC_OK;
	v = prepare(s, change, n);
	if (!v)
		return err_set(err, RC_NOMEM, "out of memory");
	rc = s->medium->commit(s, change, n, durability, err);
	if (rc != RC_OK) {
		free_entries(v, n);
		return rc;
	}
	for (size_t i = 0; i < n; i++)
		if (v[i])
			table_put(&s->table, v[i]);
		else
			table_drop(&s->table, change[i].key);
	free(v);
	if (s->medium->committed)
		s->medium->committed(s);
	return RC_OK;
}

enum rc
store_close(struct store *s, enum store_end end, struct err *err)
{
	enum rc rc = RC_OK;

	if (!s)
		return RC_OK;
	if (s->own)
		rc = s->medium->close(s, end, err);
	table_fini(&s->table);
	free(s);
	return rc;
}

static bool
any_stays(const struct store *s, store_stays *stays)
{
	for (size_t i = 0; i < s->table.n; i++)
		if (stays(s->table.v[i]->key, s->table.v[i]->value, s->table.v[i]->nbytes))
			return true;
	return false;
}

enum rc
store_close_but(struct store *s, store_stays *stays, struct err *err)
{
	struct store_change drop[DROP_AT_ONCE];
	enum rc rc = RC_OK, end;
	size_t n = 0;

	if (!s || !any_stays(s, stays))
		return store_close(s, STORE_REMOVE, err);
	for (size_t i = s->table.n; i-- > 0 && rc == RC_OK;) {
		const struct entry *e = s->table.v[i];

		if (!stays(e->key, e->value, e->nbytes))
			drop[n++] = (struct store_change){.key = e->key};
		if (n == DROP_AT_ONCE || i == 0) {
			rc = store_commit(s, drop, n, STORE_LAZY, err);
			n = 0;
		}
	}
	end = store_close(s, STORE_KEEP, rc == RC_OK ? err : NULL);
	return rc == RC_OK ? end : rc;
}
