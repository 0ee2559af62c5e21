/*
 * Design notes. The file is DEVMEM_PAGE bytes of struct devmem_header, then the memory, then the device's
 * own memory (devmem_own_*), at the addresses above the memory, then the table of allocations
 * (devmem_file.h). Ownership of the file: devmem_open.c.
 *
 * Blocks of the file are reserved when a range is first asked for, DEVMEM_BLOCK bytes at a time, so
 * that a device costs what it uses; a full disk is an error then, never a SIGBUS later. reserved[]
 * only ever goes from 0 to 1, without a lock. The table is
 * never mapped, so a full disk is an error there too.
 *
 * An allocation is entered in the table before its address is returned, and removed before its address can
 * be allocated again: the arenas, which a killed process loses, are made from the table by the next one.
 * The device's own allocations are not entered, and are lost, except persistent areas.
 *
 * One mutex guards the arenas, the table and the list of persistent areas; everything else is constant
 * between open and close.
 */
#include "mem/devmem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "mem/devmem_impl.h"
#include "mem/sweep.h"

/* Lock held. Note an allocation that the table has. */
static enum rc
note(struct devmem *m, const struct devmem_entry *e, struct err *err)
{
	struct devmem_persist *k;
	enum rc rc;

	if (e->addr < devmem_max(m))
		return arena_put(&m->arena, e->addr, e->nbytes, err);
	k = alloc_zeroed(1, sizeof *k);
	if (!k)
		return err_set(err, RC_NOMEM, "out of memory");
	rc = arena_put(&m->own_arena, e->addr, e->nbytes, err);
	if (rc != RC_OK) {
		free(k);
		return rc;
	}
	*k = (struct devmem_persist){.next = m->persist, .addr = e->addr, .nbytes = e->nbytes};
	m->persist = k;
	return RC_OK;
}

static enum rc
load(void *arg, const struct devmem_entry *e, struct err *err)
{
	struct devmem *m = arg;
	enum rc rc = note(m, e, err);

	if (rc == RC_INVAL)
		rc = err_set(err, RC_BADDATA,
			     "%s: the table of allocations is damaged at 0x%" PRIx64
			     ", two overlap: remove the file, which ends its allocations and "
			     "contents",
			     m->path, e->addr);
	return rc;
}

/* Map the file, and make the bookkeeping: enter the table's allocations, including persistent areas.
 * RC_BADDATA: they overlap, or the table is damaged. */
static enum rc
map_file(struct devmem *m, struct err *err)
{
	void *map =
	    mmap(NULL, devmem_map_bytes(m->nbytes), PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	enum rc rc;

	if (map == MAP_FAILED)
		return err_set(err, RC_NOMEM, "%s: cannot map %" PRIu64 " bytes: %s", m->path,
			       devmem_map_bytes(m->nbytes), strerror(errno));
	m->map = map;
	m->reserved = alloc_zeroed((m->nbytes + m->own + DEVMEM_BLOCK - 1) / DEVMEM_BLOCK,
				   sizeof *m->reserved);
	if (!m->reserved)
		return err_set(err, RC_NOMEM, "out of memory");
	rc = arena_init(&m->arena, devmem_min(m), devmem_max(m), DEVMEM_ALIGN, err);
	if (rc == RC_OK)
		rc = arena_init(&m->own_arena, devmem_max(m), devmem_max(m) + m->own, DEVMEM_PAGE,
				err);
	return rc == RC_OK ? devmem_table_scan(&m->table, load, m, err) : rc;
}

enum rc
devmem_open(const char *path, uint64_t device_id, uint64_t nbytes, struct devmem **out,
	    struct err *err)
{
	struct devmem *m = NULL;
	bool created = false;
	enum rc rc = RC_OK;

	if (nbytes == 0 || nbytes > DEVMEM_MOST)
		return err_set(err, RC_INVAL,
			       "device memory of %" PRIu64 " bytes: must be 1 to %" PRIu64, nbytes,
			       DEVMEM_MOST);
	nbytes = (nbytes + DEVMEM_PAGE - 1) / DEVMEM_PAGE * DEVMEM_PAGE;
	m = alloc_zeroed(1, sizeof *m);
	if (!m)
		return err_set(err, RC_NOMEM, "out of memory");
	m->fd = -1;
	m->nbytes = nbytes;
	m->own = devmem_own_bytes(nbytes);
	pthread_mutex_init(&m->lock, NULL);
	if (path)
		m->path = strdup(path);
	else if (asprintf(&m->path, SWEEP_FOLDER "/gpusim-%u-%016" PRIx64, (unsigned)geteuid(),
			  device_id) < 0)
		m->path = NULL;
	if (!m->path)
		rc = err_set(err, RC_NOMEM, "out of memory");
	else if (getrandom(&m->incarnation, sizeof m->incarnation, 0) !=
		 (ssize_t)sizeof m->incarnation)
		rc = err_set(err, RC_FAILED, "no random number: %s", strerror(errno));
	m->incarnation |= 1;
	if (rc == RC_OK)
		rc = devmem_file_take(m->path, !path, device_id, nbytes, m->incarnation, &m->fd,
				      &created, err);
	m->table = (struct devmem_table){.path = m->path, .fd = m->fd, .nbytes = nbytes};
	if (rc == RC_OK)
		rc = map_file(m, err);
	if (rc) {
		devmem_close(m, created ? DEVMEM_UNLINK_FILE : DEVMEM_PERSIST_FILE);
		return rc;
	}
	*out = m;
	return RC_OK;
}

void
devmem_close(struct devmem *m, enum devmem_fate fate)
{
	struct devmem_persist *k;

	if (!m)
		return;
	if (m->map)
		munmap(m->map, devmem_map_bytes(m->nbytes));
	if (m->recorder)
		munmap(m->recorder, m->recorder_bytes);
	if (m->fd >= 0) {
		if (fate == DEVMEM_UNLINK_FILE && devmem_same_file(m->path, m->fd))
			unlink(m->path);
		close(m->fd);
	}
	arena_fini(&m->arena);
	arena_fini(&m->own_arena);
	while ((k = m->persist)) {
		m->persist = k->next;
		free(k);
	}
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

uint64_t
devmem_incarnation(const struct devmem *m)
{
	return m->incarnation;
}

static bool
is_reserved(const struct devmem *m, uint64_t first, uint64_t last)
{
	for (uint64_t b = first; b <= last; b++)
		if (!atomic_load_explicit(&m->reserved[b], memory_order_acquire))
			return false;
	return true;
}

/*
 * Reserve the file's blocks for [off, off + nbytes) of the memory; an errno, or 0. Without the lock: a GiB may take
 * seconds, and the thread of the heartbeats takes that lock. Two threads may reserve the same blocks.
 */
static int
reserve(const struct devmem *m, uint64_t off, uint64_t nbytes)
{
	uint64_t first = off / DEVMEM_BLOCK,
		 last = nbytes ? (off + nbytes - 1) / DEVMEM_BLOCK : first, end;
	int e;

	if (nbytes == 0 || is_reserved(m, first, last))
		return 0;
	end = (last + 1) * DEVMEM_BLOCK;
	if (end > m->nbytes + m->own)
		end = m->nbytes + m->own;
	do
		e = posix_fallocate(m->fd, (off_t)(DEVMEM_PAGE + first * DEVMEM_BLOCK),
				    (off_t)(end - first * DEVMEM_BLOCK));
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

/* Lock held, released meanwhile. Take from one of the arenas, with the file's blocks. */
static enum rc
take(struct devmem *m, struct arena *a, uint64_t nbytes, uint64_t *addr, struct err *err)
{
	uint64_t got;
	enum rc rc = arena_take(a, nbytes, &got, err);
	int e;

	if (rc != RC_OK)
		return rc;
	pthread_mutex_unlock(&m->lock);
	e = reserve(m, got - devmem_min(m), nbytes);
	pthread_mutex_lock(&m->lock);
	if (e) {
		arena_give(a, got, NULL);
		return err_set(err, RC_NOMEM, "%s has no room for %" PRIu64 " bytes: %s", m->path,
			       nbytes, strerror(e));
	}
	*addr = got;
	return RC_OK;
}

/* Lock held. Enter what was taken; else it is given back. */
static enum rc
enter(struct devmem *m, struct arena *a, uint64_t addr, uint64_t owner, struct err *err)
{
	struct devmem_entry e = {.addr = addr, .nbytes = arena_size(a, addr), .owner = owner};
	enum rc rc = devmem_table_enter(&m->table, &e, err);

	if (rc != RC_OK)
		arena_give(a, addr, NULL);
	return rc;
}

enum rc
devmem_alloc_for(struct devmem *m, uint64_t nbytes, uint64_t owner, uint64_t *addr, struct err *err)
{
	uint64_t got = 0;
	enum rc rc;

	pthread_mutex_lock(&m->lock);
	rc = m->adopting ? err_set(err, RC_BUSY, "it is taking over another device's memory")
			 : RC_OK;
	if (rc == RC_OK)
		rc = take(m, &m->arena, nbytes, &got, err);
	if (rc == RC_OK)
		rc = enter(m, &m->arena, got, owner, err);
	pthread_mutex_unlock(&m->lock);
	if (rc == RC_OK)
		*addr = got;
	return rc;
}

enum rc
devmem_alloc(struct devmem *m, uint64_t nbytes, uint64_t *addr, struct err *err)
{
	return devmem_alloc_for(m, nbytes, 0, addr, err);
}

/* Lock held. */
static enum rc
strike(struct devmem *m, struct arena *a, uint64_t addr, struct err *err)
{
	enum rc rc;

	if (!arena_size(a, addr))
		return arena_give(a, addr, err); /* it says what is wrong */
	rc = devmem_table_strike(&m->table, addr, err);
	return rc == RC_OK ? arena_give(a, addr, err) : rc;
}

enum rc
devmem_free(struct devmem *m, uint64_t addr, struct err *err)
{
	enum rc rc;

	pthread_mutex_lock(&m->lock);
	rc = strike(m, &m->arena, addr, err);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

bool
devmem_is_allocated(struct devmem *m, uint64_t addr, uint64_t nbytes)
{
	bool yes;

	pthread_mutex_lock(&m->lock);
	yes = arena_covers(&m->arena, addr, nbytes);
	pthread_mutex_unlock(&m->lock);
	return yes;
}

enum rc
devmem_own_alloc(struct devmem *m, uint64_t nbytes, void **out, struct err *err)
{
	uint64_t addr = 0;
	enum rc rc;

	pthread_mutex_lock(&m->lock);
	rc = take(m, &m->own_arena, nbytes, &addr, err);
	pthread_mutex_unlock(&m->lock);
	if (rc == RC_OK)
		*out = m->map + devmem_file_offset(addr);
	return rc;
}

void
devmem_own_free(struct devmem *m, void *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&m->lock);
	arena_give(&m->own_arena, devmem_addr(m, p), NULL);
	pthread_mutex_unlock(&m->lock);
}

/* ---- persistent areas */

enum rc
devmem_persist_alloc(struct devmem *m, uint64_t nbytes, void **out, struct err *err)
{
	struct devmem_persist *k = alloc_zeroed(1, sizeof *k);
	enum rc rc;

	if (!k)
		return err_set(err, RC_NOMEM, "out of memory");
	pthread_mutex_lock(&m->lock);
	rc = take(m, &m->own_arena, nbytes, &k->addr, err);
	if (rc == RC_OK) {
		/* What is there may look like what was kept before. */
		memset(m->map + devmem_file_offset(k->addr), 0, DEVMEM_PAGE);
		rc = enter(m, &m->own_arena, k->addr, 0, err);
	}
	if (rc == RC_OK) {
		k->nbytes = arena_size(&m->own_arena, k->addr);
		k->next = m->persist;
		m->persist = k;
		*out = m->map + devmem_file_offset(k->addr);
	}
	pthread_mutex_unlock(&m->lock);
	if (rc != RC_OK)
		free(k);
	return rc;
}

/* Lock held. */
static struct devmem_persist **
find_persist(struct devmem *m, const void *p)
{
	struct devmem_persist **at = &m->persist;

	while (*at && (*at)->addr != devmem_addr(m, p))
		at = &(*at)->next;
	return at;
}

enum rc
devmem_persist_free(struct devmem *m, void *p, struct err *err)
{
	struct devmem_persist **at, *k;
	enum rc rc;

	if (!p)
		return RC_OK;
	pthread_mutex_lock(&m->lock);
	at = find_persist(m, p);
	k = *at;
	rc = k ? strike(m, &m->own_arena, k->addr, err)
	       : err_set(err, RC_INVAL, "no persistent area begins there");
	if (rc == RC_OK) {
		*at = k->next;
		free(k);
	}
	pthread_mutex_unlock(&m->lock);
	return rc;
}

void *
devmem_persist_next(struct devmem *m, const void *after, uint64_t *nbytes)
{
	struct devmem_persist *k;
	void *p = NULL;

	pthread_mutex_lock(&m->lock);
	k = after ? *find_persist(m, after) : m->persist;
	if (after && k)
		k = k->next;
	if (k && reserve(m, k->addr - devmem_min(m), k->nbytes) == 0) {
		*nbytes = k->nbytes;
		p = m->map + devmem_file_offset(k->addr);
	}
	pthread_mutex_unlock(&m->lock);
	return p;
}

enum rc
devmem_put(struct devmem *m, const struct devmem_entry *e, struct err *err)
{
	enum rc rc = arena_put(&m->arena, e->addr, e->nbytes, err);

	if (rc != RC_OK)
		return rc;
	rc = devmem_table_enter(&m->table, e, err);
	if (rc != RC_OK)
		arena_give(&m->arena, e->addr, NULL);
	return rc;
}

void
devmem_take_back(struct devmem *m, uint64_t addr)
{
	strike(m, &m->arena, addr, NULL);
}

struct owners {
	struct devmem *m;
	devmem_owner_fn *fn;
	void *arg;
};

static enum rc
tell_owner(void *arg, const struct devmem_entry *e, struct err *err)
{
	struct owners *o = arg;

	(void)err;
	if (e->owner && e->addr < devmem_max(o->m))
		o->fn(o->arg, e->addr, e->nbytes, e->owner);
	return RC_OK;
}

enum rc
devmem_owners(struct devmem *m, devmem_owner_fn *fn, void *arg, struct err *err)
{
	struct owners o = {m, fn, arg};

	enum rc rc;

	pthread_mutex_lock(&m->lock);
	rc = devmem_table_scan(&m->table, tell_owner, &o, err);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

uint64_t
devmem_offset(const struct devmem *m, const void *p)
{
	const unsigned char *at = p;

	return at >= m->map && at < m->map + devmem_map_bytes(m->nbytes) ? (uint64_t)(at - m->map)
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

uint64_t
devmem_addr(const struct devmem *m, const void *p)
{
	return DEVMEM_FIRST + (uint64_t)((const unsigned char *)p - m->map) - DEVMEM_PAGE;
}
