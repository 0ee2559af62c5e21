/*
 * tar.h - the files of a tar archive, one after another, from a file or a pipe; packed by gzip or not.
 *
 * ustar, with GNU's and pax's headers between files, which are skipped: names of 100 bytes and more may
 * show cut. Source: POSIX.1-2001, pax, "ustar Interchange Format".
 */
#ifndef NN_TAR_H
#define NN_TAR_H

#include "nn/input.h"

struct tar {
	struct input *in; /* begun and ended by the caller */
	uint64_t left;	  /* bytes of the current file that were not taken */
	uint64_t pad;	  /* padding after it */
};

struct tar_file {
	char name[101];
	uint64_t nbytes;
};

/* Return true if bytes, unpacked, begin as an archive; 512 of them at least. */
bool tar_is(const void *bytes, size_t nbytes);

/*
 * tar_next - the next regular file; the rest of the one before is skipped.
 *
 * *more [out] false: no file is left, and the input was read to its end. Errors: RC_BADDATA "NAME:
 * reason" damaged, truncated; those of input_get.
 * Checked by: tests/unit/nn/t_tar.c
 */
enum rc tar_next(struct tar *t, struct tar_file *file, bool *more, struct err *err);

/* Append that file's bytes to *out, which the caller releases in any case. RC_BADDATA: more than
 * `limit`, truncated. Memory grows with the bytes that are read. */
enum rc tar_take(struct tar *t, uint64_t limit, struct buf *out, struct err *err);

#endif
