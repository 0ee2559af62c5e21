/*
 * Take over the memory of a device that has ended: copy the contents of its file.
 *
 * Design notes. The other file is read by pread only: whatever happens to it meanwhile, the result is bytes
 * or an error. Its table is read once, first; then the contents are copied, then the other device's
 * persistent areas, and the allocations are made last. Nothing can be allocated here meanwhile
 * (`adopting`), which also prevents a second adoption.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "mem/devmem_impl.h"

#define PIECE (UINT64_C(1) << 20)

struct adoption {
	struct devmem *m;
	const struct devmem_source *from;
	const atomic_bool *stop;
	int fd;
	struct devmem_header h;
	struct devmem_entry *entry; /* all of its table */
	size_t n, cap;
	void **persist; /* the areas made here, room for n */
	size_t npersist;
	unsigned char *piece; /* PIECE bytes, and as many zeros */
};

static enum rc
open_source(struct adoption *a, struct err *err)
{
	const struct devmem_source *from = a->from;
	uint64_t dev, inode;
	struct stat st;
	enum rc rc;

	a->fd = open(from->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	if (a->fd < 0)
		return err_set(err, errno == ENOENT ? RC_NOTFOUND : RC_BADDATA, "%s: %s",
			       from->path, strerror(errno));
	rc = devmem_file_header(from->path, a->fd, from->device_id, &a->h, err);
	if (rc != RC_OK)
		return rc;
	devmem_inode(a->m, &dev, &inode);
	if (fstat(a->fd, &st) != 0 || st.st_dev != from->dev || st.st_ino != from->inode)
		return err_set(err, RC_BADDATA, "%s: not the file that device %016" PRIx64 " had",
			       from->path, from->device_id);
	if (st.st_dev == dev && st.st_ino == inode)
		return err_set(err, RC_INVAL, "%s: this device's own memory", from->path);
	return RC_OK;
}

static enum rc
note(void *arg, const struct devmem_entry *e, struct err *err)
{
	struct adoption *a = arg;

	if (e->addr < DEVMEM_FIRST + a->h.nbytes && e->addr + e->nbytes > devmem_max(a->m))
		return err_set(err, RC_INVAL,
			       "memory of %" PRIu64 " bytes is too small for that of device "
			       "%016" PRIx64 ", with an allocation up to 0x%" PRIx64,
			       a->m->nbytes, a->from->device_id, e->addr + e->nbytes);
	if (!alloc_room(&a->entry, a->n, &a->cap, sizeof *a->entry))
		return err_set(err, RC_NOMEM, "out of memory");
	a->entry[a->n++] = *e;
	return RC_OK;
}

/* ---- copying */

static enum rc
write_all(struct adoption *a, const unsigned char *src, uint64_t n, uint64_t to, struct err *err)
{
	if (file_write_at(a->m->fd, src, n, to))
		return RC_OK;
	return err_set(err,
		       errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? RC_NOMEM : RC_FAILED,
		       "%s: cannot write: %s", a->m->path, strerror(errno));
}

static enum rc
read_all(struct adoption *a, uint64_t from, uint64_t n, struct err *err)
{
	ssize_t k = file_read_at(a->fd, a->piece, n, from);

	return k == (ssize_t)n ? RC_OK
			       : err_set(err, RC_FAILED, "%s: cannot read: %s", a->from->path,
					 k < 0 ? strerror(errno) : "it has become shorter");
}

/* The first byte of [at, end) that is not in a hole; end: none. *until: the end of the data there. */
static uint64_t
next_data(int fd, uint64_t at, uint64_t end, uint64_t *until)
{
	off_t data = at < end ? lseek(fd, (off_t)at, SEEK_DATA) : -1, hole;

	if (at < end && data < 0 && errno != ENXIO)
		data = (off_t)at;
	if (data < 0 || (uint64_t)data >= end)
		return end;
	hole = lseek(fd, data, SEEK_HOLE);
	*until = hole < 0 || (uint64_t)hole > end ? end : (uint64_t)hole;
	return *until > (uint64_t)data ? (uint64_t)data : end;
}

/* [from, from + n) of the other file is a hole: write zeros to [to, to + n) here, unless it is one too. */
static enum rc
clear(struct adoption *a, uint64_t n, uint64_t to, struct err *err)
{
	uint64_t end = to + n, until = to;
	enum rc rc = RC_OK;

	for (to = next_data(a->m->fd, to, end, &until); to < end && rc == RC_OK;) {
		uint64_t k = until - to < PIECE ? until - to : PIECE;

		rc = *a->stop ? err_set(err, RC_ABORTED, "the device is shutting down")
			      : write_all(a, a->piece + PIECE, k, to, err);
		to = next_data(a->m->fd, to + k, end, &until);
	}
	return rc;
}

/* Copy [from, from + n) of the other file to `to` of this one. */
static enum rc
copy(struct adoption *a, uint64_t from, uint64_t n, uint64_t to, struct err *err)
{
	const uint64_t end = from + n;
	uint64_t at = from, until = from;
	enum rc rc = RC_OK;

	while (at < end && rc == RC_OK) {
		uint64_t data = next_data(a->fd, at, end, &until), k;

		rc = clear(a, data - at, to + (at - from), err);
		for (at = data; at < end && at < until && rc == RC_OK; at += k) {
			k = until - at < PIECE ? until - at : PIECE;
			rc = *a->stop ? err_set(err, RC_ABORTED, "the device is shutting down")
				      : read_all(a, at, k, err);
			if (rc == RC_OK)
				rc = write_all(a, a->piece, k, to + (at - from), err);
		}
	}
	return rc;
}

static enum rc
copy_contents(struct adoption *a, struct err *err)
{
	uint64_t n = a->h.nbytes < a->m->nbytes ? a->h.nbytes : a->m->nbytes;
	uint64_t rest = a->m->nbytes - n;
	enum rc rc = copy(a, DEVMEM_PAGE, n, DEVMEM_PAGE, err);

	return rc == RC_OK ? clear(a, rest, DEVMEM_PAGE + n, err) : rc;
}

/* Copy a persistent area. Its first page is copied last, so that it is not valid before the rest. */
static enum rc
copy_kept(struct adoption *a, const struct devmem_entry *e, struct err *err)
{
	uint64_t from = DEVMEM_PAGE + (e->addr - DEVMEM_FIRST), to;
	void *p = NULL;
	enum rc rc = devmem_persist_alloc(a->m, e->nbytes, &p, err);

	if (rc != RC_OK)
		return rc;
	to = devmem_offset(a->m, p);
	rc = copy(a, from + DEVMEM_PAGE, e->nbytes - DEVMEM_PAGE, to + DEVMEM_PAGE, err);
	if (rc == RC_OK)
		rc = copy(a, from, DEVMEM_PAGE, to, err);
	a->persist[a->npersist++] = p;
	return rc;
}

/* ---- allocations */

/* Lock held. All, or none. */
static enum rc
put_all(struct adoption *a, struct err *err)
{
	enum rc rc = RC_OK;
	size_t i;

	for (i = 0; i < a->n && rc == RC_OK; i++)
		if (a->entry[i].addr < DEVMEM_FIRST + a->h.nbytes)
			rc = devmem_put(a->m, &a->entry[i], err);
	if (rc == RC_OK)
		return rc;
	for (i--; i-- > 0;)
		if (a->entry[i].addr < DEVMEM_FIRST + a->h.nbytes)
			devmem_take_back(a->m, a->entry[i].addr);
	if (rc == RC_INVAL)
		rc = err_set(err, RC_BADDATA,
			     "%s: the table of allocations is damaged, two overlap", a->from->path);
	return rc;
}

static enum rc
adopt(struct adoption *a, struct err *err)
{
	struct devmem_table t;
	enum rc rc = open_source(a, err);

	if (rc != RC_OK)
		return rc;
	t = (struct devmem_table){.path = a->from->path, .fd = a->fd, .nbytes = a->h.nbytes};
	rc = devmem_table_scan(&t, note, a, err);
	if (rc == RC_OK && (!(a->piece = alloc_zeroed(2, PIECE)) ||
			    !(a->persist = alloc_zeroed(a->n + 1, sizeof *a->persist))))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK)
		rc = copy_contents(a, err);
	for (size_t i = 0; i < a->n && rc == RC_OK; i++)
		if (a->entry[i].addr >= DEVMEM_FIRST + a->h.nbytes)
			rc = copy_kept(a, &a->entry[i], err);
	return rc;
}

/* Lock held. */
static enum rc
may_adopt(const struct devmem *m, struct err *err)
{
	if (m->adopting)
		return err_set(err, RC_BUSY, "it is already taking over a device's memory");
	if (m->arena.nallocs)
		return err_set(err, RC_INVAL, "it has %" PRIu64 " allocations of its own",
			       m->arena.nallocs);
	return RC_OK;
}

enum rc
devmem_adopt(struct devmem *m, const struct devmem_source *from, const atomic_bool *stop,
	     struct err *err)
{
	struct adoption a = {.m = m, .from = from, .stop = stop, .fd = -1};
	enum rc rc;

	pthread_mutex_lock(&m->lock);
	rc = may_adopt(m, err);
	if (rc == RC_OK)
		m->adopting = true;
	pthread_mutex_unlock(&m->lock);
	if (rc != RC_OK)
		return rc;
	rc = adopt(&a, err);
	pthread_mutex_lock(&m->lock);
	if (rc == RC_OK)
		rc = put_all(&a, err);
	m->adopting = false;
	pthread_mutex_unlock(&m->lock);
	while (rc != RC_OK && a.npersist)
		devmem_persist_free(m, a.persist[--a.npersist], NULL);
	if (a.fd >= 0)
		close(a.fd);
	free(a.persist);
	free(a.entry);
	free(a.piece);
	return rc;
}
