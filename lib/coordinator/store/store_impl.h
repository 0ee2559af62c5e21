/*
 * store_impl.h - a medium of the store, and the part that all media share. Inside lib/coordinator/store only.
 */
#ifndef STORE_STORE_IMPL_H
#define STORE_STORE_IMPL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "store/store.h"

/* Keys and their values in memory, in order of keys. */
struct entry {
	size_t nbytes;
	char *value; /* in the same allocation */
	char key[];
};

/* {0} is empty. */
struct table {
	struct entry **v; /* n, and a NULL; NULL: nothing was ever reserved */
	size_t n, cap;
	size_t nbytes; /* of keys and values */
};

/* NULL: none. */
const struct entry *table_find(const struct table *t, const char *key);

void table_fini(struct table *t);

struct medium;

struct store {
	const struct medium *medium;
	void *own;	    /* private to the medium */
	struct table table; /* what has been committed */
	struct err note;
};

struct medium {
	/* Take the state and fill the table. On failure nothing is held and own is not set. */
	enum rc (*open)(struct store *s, const char *where, struct err *err);
	/* The table is as before the changes; it changes when this has succeeded. */
	enum rc (*commit)(struct store *s, const struct store_change *change, size_t n,
			  enum store_durability durability, struct err *err);
	/* Called after the table has changed; its failures have no effect. NULL: nothing to do. */
	void (*committed)(struct store *s);
	/* Free own. */
	enum rc (*close)(struct store *s, enum store_end end, struct err *err);
};

extern const struct medium store_dir, store_etcd;

/* Make one change in a table. False: out of memory. */
bool store_apply(struct table *t, const struct store_change *c);

#endif
