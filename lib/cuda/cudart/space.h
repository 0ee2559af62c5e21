/*
 * space.h - the address space of devices in this process: each device of this host has its own
 * range, so that a pointer identifies the device, and pointer arithmetic works. An allocation has
 * pages of the range for itself (small ones share them with others of the same process), and an
 * inaccessible page follows; which bytes of the device's memory they are, the table of allocations says.
 *
 * The program cannot access a range (PROT_NONE: a dereference faults, as with a GPU), except for
 * managed memory, or with GPUSIM_UNIFIED=1. The helper that runs kernels is forked from the program.
 * It maps an allocation when a kernel first touches it: the fault's handler finds it in the table,
 * which program and helpers share.
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
#include "cudart/allocs.h"
#include "cudart/gaps.h"

#define SPACE_DEVICES_MAX 1024
#define SPACE_PAGE	  UINT64_C(4096)

struct space_device {
	struct gpusim_device device;
	unsigned char *base; /* of the range */
	uint64_t range;	     /* its size */
	uint64_t nbytes;     /* of memory */
	uint64_t min_addr;   /* the lowest address of the device's memory */
	char path[GPUSIM_TEXT];
	int ordinal; /* CUDA's ordinal in this process; -1: CUDA_VISIBLE_DEVICES hides it */
	int place;   /* among this host's devices: its PCI bus is that + 1 */
};

/* Devices of this host, visible or not; those with an ordinal come first, in order. Constant once the
 * process is connected. */
const struct space_device *space_at(size_t i);

/* The device whose range has the pointer; NULL: none. */
const struct space_device *space_find(const void *p);

/* Return true if a pointer is in the range of pinned host memory. */
bool space_is_pinned(const void *p);

/* nbytes rounded up to whole pages. */
uint64_t space_pages(uint64_t nbytes);

/* ------------------------------------------------------------------ in the program */

/* Reserve the ranges, and make the memory that is shared with helpers. Once, by one thread. */
enum rc space_reserve(const struct space_device *v, size_t n, struct err *err);

/* The table of allocations, in memory that helpers read. The caller locks. */
struct allocs *space_table(void);

/* By ordinal: kernels of this device may use the other device's memory. Helpers read it. */
_Atomic(bool) *space_peers(int ordinal);

/* Addresses for whole pages of a device, followed by a page that stays inaccessible. NULL: none left. */
void *space_place(const struct space_device *d, uint64_t nbytes);
/* Give them back, once no helper maps them. */
void space_unplace(const struct space_device *d, void *p, uint64_t nbytes);

/*
 * Give the program access to whole pages; addr: their address in the device's memory. Their blocks
 * are allocated first, or the call fails: a full disk is RC_NOMEM, never a SIGBUS.
 */
enum rc space_open(const struct space_device *d, void *p, uint64_t addr, uint64_t nbytes,
		   struct err *err);
/* Take the access away again. */
void space_close(void *p, uint64_t nbytes);

/* Pinned host memory: zeroed, on a page. NULL: none left. Before space_unpin, no helper maps it. */
void *space_pin(size_t nbytes);
void space_unpin(void *p, size_t nbytes);

/*
 * Make helpers unmap the pages of an allocation that is no longer in the table, and return when no kernel can reach
 * them: at once, unless kernels run; asked: its size for messages. NULL: all pages.
 */
void space_forget(const void *p, uint64_t nbytes, uint64_t asked);

/* Wake a device's helper: something has changed that it must look at. */
void space_wake(int ordinal);

/* A device's helper has ended, perhaps within a kernel. */
void space_helper_ended(int ordinal);

/* ------------------------------------------------------------------ in a helper (space_helper.c) */

/*
 * Begin, right after fork; every range is closed. Calls no function of the client and takes no lock of the
 * program. RC_NOTFOUND, RC_BADDATA: the device's own memory cannot be opened.
 */
enum rc space_helper_begin(int ordinal, struct err *err);

/* Around each kernel. */
void space_enter(void);
void space_leave(void);
/* Read messages now, also while kernels run. */
void space_sync(void);

/* In a fault's handler. True: the address is in an allocation that is mapped now; continue. */
bool space_fault(const void *p);

/* What is at or near an address, for a message: ", 12 bytes after the 400-byte allocation at 0x..."; or "". */
void space_describe(const void *p, char *text, size_t size);

/* ------------------------------------------------------------------ between the two files */

#define SPACE_LOG 1024 /* messages kept; a helper that has missed some unmaps everything */

struct space_freed {
	const unsigned char *base; /* NULL: all */
	uint64_t nbytes, asked;
};

struct space_slot {
	_Atomic uint32_t running; /* kernels */
	_Atomic uint64_t seen;	  /* messages */
	atomic_uint sleeps;	  /* program threads that wait for `seen` */
	_Atomic uint64_t changes; /* times that the helper was woken */
	atomic_uint helper_sleeps;
	_Atomic(bool) peers[SPACE_DEVICES_MAX];
};

#define SPACE_EXPORTS 1024
#define SPACE_EVENTS  4096

/* Memory that other processes may open; id 0: it is freed. */
struct space_export {
	_Atomic uint64_t id;
	_Atomic uint32_t users; /* processes */
	uint64_t device, addr, nbytes, asked;
};

/* An event that processes share. */
struct space_event {
	_Atomic uint64_t recorded, done;
	atomic_uint sleeps;
};

struct space_shared {
	uint64_t process; /* a number of this process that no other has */
	int fd;		  /* its file descriptor of this memory */
	uint64_t last_id;
	struct space_export export[SPACE_EXPORTS];
	_Atomic uint32_t nevents;
	struct space_event event[SPACE_EVENTS];
	struct allocs table;
	_Atomic uint64_t freed; /* messages so far; number n, from 1, at n % SPACE_LOG */
	struct space_freed log[SPACE_LOG];
	struct space_slot slot[SPACE_DEVICES_MAX]; /* by ordinal */
};

struct space_shared *space_shared(void);

#endif
