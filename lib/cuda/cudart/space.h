/*
 * space.h - the address space of devices in this process: each device of this host has its own
 * range, so that a pointer identifies the device, and pointer arithmetic works. A pointer is the
 * range's base plus the offset in the device's memory.
 *
 * The program cannot access a range (PROT_NONE: a dereference faults, as with a GPU), except for
 * managed memory, or with GPUSIM_UNIFIED=1. The helper that runs kernels is forked from the program
 * and maps all of it: ranges are reserved whole when the process connects, so memory that is
 * allocated later needs no change in a running helper.
 *
 * Pinned host memory (cudaHostAlloc, cudaMallocHost) is in its own range, the mapping of one memfd, which
 * program and helpers share at one address.
 */
#ifndef CUDART_SPACE_H
#define CUDART_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define SPACE_DEVICES_MAX 1024

struct space_device {
	struct gpusim_device device;
	unsigned char *base; /* of the range */
	uint64_t nbytes;     /* its size */
	uint64_t min_addr;   /* the device's address of base */
	char path[GPUSIM_TEXT];
	int ordinal; /* CUDA's ordinal in this process; -1: CUDA_VISIBLE_DEVICES hides it */
};

/* Devices of this host, visible or not; those with an ordinal come first, in order. Constant once the
 * process is connected. */
const struct space_device *space_at(size_t i);

/* The device whose range has the pointer; NULL: none. */
const struct space_device *space_find(const void *p);

/* Return true if a pointer is in the range of pinned host memory. */
bool space_is_pinned(const void *p);

/*
 * space_map_all - for the helper, right after fork: map every device readable and writable in its range, and
 * open the range of pinned host memory. Calls no function of the client and takes no lock.
 *
 * RC_NOTFOUND, RC_BADDATA, RC_FAILED: a device has ended; its range stays closed, the others are mapped.
 * Touching a page raises SIGBUS if the disk has no room for its block.
 */
enum rc space_map_all(struct err *err);

/* ------------------------------------------------------------------ for lib/cuda/cudart's own files */

/* Reserve the ranges. Once, by one thread. */
enum rc space_reserve(const struct space_device *v, size_t n, struct err *err);

/*
 * Give the program access to [p, p + nbytes) of a device, whole pages. Their blocks are allocated
 * first, or the call fails: a full disk is RC_NOMEM, never a SIGBUS.
 */
enum rc space_open(void *p, uint64_t nbytes, struct err *err);
/* Take the access away again. */
void space_close(void *p, uint64_t nbytes);

/* Pinned host memory: zeroed, on a page. NULL: none left. */
void *space_pin(size_t nbytes);
void space_unpin(void *p, size_t nbytes);

#endif
