/*
 * devmem.h - one device's memory: a MAP_SHARED file, an address space, an allocator.
 *
 * Device addresses run from devmem_min to devmem_max (exclusive); 0 is never an address. The file
 * begins with one page of header (magic, device id, size) and then the memory, so that another
 * process that maps it can check whose memory it is.
 *
 * Thread-safe: one lock for the allocator and for reserving the file's blocks.
 */
#ifndef MEM_DEVMEM_H
#define MEM_DEVMEM_H

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
 * An existing file of the same id and size is taken over: its contents survive, its allocations
 * do not. A foreign one is refused (RC_BADDATA), one in use (locked) is refused (RC_BUSY), and
 * either is left as it was. An empty file counts as new.
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

enum devmem_keep { DEVMEM_KEEP_FILE, DEVMEM_UNLINK_FILE };

/* Unmap, close, and unlink if asked. devmem_close(NULL, ..) is legal. */
void devmem_close(struct devmem *m, enum devmem_keep keep);

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
 * free and the largest hole. */
enum rc devmem_alloc(struct devmem *m, uint64_t nbytes, uint64_t *addr, struct err *err);

/* RC_INVAL: addr is not the start of an allocation (also: freed twice). */
enum rc devmem_free(struct devmem *m, uint64_t addr, struct err *err);

/*
 * What the device keeps for itself in the same file, out of the users' reach: scratch, and what it
 * shares with its peers. Page-aligned, not cleared. RC_NOMEM.
 */
enum rc devmem_own_alloc(struct devmem *m, uint64_t nbytes, void **out, struct err *err);
void devmem_own_free(struct devmem *m, void *p); /* NULL is legal */

/* Where in the file a pointer into the memory points; 0: it does not. */
uint64_t devmem_offset(const struct devmem *m, const void *p);

/* Which file it is: together with the host, no two are alike. */
void devmem_inode(const struct devmem *m, uint64_t *dev, uint64_t *inode);

#endif
