/*
 * table.h - keys and their values in memory.
 */
#ifndef STORE_TABLE_H
#define STORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct entry {
	struct entry *next;
	uint64_t hash;
	size_t nbytes;
	char *value; /* in the same allocation */
	char key[];
};

/* {0} is empty. */
struct table {
	struct entry **slot;
	size_t nslot, n;
	size_t nbytes; /* of keys and values */
};

/* A copy of key and value, in no table; free() releases it. NULL: out of memory. */
struct entry *entry_new(const char *key, const void *value, size_t nbytes);

/* Make room for one more entry. False: out of memory. */
bool table_reserve(struct table *t);

/* Enter it in place of the one with its key. Takes it. There is room. */
void table_put(struct table *t, struct entry *e);

/* Free the entry of that key, if there is one. */
void table_drop(struct table *t, const char *key);

/* NULL: none. */
const struct entry *table_find(const struct table *t, const char *key);

/* All entries in order of keys; the array is the caller's to free. NULL: out of memory. */
const struct entry **table_sorted(const struct table *t);

void table_fini(struct table *t);

#endif
