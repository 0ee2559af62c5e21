/* allocs.h - the table of a process's allocations, by address. Pure, and without a lock. */
#ifndef CUDART_ALLOCS_H
#define CUDART_ALLOCS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chunk;
struct ipc_memory;
struct pool;

enum memory_kind {
	MEMORY_PAGEABLE, /* the host's own, unknown to CUDA */
	MEMORY_DEVICE,
	MEMORY_MANAGED,	   /* a device's; the host may access it */
	MEMORY_PINNED,	   /* the host's, of cudaHostAlloc */
	MEMORY_REGISTERED, /* the host's, of cudaHostRegister */
};

struct memory {
	unsigned char *base;
	uint64_t nbytes; /* that may be used: asked, rounded up */
	uint64_t asked;	 /* that the program asked for */
	enum memory_kind kind;
	int ordinal;	/* of the device; of host memory: the thread's device at its allocation */
	uint64_t addr;	/* a device's: the device's address of base */
	uint64_t owned; /* a device's, with pages of its own: the address to free */
	unsigned flags;
	bool leaving;	     /* cudaFreeAsync was called, and its stream has not reached it */
	uint64_t open;	     /* bit by ordinal: its kernels may use it without peer access */
	bool overrun;	     /* a call that went over its end was reported */
	const void *site;    /* with GPUSIM_MEMCHECK: the place in the program that allocated it */
	bool own;	     /* the library's */
	struct chunk *chunk; /* memory that it is a part of; NULL: it has its own pages */
	uint32_t export;     /* its number among exported memory, from 1; 0: none */
	struct ipc_memory *ipc; /* opened memory of another process */
	struct pool *pool;	/* of cudaMallocAsync; NULL: none */
};

/*
 * Initialise with {0}; or with v and room, and fixed: then v never moves, and another process that has
 * the memory can read it as long as `changes` is even and the same before and after.
 */
struct allocs {
	struct memory *v; /* by base; they do not overlap */
	size_t n, room;
	bool fixed;
	_Atomic uint64_t changes;
};

/* False: out of memory, or it overlaps another. */
bool allocs_add(struct allocs *a, const struct memory *m);
/* Take out the allocation that begins at base. False: none does. */
bool allocs_take(struct allocs *a, const void *base, struct memory *out);
/* The allocation that holds the byte; NULL: none. Valid until the table changes. */
const struct memory *allocs_find(const struct allocs *a, const void *p);
/*
 * Copy the last allocation that begins at or before p, and the first behind it; base NULL: none. Without a lock, also
 * while another process changes the table.
 */
void allocs_around(const struct allocs *a, const void *p, struct memory *left,
		   struct memory *right);
/* Return true if an allocation has a byte of the range. */
bool allocs_touches(const struct allocs *a, const void *p, uint64_t nbytes);

#endif
