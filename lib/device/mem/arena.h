/*
 * arena.h - an address-space allocator: first fit in address order, neighbours joined on free.
 *
 * Pure bookkeeping: it never touches the memory it hands out. All calls take O(log blocks).
 * Not thread-safe.
 */
#ifndef MEM_ARENA_H
#define MEM_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

struct arena_block;

/* Initialise with {0}. */
struct arena {
	struct arena_block *root;
	uint64_t lo, hi, unit;	/* addresses are lo + a multiple of unit, below hi */
	uint64_t used, nallocs; /* bytes in allocations (whole units); how many */
};

/* One hole [lo, hi). unit > 0; hi - lo is a multiple of it and not 0. RC_NOMEM. */
enum rc arena_init(struct arena *a, uint64_t lo, uint64_t hi, uint64_t unit, struct err *err);

/* Release the bookkeeping, also of live allocations. */
void arena_fini(struct arena *a);

/* The lowest hole that fits nbytes rounded up to units (0: one unit). RC_NOMEM reports the free bytes and
 * the largest hole. */
enum rc arena_take(struct arena *a, uint64_t nbytes, uint64_t *addr, struct err *err);

/* RC_INVAL: addr is not the start of an allocation. Needs no memory. */
enum rc arena_give(struct arena *a, uint64_t addr, struct err *err);

/* Allocate at this address, whole units. RC_INVAL: it is not free, or not inside. RC_NOMEM. */
enum rc arena_put(struct arena *a, uint64_t addr, uint64_t nbytes, struct err *err);

/* Bytes of the allocation that begins at addr; 0: there is none. */
uint64_t arena_size(const struct arena *a, uint64_t addr);

/* Return true if all of [addr, addr + nbytes) is allocated; nbytes 0: true. */
bool arena_covers(const struct arena *a, uint64_t addr, uint64_t nbytes);

/* Bytes in the largest hole. */
uint64_t arena_largest(const struct arena *a);

#endif
