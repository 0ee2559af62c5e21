/*
 * devmem.h - one device's memory: a MAP_SHARED file, an address space, an allocator.
 *
 * Device addresses run from devmem_min to devmem_max (exclusive); 0 is never an address. The file
 * begins with one page of header (magic, device id, size, incarnation) and then the memory, so that
 * another process that maps it can check whose memory it is, and whether the same process has it
 * still. Behind all is the table of allocations: they outlive the process, however it ends.
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
 * also when its device was killed: each allocation is there or it is not. A foreign one, one of an
 * older format, and one whose table of allocations is damaged are refused (RC_BADDATA), one in use
 * (locked) is refused (RC_BUSY), and each is left as it was. An empty file counts as new.
 *
 * The file's blocks are reserved (posix_fallocate) when a range is first allocated or asked for, so
 * a device costs the host what it uses, and a full disk is an error there (RC_NOMEM), never a
 * SIGBUS later. Where RLIMIT_FSIZE may bite, ignore SIGXFSZ first. On error no file is left that
 * was not there before.
 */
enum rc devmem_open(const char *path, uint64_t device_id, uint64_t nbytes, struct devmem **out,
		    struct err *err);

/* The device id that a memory file was made for; 0 when it is no memory file, or not there. */
uint64_t devmem_file_id(const char *path);

enum devmem_fate { DEVMEM_PERSIST_FILE, DEVMEM_UNLINK_FILE };

/* Unmap, close, and unlink if asked. devmem_close(NULL, ..) is legal. */
void devmem_close(struct devmem *m, enum devmem_fate fate);

/*
 * devmem_mark - say in the file that it may be removed when the device has ended, however it did (sweep.h).
 *
 *	coordinator	that may wait for the device, at most 255 bytes; NULL: none
 *
 * RC_FAILED, RC_NOMEM: it cannot be written.
 */
enum rc devmem_mark(struct devmem *m, const char *coordinator, struct err *err);

const char *devmem_path(const struct devmem *m);
uint64_t devmem_min(const struct devmem *m);
uint64_t devmem_max(const struct devmem *m);

/* Bytes in allocations now, in whole DEVMEM_ALIGN units, and how many allocations (may be NULL). */
uint64_t devmem_used(struct devmem *m, uint64_t *nallocs);

/*
 * devmem_range - the host pointer of [addr, addr + nbytes), which can be touched from then on.
 *
 *	what	what the range is, for the sentence: "send buffer"
 *	nbytes	may be 0 at any address inside or at the end
 *
 * RC_INVAL: some byte of it is outside. RC_NOMEM: the file cannot grow.
 */
enum rc devmem_range(const struct devmem *m, const char *what, uint64_t addr, uint64_t nbytes,
		     void **out, struct err *err);

/* The same without a sentence: NULL on error. */
void *devmem_at(const struct devmem *m, uint64_t addr, uint64_t nbytes);

/* First fit, address order, coalescing on free. nbytes 0 takes one unit. RC_NOMEM says how much is
 * free and the largest hole. RC_BUSY: while another device's memory is taken over. */
enum rc devmem_alloc(struct devmem *m, uint64_t nbytes, uint64_t *addr, struct err *err);

/* The same, with whose it is (not 0) written beside it. */
enum rc devmem_alloc_for(struct devmem *m, uint64_t nbytes, uint64_t owner, uint64_t *addr,
			 struct err *err);

/* RC_INVAL: addr is not the start of an allocation (also: freed twice). RC_FAILED, RC_NOMEM: it
 * cannot be struck out in the file, and stays. */
enum rc devmem_free(struct devmem *m, uint64_t addr, struct err *err);

/* Whether [addr, addr + nbytes) is all in allocations; nothing of nothing is. */
bool devmem_is_allocated(struct devmem *m, uint64_t addr, uint64_t nbytes);

typedef void devmem_owner_fn(void *arg, uint64_t addr, uint64_t nbytes, uint64_t owner);

/* Tell of each allocation that has an owner; fn calls nothing of the memory. RC_FAILED, RC_BADDATA:
 * the file cannot be read back. */
enum rc devmem_owners(struct devmem *m, devmem_owner_fn *fn, void *arg, struct err *err);

/*
 * What the device keeps for itself in the same file, out of the users' reach: scratch, and what it
 * shares with its peers. Page-aligned, not cleared. It ends with the process. RC_NOMEM.
 */
enum rc devmem_own_alloc(struct devmem *m, uint64_t nbytes, void **out, struct err *err);
void devmem_own_free(struct devmem *m, void *p); /* NULL is legal */

/*
 * Areas of the same kind that outlive the process, as allocations do. The first page of a new one is
 * zero. devmem_persist_next: the area behind `after` (NULL: the first) in no order, NULL when there is
 * none. RC_NOMEM; devmem_persist_free also as devmem_free.
 */
enum rc devmem_persist_alloc(struct devmem *m, uint64_t nbytes, void **out, struct err *err);
enum rc devmem_persist_free(struct devmem *m, void *p, struct err *err); /* NULL is legal */
void *devmem_persist_next(struct devmem *m, const void *after, uint64_t *nbytes);

/* The device address of a pointer into the memory. */
uint64_t devmem_addr(const struct devmem *m, const void *p);

/* Where in the file a pointer into the memory points; 0: it does not. */
uint64_t devmem_offset(const struct devmem *m, const void *p);

/* Which file it is: together with the host, no two are alike. */
void devmem_inode(const struct devmem *m, uint64_t *dev, uint64_t *inode);

/* A number that no other opening of the file had; it is in the header. Never 0. */
uint64_t devmem_incarnation(const struct devmem *m);

/*
 * devmem_recorder - make room for a recorder's area behind all else in the file, and map it. Once.
 *
 *	nbytes	whole pages; 0: the file shall have none
 *	area	[out] the memory's, until devmem_close. Contents are those of the device that had the file before,
 *		if its area was as large, else zeros
 *
 * Only what devmem_recorder_reserve has made safe may be touched. RC_NOMEM, RC_FAILED: there is no area then,
 * and all else works on.
 */
enum rc devmem_recorder(struct devmem *m, uint64_t nbytes, void **area, struct err *err);

/* Give [offset, offset + nbytes) of the area its blocks; false: there is no room for them. `m` is a struct devmem. */
bool devmem_recorder_reserve(void *m, uint64_t offset, uint64_t nbytes);

/*
 * devmem_recorder_read - a copy of bytes of the area as they are now, the caller's to free.
 *
 *	n	[out] how many: those behind the area's end are left out
 *
 * RC_NOMEM, RC_FAILED; RC_NOTFOUND: there is no area.
 */
enum rc devmem_recorder_read(const struct devmem *m, uint64_t offset, uint64_t nbytes, void **out,
			     size_t *n, struct err *err);

/* Whose memory to take over, and in which file. */
struct devmem_source {
	const char *path;
	uint64_t device_id;
	uint64_t dev, inode; /* as devmem_inode said there */
};

/*
 * devmem_adopt - take over the memory of a device that is gone, or frozen: contents, allocations at
 * the same addresses with their owners, and persistent areas. It takes as long as copying what is in the
 * file; meanwhile nothing can be allocated here.
 *
 *	stop	ends it when it becomes true, with RC_ABORTED
 *
 * RC_INVAL: this memory has allocations of its own, or ends before theirs do. RC_BUSY: it takes over
 * another one already. RC_NOTFOUND: no such file. RC_BADDATA: not that file, not this user's, not
 * the memory of that device, or damaged. RC_NOMEM, RC_FAILED. On error nothing is allocated, and what
 * was in the memory is undefined.
 */
enum rc devmem_adopt(struct devmem *m, const struct devmem_source *from, const atomic_bool *stop,
		     struct err *err);

#endif
