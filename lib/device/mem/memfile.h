/*
 * memfile.h - the memory of a device that another process of this host and user owns.
 *
 * Offsets count from the device's lowest address. Thread-safe. Copies are not ordered with the
 * device's own work.
 */
#ifndef MEM_MEMFILE_H
#define MEM_MEMFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

struct memfile;

/*
 * memfile_open - open and check a device's memory file.
 *
 *	path, device_id, nbytes	as reported by the device; nbytes without the header
 *	out	[out] the caller's, to memfile_close
 *
 * RC_NOTFOUND: cannot be opened. RC_BADDATA: not a regular file, not this user's, not the memory of
 * that device in that size. RC_FAILED: no live device uses it (see memfile_lives), or this process
 * may not write files that long (RLIMIT_FSIZE, which would be a signal). RC_NOMEM.
 */
enum rc memfile_open(const char *path, uint64_t device_id, uint64_t nbytes, struct memfile **out,
		     struct err *err);

/* NULL is legal. */
void memfile_close(struct memfile *f);

/*
 * Return true if the device that used this file when it was opened still uses it: false once it has ended
 * in any way, also if another one has since started with the same file, or with a new one at the same path.
 * Two system calls.
 */
bool memfile_lives(const struct memfile *f);

uint64_t memfile_nbytes(const struct memfile *f);

/*
 * Copy [off, off + nbytes), which must lie inside. Missing blocks of the file are allocated, or the write
 * fails: a full disk is RC_NOMEM, never a SIGBUS. After a failure part of it may have been copied.
 */
enum rc memfile_write(struct memfile *f, uint64_t off, const void *src, uint64_t nbytes,
		      struct err *err);
enum rc memfile_read(struct memfile *f, void *dst, uint64_t off, uint64_t nbytes, struct err *err);

/* From one file to another one. Also RC_FAILED: the source cannot be mapped. */
enum rc memfile_copy(struct memfile *dst, uint64_t dst_off, struct memfile *src, uint64_t src_off,
		     uint64_t nbytes, struct err *err);

/*
 * The memory at [off, off + nbytes), which must lie inside, for this process to read and write: its blocks are
 * allocated. Valid as long as the file is open. NULL: no room for it on the disk, or the kernel cannot say.
 */
void *memfile_window(struct memfile *f, uint64_t off, uint64_t nbytes);

/*
 * memfile_map - map a part of the file, of the memory or of the device's own, by its offset in the file.
 * The device has reported the offset, so its blocks exist. Release it with memfile_unmap.
 *
 * RC_BADDATA: it is outside. RC_NOMEM.
 */
enum rc memfile_map(const struct memfile *f, uint64_t offset, uint64_t nbytes, void **out,
		    struct err *err);
void memfile_unmap(void *p, uint64_t nbytes);

#endif
