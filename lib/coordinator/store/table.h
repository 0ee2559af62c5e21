/*
 * table.h - keys and their values in memory, in order of keys.
 */
#ifndef STORE_TABLE_H
#define STORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

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

/* A copy of key and value, in no table; free() releases it. NULL: out of memory. */
struct entry *entry_new(const char *key, const void *value, size_t nbytes);

/* Make room for n more entries. False: out of memory. */
bool table_reserve(struct table *t, size_t more);

/* Add it, or replace the entry of its key. Takes it. There must be room. */
void table_put(struct table *t, struct entry *e);

/* Free the entry of that key, if there is one. */
void table_drop(struct table *t, const char *key);

/* NULL: none. */
const struct entry *table_find(const struct table *t, const char *key);

void table_fini(struct table *t);

#endif
