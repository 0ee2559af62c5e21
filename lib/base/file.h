/*
 * file.h - read a small text file; write a file completely or not at all.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/rc.h"

#define FILE_TEXT_MAX (4u << 20)

/*
 * file_text - append a file's bytes and a NUL to *out, which the caller releases in any case.
 *
 *	what	completes "PATH: not ...": "a configuration file"
 *
 * RC_FAILED it cannot be read, RC_BADDATA more than FILE_TEXT_MAX bytes, or a NUL among them;
 * RC_NOMEM.
 */
enum rc file_text(const char *path, const char *what, struct buf *out, struct err *err);

/* The same, of at most `most` bytes. */
enum rc file_text_upto(const char *path, const char *what, size_t most, struct buf *out,
		       struct err *err);

/* Append a file's bytes, and a NUL, which len does not count. RC_FAILED, RC_BADDATA more than `most`, RC_NOMEM. */
enum rc file_bytes(const char *path, size_t most, struct buf *out, struct err *err);

/* A file that is being written beside the one it is to replace. */
struct file_new {
	char *target, *temp;
	int fd;
};

/*
 * file_new_open - begin a file that replaces the one at path when all of it is written.
 *
 *	f	[out] written to through f->fd; ended by file_new_close
 *
 * A link is followed. RC_FAILED the path is not a regular file, or none can be made; RC_NOMEM.
 */
enum rc file_new_open(const char *path, struct file_new *f, struct err *err);

/* good: all is written: sync and rename it, else remove it. RC_FAILED: the errno of a failed write (not
 * good), or of this call; the old file is unchanged. */
enum rc file_new_close(struct file_new *f, bool good, struct err *err);

/* Check that file_new_open would succeed, without changing the file. The same errors. */
enum rc file_new_check(const char *path, struct err *err);

/* All bytes, at the end or from an offset on; false with errno. */
bool file_write(int fd, const void *bytes, size_t nbytes);
bool file_write_at(int fd, const void *bytes, size_t nbytes, uint64_t at);

/* As many bytes as there are from an offset on, up to nbytes. Returns their number; -1 with errno. */
ssize_t file_read_at(int fd, void *to, size_t nbytes, uint64_t at);

/* Open, write and close in one. */
enum rc file_replace(const char *path, const void *bytes, size_t nbytes, struct err *err);

/* The unsupported beginning of a text: "UTF-16", or "a byte order mark"; NULL: none. */
const char *file_odd_text(const char *text, size_t nbytes);

#endif
