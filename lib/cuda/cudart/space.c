/*
 * Design notes. The ranges are reserved by one thread when the process connects, and do not change:
 * lookups take no lock. A range is twice as large as the memory, for the pages between allocations. It is PROT_NONE
 * memory until the program needs access to some of it: then those pages become a mapping of the
 * device's file. Pinned memory is one mapping of a memfd that is as large as the range; it costs only
 * the used pages, because a memfd is sparse and the mapping reserves nothing. Free addresses are
 * lists of gaps, under a lock.
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
#include "base/clock.h"
#include "mem/cmdq.h"
#include "mem/devmem_file.h"

#define PAGE	     SPACE_PAGE
#define TABLE_MOST   (UINT64_C(2) << 20) /* allocations of a process */
#define PINNED_MOST  (UINT64_C(1) << 40) /* of addresses; less if the host has less memory */
#define PINNED_LEAST (UINT64_C(1) << 30)
#define RANGE_LEAST  (UINT64_C(64) << 20)
#define LOOK_NS	     (10 * NS_PER_MS)

#ifndef MADV_POPULATE_WRITE /* glibc before 2.35 */
#define MADV_POPULATE_WRITE 23
#endif

static struct space_device *devices;
static size_t ndevices;

static struct {
	pthread_mutex_t lock; /* of gaps, and of writing messages */
	struct gaps *gaps;    /* by device */
	struct space_shared *shared;
} space = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
	unsigned char *base;
	uint64_t nbytes;
	int fd;
	struct gaps gaps;
} pinned = {.fd = -1};

uint64_t
space_pages(uint64_t nbytes)
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
		if ((uintptr_t)p - (uintptr_t)devices[i].base < devices[i].range)
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
	return gaps_give(&pinned.gaps, 0, n) ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

/* The table of allocations is behind the rest; untouched, it costs nothing. */
static enum rc
make_shared(struct err *err)
{
	size_t nbytes = sizeof(struct space_shared) + TABLE_MOST * sizeof(struct memory);
	int fd = memfd_create("gpusim-space", MFD_CLOEXEC);
	void *p = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)nbytes) == 0)
		p = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (p == MAP_FAILED)
		return err_set(err, RC_NOMEM, "the table of allocations: %s", strerror(errno));
	space.shared = p;
	space.shared->process = clock_now_ns() ^ (uint64_t)getpid() << 40;
	space.shared->fd = fd;
	space.shared->table.v = (struct memory *)(void *)(space.shared + 1);
	space.shared->table.room = TABLE_MOST;
	space.shared->table.fixed = true;
	return RC_OK;
}

enum rc
space_reserve(const struct space_device *v, size_t n, struct err *err)
{
	enum rc rc = reserve_pinned(err);

	if (rc == RC_OK)
		rc = make_shared(err);
	if (rc != RC_OK)
		return rc;
	devices = alloc_zeroed(n, sizeof *devices);
	space.gaps = alloc_zeroed(n, sizeof *space.gaps);
	if (!devices || !space.gaps)
		return err_set(err, RC_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		devices[i] = v[i];
		devices[i].range = 2 * space_pages(v[i].nbytes) + RANGE_LEAST;
		devices[i].base = reserve(devices[i].range);
		if (!devices[i].base)
			return err_set(err, RC_NOMEM,
				       "device %zu: cannot reserve %llu bytes of addresses", i,
				       (unsigned long long)devices[i].range);
		if (!gaps_give(&space.gaps[i], PAGE, devices[i].range - PAGE))
			return err_set(err, RC_NOMEM, "out of memory");
	}
	ndevices = n;
	return RC_OK;
}

struct space_shared *
space_shared(void)
{
	return space.shared;
}

struct allocs *
space_table(void)
{
	return &space.shared->table;
}

_Atomic(bool) *
space_peers(int ordinal)
{
	return space.shared->slot[ordinal].peers;
}

/* ------------------------------------------------------------------ devices */

void *
space_place(const struct space_device *d, uint64_t nbytes)
{
	uint64_t off;

	pthread_mutex_lock(&space.lock);
	off = gaps_take(&space.gaps[d - devices], nbytes + PAGE);
	pthread_mutex_unlock(&space.lock);
	return off == UINT64_MAX ? NULL : d->base + off;
}

void
space_unplace(const struct space_device *d, void *p, uint64_t nbytes)
{
	pthread_mutex_lock(&space.lock);
	(void)gaps_give(&space.gaps[d - devices], (uint64_t)((unsigned char *)p - d->base),
			nbytes + PAGE);
	pthread_mutex_unlock(&space.lock);
}

enum rc
space_open(const struct space_device *d, void *p, uint64_t addr, uint64_t nbytes, struct err *err)
{
	struct devmem_header h;
	int fd = open(d->path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	enum rc rc;

	if (fd < 0)
		return err_set(err, RC_NOTFOUND, "%s: %s", d->path, strerror(errno));
	rc = devmem_file_check(d->path, fd, d->device.id, &h, err);
	if (rc == RC_OK && h.nbytes != d->nbytes)
		rc = err_set(err, RC_BADDATA, "%s: its size has changed", d->path);
	if (rc == RC_OK && mmap(p, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
				(off_t)devmem_file_offset(addr)) == MAP_FAILED)
		rc = err_set(err, RC_FAILED, "%s: cannot map: %s", d->path, strerror(errno));
	close(fd);
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
	(void)!mmap(p, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		    -1, 0);
}

void
space_wake(int ordinal)
{
	struct space_slot *s = &space.shared->slot[ordinal];

	cmdq_publish(&s->changes, &s->helper_sleeps, atomic_load(&s->changes) + 1);
}

/* Return true if the device's helper has read message n, or runs no kernel: it reads messages before one. */
static bool
is_forgotten(const struct space_slot *s, uint64_t n)
{
	return atomic_load(&s->running) == 0 || atomic_load(&s->seen) >= n;
}

void
space_forget(const void *p, uint64_t nbytes, uint64_t asked)
{
	uint64_t n;

	pthread_mutex_lock(&space.lock);
	n = atomic_load(&space.shared->freed) + 1;
	space.shared->log[n % SPACE_LOG] = (struct space_freed){p, nbytes, asked};
	atomic_store(&space.shared->freed, n);
	pthread_mutex_unlock(&space.lock);
	for (size_t i = 0; i < ndevices && devices[i].ordinal >= 0; i++) {
		struct space_slot *s = &space.shared->slot[i];

		while (!is_forgotten(s, n)) {
			/* Again, because another thread's change may hide this one. */
			space_wake((int)i);
			cmdq_await(&s->seen, &s->sleeps, n, NULL, clock_now_ns() + LOOK_NS);
		}
	}
}

void
space_helper_ended(int ordinal)
{
	atomic_store(&space.shared->slot[ordinal].running, 0);
}

/* ------------------------------------------------------------------ pinned memory */

void *
space_pin(size_t nbytes)
{
	uint64_t off, n = space_pages(nbytes ? nbytes : 1);
	unsigned char *p;

	if (!pinned.base || nbytes > pinned.nbytes)
		return NULL;
	pthread_mutex_lock(&space.lock);
	off = gaps_take(&pinned.gaps, n + PAGE); /* a closed page follows */
	pthread_mutex_unlock(&space.lock);
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
	uint64_t n = space_pages(nbytes ? nbytes : 1);
	uint64_t off = (uint64_t)((unsigned char *)p - pinned.base);

	(void)!mprotect(p, n, PROT_NONE);
	(void)!fallocate(pinned.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
			 (off_t)n);
	pthread_mutex_lock(&space.lock);
	(void)!gaps_give(&pinned.gaps, off, n + PAGE);
	pthread_mutex_unlock(&space.lock);
}
