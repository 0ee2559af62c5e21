/*
 * Pages of devices for this process, and small allocations inside them.
 *
 * Design notes. All memory that the process takes from a device is whole pages, so no other process has
 * a part of a page that a kernel of this process can reach. Small allocations share a chunk, which is given back
 * when none is left in it. Chunks grow with the memory in them, so that they are few. A lock guards chunks;
 * it is held while the device is asked for one.
 */
#include <stdlib.h>

#include "cudart/cuda_impl.h"

#define UNIT	    512u /* an allocation's size is rounded up to it, as CUDA's are */
#define SMALL	    (UINT64_C(32) << 10)
#define CHUNK_LEAST (UINT64_C(64) << 10)

/* A device leases 4096 allocations to a process: from MANY on, larger ones share chunks, too. */
#define MANY	   2048u
#define SMALL_MANY (UINT64_C(1) << 20)
#define CHUNK_MANY (UINT64_C(16) << 20)

struct chunk {
	struct chunk *next;
	struct memory m;
	uint64_t used;
};

/* Of a device; gaps are addresses in chunks. */
struct small {
	struct gaps gaps;
	struct chunk *chunks;
	uint64_t nbytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint taken[SPACE_DEVICES_MAX]; /* by ordinal: from the device */

/* Ask the device for whole pages. It gives them on a page if all others do the same; else for one page more. */
static enum gpusim_rc
ask(struct device *d, struct memory *m)
{
	struct gpusim_device on = d->space->device;
	struct gpusim_addr a;
	enum gpusim_rc rc = gpusim_malloc(cuda_connection(), on, m->nbytes, GPUSIM_LEASE, &a);

	if (rc == GPUSIM_OK && a.addr % SPACE_PAGE != 0) {
		gpusim_free(cuda_connection(), on, a);
		rc = gpusim_malloc(cuda_connection(), on, m->nbytes + SPACE_PAGE, GPUSIM_LEASE, &a);
	}
	if (rc == GPUSIM_OK) {
		m->owned = a.addr;
		m->addr = space_pages(a.addr);
	}
	return rc;
}

static enum gpusim_rc
take_pages(struct device *d, struct memory *m)
{
	enum gpusim_rc rc = ask(d, m);

	if (rc != GPUSIM_OK)
		return rc;
	m->base = space_place(d->space, m->nbytes);
	if (m->base) {
		atomic_fetch_add(&taken[d->ordinal], 1);
		return GPUSIM_OK;
	}
	gpusim_free(cuda_connection(), d->space->device, (struct gpusim_addr){m->owned});
	return GPUSIM_NOMEM;
}

static void
give_pages(const struct memory *m)
{
	struct device *d = cuda_device_at(m->ordinal);

	atomic_fetch_sub(&taken[d->ordinal], 1);
	space_unplace(d->space, m->base, m->nbytes);
	gpusim_free(cuda_connection(), d->space->device, (struct gpusim_addr){m->owned});
}

/* Lock held. */
static bool
add_chunk(struct device *d, uint64_t least)
{
	struct small *s = d->small;
	struct chunk *c = calloc(1, sizeof *c);
	uint64_t most = d->space->nbytes / 64, n = s->nbytes / 4;

	if (atomic_load(&taken[d->ordinal]) > MANY)
		n = CHUNK_MANY;
	n = n > most ? most : n;
	n = n < CHUNK_LEAST ? CHUNK_LEAST : n;
	n = space_pages(n < least ? least : n);
	if (!c)
		return false;
	c->m = (struct memory){.ordinal = d->ordinal, .nbytes = n};
	if (take_pages(d, &c->m) != GPUSIM_OK) {
		c->m.nbytes = space_pages(least); /* the device is nearly full */
		if (c->m.nbytes >= n || take_pages(d, &c->m) != GPUSIM_OK) {
			free(c);
			return false;
		}
	}
	if (!gaps_give(&s->gaps, (uintptr_t)c->m.base, c->m.nbytes)) {
		give_pages(&c->m);
		free(c);
		return false;
	}
	c->next = s->chunks;
	s->chunks = c;
	s->nbytes += c->m.nbytes;
	return true;
}

static enum gpusim_rc
take_small(struct device *d, struct memory *m)
{
	uint64_t at = UINT64_MAX;
	struct chunk *c = NULL;

	pthread_mutex_lock(&lock);
	if (!d->small)
		d->small = calloc(1, sizeof *d->small);
	if (d->small) {
		at = gaps_take(&d->small->gaps, m->nbytes);
		if (at == UINT64_MAX && add_chunk(d, m->nbytes))
			at = gaps_take(&d->small->gaps, m->nbytes);
		c = d->small->chunks;
	}
	while (at != UINT64_MAX && at - (uintptr_t)c->m.base >= c->m.nbytes)
		c = c->next;
	if (at != UINT64_MAX) {
		c->used += m->nbytes;
		m->base = c->m.base + (at - (uintptr_t)c->m.base);
		m->addr = c->m.addr + (at - (uintptr_t)c->m.base);
		m->chunk = c;
	}
	pthread_mutex_unlock(&lock);
	return at != UINT64_MAX ? GPUSIM_OK : GPUSIM_NOMEM;
}

/* Returns the chunk if nothing is left in it; it is then no chunk any more. */
static struct chunk *
give_small(const struct memory *m)
{
	struct small *s = cuda_device_at(m->ordinal)->small;
	struct chunk *c = m->chunk, **at = &s->chunks;

	pthread_mutex_lock(&lock);
	(void)gaps_give(&s->gaps, (uintptr_t)m->base, m->nbytes);
	c->used -= m->nbytes;
	if (c->used || !gaps_cut(&s->gaps, (uintptr_t)c->m.base, c->m.nbytes)) {
		c = NULL;
	} else {
		while (*at != c)
			at = &(*at)->next;
		*at = c->next;
		s->nbytes -= c->m.nbytes;
	}
	pthread_mutex_unlock(&lock);
	return c;
}

bool
memory_fits(const struct memory *m, size_t size)
{
	uint64_t n = size <= m->nbytes ? (size + UNIT - 1) / UNIT * UNIT : UINT64_MAX;

	return m->nbytes == (m->chunk ? n : space_pages(n));
}

enum gpusim_rc
pages_take(struct device *d, enum pages pages, struct memory *m)
{
	if (m->asked > d->space->nbytes) { /* the device refuses it, and records that */
		m->nbytes = m->asked;
		return ask(d, m) == GPUSIM_OK ? GPUSIM_INTERNAL : GPUSIM_NOMEM;
	}
	m->nbytes = (m->asked + UNIT - 1) / UNIT * UNIT;
	if (pages == PAGES_SHARED &&
	    m->nbytes < (atomic_load(&taken[d->ordinal]) > MANY ? SMALL_MANY : SMALL))
		return take_small(d, m);
	m->nbytes = space_pages(m->nbytes);
	return take_pages(d, m);
}

void
pages_give(const struct memory *m)
{
	struct chunk *c = m->chunk ? give_small(m) : NULL;

	if (m->chunk && !c)
		return;
	space_forget(c ? c->m.base : m->base, c ? c->m.nbytes : m->nbytes, m->asked);
	give_pages(c ? &c->m : m);
	free(c);
}
