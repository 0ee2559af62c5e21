#include "nn/input.h"
#include "base/must.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum rc
input_open(struct input *in, const char *path, struct err *err)
{
	struct stat st;
	enum rc rc = RC_OK;
	/* O_NONBLOCK: do not wait for a fifo's writer; a fifo is rejected below. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) != 0)
		rc = err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	else if (S_ISDIR(st.st_mode))
		rc = err_set(err, RC_FAILED, "%s: %s", path, strerror(EISDIR));
	else if (!S_ISREG(st.st_mode))
		rc = err_set(err, RC_FAILED, "%s: not a regular file", path);
	if (rc != RC_OK) {
		close(fd);
		return rc;
	}
	*in = (struct input){.name = path, .fd = fd, .nstored = (uint64_t)st.st_size};
	return RC_OK;
}

void
input_close(struct input *in)
{
	close(in->fd);
}

/* Make avail non-zero, unless the stored bytes have ended. */
static enum rc
input_fill(struct input *in, struct err *err)
{
	ssize_t n;

	if (in->avail > 0 || in->fd < 0)
		return RC_OK;
	do
		n = read(in->fd, in->chunk, sizeof in->chunk);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(err, RC_FAILED, "%s: %s", in->name, strerror(errno));
	in->next = in->chunk;
	in->avail = (size_t)n;
	return RC_OK;
}

enum rc
input_begin(struct input *in, struct err *err)
{
	enum rc rc = input_fill(in, err);

	if (rc != RC_OK)
		return rc;
	in->gzip = in->avail >= 2 && in->next[0] == 0x1f && in->next[1] == 0x8b;
	if (in->gzip)
		must(inflateInit2(&in->z, 15 + 16) == Z_OK);
	in->member_open = in->gzip;
	return RC_OK;
}

void
input_end(struct input *in)
{
	if (in->gzip)
		inflateEnd(&in->z);
}

/* Are enough bytes available without waiting: all of `want`, or with `some` at least one? */
static bool
enough(const struct input *in, bool some, size_t got, size_t want)
{
	return got == want || (some && got > 0 && in->avail == 0);
}

static enum rc
get_raw(struct input *in, bool some, uint8_t *dst, size_t want, size_t *got, struct err *err)
{
	enum rc rc;
	size_t n;

	for (*got = 0; !enough(in, some, *got, want); *got += n) {
		rc = input_fill(in, err);
		if (rc != RC_OK)
			return rc;
		n = in->avail < want - *got ? in->avail : want - *got;
		if (n == 0)
			break;
		memcpy(dst + *got, in->next, n);
		in->next += n;
		in->avail -= n;
	}
	return RC_OK;
}

/* One member has ended: another begins, or the bytes end, or garbage follows. */
static enum rc
next_member(struct input *in, struct err *err)
{
	enum rc rc = input_fill(in, err);

	in->member_open = false;
	if (rc != RC_OK || in->avail == 0)
		return rc;
	if (in->next[0] != 0x1f)
		return err_set(err, RC_BADDATA, "%s: trailing bytes after the gzip data", in->name);
	if (inflateReset(&in->z) != Z_OK)
		return err_set(err, RC_INTERNAL, "%s: zlib could not be reset", in->name);
	in->member_open = true;
	return RC_OK;
}

static enum rc
get_gzip(struct input *in, bool some, uint8_t *dst, size_t want, size_t *got, struct err *err)
{
	enum rc rc;
	int z;

	for (*got = 0; in->member_open && !enough(in, some, *got, want);) {
		rc = input_fill(in, err);
		if (rc != RC_OK)
			return rc;
		if (in->avail == 0) {
			if (in->nstored == 0)
				return err_set(err, RC_BADDATA, "%s: the gzip data are truncated",
					       in->name);
			return err_set(err, RC_BADDATA,
				       "%s: the gzip data are truncated after %" PRIu64
				       " stored bytes",
				       in->name, in->nstored);
		}
		in->z.next_in = (Bytef *)(uintptr_t)in->next;
		in->z.avail_in = in->avail < INPUT_CHUNK ? (uInt)in->avail : INPUT_CHUNK;
		in->z.next_out = dst + *got;
		in->z.avail_out = want - *got < INPUT_CHUNK ? (uInt)(want - *got) : INPUT_CHUNK;
		z = inflate(&in->z, Z_NO_FLUSH);
		must(z != Z_MEM_ERROR);
		in->avail -= (size_t)(in->z.next_in - in->next);
		in->next = in->z.next_in;
		*got = (size_t)(in->z.next_out - dst);
		if (z == Z_STREAM_END) {
			rc = next_member(in, err);
			if (rc != RC_OK)
				return rc;
		} else if (z != Z_OK && z != Z_BUF_ERROR) {
			return err_set(err, RC_BADDATA, "%s: corrupted gzip: %s", in->name,
				       in->z.msg ? in->z.msg : zError(z));
		}
	}
	return RC_OK;
}

enum rc
input_get(struct input *in, uint8_t *dst, size_t want, size_t *got, struct err *err)
{
	return (in->gzip ? get_gzip : get_raw)(in, false, dst, want, got, err);
}

enum rc
input_some(struct input *in, uint8_t *dst, size_t want, size_t *got, struct err *err)
{
	return (in->gzip ? get_gzip : get_raw)(in, true, dst, want, got, err);
}

/*
 * input_all - append everything, to the end, to *out, which the caller releases in any case.
 *
 * Does input_begin and input_end as well. RC_BADDATA: more than `limit` bytes, and the errors of input_get.
 */
static enum rc
input_all(struct input *in, size_t limit, struct buf *out, struct err *err)
{
	size_t first = out->len, got;
	enum rc rc = input_begin(in, err);

	if (rc != RC_OK)
		return rc;
	do {
		got = 0;
		if (out->len - first > limit) {
			rc = err_set(err, RC_BADDATA, "%s: more than the limit of %zu bytes",
				     in->name, limit);
			break;
		}
		must_reserve(out, INPUT_CHUNK);
		rc = input_get(in, (uint8_t *)out->data + out->len, INPUT_CHUNK, &got, err);
		out->len += got;
	} while (rc == RC_OK && got == INPUT_CHUNK);
	input_end(in);
	if (rc == RC_OK && out->len - first > limit)
		rc = err_set(err, RC_BADDATA, "%s: more than the limit of %zu bytes", in->name,
			     limit);
	return rc;
}

enum rc
input_file(const char *path, size_t limit, struct buf *out, struct err *err)
{
	struct input in;
	enum rc rc = input_open(&in, path, err);

	if (rc != RC_OK)
		return rc;
	rc = input_all(&in, limit, out, err);
	input_close(&in);
	return rc;
}
