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
 * memfile_open - trust a file, or not.
 *
 *	path, device_id, nbytes	as the device says they are; nbytes without the header
 *	out	[out] the caller's, to memfile_close
 *
 * RC_NOTFOUND: cannot be opened. RC_BADDATA: not a regular file, not this user's, not the memory of
 * that device in that size. RC_FAILED: no device lives in it (see memfile_lives), or this process
 * may not write files that long (RLIMIT_FSIZE, which would be a signal). RC_NOMEM.
 */
enum rc memfile_open(const char *path, uint64_t device_id, uint64_t nbytes, struct memfile **out,
		     struct err *err);

/* NULL is legal. */
void memfile_close(struct memfile *f);

/*
 * Whether the device that had this very file for its memory when it was opened has it still: false
 * once it has ended, however it did, also when another one has since begun with the same file, or
 * with a new one at the same path. Two system calls.
 */
bool memfile_lives(const struct memfile *f);

uint64_t memfile_nbytes(const struct memfile *f);

/*
 * Copy [off, off + nbytes), which must lie inside. Blocks that the file lacks are made, or the
 * write fails: a full disk is RC_NOMEM, never a SIGBUS. After a failure part of it may have been
 * copied.
 */
enum rc memfile_write(struct memfile *f, uint64_t off, const void *src, uint64_t nbytes,
		      struct err *err);
enum rc memfile_read(struct memfile *f, void *dst, uint64_t off, uint64_t nbytes, struct err *err);

/* From one file to another one. Also RC_FAILED: the source cannot be mapped. */
enum rc memfile_copy(struct memfile *dst, uint64_t dst_off, struct memfile *src, uint64_t src_off,
		     uint64_t nbytes, struct err *err);

/*
 * memfile_map - map a part of the file, of the memory or of the device's own, by its offset in the file. The
 * device has told it, so its blocks are there. memfile_unmap takes what memfile_map gave.
 *
 * RC_BADDATA: it is outside. RC_NOMEM.
 */
enum rc memfile_map(const struct memfile *f, uint64_t offset, uint64_t nbytes, void **out,
		    struct err *err);
void memfile_unmap(void *p, uint64_t nbytes);

#endif
