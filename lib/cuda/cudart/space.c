/*
 * Design notes. The ranges are reserved by one thread when the process connects, and do not change:
 * lookups take no lock. A range is PROT_NONE memory until the program needs access to some of it:
 * then those pages become a mapping of the device's file. Pinned memory is one mapping of a memfd
 * that is as large as the range; it costs only the used pages, because a memfd is sparse and the
 * mapping reserves nothing. Its allocator is first fit over a list of free gaps, under a lock.
 */
#include "cudart/space.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "mem/devmem_file.h"

#define PAGE	     DEVMEM_PAGE
#define PINNED_MOST  (UINT64_C(1) << 40) /* of addresses; less if the host has less memory */
#define PINNED_LEAST (UINT64_C(1) << 30)

#ifndef MADV_POPULATE_WRITE /* glibc before 2.35 */
#define MADV_POPULATE_WRITE 23
#endif

static struct space_device *devices;
static size_t ndevices;

/* A free part of the range of pinned memory; gaps are sorted by offset, and never adjacent. */
struct gap {
	uint64_t off, nbytes;
};

static struct {
	pthread_mutex_t lock;
	unsigned char *base;
	uint64_t nbytes;
	int fd;
	struct gap *gaps;
	size_t ngaps, room;
} pinned = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static uint64_t
whole_pages(uint64_t nbytes)
{
	return (nbytes + PAGE - 1) / PAGE * PAGE;
}

const struct space_device *
space_at(size_t i)
{
	return i < ndevices ? &devices[i] : NULL;
}

/* The ranges are in no order, but they are few. */
const struct space_device *
space_find(const void *p)
{
	for (size_t i = 0; i < ndevices; i++)
		if ((uintptr_t)p - (uintptr_t)devices[i].base < devices[i].nbytes)
			return &devices[i];
	return NULL;
}

bool
space_is_pinned(const void *p)
{
	return pinned.base && (uintptr_t)p - (uintptr_t)pinned.base < pinned.nbytes;
}

static void *
reserve(uint64_t nbytes)
{
	void *p = mmap(NULL, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* The range is no larger than the host's memory needs, because qemu-user visits each page of it. */
static enum rc
reserve_pinned(struct err *err)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t n = PINNED_LEAST;
	void *p;

	while (n < memory && n < PINNED_MOST)
		n *= 2;
	pinned.gaps = malloc(sizeof *pinned.gaps);
	if (!pinned.gaps)
		return err_set(err, RC_NOMEM, "out of memory");
	pinned.fd = memfd_create("gpusim-pinned", MFD_CLOEXEC);
	if (pinned.fd < 0 || ftruncate(pinned.fd, (off_t)n) != 0)
		return err_set(err, RC_NOMEM, "pinned host memory: %s", strerror(errno));
	while ((p = mmap(NULL, n, PROT_NONE, MAP_SHARED | MAP_NORESERVE, pinned.fd, 0)) ==
		   MAP_FAILED &&
	       n > PINNED_LEAST)
		n /= 2;
	if (p == MAP_FAILED)
		return err_set(err, RC_NOMEM, "pinned host memory: %s", strerror(errno));
	pinned.base = p;
	pinned.nbytes = n;
	pinned.gaps[0] = (struct gap){0, n};
	pinned.ngaps = pinned.room = 1;
	return RC_OK;
}

enum rc
space_reserve(const struct space_device *v, size_t n, struct err *err)
{
	enum rc rc = reserve_pinned(err);

	if (rc != RC_OK)
		return rc;
	devices = alloc_zeroed(n, sizeof *devices);
	if (!devices)
		return err_set(err, RC_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		devices[i] = v[i];
		devices[i].base = reserve(v[i].nbytes);
		if (!devices[i].base)
			return err_set(err, RC_NOMEM,
				       "device %zu: cannot reserve %llu bytes of addresses", i,
				       (unsigned long long)v[i].nbytes);
	}
	ndevices = n;
	return RC_OK;
}

/* ------------------------------------------------------------------ devices */

/* Map [off, off + nbytes) of the device's memory in its place in the range. */
static enum rc
map_file(const struct space_device *d, uint64_t off, uint64_t nbytes, struct err *err)
{
	struct devmem_header h;
	int fd = open(d->path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	enum rc rc = RC_OK;

	if (fd < 0)
		return err_set(err, RC_NOTFOUND, "%s: %s", d->path, strerror(errno));
	rc = devmem_file_check(d->path, fd, d->device.id, &h, err);
	if (rc == RC_OK && h.nbytes != d->nbytes)
		rc = err_set(err, RC_BADDATA, "%s: its size has changed", d->path);
	if (rc == RC_OK &&
	    mmap(d->base + off, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 (off_t)(DEVMEM_PAGE + off)) == MAP_FAILED)
		rc = err_set(err, RC_FAILED, "%s: cannot map: %s", d->path, strerror(errno));
	close(fd);
	return rc;
}

enum rc
space_map_all(struct err *err)
{
	enum rc rc = RC_OK;

	for (size_t i = 0; i < ndevices; i++) {
		struct err one = {0};

		if (map_file(&devices[i], 0, devices[i].nbytes, &one) != RC_OK && rc == RC_OK)
			rc = err_set(err, one.rc, "%s", one.text);
	}
	if (pinned.base && mprotect(pinned.base, pinned.nbytes, PROT_READ | PROT_WRITE) != 0 &&
	    rc == RC_OK)
		rc = err_set(err, RC_FAILED, "pinned host memory: %s", strerror(errno));
	return rc;
}

enum rc
space_open(void *p, uint64_t nbytes, struct err *err)
{
	const struct space_device *d = space_find(p);
	uint64_t off = d ? (uint64_t)((unsigned char *)p - d->base) : 0;
	enum rc rc;

	nbytes = whole_pages(nbytes);
	if (!d || off % PAGE != 0 || nbytes > d->nbytes - off)
		return err_set(err, RC_INVAL, "not whole pages of a device");
	rc = map_file(d, off, nbytes, err);
	if (rc == RC_OK && madvise(p, nbytes, MADV_POPULATE_WRITE) != 0) {
		rc = err_set(err, RC_NOMEM, "%s: no room for %llu bytes: %s", d->path,
			     (unsigned long long)nbytes, strerror(errno));
		space_close(p, nbytes);
	}
	return rc;
}

void
space_close(void *p, uint64_t nbytes)
{
	/* A failure leaves the pages open, which is harmless. */
	(void)!mmap(p, whole_pages(nbytes), PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* ------------------------------------------------------------------ pinned memory */

/* Take the first gap that is large enough; UINT64_MAX: none. */
static uint64_t
take(uint64_t nbytes)
{
	for (size_t i = 0; i < pinned.ngaps; i++) {
		struct gap *g = &pinned.gaps[i];
		uint64_t off = g->off;

		if (g->nbytes < nbytes)
			continue;
		g->off += nbytes;
		g->nbytes -= nbytes;
		if (!g->nbytes)
			memmove(g, g + 1, (--pinned.ngaps - i) * sizeof *g);
		return off;
	}
	return UINT64_MAX;
}

/* False: out of memory, and the addresses stay unused. */
static bool
give_back(uint64_t off, uint64_t nbytes)
{
	struct gap *g = pinned.gaps;
	size_t i = 0;

	while (i < pinned.ngaps && g[i].off < off)
		i++;
	if (i > 0 && g[i - 1].off + g[i - 1].nbytes == off) {
		g[i - 1].nbytes += nbytes;
		if (i < pinned.ngaps && g[i].off == off + nbytes) {
			g[i - 1].nbytes += g[i].nbytes;
			memmove(&g[i], &g[i + 1], (--pinned.ngaps - i) * sizeof *g);
		}
		return true;
	}
	if (i < pinned.ngaps && g[i].off == off + nbytes) {
		g[i].off = off;
		g[i].nbytes += nbytes;
		return true;
	}
	if (pinned.ngaps == pinned.room) {
		g = realloc(g, 2 * pinned.room * sizeof *g);
		if (!g)
			return false;
		pinned.gaps = g;
		pinned.room *= 2;
	}
	memmove(&g[i + 1], &g[i], (pinned.ngaps++ - i) * sizeof *g);
	g[i] = (struct gap){off, nbytes};
	return true;
}

void *
space_pin(size_t nbytes)
{
	uint64_t off, n = whole_pages(nbytes ? nbytes : 1);
	unsigned char *p;

	if (!pinned.base || nbytes > pinned.nbytes)
		return NULL;
	pthread_mutex_lock(&pinned.lock);
	off = take(n);
	pthread_mutex_unlock(&pinned.lock);
	if (off == UINT64_MAX)
		return NULL;
	p = pinned.base + off;
	/* Allocate the pages now: later, running out of memory could not be reported. */
	if (mprotect(p, n, PROT_READ | PROT_WRITE) == 0 &&
	    fallocate(pinned.fd, 0, (off_t)off, (off_t)n) == 0)
		return p;
	space_unpin(p, nbytes);
	return NULL;
}

void
space_unpin(void *p, size_t nbytes)
{
	uint64_t n = whole_pages(nbytes ? nbytes : 1);
	uint64_t off = (uint64_t)((unsigned char *)p - pinned.base);

	(void)!mprotect(p, n, PROT_NONE);
	(void)!fallocate(pinned.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
			 (off_t)n);
	pthread_mutex_lock(&pinned.lock);
	(void)!give_back(off, n);
	pthread_mutex_unlock(&pinned.lock);
}
