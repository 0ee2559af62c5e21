/*
 * Design notes. The file is DEVMEM_PAGE bytes of struct devmem_header, then the memory, then room
 * for what the device itself keeps (devmem_own_*), at the addresses above the memory. Whoever holds
 * the lock of the file at the path owns it; the lock is taken first and dropped last, and a file is
 * only written or unlinked under it. It is one of an open file description, because others can ask
 * whether it is held without trying to take it (devmem_file.h). The header says READY once the file
 * has its size, so a device killed while it was creating the file leaves one that the next device
 * of the same id completes.
 *
 * Blocks of the file are reserved when a range is first asked for, BLOCK bytes at a time, so that a
 * device costs what it uses; a full disk is an error then, never a SIGBUS later. reserved[] only
 * ever goes from 0 to 1: reading it needs no lock, setting it is done under one.
 *
 * A taken-over file starts with every byte free: the contents survive, the allocations do not.
 * One mutex guards the arena; everything else is constant between open and close.
 */
#include "mem/devmem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "mem/arena.h"
#include "mem/devmem_file.h"

#define BLOCK	     (UINT64_C(1) << 20)
#define DEVMEM_FIRST 0x10000u /* the lowest address; small numbers are mistakes */

struct devmem {
	char *path;
	int fd;
	unsigned char *map; /* the whole file */
	uint64_t nbytes, own;
	pthread_mutex_t lock;
	struct arena arena, own_arena; /* under lock */
	atomic_uchar *reserved;	       /* by BLOCK of what is behind the header */
};

/* Whether path still names the file behind fd. */
static bool
same_file(const char *path, int fd)
{
	struct stat at_path, at_fd;

	return stat(path, &at_path) == 0 && fstat(fd, &at_fd) == 0 &&
	       at_path.st_dev == at_fd.st_dev && at_path.st_ino == at_fd.st_ino;
}

/*
 * Open or create the file and lock it. In a directory that everybody writes to (`shared`) a
 * symbolic link or somebody else's file is a trap. *created: this call made the file.
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
		if (same_file(path, fd)) {
			*fd_out = fd;
			return RC_OK;
		}
		close(fd); /* its last owner unlinked it before we had the lock */
	}
	return err_set(err, RC_BUSY, "%s: a dangling link, or it keeps vanishing", path);
}

/* What is in the file: nothing, or a header of this id and size; *ready tells which stage. */
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
	if (*ready && (uint64_t)st.st_size != devmem_file_bytes(nbytes))
		return err_set(err, RC_BADDATA, "%s: %" PRIu64 " bytes long, not %" PRIu64, path,
			       (uint64_t)st.st_size, devmem_file_bytes(nbytes));
	return RC_OK;
}

static enum rc
write_header(const char *path, int fd, uint64_t device_id, uint64_t nbytes, enum devmem_state state,
	     struct err *err)
{
	struct devmem_header h = {.device_id = device_id, .nbytes = nbytes, .state = state};
	ssize_t n;

	memcpy(h.magic, DEVMEM_MAGIC, sizeof h.magic);
	n = pwrite(fd, &h, sizeof h, 0);
	if (n == (ssize_t)sizeof h)
		return RC_OK;
	if (n >= 0)
		errno = ENOSPC;
	return err_set(err,
		       errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? RC_NOMEM : RC_FAILED,
		       "%s: %s", path, strerror(errno));
}

/* Make the locked file a READY one of its full size. The file is as it was, or longer, on error. */
static enum rc
prepare(const char *path, int fd, uint64_t device_id, uint64_t nbytes, struct err *err)
{
	bool empty, ready;
	enum rc rc;

	rc = check_header(path, fd, device_id, nbytes, &empty, &ready, err);
	if (rc)
		return rc;
	if (empty) {
		rc = write_header(path, fd, device_id, nbytes, DEVMEM_CREATING, err);
		if (rc)
			goto out;
	}
	if (!ready && ftruncate(fd, (off_t)devmem_file_bytes(nbytes)) != 0) {
		rc = err_set(err, RC_NOMEM, "%s: cannot have %" PRIu64 " bytes: %s", path, nbytes,
			     strerror(errno));
		goto out;
	}
	if (!ready)
		rc = write_header(path, fd, device_id, nbytes, DEVMEM_READY, err);
out:
	if (rc && empty && ftruncate(fd, 0) != 0)
		rc = err_set(err, rc, "%s: cannot have %" PRIu64 " bytes, nor empty it again: %s",
			     path, nbytes, strerror(errno));
	return rc;
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

static char *
path_of(const char *path, uint64_t device_id)
{
	char *p = NULL;

	if (path)
		return strdup(path);
	return asprintf(&p, "/dev/shm/gpusim-%u-%016" PRIx64, (unsigned)geteuid(), device_id) < 0
		   ? NULL
		   : p;
}

enum rc
devmem_open(const char *path, uint64_t device_id, uint64_t nbytes, struct devmem **out,
	    struct err *err)
{
	struct devmem *m = NULL;
	bool created = false;
	void *map;
	enum rc rc;

	if (nbytes == 0 || nbytes > DEVMEM_MOST)
		return err_set(err, RC_INVAL,
			       "device memory of %" PRIu64 " bytes: not in 1 to %" PRIu64, nbytes,
			       DEVMEM_MOST);
	nbytes = (nbytes + DEVMEM_PAGE - 1) / DEVMEM_PAGE * DEVMEM_PAGE;
	m = alloc_zeroed(1, sizeof *m);
	if (!m)
		return err_set(err, RC_NOMEM, "out of memory");
	m->fd = -1;
	m->nbytes = nbytes;
	m->own = devmem_own_bytes(nbytes);
	pthread_mutex_init(&m->lock, NULL);
	m->path = path_of(path, device_id);
	if (!m->path) {
		rc = err_set(err, RC_NOMEM, "out of memory");
		goto out;
	}
	rc = open_locked(m->path, !path, &m->fd, &created, err);
	if (rc)
		goto out;
	rc = prepare(m->path, m->fd, device_id, nbytes, err);
	if (rc)
		goto out;
	map = mmap(NULL, devmem_file_bytes(nbytes), PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (map == MAP_FAILED) {
		rc = err_set(err, RC_NOMEM, "%s: cannot map %" PRIu64 " bytes: %s", m->path,
			     devmem_file_bytes(nbytes), strerror(errno));
		goto out;
	}
	m->map = map;
	m->reserved = alloc_zeroed((nbytes + m->own + BLOCK - 1) / BLOCK, sizeof *m->reserved);
	if (!m->reserved) {
		rc = err_set(err, RC_NOMEM, "out of memory");
		goto out;
	}
	rc = arena_init(&m->arena, devmem_min(m), devmem_max(m), DEVMEM_ALIGN, err);
	if (rc == RC_OK)
		rc = arena_init(&m->own_arena, devmem_max(m), devmem_max(m) + m->own, DEVMEM_PAGE,
				err);
out:
	if (rc) {
		devmem_close(m, created ? DEVMEM_UNLINK_FILE : DEVMEM_KEEP_FILE);
		return rc;
	}
	*out = m;
	return RC_OK;
}

void
devmem_close(struct devmem *m, enum devmem_keep keep)
{
	if (!m)
		return;
	if (m->map)
		munmap(m->map, devmem_file_bytes(m->nbytes));
	if (m->fd >= 0) {
		if (keep == DEVMEM_UNLINK_FILE && same_file(m->path, m->fd))
			unlink(m->path);
		close(m->fd);
	}
	arena_fini(&m->arena);
	arena_fini(&m->own_arena);
	free(m->reserved);
	pthread_mutex_destroy(&m->lock);
	free(m->path);
	free(m);
}

const char *
devmem_path(const struct devmem *m)
{
	return m->path;
}

uint64_t
devmem_min(const struct devmem *m)
{
	(void)m;
	return DEVMEM_FIRST;
}

uint64_t
devmem_max(const struct devmem *m)
{
	return DEVMEM_FIRST + m->nbytes;
}

uint64_t
devmem_used(struct devmem *m, uint64_t *nallocs)
{
	uint64_t used;

	pthread_mutex_lock(&m->lock);
	used = m->arena.used;
	if (nallocs)
		*nallocs = m->arena.nallocs;
	pthread_mutex_unlock(&m->lock);
	return used;
}

static bool
is_reserved(const struct devmem *m, uint64_t first, uint64_t last)
{
	for (uint64_t b = first; b <= last; b++)
		if (!atomic_load_explicit(&m->reserved[b], memory_order_acquire))
			return false;
	return true;
}

/* Lock held. The file's blocks behind [off, off + nbytes) of the memory; an errno, or 0. */
static int
reserve_locked(const struct devmem *m, uint64_t off, uint64_t nbytes)
{
	uint64_t first = off / BLOCK, last = nbytes ? (off + nbytes - 1) / BLOCK : first, end;
	int e;

	if (nbytes == 0 || is_reserved(m, first, last))
		return 0;
	end = (last + 1) * BLOCK;
	if (end > m->nbytes + m->own)
		end = m->nbytes + m->own;
	do
		e = posix_fallocate(m->fd, (off_t)(DEVMEM_PAGE + first * BLOCK),
				    (off_t)(end - first * BLOCK));
	while (e == EINTR);
	for (uint64_t b = first; e == 0 && b <= last; b++)
		atomic_store_explicit(&m->reserved[b], 1, memory_order_release);
	return e;
}

static bool
is_inside(const struct devmem *m, uint64_t addr, uint64_t nbytes)
{
	return addr >= devmem_min(m) && addr <= devmem_max(m) && nbytes <= devmem_max(m) - addr;
}

static int
reserve(const struct devmem *m, uint64_t off, uint64_t nbytes)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&m->lock;
	int e;

	if (nbytes == 0 || is_reserved(m, off / BLOCK, (off + nbytes - 1) / BLOCK))
		return 0;
	pthread_mutex_lock(lock);
	e = reserve_locked(m, off, nbytes);
	pthread_mutex_unlock(lock);
	return e;
}

enum rc
devmem_range(const struct devmem *m, const char *what, uint64_t addr, uint64_t nbytes, void **out,
	     struct err *err)
{
	int e;

	if (!is_inside(m, addr, nbytes))
		return err_set(err, RC_INVAL,
			       "%s 0x%" PRIx64 " + %" PRIu64 " bytes is outside 0x%" PRIx64
			       "..0x%" PRIx64,
			       what, addr, nbytes, devmem_min(m), devmem_max(m));
	e = reserve(m, addr - devmem_min(m), nbytes);
	if (e)
		return err_set(err, RC_NOMEM,
			       "%s 0x%" PRIx64 " + %" PRIu64 " bytes: %s has no room: %s", what,
			       addr, nbytes, m->path, strerror(e));
	*out = m->map + DEVMEM_PAGE + (addr - devmem_min(m));
	return RC_OK;
}

void *
devmem_at(const struct devmem *m, uint64_t addr, uint64_t nbytes)
{
	void *p;

	return devmem_range(m, "", addr, nbytes, &p, NULL) == RC_OK ? p : NULL;
}

/* Take from one of the arenas, with the file's blocks. */
static enum rc
take(struct devmem *m, struct arena *a, uint64_t nbytes, uint64_t *addr, struct err *err)
{
	uint64_t got;
	enum rc rc;
	int e;

	pthread_mutex_lock(&m->lock);
	rc = arena_take(a, nbytes, &got, err);
	if (rc == RC_OK) {
		e = reserve_locked(m, got - devmem_min(m), nbytes);
		if (e) {
			arena_give(a, got, NULL);
			rc = err_set(err, RC_NOMEM, "%s has no room for %" PRIu64 " bytes: %s",
				     m->path, nbytes, strerror(e));
		}
	}
	pthread_mutex_unlock(&m->lock);
	if (rc == RC_OK)
		*addr = got;
	return rc;
}

static enum rc
give(struct devmem *m, struct arena *a, uint64_t addr, struct err *err)
{
	enum rc rc;

	pthread_mutex_lock(&m->lock);
	rc = arena_give(a, addr, err);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

enum rc
devmem_alloc(struct devmem *m, uint64_t nbytes, uint64_t *addr, struct err *err)
{
	return take(m, &m->arena, nbytes, addr, err);
}

enum rc
devmem_free(struct devmem *m, uint64_t addr, struct err *err)
{
	return give(m, &m->arena, addr, err);
}

enum rc
devmem_own_alloc(struct devmem *m, uint64_t nbytes, void **out, struct err *err)
{
	uint64_t addr;
	enum rc rc = take(m, &m->own_arena, nbytes, &addr, err);

	if (rc == RC_OK)
		*out = m->map + DEVMEM_PAGE + (addr - devmem_min(m));
	return rc;
}

void
devmem_own_free(struct devmem *m, void *p)
{
	if (p)
		give(m, &m->own_arena, devmem_min(m) + devmem_offset(m, p) - DEVMEM_PAGE, NULL);
}

uint64_t
devmem_offset(const struct devmem *m, const void *p)
{
	const unsigned char *at = p;

	return at >= m->map && at < m->map + devmem_file_bytes(m->nbytes) ? (uint64_t)(at - m->map)
									  : 0;
}

void
devmem_inode(const struct devmem *m, uint64_t *dev, uint64_t *inode)
{
	struct stat st = {0};

	fstat(m->fd, &st);
	*dev = st.st_dev;
	*inode = st.st_ino;
}
