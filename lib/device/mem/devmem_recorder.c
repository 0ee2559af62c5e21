/*
 * The recorder's area in a device's memory file: after the table of allocations, of the length in the
 * header.
 *
 * Design notes. A file that is longer than its header says is legal; one that is shorter is not. So the
 * file grows before the header mentions the area, and the header drops it before the file shrinks: a device
 * that is killed in between leaves a file that the next one accepts. An area of another size is created
 * again, because its rings would lie elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "mem/devmem_impl.h"

uint64_t
devmem_recorder_offset(uint64_t nbytes)
{
	return (devmem_file_bytes(nbytes) + DEVMEM_PAGE - 1) / DEVMEM_PAGE * DEVMEM_PAGE;
}

enum rc
devmem_file_recorder(const char *path, int fd, uint64_t device_id, uint64_t *offset,
		     uint64_t *nbytes, struct err *err)
{
	struct devmem_header h;
	struct stat st;
	enum rc rc = devmem_file_header(path, fd, device_id, &h, err);
	uint64_t at;

	if (rc != RC_OK)
		return rc;
	if (h.recorder_bytes == 0)
		return err_set(err, RC_NOTFOUND, "%s: its device does not record", path);
	at = devmem_recorder_offset(h.nbytes);
	if (fstat(fd, &st) != 0 || (uint64_t)st.st_size < at ||
	    h.recorder_bytes > (uint64_t)st.st_size - at)
		return err_set(err, RC_BADDATA,
			       "%s: a recorder of %" PRIu64 " bytes does not fit in it", path,
			       h.recorder_bytes);
	*offset = at;
	*nbytes = h.recorder_bytes;
	return RC_OK;
}

/* Write the area's size to the header. */
static enum rc
tell(const struct devmem *m, uint64_t nbytes, struct err *err)
{
	return file_write_at(m->fd, &nbytes, sizeof nbytes,
			     offsetof(struct devmem_header, recorder_bytes))
		   ? RC_OK
		   : err_set(err, RC_FAILED, "%s: cannot write its header", m->path);
}

static enum rc
resize(const struct devmem *m, uint64_t length, struct err *err)
{
	return ftruncate(m->fd, (off_t)length) == 0
		   ? RC_OK
		   : err_set(err, RC_NOMEM, "%s: cannot have %" PRIu64 " bytes: %s", m->path,
			     length, strerror(errno));
}

enum rc
devmem_recorder(struct devmem *m, uint64_t nbytes, void **area, struct err *err)
{
	uint64_t at = devmem_recorder_offset(m->nbytes);
	void *map = MAP_FAILED;
	struct stat st;
	enum rc rc = tell(m, 0, err);

	if (rc == RC_OK && fstat(m->fd, &st) != 0)
		rc = err_set(err, RC_FAILED, "%s: %s", m->path, strerror(errno));
	if (rc == RC_OK && (uint64_t)st.st_size != at + nbytes)
		rc = resize(m, devmem_file_bytes(m->nbytes), err);
	if (rc != RC_OK || nbytes == 0)
		return rc;
	rc = resize(m, at + nbytes, err);
	if (rc == RC_OK) {
		map = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, (off_t)at);
		if (map == MAP_FAILED)
			rc = err_set(err, RC_NOMEM, "%s: cannot map its recorder: %s", m->path,
				     strerror(errno));
	}
	if (rc == RC_OK)
		rc = tell(m, nbytes, err);
	if (rc != RC_OK && map != MAP_FAILED)
		munmap(map, nbytes);
	if (rc != RC_OK)
		return rc;
	*area = m->recorder = map;
	m->recorder_bytes = nbytes;
	return RC_OK;
}

bool
devmem_recorder_reserve(void *arg, uint64_t offset, uint64_t nbytes)
{
	const struct devmem *m = arg;
	int e;

	do
		e = posix_fallocate(m->fd, (off_t)(devmem_recorder_offset(m->nbytes) + offset),
				    (off_t)nbytes);
	while (e == EINTR);
	return e == 0;
}

enum rc
devmem_recorder_read(const struct devmem *m, uint64_t offset, uint64_t nbytes, void **out,
		     size_t *n, struct err *err)
{
	uint64_t left = offset < m->recorder_bytes ? m->recorder_bytes - offset : 0;
	size_t want = (size_t)(nbytes < left ? nbytes : left);
	char *p;

	if (m->recorder_bytes == 0)
		return err_set(err, RC_NOTFOUND, "%s: its device does not record", m->path);
	p = malloc(want + 1);
	if (!p)
		return err_set(err, RC_NOMEM, "out of memory");
	if (file_read_at(m->fd, p, want, devmem_recorder_offset(m->nbytes) + offset) !=
	    (ssize_t)want) {
		free(p);
		return err_set(err, RC_FAILED, "%s: its recorder cannot be read", m->path);
	}
	*out = p;
	*n = want;
	return RC_OK;
}
