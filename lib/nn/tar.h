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
	uint64_t left;	  /* bytes of the file that is at hand which nobody took */
	uint64_t pad;	  /* ... and behind it */
};

struct tar_file {
	char name[101];
	uint64_t nbytes;
};

/* Whether bytes, unpacked, begin as an archive; 512 of them at least. */
bool tar_is(const void *bytes, size_t nbytes);

/*
 * tar_next - the next regular file; the rest of the one before is skipped.
 *
 * *more [out] false: there is none, and the input was read to its end. Errors: RC_BADDATA "NAME:
 * reason" damaged, cut short; those of input_get. Checked by: tests/unit/nn/t_tar.c
 */
enum rc tar_next(struct tar *t, struct tar_file *file, bool *more, struct err *err);

/* Append that file's bytes to *out, which the caller releases in any case. RC_BADDATA: more than `limit`, cut
 * short; RC_NOMEM. Memory grows with what is there. */
enum rc tar_take(struct tar *t, uint64_t limit, struct buf *out, struct err *err);

#endif
