/*
 * devmem.h - one device's memory: a MAP_SHARED file, an address space, an allocator.
 *
 * Device addresses run from devmem_min to devmem_max (exclusive); 0 is never an address. The file
 * begins with one page of header (magic, device id, size, incarnation) and then the memory, so that another
 * process that maps it can check the owner, and whether the same process still has it. The table of
 * allocations follows: allocations outlive the process, however it ends.
 *
 * Thread-safe: one lock for the allocator and for reserving the file's blocks.
 */
#ifndef MEM_DEVMEM_H
#define MEM_DEVMEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

struct devmem;

#define DEVMEM_ALIGN 256 /* every allocation's address is a multiple, as with cudaMalloc */

/*
 * devmem_open - create the file and map it.
 *
 *	path	created with mode 0600, or NULL: /dev/shm/gpusim-<uid>-<id in hex>
 *	nbytes	usable memory, at least 1; rounded up to 4096
 *
 * An existing file of the same id and size is taken over, with its contents and its allocations,
 * also if its device was killed: each allocation is whole or absent. A foreign file, one of an older
 * format, and one with a damaged table of allocations are rejected (RC_BADDATA), as is one in use (locked,
 * RC_BUSY); a rejected file is unchanged. An empty file counts as new.
 *
 * The file's blocks are reserved (posix_fallocate) when a range is first allocated or asked for, so
 * a device costs the host what it uses, and a full disk is an error then (RC_NOMEM), never a SIGBUS later.
 * If RLIMIT_FSIZE may apply, ignore SIGXFSZ first. On error no new file is left.
 */
enum rc devmem_open(const char *path, uint64_t device_id, uint64_t nbytes, struct devmem **out,
		    struct err *err);

/* The device id in a memory file's header; 0: not a memory file, or not found. */
uint64_t devmem_file_id(const char *path);

enum devmem_fate { DEVMEM_PERSIST_FILE, DEVMEM_UNLINK_FILE };

/* Unmap, close, and unlink if asked. devmem_close(NULL, ..) is legal. */
void devmem_close(struct devmem *m, enum devmem_fate fate);

/*
 * devmem_mark - mark the file as removable once the device has ended in any way (sweep.h).
 *
 *	coordinator	that may wait for the device, at most 255 bytes; NULL: none
 *
 * RC_FAILED, RC_NOMEM: it cannot be written.
 */
enum rc devmem_mark(struct devmem *m, const char *coordinator, struct err *err);

const char *devmem_path(const struct devmem *m);
uint64_t devmem_min(const struct devmem *m);
uint64_t devmem_max(const struct devmem *m);

/* Allocated bytes, in whole DEVMEM_ALIGN units, and the number of allocations (may be NULL). */
uint64_t devmem_used(struct devmem *m, uint64_t *nallocs);

/*
 * devmem_range - the host pointer of [addr, addr + nbytes), which can be accessed from then on.
 *
 *	what	the range's name in messages: "send buffer"
 *	nbytes	may be 0 at any address inside or at the end
 *
 * RC_INVAL: some byte of it is outside. RC_NOMEM: the file cannot grow.
 */
enum rc devmem_range(const struct devmem *m, const char *what, uint64_t addr, uint64_t nbytes,
		     void **out, struct err *err);

/* As devmem_range, without a message: NULL on error. */
void *devmem_at(const struct devmem *m, uint64_t addr, uint64_t nbytes);

/* First fit, address order, coalescing on free. nbytes 0 takes one unit. RC_NOMEM reports the free bytes
 * and the largest hole. RC_BUSY: another device's memory is being taken over. */
enum rc devmem_alloc(struct devmem *m, uint64_t nbytes, uint64_t *addr, struct err *err);

/* As devmem_alloc, and record the owner (not 0). */
enum rc devmem_alloc_for(struct devmem *m, uint64_t nbytes, uint64_t owner, uint64_t *addr,
			 struct err *err);

/* RC_INVAL: addr is not the start of an allocation (also: freed twice). RC_FAILED, RC_NOMEM: it cannot be
 * removed from the file's table, and stays allocated. */
enum rc devmem_free(struct devmem *m, uint64_t addr, struct err *err);

/* Return true if all of [addr, addr + nbytes) is allocated; nbytes 0: true. */
bool devmem_is_allocated(struct devmem *m, uint64_t addr, uint64_t nbytes);

typedef void devmem_owner_fn(void *arg, uint64_t addr, uint64_t nbytes, uint64_t owner);

/* Call fn for each allocation with an owner; fn must not call devmem functions. RC_FAILED, RC_BADDATA: the
 * file cannot be read back. */
enum rc devmem_owners(struct devmem *m, devmem_owner_fn *fn, void *arg, struct err *err);

/*
 * The device's own memory in the same file, out of the users' reach: scratch, and data shared with its
 * peers. Page-aligned, not cleared. It ends with the process. RC_NOMEM.
 */
enum rc devmem_own_alloc(struct devmem *m, uint64_t nbytes, void **out, struct err *err);
void devmem_own_free(struct devmem *m, void *p); /* NULL is legal */

/*
 * Areas of the same kind that outlive the process, as allocations do. The first page of a new one is
 * zero. devmem_persist_next: the area after `after` (NULL: the first) in any order; NULL: no more.
 * RC_NOMEM; devmem_persist_free also as devmem_free.
 */
enum rc devmem_persist_alloc(struct devmem *m, uint64_t nbytes, void **out, struct err *err);
enum rc devmem_persist_free(struct devmem *m, void *p, struct err *err); /* NULL is legal */
void *devmem_persist_next(struct devmem *m, const void *after, uint64_t *nbytes);

/* The device address of a pointer into the memory. */
uint64_t devmem_addr(const struct devmem *m, const void *p);

/* The file offset of a pointer into the memory; 0: it is not one. */
uint64_t devmem_offset(const struct devmem *m, const void *p);

/* The file's device and inode, which with the host identify it. */
void devmem_inode(const struct devmem *m, uint64_t *dev, uint64_t *inode);

/* A number unique to this opening of the file; it is in the header. Never 0. */
uint64_t devmem_incarnation(const struct devmem *m);

/*
 * devmem_recorder - make room for a recorder's area at the end of the file, and map it. Once.
 *
 *	nbytes	whole pages; 0: remove it
 *	area	[out] the memory's, until devmem_close. Contents are those of the device that had the file before,
 *		if its area was as large, else zeros
 *
 * Only parts that devmem_recorder_reserve has reserved may be accessed. RC_NOMEM, RC_FAILED: there is then
 * no area, and everything else works.
 */
enum rc devmem_recorder(struct devmem *m, uint64_t nbytes, void **area, struct err *err);

/* Reserve the blocks of [offset, offset + nbytes) of the area; false: no room. `m` is a struct devmem. */
bool devmem_recorder_reserve(void *m, uint64_t offset, uint64_t nbytes);

/*
 * devmem_recorder_read - copy bytes of the area; the caller frees the copy.
 *
 *	n	[out] their number: bytes past the area's end are left out
 *
 * RC_NOMEM, RC_FAILED; RC_NOTFOUND: there is no area.
 */
enum rc devmem_recorder_read(const struct devmem *m, uint64_t offset, uint64_t nbytes, void **out,
			     size_t *n, struct err *err);

/* The device whose memory to take over, and its file. */
struct devmem_source {
	const char *path;
	uint64_t device_id;
	uint64_t dev, inode; /* from devmem_inode there */
};

/*
 * devmem_adopt - take over the memory of a device that has ended or is frozen: contents, allocations at
 * the same addresses with their owners, and persistent areas. It takes as long as copying what is in the
 * file; meanwhile nothing can be allocated here.
 *
 *	stop	ends the copy with RC_ABORTED when it becomes true
 *
 * RC_INVAL: this memory has allocations of its own, or ends before theirs do. RC_BUSY: it is already taking
 * over another one. RC_NOTFOUND: no such file. RC_BADDATA: not that file, not this user's, not the memory
 * of that device, or damaged. RC_NOMEM, RC_FAILED. On error nothing is allocated, and the memory's contents
 * are undefined.
 */
enum rc devmem_adopt(struct devmem *m, const struct devmem_source *from, const atomic_bool *stop,
		     struct err *err);

#endif
