#include "mem/peermem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "mem/devmem_file.h"

struct peermem {
	unsigned char *map;
	uint64_t nbytes;
};

/* Check that it is the peer's file, and a device's memory; *nbytes: length to map. */
static enum rc
check(const struct peermem_id *id, int fd, uint64_t *nbytes, struct err *err)
{
	struct devmem_header h;
	struct stat st;
	enum rc rc;

	if (fstat(fd, &st) != 0)
		return err_set(err, RC_FAILED, "%s: %s", id->path, strerror(errno));
	if (st.st_dev != id->dev || st.st_ino != id->inode)
		return err_set(err, RC_BADDATA, "%s: not the same file here", id->path);
	rc = devmem_file_check(id->path, fd, id->device_id, &h, err);
	if (rc == RC_OK && id->incarnation && id->incarnation != h.incarnation)
		rc = err_set(err, RC_BADDATA, "%s: another process has it", id->path);
	if (rc == RC_OK)
		*nbytes = devmem_map_bytes(h.nbytes);
	return rc;
}

/* The folder's part of a path. */
static size_t
folder(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? (size_t)(slash - path) : 0;
}

bool
peermem_is_near(const struct peermem_id *own, const struct peermem_id *id)
{
	size_t n = folder(own->path);

	return own->user && own->user == id->user && own->dev == id->dev && n &&
	       n == folder(id->path) && memcmp(own->path, id->path, n) == 0;
}

enum rc
peermem_open(const struct peermem_id *id, struct peermem **out, struct err *err)
{
	int fd = open(id->path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	struct peermem *p = alloc_zeroed(1, sizeof *p);
	void *map = MAP_FAILED;
	enum rc rc;

	if (!p)
		rc = err_set(err, RC_NOMEM, "out of memory");
	else if (fd < 0)
		rc = err_set(err, RC_NOTFOUND, "%s: %s", id->path, strerror(errno));
	else
		rc = check(id, fd, &p->nbytes, err);
	if (rc == RC_OK) {
		map = mmap(NULL, p->nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED)
			rc = err_set(err, RC_NOMEM, "%s: cannot map it: %s", id->path,
				     strerror(errno));
	}
	if (fd >= 0)
		close(fd);
	if (rc != RC_OK) {
		free(p);
		return rc;
	}
	p->map = map;
	*out = p;
	return RC_OK;
}

void
peermem_close(struct peermem *p)
{
	if (!p)
		return;
	munmap(p->map, p->nbytes);
	free(p);
}

void *
peermem_at(const struct peermem *p, uint64_t offset, uint64_t nbytes)
{
	if (offset < DEVMEM_PAGE || offset > p->nbytes || nbytes > p->nbytes - offset)
		return NULL;
	return p->map + offset;
}
