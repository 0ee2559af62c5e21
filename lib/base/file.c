#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEMP_TRIES = 100 };

enum rc
file_text(const char *path, const char *what, struct buf *out, struct err *err)
{
	return file_text_upto(path, what, FILE_TEXT_MAX, out, err);
}

const char *
file_odd_text(const char *text, size_t n)
{
	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		return "a byte order mark";
	if (n >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0 ||
		       (n % 2 == 0 && !text[0] != !text[1])))
		return "UTF-16";
	return NULL;
}

/* At most a piece more than `most` bytes, with room for another. */
static enum rc
read_upto(const char *path, size_t most, struct buf *out, struct err *err)
{
	FILE *f = fopen(path, "re");
	size_t n, first = out->len;
	enum rc rc = RC_OK;

	if (!f)
		return err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	do {
		if (!buf_reserve(out, 65536)) {
			rc = err_set(err, RC_NOMEM, "%s: out of memory", path);
			break;
		}
		n = fread(out->data + out->len, 1, 65535, f);
		out->len += n;
	} while (n > 0 && out->len - first <= most);
	if (rc == RC_OK && ferror(f))
		rc = err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	fclose(f);
	return rc;
}

enum rc
file_bytes(const char *path, size_t most, struct buf *out, struct err *err)
{
	size_t first = out->len;
	enum rc rc = read_upto(path, most, out, err);

	if (rc == RC_OK && out->len - first > most)
		return err_set(err, RC_BADDATA, "%s: too large", path);
	if (rc == RC_OK)
		out->data[out->len] = '\0';
	return rc;
}

enum rc
file_text_upto(const char *path, const char *what, size_t most, struct buf *out, struct err *err)
{
	size_t first = out->len;
	const char *odd;
	enum rc rc = read_upto(path, most, out, err);

	odd = rc == RC_OK ? file_odd_text(out->data + first, out->len - first) : NULL;
	if (odd && strcmp(odd, "UTF-16") == 0) {
		rc = err_set(err, RC_BADDATA, "%s: not %s: it is UTF-16; save it as UTF-8", path,
			     what);
	} else if (odd) { /* the mark means nothing in UTF-8 */
		out->len -= 3;
		memmove(out->data + first, out->data + first + 3, out->len - first);
	}
	if (rc == RC_OK && memchr(out->data + first, 0, out->len - first))
		rc = err_set(err, RC_BADDATA, "%s: not %s", path, what);
	else if (rc == RC_OK && out->len - first > most)
		rc = err_set(err, RC_BADDATA, "%s: not %s: more than %zu KiB", path, what,
			     most >> 10);
	if (rc == RC_OK)
		out->data[out->len++] = '\0';
	return rc;
}

bool
file_write(int fd, const void *bytes, size_t nbytes)
{
	const char *p = bytes;
	ssize_t n;

	for (; nbytes > 0; p += n, nbytes -= (size_t)n) {
		n = write(fd, p, nbytes);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n < 0)
			return false;
	}
	return true;
}

bool
file_write_at(int fd, const void *bytes, size_t nbytes, uint64_t at)
{
	const char *p = bytes;

	for (size_t done = 0; done < nbytes;) {
		ssize_t n = pwrite(fd, p + done, nbytes - done, (off_t)(at + done));

		if (n == 0)
			errno = ENOSPC;
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

ssize_t
file_read_at(int fd, void *to, size_t nbytes, uint64_t at)
{
	size_t done = 0;
	ssize_t n = 1;

	while (done < nbytes && n != 0) {
		n = pread(fd, (char *)to + done, nbytes - done, (off_t)(at + done));
		if (n < 0 && errno != EINTR)
			return -1;
		done += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)done;
}

/* The path to rename to, malloc'ed: links followed, as the rename would replace the link. */
static enum rc
resolve(const char *path, char **target, struct err *err)
{
	struct stat st;
	char *p;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return err_set(err, RC_FAILED, "%s: not a regular file", path);
	p = realpath(path, NULL);
	if (!p && errno == ENOENT)
		p = strdup(path);
	if (!p)
		return err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	*target = p;
	return RC_OK;
}

/* Create a new file beside target; *temp is malloc'ed. Skip names left by a killed process. */
static enum rc
open_temp(const char *target, char **temp, int *fd, struct err *err)
{
	char *p;
	int new;

	for (int i = 0; i < TEMP_TRIES; i++) {
		if (asprintf(&p, "%s.%ld-%d.tmp", target, (long)getpid(), i) < 0)
			return err_set(err, RC_NOMEM, "%s: out of memory", target);
		new = open(p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (new >= 0) {
			*temp = p;
			*fd = new;
			return RC_OK;
		}
		free(p);
		if (errno != EEXIST)
			break;
	}
	return err_set(err, RC_FAILED, "%s: cannot create a file beside it: %s", target,
		       strerror(errno));
}

/* The new name is made durable as well; a file system that cannot do that loses nothing. */
static void
sync_folder(char *file)
{
	char *slash = strrchr(file, '/');
	int fd;

	if (slash)
		slash[slash == file] = '\0';
	fd = open(slash ? file : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		(void)fsync(fd);
		close(fd);
	}
}

enum rc
file_new_open(const char *path, struct file_new *f, struct err *err)
{
	struct file_new new = {.fd = -1};
	enum rc rc = resolve(path, &new.target, err);

	if (rc == RC_OK)
		rc = open_temp(new.target, &new.temp, &new.fd, err);
	if (rc == RC_OK)
		*f = new;
	else
		free(new.target);
	return rc;
}

enum rc
file_new_close(struct file_new *f, bool good, struct err *err)
{
	int errnum = good ? 0 : errno;
	enum rc rc = RC_OK;

	if (good && fsync(f->fd) != 0)
		errnum = errno;
	if (close(f->fd) != 0 && errnum == 0)
		errnum = errno;
	if (good && errnum == 0 && rename(f->temp, f->target) != 0)
		errnum = errno;
	if (good && errnum == 0) {
		sync_folder(f->target);
	} else {
		rc = err_set(err, RC_FAILED, "%s: %s", f->target, strerror(errnum));
		unlink(f->temp);
	}
	free(f->target);
	free(f->temp);
	*f = (struct file_new){.fd = -1};
	return rc;
}

enum rc
file_new_check(const char *path, struct err *err)
{
	struct file_new f;
	enum rc rc = file_new_open(path, &f, err);

	if (rc != RC_OK)
		return rc;
	close(f.fd);
	unlink(f.temp);
	free(f.target);
	free(f.temp);
	return RC_OK;
}

enum rc
file_replace(const char *path, const void *bytes, size_t nbytes, struct err *err)
{
	struct file_new f;
	enum rc rc = file_new_open(path, &f, err);

	return rc == RC_OK ? file_new_close(&f, file_write(f.fd, bytes, nbytes), err) : rc;
}
