/* The layout of a device's memory file, and its table of allocations: places by address, written whole. */
#include "mem/devmem_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "mem/devmem.h"

#define OWN_LEAST (UINT64_C(64) << 20)

uint64_t
devmem_own_bytes(uint64_t nbytes)
{
	return nbytes > OWN_LEAST ? nbytes : OWN_LEAST;
}

uint64_t
devmem_map_bytes(uint64_t nbytes)
{
	return DEVMEM_PAGE + nbytes + devmem_own_bytes(nbytes);
}

uint64_t
devmem_file_offset(uint64_t addr)
{
	return DEVMEM_PAGE + (addr - DEVMEM_FIRST);
}

bool
devmem_file_lives(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

enum rc
devmem_file_header(const char *path, int fd, uint64_t device_id, struct devmem_header *h,
		   struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return err_set(err, RC_BADDATA, "%s: not a regular file", path);
	if (st.st_uid != geteuid())
		return err_set(err, RC_BADDATA, "%s: belongs to user %u", path,
			       (unsigned)st.st_uid);
	if (pread(fd, h, sizeof *h, 0) != (ssize_t)sizeof *h ||
	    memcmp(h->magic, DEVMEM_MAGIC, sizeof h->magic) != 0 || h->state != DEVMEM_READY ||
	    h->nbytes == 0 || h->nbytes > DEVMEM_MOST || h->nbytes % DEVMEM_PAGE != 0)
		return err_set(err, RC_BADDATA, "%s: not a device memory file", path);
	if (h->device_id != device_id || (uint64_t)st.st_size < devmem_file_bytes(h->nbytes))
		return err_set(err, RC_BADDATA,
			       "%s: %" PRIu64 " bytes of device %016" PRIx64 ", not of %016" PRIx64,
			       path, h->nbytes, h->device_id, device_id);
	return RC_OK;
}

enum rc
devmem_file_check(const char *path, int fd, uint64_t device_id, struct devmem_header *h,
		  struct err *err)
{
	enum rc rc = devmem_file_header(path, fd, device_id, h, err);

	if (rc == RC_OK && !devmem_file_lives(fd))
		rc = err_set(err, RC_FAILED, "%s: its device has ended", path);
	return rc;
}

/* ---- the table of allocations */

#define UNIT_BITS 40 /* of the size in units; the check is in the bits above */

/* One place. Two words of zeros: no allocation begins here. */
struct place {
	uint64_t size; /* units, and a check of the whole place */
	uint64_t owner;
};

#define PLACES (DEVMEM_PAGE / sizeof(struct place)) /* read at a time */

/* Places for the memory, and for the device's own part. */
static uint64_t
mem_places(uint64_t nbytes)
{
	return nbytes / DEVMEM_ALIGN;
}

static uint64_t
all_places(uint64_t nbytes)
{
	return mem_places(nbytes) + devmem_own_bytes(nbytes) / DEVMEM_PAGE;
}

uint64_t
devmem_file_bytes(uint64_t nbytes)
{
	return devmem_map_bytes(nbytes) + all_places(nbytes) * sizeof(struct place);
}

static uint64_t
place_of(const struct devmem_table *t, uint64_t addr)
{
	uint64_t off = addr - DEVMEM_FIRST;

	return off < t->nbytes ? off / DEVMEM_ALIGN
			       : mem_places(t->nbytes) + (off - t->nbytes) / DEVMEM_PAGE;
}

/* Check bits, in place, which random bytes have only by accident. */
static uint64_t
check_of(uint64_t place, uint64_t units, uint64_t owner)
{
	uint64_t x = place * 0x9e3779b97f4a7c15u ^ units * 0xbf58476d1ce4e5b9u ^ owner;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (x ^ x >> 31) >> UNIT_BITS << UNIT_BITS;
}

static enum rc
put(const struct devmem_table *t, uint64_t at, const struct place *p, struct err *err)
{
	if (file_write_at(t->fd, p, sizeof *p, devmem_map_bytes(t->nbytes) + at * sizeof *p))
		return RC_OK;
	return err_set(err,
		       errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? RC_NOMEM : RC_FAILED,
		       "%s: cannot enter an allocation: %s", t->path, strerror(errno));
}

enum rc
devmem_table_enter(const struct devmem_table *t, const struct devmem_entry *e, struct err *err)
{
	uint64_t at = place_of(t, e->addr);
	uint64_t units = e->nbytes / (at < mem_places(t->nbytes) ? DEVMEM_ALIGN : DEVMEM_PAGE);
	struct place p = {.size = units | check_of(at, units, e->owner), .owner = e->owner};

	return put(t, at, &p, err);
}

enum rc
devmem_table_strike(const struct devmem_table *t, uint64_t addr, struct err *err)
{
	return put(t, place_of(t, addr), &(struct place){0}, err);
}

/* Decode a place; RC_BADDATA: no device wrote it. */
static enum rc
decode(const struct devmem_table *t, uint64_t at, const struct place *p, struct devmem_entry *e,
       struct err *err)
{
	uint64_t first = mem_places(t->nbytes), units = p->size & ((UINT64_C(1) << UNIT_BITS) - 1);
	bool own = at >= first;
	uint64_t left = own ? all_places(t->nbytes) - at : first - at;
	uint64_t unit = own ? DEVMEM_PAGE : DEVMEM_ALIGN;

	e->addr = DEVMEM_FIRST + (own ? t->nbytes + (at - first) * unit : at * unit);
	if (units == 0 || units > left || p->size != (units | check_of(at, units, p->owner)))
		return err_set(err, RC_BADDATA,
			       "%s: the table of allocations is damaged at 0x%" PRIx64
			       ": remove the file, which ends its allocations and contents",
			       t->path, e->addr);
	e->nbytes = units * unit;
	e->owner = p->owner;
	return RC_OK;
}

/* The places of one page of the table. */
static enum rc
scan_page(const struct devmem_table *t, uint64_t first, uint64_t n, devmem_table_fn fn, void *arg,
	  struct err *err)
{
	struct place p[PLACES];
	struct devmem_entry e;
	off_t off = (off_t)(devmem_map_bytes(t->nbytes) + first * sizeof *p);
	enum rc rc = RC_OK;

	if (pread(t->fd, p, n * sizeof *p, off) != (ssize_t)(n * sizeof *p))
		return err_set(err, RC_FAILED, "%s: cannot read its table of allocations", t->path);
	for (uint64_t i = 0; i < n && rc == RC_OK; i++) {
		if (!p[i].size && !p[i].owner)
			continue;
		rc = decode(t, first + i, &p[i], &e, err);
		if (rc == RC_OK)
			rc = fn(arg, &e, err);
	}
	return rc;
}

/* The first place from `at` on (a page's beginning) that is not in a hole; `end`: none. */
static uint64_t
skip_hole(const struct devmem_table *t, uint64_t at, uint64_t end)
{
	uint64_t start = devmem_map_bytes(t->nbytes);
	off_t data = lseek(t->fd, (off_t)(start + at * sizeof(struct place)), SEEK_DATA);

	if (data < 0)
		return errno == ENXIO ? end : at;
	return ((uint64_t)data - start) / DEVMEM_PAGE * PLACES;
}

enum rc
devmem_table_scan(const struct devmem_table *t, devmem_table_fn fn, void *arg, struct err *err)
{
	uint64_t end = all_places(t->nbytes);
	enum rc rc = RC_OK;

	for (uint64_t at = skip_hole(t, 0, end); at < end && rc == RC_OK;) {
		uint64_t n = end - at < PLACES ? end - at : PLACES;

		rc = scan_page(t, at, n, fn, arg, err);
		at = skip_hole(t, at + n, end);
	}
	return rc;
}
