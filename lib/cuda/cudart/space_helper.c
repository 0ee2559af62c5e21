/*
 * A helper's mappings.
 *
 * Design notes. All threads of the helper take one lock to map and unmap; a thread in a handler takes it too,
 * which is safe because no thread faults while it holds it. The program takes an allocation out of the
 * table before it sends the message. Before a kernel, a helper counts it as running and then reads the messages;
 * the program sends its message and then looks whether kernels run. So either the helper has unmapped the pages
 * before it runs anything, or the program waits until it has.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cudart/memcheck.h"
#include "cudart/space.h"
#include "mem/cmdq.h"
#include "mem/devmem_file.h"

#define NEAR (UINT64_C(1) << 20) /* bytes: an allocation further away explains nothing */

static struct {
	int ordinal;
	atomic_flag lock;
	int fd[SPACE_DEVICES_MAX];
	_Atomic(bool) cannot_map;
} helper = {.lock = ATOMIC_FLAG_INIT};

static _Thread_local struct {
	const unsigned char *page; /* the last that faulted */
	uint64_t seen;		   /* messages read then */
} last;

static void
lock(void)
{
	while (atomic_flag_test_and_set(&helper.lock))
		sched_yield();
}

static void
unlock(void)
{
	atomic_flag_clear(&helper.lock);
}

static struct space_slot *
slot(void)
{
	return &space_shared()->slot[helper.ordinal];
}

/* ---- looking up */

static unsigned char *
page_of(const void *p)
{
	return (unsigned char *)((uintptr_t)p / SPACE_PAGE * SPACE_PAGE);
}

static uint64_t
distance(const struct memory *m, const void *p)
{
	return (uintptr_t)p - (uintptr_t)(m->base + m->asked);
}

/* ---- mapping */

static bool
is_allowed(const struct memory *m)
{
	return m->kind != MEMORY_DEVICE || m->ordinal == helper.ordinal ||
	       (helper.ordinal < 64 && m->open >> helper.ordinal & 1) ||
	       atomic_load(&slot()->peers[m->ordinal]);
}

/* The device's file, opened when it is first needed. */
static int
file_of(int ordinal, struct err *err)
{
	const struct space_device *d = space_at((size_t)ordinal);
	struct devmem_header h;
	int fd = helper.fd[ordinal];

	if (fd > 0)
		return fd;
	fd = open(d->path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || devmem_file_check(d->path, fd, d->device.id, &h, err) != RC_OK ||
	    h.nbytes != d->nbytes) {
		if (fd >= 0)
			close(fd);
		err_set(err, RC_NOTFOUND, "%s: not the device's memory", d->path);
		return -1;
	}
	return helper.fd[ordinal] = fd;
}

/* Lock held. Map the allocation's pages, if it has the address's page. */
static bool
map(const struct memory *m, const unsigned char *page)
{
	unsigned char *first = page_of(m->base);
	uint64_t nbytes = space_pages((uint64_t)(m->base - first) + m->nbytes);
	uint64_t addr = m->addr - (uint64_t)(m->base - first);
	struct err err = {0};
	int fd;

	if (!m->base || page < first || page >= first + nbytes || !is_allowed(m))
		return false;
	if (m->kind == MEMORY_PINNED)
		return mprotect(first, nbytes, PROT_READ | PROT_WRITE) == 0;
	if (m->kind != MEMORY_DEVICE && m->kind != MEMORY_MANAGED)
		return false;
	fd = file_of(m->ordinal, &err);
	memcheck_mapped(m);
	if (fd >= 0 && mmap(first, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			    (off_t)devmem_file_offset(addr)) != MAP_FAILED)
		return true;
	atomic_store(&helper.cannot_map, true);
	return false;
}

/* The same page twice: it is mapped, and the access is illegal for another reason. */
bool
space_fault(const void *p)
{
	unsigned char *page = page_of(p);
	struct memory left, right;
	uint64_t seen;
	bool mapped = false;

	if (!space_find(p) && !space_is_pinned(p))
		return false;
	lock();
	seen = atomic_load(&slot()->seen);
	if (last.page != page || last.seen != seen) {
		allocs_around(space_table(), p, &left, &right);
		mapped = map(&left, page) || map(&right, page);
	}
	last.page = mapped ? page : NULL;
	last.seen = seen;
	unlock();
	return mapped;
}

/* ---- unmapping */

static void
unmap(void *p, uint64_t nbytes)
{
	memcheck_unmapped(p, nbytes);
	if (space_is_pinned(p))
		(void)!mprotect(p, nbytes, PROT_NONE);
	else
		space_close(p, nbytes);
}

static void
unmap_all(void)
{
	struct allocs *a = space_table();
	const struct space_device *d;

	for (size_t i = 0; (d = space_at(i)); i++)
		unmap(d->base, d->range);
	for (size_t i = 0; i < a->n; i++)
		if (a->v[i].kind == MEMORY_PINNED)
			unmap(a->v[i].base, space_pages(a->v[i].nbytes));
}

void
space_sync(void)
{
	struct space_shared *s = space_shared();
	uint64_t n, seen;

	lock();
	seen = atomic_load(&slot()->seen);
	n = atomic_load(&s->freed);
	for (uint64_t i = seen + 1; i <= n; i++) {
		struct space_freed f = s->log[i % SPACE_LOG];

		if (!f.base || atomic_load(&s->freed) - i >= SPACE_LOG - 1) {
			unmap_all();
			n = atomic_load(&s->freed);
			break;
		}
		unmap((void *)(uintptr_t)f.base, f.nbytes);
	}
	if (n != seen)
		cmdq_publish(&slot()->seen, &slot()->sleeps, n);
	unlock();
}

void
space_enter(void)
{
	atomic_fetch_add(&slot()->running, 1);
	if (atomic_load(&slot()->seen) != atomic_load(&space_shared()->freed))
		space_sync();
}

void
space_leave(void)
{
	if (atomic_load(&slot()->seen) != atomic_load(&space_shared()->freed))
		space_sync();
	atomic_fetch_sub(&slot()->running, 1);
}

/* Unmapping all closes the managed and pinned memory that was open in the program. */
enum rc
space_helper_begin(int ordinal, struct err *err)
{
	helper.ordinal = ordinal;
	memset(helper.fd, 0, sizeof helper.fd);
	memcheck_helper();
	unmap_all();
	atomic_store(&slot()->running, 0);
	atomic_store(&slot()->seen, atomic_load(&space_shared()->freed));
	return file_of(ordinal, err) >= 0 ? RC_OK : err->rc;
}

/* ---- messages */

/* The last freed memory that had the address; base NULL: none. */
static struct space_freed
freed_at(const void *p)
{
	struct space_shared *s = space_shared();
	uint64_t n = atomic_load(&s->freed), least = n > SPACE_LOG ? n - SPACE_LOG : 0;

	for (; n > least; n--) {
		struct space_freed f = s->log[n % SPACE_LOG];

		if (f.base && (uintptr_t)p - (uintptr_t)f.base < f.nbytes)
			return f;
	}
	return (struct space_freed){NULL, 0, 0};
}

void
space_describe(const void *p, char *text, size_t size)
{
	struct memory l, r;
	struct space_freed f = freed_at(p);

	*text = '\0';
	if (!space_find(p) && !space_is_pinned(p))
		return;
	allocs_around(space_table(), p, &l, &r);
	if (l.base && (uintptr_t)p - (uintptr_t)l.base < l.nbytes) {
		if (l.ipc)
			snprintf(text, size, ", memory of another process, which has freed it");
		else if (!is_allowed(&l))
			snprintf(text, size,
				 ", memory of device %d, to which peer access is not enabled",
				 l.ordinal);
		else if (atomic_load(&helper.cannot_map))
			snprintf(text, size,
				 ", which cannot be mapped: see vm.max_map_count in sysctl");
	} else if (f.base && !(l.base && distance(&l, p) < SPACE_PAGE))
		snprintf(text, size, ", %llu bytes into %llu freed bytes at %p",
			 (unsigned long long)((uintptr_t)p - (uintptr_t)f.base),
			 (unsigned long long)f.asked, (const void *)f.base);
	else if (l.base && distance(&l, p) < NEAR &&
		 !(r.base && (uintptr_t)r.base - (uintptr_t)p < distance(&l, p)))
		snprintf(text, size, ", %llu bytes after the %llu-byte allocation at %p",
			 (unsigned long long)distance(&l, p), (unsigned long long)l.asked,
			 (void *)l.base);
	else if (r.base && (uintptr_t)r.base - (uintptr_t)p < NEAR)
		snprintf(text, size, ", %llu bytes before the %llu-byte allocation at %p",
			 (unsigned long long)((uintptr_t)r.base - (uintptr_t)p),
			 (unsigned long long)r.asked, (void *)r.base);
	else
		snprintf(text, size, ", not near any allocation");
}
