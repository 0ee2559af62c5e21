/*
 * Open a device's memory file: ownership and stages.
 *
 * Design notes. The holder of the lock of the file at the path owns it; the lock is taken first and
 * released last, and a file is only written or unlinked under it. It is an open file description lock,
 * because others can test it without trying to take it. The header's state is READY once the file has its
 * size, so a device killed while it was creating the file leaves one that the next device of the same id
 * completes. The header is written whole by each device that takes the file, with its incarnation, so that
 * others can distinguish it from the one before.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mem/devmem_impl.h"

#define OLD_MAGIC "gpusimM2" /* the format without a table of allocations */

bool
devmem_same_file(const char *path, int fd)
{
	struct stat at_path, at_fd;

	return stat(path, &at_path) == 0 && fstat(fd, &at_fd) == 0 &&
	       at_path.st_dev == at_fd.st_dev && at_path.st_ino == at_fd.st_ino;
}

/*
 * Open or create the file and lock it. In a world-writable directory (`shared`) a symbolic link or another
 * user's file may be a trap. *created: this call made the file.
 */
static enum rc
open_locked(const char *path, bool shared, int *fd_out, bool *created, struct err *err)
{
	const int flags = O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (shared ? O_NOFOLLOW : 0);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct stat st;
	int fd, tries;

	for (tries = 0; tries < 100; tries++) {
		*created = true;
		fd = open(path, flags | O_CREAT | O_EXCL, 0600);
		if (fd < 0 && errno == EEXIST) {
			*created = false;
			fd = open(path, flags);
			if (fd < 0 && errno == ENOENT)
				continue;
		}
		if (fd < 0)
			return err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
		if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
			close(fd);
			return err_set(err, RC_BADDATA, "%s: not a regular file", path);
		}
		if (shared && st.st_uid != geteuid()) {
			close(fd);
			return err_set(err, RC_BADDATA, "%s: belongs to user %u", path,
				       (unsigned)st.st_uid);
		}
		if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
			close(fd);
			return err_set(err, RC_BUSY, "%s: in use by another device", path);
		}
		if (devmem_same_file(path, fd)) {
			*fd_out = fd;
			return RC_OK;
		}
		close(fd); /* its last owner unlinked it before we had the lock */
	}
	return err_set(err, RC_BUSY, "%s: a dangling link, or it keeps vanishing", path);
}

/* Check the file's contents: nothing, or a header of this id and size; *ready: its state is READY. */
static enum rc
check_header(const char *path, int fd, uint64_t device_id, uint64_t nbytes, bool *empty,
	     bool *ready, struct err *err)
{
	struct devmem_header h;
	struct stat st;

	if (fstat(fd, &st) != 0)
		return err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	*empty = st.st_size == 0;
	*ready = false;
	if (*empty)
		return RC_OK;
	if (pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h &&
	    memcmp(h.magic, OLD_MAGIC, sizeof h.magic) == 0)
		return err_set(err, RC_BADDATA,
			       "%s: memory in the format of an older gpusim: remove the file",
			       path);
	if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h ||
	    memcmp(h.magic, DEVMEM_MAGIC, sizeof h.magic) != 0 ||
	    (h.state != DEVMEM_CREATING && h.state != DEVMEM_READY))
		return err_set(err, RC_BADDATA, "%s: not a device memory file", path);
	if (h.device_id != device_id)
		return err_set(err, RC_BADDATA,
			       "%s: memory of device %016" PRIx64 ", not of %016" PRIx64, path,
			       h.device_id, device_id);
	if (h.nbytes != nbytes)
		return err_set(err, RC_BADDATA,
			       "%s: holds %" PRIu64 " bytes of device memory, not %" PRIu64, path,
			       h.nbytes, nbytes);
	*ready = h.state == DEVMEM_READY;
	if (*ready && (uint64_t)st.st_size < devmem_file_bytes(nbytes))
		return err_set(err, RC_BADDATA, "%s: %" PRIu64 " bytes long, not %" PRIu64, path,
			       (uint64_t)st.st_size, devmem_file_bytes(nbytes));
	return RC_OK;
}

static enum rc
write_header(const char *path, int fd, const struct devmem_header *h, struct err *err)
{
	ssize_t n = pwrite(fd, h, sizeof *h, 0);

	if (n == (ssize_t)sizeof *h)
		return RC_OK;
	if (n >= 0)
		errno = ENOSPC;
	return err_set(err,
		       errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? RC_NOMEM : RC_FAILED,
		       "%s: %s", path, strerror(errno));
}

/* Make the locked file a READY one of its full size. On error the file is unchanged, or longer. */
static enum rc
prepare(const char *path, int fd, uint64_t device_id, uint64_t nbytes, uint64_t incarnation,
	struct err *err)
{
	struct devmem_header h = {
	    .device_id = device_id, .nbytes = nbytes, .incarnation = incarnation};
	bool empty, ready;
	enum rc rc;

	memcpy(h.magic, DEVMEM_MAGIC, sizeof h.magic);
	rc = check_header(path, fd, device_id, nbytes, &empty, &ready, err);
	if (rc)
		return rc;
	h.state = DEVMEM_CREATING;
	if (empty) {
		rc = write_header(path, fd, &h, err);
		if (rc)
			goto out;
	}
	if (!ready && ftruncate(fd, (off_t)devmem_file_bytes(nbytes)) != 0) {
		rc = err_set(err, RC_NOMEM, "%s: cannot have %" PRIu64 " bytes: %s", path, nbytes,
			     strerror(errno));
		goto out;
	}
	h.state = DEVMEM_READY;
	rc = write_header(path, fd, &h, err);
out:
	if (rc && empty && ftruncate(fd, 0) != 0)
		rc =
		    err_set(err, rc, "%s: cannot have %" PRIu64 " bytes, nor truncate it again: %s",
			    path, nbytes, strerror(errno));
	return rc;
}

enum rc
devmem_file_take(const char *path, bool shared, uint64_t device_id, uint64_t nbytes,
		 uint64_t incarnation, int *fd, bool *created, struct err *err)
{
	enum rc rc = open_locked(path, shared, fd, created, err);

	return rc ? rc : prepare(path, *fd, device_id, nbytes, incarnation, err);
}

uint64_t
devmem_file_id(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct devmem_header h;
	uint64_t id = 0;

	if (fd < 0)
		return 0;
	if (pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h &&
	    memcmp(h.magic, DEVMEM_MAGIC, sizeof h.magic) == 0)
		id = h.device_id;
	close(fd);
	return id;
}

enum rc
devmem_mark(struct devmem *m, const char *coordinator, struct err *err)
{
	struct devmem_header h;

	if (pread(m->fd, &h, sizeof h, 0) != (ssize_t)sizeof h)
		return err_set(err, RC_FAILED, "%s: %s", m->path, strerror(errno));
	h.scratch = 1;
	snprintf(h.coordinator, sizeof h.coordinator, "%s", coordinator ? coordinator : "");
	return write_header(m->path, m->fd, &h, err);
}
