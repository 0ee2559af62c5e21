/*
 * io.h - reading and writing whole streams with few system calls.
 */
#ifndef GPUCTL_IO_H
#define GPUCTL_IO_H

#include <stddef.h>

#include "base/buf.h"
#include "base/rc.h"

#define IO_PIECE ((size_t)1 << 20) /* bytes moved at a time */

/* io_widen - for large transfers: make room for a piece in a pipe, so that its two ends alternate once per
 * piece, not every 64 KiB. A stream that is not a pipe, or cannot grow, stays as it is. */
void io_widen(int fd);

/*
 * io_read - fill dst, or less of it at the end of the stream.
 *
 *	name	of the stream, for errors
 *	got	[out] bytes read; less than nbytes only at the end
 */
enum rc io_read(int fd, const char *name, void *dst, size_t nbytes, size_t *got, struct err *err);

/* Read at least one byte and at most nbytes. *got 0: the stream is at its end. */
enum rc io_read_some(int fd, const char *name, void *dst, size_t nbytes, size_t *got,
		     struct err *err);

/* Append the rest of the stream to *out; memory beyond the bytes read is only reserved. */
enum rc io_read_all(int fd, const char *name, struct buf *out, struct err *err);

enum rc io_write(int fd, const char *name, const void *src, size_t nbytes, struct err *err);

#endif
