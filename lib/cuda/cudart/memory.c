/*
 * Memory of devices: allocating, freeing, and classifying pointers.
 *
 * Design notes. The table of allocations, in memory that helpers read, is behind a read-write lock, which
 * is never held while a call waits. An allocation is a lease of the connection, so it ends with the process.
 * Managed memory, and with GPUSIM_UNIFIED=1 all memory, is opened for the program's own access, in whole pages.
 */
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "cudart/cuda_impl.h"
#include "cudart/helper.h"
#include "cudart/ipc.h"
#include "cudart/memcheck.h"

static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;

static bool
is_unified(void)
{
	static atomic_int known; /* 1: no, 2: yes */

	if (!atomic_load(&known))
		atomic_store(&known, env_is_set("GPUSIM_UNIFIED") ? 2 : 1);
	return atomic_load(&known) == 2;
}

/* ------------------------------------------------------------------ allocating */

cudaError_t
memory_own(struct device *d, size_t nbytes, uint64_t *addr)
{
	struct gpusim_addr a;
	enum gpusim_rc rc = gpusim_malloc(cuda_connection(), d->space->device, space_pages(nbytes),
					  GPUSIM_LEASE, &a);

	if (rc == GPUSIM_OK)
		*addr = a.addr;
	return cuda_error_of(rc);
}

cudaError_t
memory_enter(const struct memory *m)
{
	bool added;

	pthread_rwlock_wrlock(&table_lock);
	added = allocs_add(space_table(), m);
	pthread_rwlock_unlock(&table_lock);
	return added ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t
open_pages(const struct device *d, const struct memory *m)
{
	struct err err = {0};

	if (space_open(d->space, m->base, m->addr, m->nbytes, &err) == RC_OK)
		return cudaSuccess;
	cuda_tell(err.text);
	return cudaErrorMemoryAllocation;
}

/* Close and free memory that is not in the table. */
static void
give(const struct memory *m)
{
	if (m->ipc) {
		ipc_close(m->ipc);
		return;
	}
	if (m->export && ipc_keep(m)) {
		if (!m->chunk)
			helper_forget(m->base, m->nbytes, m->asked);
		return;
	}
	if (m->kind == MEMORY_MANAGED || is_unified())
		space_close(m->base, m->nbytes);
	pages_give(m);
}

cudaError_t
memory_allocate(struct device *d, struct memory m, void **out)
{
	bool opened = m.kind == MEMORY_MANAGED || is_unified();
	enum pages pages = opened || m.own || memcheck_on() ? PAGES_OWN : PAGES_SHARED;
	cudaError_t e;

	m.ordinal = d->ordinal;
	m.site = memcheck_site();
	pool_collect();
	ipc_collect();
	while (pages_take(d, pages, &m) != GPUSIM_OK)
		if (m.asked > d->space->nbytes ||
		    (!memcheck_flush(d->ordinal) && !pool_make_room(d->ordinal)))
			return cudaErrorMemoryAllocation;
	e = opened ? open_pages(d, &m) : cudaSuccess;
	if (e == cudaSuccess) {
		memcheck_fill(&m);
		e = memory_enter(&m);
	}
	if (e == cudaSuccess)
		*out = m.base;
	else
		give(&m);
	return e;
}

cudaError_t
memory_for_variables(struct device *d, size_t nbytes, struct memory *out)
{
	void *p;
	cudaError_t e = memory_allocate(
	    d, (struct memory){.kind = MEMORY_DEVICE, .asked = nbytes, .own = true}, &p);

	return e == cudaSuccess ? memory_find(p, nbytes, out, NULL) : e;
}

static cudaError_t
checked_allocate(enum memory_kind kind, size_t nbytes, unsigned flags, void **out)
{
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && !out)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = capture_forbids();
	if (e != cudaSuccess)
		return e;
	*out = NULL;
	return nbytes
		   ? memory_allocate(cuda_current(),
				     (struct memory){.kind = kind, .asked = nbytes, .flags = flags},
				     out)
		   : cudaSuccess;
}

cudaError_t
cudaMalloc(void **ptr, size_t size)
{
	return cuda_done(checked_allocate(MEMORY_DEVICE, size, 0, ptr));
}

cudaError_t
cudaMallocManaged(void **ptr, size_t size, unsigned int flags)
{
	if ((flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) || size == 0)
		return cuda_done(cudaErrorInvalidValue);
	return cuda_done(checked_allocate(MEMORY_MANAGED, size, flags, ptr));
}

cudaError_t
cudaMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height)
{
	size_t row = (width + 511) / 512 * 512;

	if (!pitch || row < width || (height && row > SIZE_MAX / height))
		return cuda_done(cudaErrorInvalidValue);
	*pitch = row;
	return cuda_done(checked_allocate(MEMORY_DEVICE, row * height, 0, ptr));
}

cudaError_t
cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
	struct cudaPitchedPtr p = {.xsize = extent.width, .ysize = extent.height};
	cudaError_t e;

	if (!pitchedDevPtr || (extent.depth && extent.height > SIZE_MAX / extent.depth))
		return cuda_done(cudaErrorInvalidValue);
	e = cudaMallocPitch(&p.ptr, &p.pitch, extent.width, extent.height * extent.depth);
	if (e == cudaSuccess)
		*pitchedDevPtr = p;
	return e;
}

/* ------------------------------------------------------------------ freeing */

/* The allocation that begins at ptr, to be changed; NULL: none. Lock held. */
static struct memory *
at(const void *ptr)
{
	struct allocs *a = space_table();
	const struct memory *m = allocs_find(a, ptr);

	return m && m->base == ptr ? &a->v[m - a->v] : NULL;
}

cudaError_t
memory_leave(const void *ptr, struct memory *out)
{
	struct memory *m;
	cudaError_t e = cudaErrorInvalidValue;

	pthread_rwlock_wrlock(&table_lock);
	m = at(ptr);
	if (m && (m->kind == MEMORY_DEVICE || m->kind == MEMORY_MANAGED) && !m->leaving &&
	    !m->own && !m->ipc) {
		m->leaving = true;
		*out = *m;
		e = cudaSuccess;
	}
	pthread_rwlock_unlock(&table_lock);
	return e;
}

void
memory_stay(const void *base, uint64_t asked)
{
	struct memory *m;

	pthread_rwlock_wrlock(&table_lock);
	m = at(base);
	m->leaving = false;
	m->asked = asked;
	pthread_rwlock_unlock(&table_lock);
}

void
memory_export(const void *base, uint32_t number)
{
	pthread_rwlock_wrlock(&table_lock);
	at(base)->export = number;
	pthread_rwlock_unlock(&table_lock);
}

void
memory_overrun(const void *base)
{
	pthread_rwlock_wrlock(&table_lock);
	at(base)->overrun = true;
	pthread_rwlock_unlock(&table_lock);
}

void
memory_end(const void *base)
{
	pthread_rwlock_wrlock(&table_lock);
	at(base)->kind = MEMORY_PAGEABLE;
	pthread_rwlock_unlock(&table_lock);
}

void
memory_remove(const void *base)
{
	struct memory m;

	pthread_rwlock_wrlock(&table_lock);
	allocs_take(space_table(), base, &m);
	pthread_rwlock_unlock(&table_lock);
}

void
memory_release(const struct memory *m)
{
	memory_remove(m->base);
	if (memcheck_keep(m))
		helper_forget(m->base, m->nbytes, m->asked);
	else
		give(m);
}

void
memory_open_pool(const struct pool *p, uint64_t peers)
{
	struct allocs *a = space_table();

	pthread_rwlock_wrlock(&table_lock);
	for (size_t i = 0; i < a->n; i++)
		if (a->v[i].pool == p)
			a->v[i].open = peers;
	pthread_rwlock_unlock(&table_lock);
	helper_forget(NULL, 0, 0); /* what is still open is mapped again */
}

cudaError_t
cudaFree(void *ptr)
{
	cudaError_t e = cuda_enter();
	struct memory m;

	if (e == cudaSuccess && ptr)
		e = capture_forbids();
	if (e != cudaSuccess || !ptr)
		return cuda_done(e);
	e = memory_leave(ptr, &m);
	if (e != cudaSuccess) {
		memcheck_bad_free(ptr);
		return cuda_done(e);
	}
	/* Enqueued work may still use it. */
	order_drain_device(cuda_device_at(m.ordinal));
	e = cuda_sticky(cuda_device_at(m.ordinal));
	if (e != cudaSuccess) { /* a reset frees it */
		memory_stay(m.base, m.asked);
		return cuda_done(e);
	}
	if (m.pool)
		pool_freed(m.pool, m.nbytes);
	memory_release(&m);
	pool_collect();
	return cudaSuccess;
}

/* Take any allocation of the device. */
static bool
take_any(const struct device *d, struct memory *m)
{
	bool taken = false;

	pthread_rwlock_wrlock(&table_lock);
	for (size_t i = 0; i < space_table()->n && !taken; i++)
		if (space_table()->v[i].ordinal == d->ordinal &&
		    (space_table()->v[i].kind == MEMORY_DEVICE ||
		     space_table()->v[i].kind == MEMORY_MANAGED))
			taken = allocs_take(space_table(), space_table()->v[i].base, m);
	pthread_rwlock_unlock(&table_lock);
	return taken;
}

void
memory_forget_all(struct device *d)
{
	struct memory m;

	pool_forget(d->ordinal);
	while (take_any(d, &m))
		give(&m);
	memcheck_flush(d->ordinal);
}

cudaError_t
cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	struct gpusim_device_info *v = NULL;
	cudaError_t e = cuda_enter();
	struct device *d;
	uint64_t used = 0, own = 0;
	size_t n = 0;

	if (e == cudaSuccess)
		e = capture_forbids();
	if (e != cudaSuccess)
		return cuda_done(e);
	pool_collect();
	d = cuda_current();
	e = cuda_error_of(gpusim_devices(cuda_connection(), &v, &n));
	for (size_t i = 0; i < n; i++)
		if (v[i].device.id == d->space->device.id)
			used = v[i].used_bytes;
	free(v);
	/* The coordinator's count is as old as the device's last heartbeat. */
	pthread_rwlock_rdlock(&table_lock);
	for (size_t i = 0; i < space_table()->n; i++)
		if (space_table()->v[i].ordinal == d->ordinal &&
		    space_table()->v[i].kind <= MEMORY_MANAGED)
			own += space_table()->v[i].nbytes;
	pthread_rwlock_unlock(&table_lock);
	used = used > own ? used : own;
	if (free_bytes)
		*free_bytes = d->space->nbytes > used ? d->space->nbytes - used : 0;
	if (total)
		*total = d->space->nbytes;
	return cuda_done(e);
}

/* ------------------------------------------------------------------ pointers */

cudaError_t
memory_find_late(const void *p, size_t nbytes, struct memory *out, uint64_t *addr)
{
	const struct memory *m;
	cudaError_t e = cudaSuccess;

	pthread_rwlock_rdlock(&table_lock);
	m = allocs_find(space_table(), p);
	if (m)
		*out = *m;
	pthread_rwlock_unlock(&table_lock);
	if (!m) {
		*out = (struct memory){.kind = MEMORY_PAGEABLE};
		if (space_find(p) || space_is_pinned(p))
			e = cudaErrorInvalidValue;
	} else if (out->ipc && nbytes && !ipc_lives(out->ipc)) {
		e = cudaErrorInvalidValue; /* its process has freed it, or ended */
	} else if ((uint64_t)((const unsigned char *)p - out->base) + nbytes > out->nbytes) {
		/* Host memory of which only a part was registered is still host memory. */
		if (out->kind != MEMORY_REGISTERED)
			e = cudaErrorInvalidValue;
	} else if (addr) {
		*addr = out->addr + (uint64_t)((const unsigned char *)p - out->base);
	}
	return e;
}

cudaError_t
memory_find(const void *p, size_t nbytes, struct memory *out, uint64_t *addr)
{
	cudaError_t e = memory_find_late(p, nbytes, out, addr);

	return e == cudaSuccess && out->leaving ? cudaErrorInvalidValue : e;
}

bool
gpusim_cuda_find(const void *p, size_t nbytes, struct gpusim_cuda_place *out)
{
	struct gpusim_cuda_place place = {0};
	struct memory m = {0};

	if (cuda_connect() != cudaSuccess ||
	    memory_find(p, nbytes, &m, &place.addr) != cudaSuccess) {
		*out = place;
		return false;
	}
	place.ordinal = m.ordinal;
	place.host = m.kind == MEMORY_PINNED || m.kind == MEMORY_REGISTERED;
	*out = place;
	return m.kind == MEMORY_DEVICE || m.kind == MEMORY_MANAGED;
}

void *
gpusim_cuda_touch(const void *p, size_t nbytes, bool late)
{
	struct memory m = {0};
	const struct space_device *d;
	uint64_t addr = 0;
	void *at;

	if (cuda_enter() != cudaSuccess ||
	    (late ? memory_find_late : memory_find)(p, nbytes, &m, &addr) != cudaSuccess ||
	    m.kind == MEMORY_PAGEABLE)
		return NULL;
	if (m.kind != MEMORY_DEVICE)
		return (void *)(uintptr_t)p;
	d = cuda_device_at(m.ordinal)->space;
	return cmdq_window(cuda_connection(), d->device, addr - d->min_addr, nbytes, &at) ==
		       GPUSIM_OK
		   ? at
		   : NULL;
}

cudaError_t
cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	struct cudaPointerAttributes a = {.type = cudaMemoryTypeUnregistered, .device = -2};
	struct memory m = {0};
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && (!attributes || !ptr))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = memory_find(ptr, 1, &m, NULL);
	if (e != cudaSuccess)
		return cuda_done(e);
	if (m.kind != MEMORY_PAGEABLE) {
		a.device = m.ordinal;
		a.devicePointer = (void *)(uintptr_t)ptr;
		a.type = m.kind == MEMORY_DEVICE    ? cudaMemoryTypeDevice
			 : m.kind == MEMORY_MANAGED ? cudaMemoryTypeManaged
						    : cudaMemoryTypeHost;
	}
	if (m.kind != MEMORY_DEVICE)
		a.hostPointer = (void *)(uintptr_t)ptr;
	*attributes = a;
	return cudaSuccess;
}

/* ------------------------------------------------------------------ memory of the host */

cudaError_t
memory_add_host(void *base, size_t nbytes, enum memory_kind kind, unsigned flags)
{
	struct memory m = {.base = base,
			   .nbytes = nbytes,
			   .asked = nbytes,
			   .kind = kind,
			   .site = memcheck_site(),
			   .ordinal = cuda_current()->ordinal,
			   .flags = flags};
	cudaError_t e = memory_enter(&m);

	return e == cudaSuccess || kind == MEMORY_PINNED ? e : cudaErrorHostMemoryAlreadyRegistered;
}

cudaError_t
memory_take_host(const void *base, enum memory_kind kind, struct memory *out)
{
	const struct memory *f;
	bool taken = false;

	pthread_rwlock_wrlock(&table_lock);
	f = allocs_find(space_table(), base);
	if (f && f->base == base && f->kind == kind)
		taken = allocs_take(space_table(), base, out);
	pthread_rwlock_unlock(&table_lock);
	return taken ? cudaSuccess : cudaErrorInvalidValue;
}
