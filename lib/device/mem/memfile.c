/*
 * Design notes. Two ways into the file, by GRANULE. The first copy of a granule uses pread and pwrite,
 * which need no page tables, and do not zero a page that is overwritten whole. Later copies use a mapping,
 * which is twice as fast from then on. Touching a mapped page whose block cannot be had would be a SIGBUS,
 * so a granule is touched only after MADV_POPULATE_WRITE has made its pages, or failed; they stay, because
 * a device's file never shrinks or gets holes. Where the kernel lacks that call (before 5.14), pread and
 * pwrite do it all.
 *
 * use[] only goes up, so it needs no lock: two threads that populate a granule both succeed.
 */
#include "mem/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "mem/devmem_file.h"

#define GRANULE (UINT64_C(256) << 10)

#ifndef MADV_POPULATE_WRITE /* glibc before 2.35 */
#define MADV_POPULATE_WRITE 23
#endif

enum use { USE_NEW, USE_COPIED, USE_MAPPED };

struct memfile {
	int fd;
	unsigned char *map; /* NULL: cannot be mapped */
	uint64_t nbytes, incarnation;
	atomic_uchar *use; /* enum use by granule */
};

bool
memfile_lives(const struct memfile *f)
{
	struct devmem_header h;

	return devmem_file_lives(f->fd) && pread(f->fd, &h, sizeof h, 0) == (ssize_t)sizeof h &&
	       h.incarnation == f->incarnation;
}

static enum rc
check_file(struct memfile *f, const char *path, uint64_t device_id, struct err *err)
{
	struct devmem_header h;
	struct rlimit most;
	enum rc rc = devmem_file_check(path, f->fd, device_id, &h, err);

	if (rc != RC_OK)
		return rc;
	if (h.nbytes != f->nbytes)
		return err_set(err, RC_BADDATA, "%s: %" PRIu64 " bytes, not %" PRIu64, path,
			       h.nbytes, f->nbytes);
	if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < DEVMEM_PAGE + f->nbytes)
		return err_set(err, RC_FAILED, "%s: longer than RLIMIT_FSIZE", path);
	f->incarnation = h.incarnation;
	return RC_OK;
}

enum rc
memfile_open(const char *path, uint64_t device_id, uint64_t nbytes, struct memfile **out,
	     struct err *err)
{
	struct memfile *f = alloc_zeroed(1, sizeof *f);
	enum rc rc;
	void *map;

	if (!f)
		return err_set(err, RC_NOMEM, "out of memory");
	f->nbytes = nbytes;
	f->fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	rc = f->fd < 0 ? err_set(err, RC_NOTFOUND, "%s: %s", path, strerror(errno))
		       : check_file(f, path, device_id, err);
	if (rc == RC_OK &&
	    !(f->use = alloc_zeroed((nbytes + GRANULE - 1) / GRANULE, sizeof *f->use)))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc != RC_OK) {
		memfile_close(f);
		return rc;
	}
	map = mmap(NULL, DEVMEM_PAGE + nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	f->map = map == MAP_FAILED ? NULL : map;
	/* A child of fork has no use for it, and must not change other processes' memory. */
	if (f->map)
		(void)!madvise(f->map, DEVMEM_PAGE + nbytes, MADV_DONTFORK);
	*out = f;
	return RC_OK;
}

void
memfile_close(struct memfile *f)
{
	if (!f)
		return;
	if (f->map)
		munmap(f->map, DEVMEM_PAGE + f->nbytes);
	if (f->fd >= 0)
		close(f->fd);
	free(f->use);
	free(f);
}

uint64_t
memfile_nbytes(const struct memfile *f)
{
	return f->nbytes;
}

/* Make the pages of a granule. */
static bool
populate(struct memfile *f, uint64_t granule)
{
	uint64_t at = granule * GRANULE;
	uint64_t n = f->nbytes - at < GRANULE ? f->nbytes - at : GRANULE;

	if (!f->map || madvise(f->map + DEVMEM_PAGE + at, n, MADV_POPULATE_WRITE) != 0)
		return false;
	atomic_store_explicit(&f->use[granule], USE_MAPPED, memory_order_release);
	return true;
}

enum want { WANT_IF_USED, WANT_NOW };

/* The mapped address of [off, ..) in one granule; NULL: use pread and pwrite. */
static unsigned char *
mapped(struct memfile *f, uint64_t off, enum want want)
{
	uint64_t granule = off / GRANULE;
	unsigned char use = atomic_load_explicit(&f->use[granule], memory_order_acquire);

	if (use == USE_NEW && want == WANT_IF_USED) {
		/* Only from NEW: another thread may have mapped it. */
		atomic_compare_exchange_strong(&f->use[granule], &use, USE_COPIED);
		return NULL;
	}
	return use == USE_MAPPED || populate(f, granule) ? f->map + DEVMEM_PAGE + off : NULL;
}

/* The part of nbytes from off on that is in one granule. */
static uint64_t
piece(uint64_t off, uint64_t nbytes)
{
	uint64_t n = GRANULE - off % GRANULE;

	return n < nbytes ? n : nbytes;
}

static enum rc
failed(const char *what, uint64_t off, struct err *err)
{
	return err_set(err, errno == ENOSPC || errno == EDQUOT ? RC_NOMEM : RC_FAILED,
		       "device memory at offset %" PRIu64 ": cannot %s: %s", off, what,
		       strerror(errno));
}

static enum rc
write_piece(struct memfile *f, uint64_t off, const unsigned char *src, uint64_t n, struct err *err)
{
	unsigned char *to = mapped(f, off, WANT_IF_USED);

	if (to)
		memcpy(to, src, n);
	else if (!file_write_at(f->fd, src, n, DEVMEM_PAGE + off))
		return failed("write", off, err);
	return RC_OK;
}

static enum rc
read_piece(struct memfile *f, unsigned char *dst, uint64_t off, uint64_t n, struct err *err)
{
	const unsigned char *from = mapped(f, off, WANT_IF_USED);
	ssize_t k = (ssize_t)n;

	if (from)
		memcpy(dst, from, n);
	else
		k = file_read_at(f->fd, dst, n, DEVMEM_PAGE + off);
	if (k == (ssize_t)n)
		return RC_OK;
	if (k >= 0)
		errno = EIO; /* it has become shorter */
	return failed("read", off, err);
}

enum rc
memfile_write(struct memfile *f, uint64_t off, const void *src, uint64_t nbytes, struct err *err)
{
	const unsigned char *from = src;
	enum rc rc = RC_OK;

	for (uint64_t n; nbytes && rc == RC_OK; off += n, from += n, nbytes -= n) {
		n = piece(off, nbytes);
		rc = write_piece(f, off, from, n, err);
	}
	return rc;
}

enum rc
memfile_read(struct memfile *f, void *dst, uint64_t off, uint64_t nbytes, struct err *err)
{
	unsigned char *to = dst;
	enum rc rc = RC_OK;

	for (uint64_t n; nbytes && rc == RC_OK; off += n, to += n, nbytes -= n) {
		n = piece(off, nbytes);
		rc = read_piece(f, to, off, n, err);
	}
	return rc;
}

enum rc
memfile_copy(struct memfile *dst, uint64_t dst_off, struct memfile *src, uint64_t src_off,
	     uint64_t nbytes, struct err *err)
{
	enum rc rc = RC_OK;

	for (uint64_t n; nbytes && rc == RC_OK; dst_off += n, src_off += n, nbytes -= n) {
		const unsigned char *from = mapped(src, src_off, WANT_NOW);

		if (!from)
			return failed("map", src_off, err);
		n = piece(dst_off, piece(src_off, nbytes));
		rc = write_piece(dst, dst_off, from, n, err);
	}
	return rc;
}

void *
memfile_window(struct memfile *f, uint64_t off, uint64_t nbytes)
{
	for (uint64_t at = off; at < off + nbytes; at += piece(at, nbytes))
		if (!mapped(f, at, WANT_NOW))
			return NULL;
	return f->map ? f->map + DEVMEM_PAGE + off : NULL;
}

enum rc
memfile_map(const struct memfile *f, uint64_t offset, uint64_t nbytes, void **out, struct err *err)
{
	uint64_t end = devmem_map_bytes(f->nbytes), first = offset / DEVMEM_PAGE * DEVMEM_PAGE;
	unsigned char *map;

	if (offset < DEVMEM_PAGE || offset > end || nbytes > end - offset)
		return err_set(err, RC_BADDATA,
			       "device memory: %" PRIu64 " bytes at offset %" PRIu64
			       " are outside of its file",
			       nbytes, offset);
	map = mmap(NULL, offset - first + nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd,
		   (off_t)first);
	if (map == MAP_FAILED)
		return err_set(err, RC_NOMEM, "device memory: cannot map it: %s", strerror(errno));
	(void)!madvise(map, offset - first + nbytes, MADV_DONTFORK);
	*out = map + (offset - first);
	return RC_OK;
}

void
memfile_unmap(void *p, uint64_t nbytes)
{
	unsigned char *at = p;
	size_t into = (uintptr_t)p % DEVMEM_PAGE;

	if (p)
		munmap(at - into, into + nbytes);
}
