/* allocs.h - the table of a process's allocations, by address. Pure, and without a lock. */
#ifndef CUDART_ALLOCS_H
#define CUDART_ALLOCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum memory_kind {
	MEMORY_PAGEABLE, /* the host's own, unknown to CUDA */
	MEMORY_DEVICE,
	MEMORY_MANAGED,	   /* a device's; the host may access it */
	MEMORY_PINNED,	   /* the host's, of cudaHostAlloc */
	MEMORY_REGISTERED, /* the host's, of cudaHostRegister */
};

struct memory {
	unsigned char *base;
	uint64_t nbytes;
	enum memory_kind kind;
	int ordinal;	/* of the device; of host memory: the thread's device at its allocation */
	uint64_t addr;	/* a device's: the device's address of base */
	uint64_t owned; /* a device's: the address to free */
	unsigned flags;
};

/* Initialise with {0}. */
struct allocs {
	struct memory *v; /* by base; they do not overlap */
	size_t n, room;
};

/* False: out of memory, or it overlaps another. */
bool allocs_add(struct allocs *a, const struct memory *m);
/* Take out the allocation that begins at base. False: none does. */
bool allocs_take(struct allocs *a, const void *base, struct memory *out);
/* The allocation that holds the byte; NULL: none. Valid until the table changes. */
const struct memory *allocs_find(const struct allocs *a, const void *p);
/* Return true if an allocation has a byte of the range. */
bool allocs_touches(const struct allocs *a, const void *p, uint64_t nbytes);

#endif
