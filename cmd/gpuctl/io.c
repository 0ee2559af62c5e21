#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/must.h"

static enum rc
failed(const char *name, struct err *err)
{
	return err_set(err, RC_FAILED, "%s: %s", name, strerror(errno));
}

enum rc
io_read_some(int fd, const char *name, void *dst, size_t nbytes, size_t *got, struct err *err)
{
	ssize_t k;

	do
		k = read(fd, dst, nbytes);
	while (k < 0 && errno == EINTR);
	if (k < 0)
		return failed(name, err);
	*got = (size_t)k;
	return RC_OK;
}

enum rc
io_read(int fd, const char *name, void *dst, size_t nbytes, size_t *got, struct err *err)
{
	size_t n = 0, k = 1;
	enum rc rc = RC_OK;

	while (rc == RC_OK && n < nbytes && k) {
		rc = io_read_some(fd, name, (char *)dst + n, nbytes - n, &k, err);
		n += rc == RC_OK ? k : 0;
	}
	if (rc == RC_OK)
		*got = n;
	return rc;
}

void
io_widen(int fd)
{
	fcntl(fd, F_SETPIPE_SZ, (int)IO_PIECE);
}

/* The first read's size: the rest of a file; for other streams a piece. */
static size_t
first_room(int fd)
{
	off_t at = lseek(fd, 0, SEEK_CUR);
	struct stat st;

	if (at < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= at ||
	    (uintmax_t)(st.st_size - at) > SIZE_MAX / 4)
		return IO_PIECE;
	return (size_t)(st.st_size - at) + 1; /* one more byte finds the end */
}

enum rc
io_read_all(int fd, const char *name, struct buf *out, struct err *err)
{
	size_t room, got, more = first_room(fd);
	enum rc rc;

	io_widen(fd);
	do {
		must_reserve(out, more);
		room = out->cap - out->len;
		rc = io_read(fd, name, out->data + out->len, room, &got, err);
		if (rc == RC_OK)
			out->len += got;
		more = IO_PIECE;
	} while (rc == RC_OK && got == room);
	return rc;
}

enum rc
io_write(int fd, const char *name, const void *src, size_t nbytes, struct err *err)
{
	return file_write(fd, src, nbytes) ? RC_OK : failed(name, err);
}
