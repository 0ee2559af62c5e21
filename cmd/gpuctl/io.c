#include "io.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static enum rc
failed(const char *name, struct err *err)
{
	return err_set(err, RC_FAILED, "%s: %s", name, strerror(errno));
}

enum rc
io_read(int fd, const char *name, void *dst, size_t nbytes, size_t *got, struct err *err)
{
	size_t n = 0;
	ssize_t k;

	while (n < nbytes) {
		k = read(fd, (char *)dst + n, nbytes - n);
		if (k == 0)
			break;
		if (k < 0 && errno != EINTR)
			return failed(name, err);
		n += k > 0 ? (size_t)k : 0;
	}
	*got = n;
	return RC_OK;
}

enum rc
io_read_all(int fd, const char *name, struct buf *out, struct err *err)
{
	size_t room, got;
	enum rc rc;

	do {
		if (!buf_reserve(out, IO_PIECE))
			return err_set(err, RC_NOMEM, "%s: out of memory after %zu bytes", name,
				       out->len);
		room = out->cap - out->len;
		rc = io_read(fd, name, out->data + out->len, room, &got, err);
		if (rc == RC_OK)
			out->len += got;
	} while (rc == RC_OK && got == room);
	return rc;
}

enum rc
io_write(int fd, const char *name, const void *src, size_t nbytes, struct err *err)
{
	const char *p = src;
	ssize_t k;

	while (nbytes) {
		k = write(fd, p, nbytes);
		if (k < 0 && errno != EINTR)
			return failed(name, err);
		p += k > 0 ? k : 0;
		nbytes -= k > 0 ? (size_t)k : 0;
	}
	return RC_OK;
}
