/*
 * Memory of devices: allocating, freeing, and classifying pointers.
 *
 * Design notes. The table of allocations is behind a read-write lock, which is never held while a call
 * waits. An allocation is a lease of the connection, so it ends with the process. Managed memory, and with
 * GPUSIM_UNIFIED=1 all memory, is opened for the program's own access, in whole pages.
 */
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "cudart/cuda_impl.h"

#define PAGE 4096u

static struct allocs table;
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;

/* Freed by cudaFreeAsync, once the stream has reached the call. */
struct later {
	struct later *next;
	struct point point;
	struct memory memory;
};
static struct later *laters;
static pthread_mutex_t later_lock = PTHREAD_MUTEX_INITIALIZER;

static bool
is_unified(void)
{
	static atomic_int known; /* 1: no, 2: yes */

	if (!atomic_load(&known))
		atomic_store(&known, env_is_set("GPUSIM_UNIFIED") ? 2 : 1);
	return atomic_load(&known) == 2;
}

/* This process's pointer to a device's address. */
static void *
memory_pointer(const struct space_device *d, uint64_t addr)
{
	return d->base + (addr - d->min_addr);
}

/* ------------------------------------------------------------------ allocating */

static void
release(const struct memory *m)
{
	struct device *d = cuda_device_at(m->ordinal);
	uint64_t first = m->owned - d->space->min_addr;

	if (m->kind == MEMORY_MANAGED || is_unified())
		space_close(d->space->base + (first + PAGE - 1) / PAGE * PAGE, m->nbytes);
	gpusim_free(cuda_connection(), d->space->device, (struct gpusim_addr){m->owned});
}

/* Free the memory of cudaFreeAsync calls that streams have passed. */
static void
free_laters(void)
{
	struct later **at = &laters, *l;

	pthread_mutex_lock(&later_lock);
	while ((l = *at))
		if (!l->point.q || cmdq_done(l->point.q, l->point.at)) {
			*at = l->next;
			release(&l->memory);
			free(l);
		} else {
			at = &l->next;
		}
	pthread_mutex_unlock(&later_lock);
}

static enum gpusim_rc
take(struct device *d, uint64_t nbytes, uint64_t *addr)
{
	struct gpusim_addr a;
	enum gpusim_rc rc =
	    gpusim_malloc(cuda_connection(), d->space->device, nbytes, GPUSIM_LEASE, &a);

	if (rc == GPUSIM_OK)
		*addr = a.addr;
	return rc;
}

cudaError_t
memory_own(struct device *d, size_t nbytes, uint64_t *addr)
{
	return cuda_error_of(take(d, nbytes, addr));
}

static cudaError_t
enter_table(const struct memory *m)
{
	bool added;

	pthread_rwlock_wrlock(&table_lock);
	added = allocs_add(&table, m);
	pthread_rwlock_unlock(&table_lock);
	return added ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* Memory of whole pages, open to the program. */
static cudaError_t
open_pages(struct device *d, struct memory *m)
{
	uint64_t first = m->owned - d->space->min_addr;
	struct err err = {0};

	first = (first + PAGE - 1) / PAGE * PAGE;
	m->base = d->space->base + first;
	m->addr = d->space->min_addr + first;
	if (space_open(m->base, m->nbytes, &err) == RC_OK)
		return cudaSuccess;
	cuda_tell(err.text);
	return cudaErrorMemoryAllocation;
}

static cudaError_t
allocate(struct device *d, enum memory_kind kind, size_t nbytes, unsigned flags, void **out)
{
	bool opened = kind == MEMORY_MANAGED || is_unified();
	struct memory m = {.kind = kind, .ordinal = d->ordinal, .nbytes = nbytes, .flags = flags};
	cudaError_t e;

	free_laters();
	/* The device refuses the call, and records that. */
	if (nbytes > d->space->nbytes)
		opened = false;
	if (take(d, opened ? (nbytes + PAGE - 1) / PAGE * PAGE + PAGE : nbytes, &m.owned) !=
	    GPUSIM_OK)
		return cudaErrorMemoryAllocation;
	m.addr = m.owned;
	m.base = memory_pointer(d->space, m.addr);
	e = opened ? open_pages(d, &m) : cudaSuccess;
	if (e == cudaSuccess)
		e = enter_table(&m);
	if (e == cudaSuccess)
		*out = m.base;
	else
		release(&m);
	return e;
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
	return nbytes ? allocate(cuda_current(), kind, nbytes, flags, out) : cudaSuccess;
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

static cudaError_t
take_out(const void *ptr, struct memory *m)
{
	const struct memory *f;
	cudaError_t e = cudaErrorInvalidValue;

	pthread_rwlock_wrlock(&table_lock);
	f = allocs_find(&table, ptr);
	if (f && f->base == ptr && (f->kind == MEMORY_DEVICE || f->kind == MEMORY_MANAGED) &&
	    allocs_take(&table, ptr, m))
		e = cudaSuccess;
	pthread_rwlock_unlock(&table_lock);
	return e;
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
	e = take_out(ptr, &m);
	if (e != cudaSuccess)
		return cuda_done(e);
	/* Enqueued work may still use it. */
	order_drain_device(cuda_device_at(m.ordinal));
	release(&m);
	free_laters();
	return cudaSuccess;
}

cudaError_t
cudaMallocAsync(void **ptr, size_t size, cudaStream_t stream)
{
	struct CUstream_st *s;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && !ptr)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess && s->capture)
		e = cudaErrorNotSupported;
	if (e != cudaSuccess)
		return cuda_done(e);
	*ptr = NULL;
	return cuda_done(size ? allocate(s->device, MEMORY_DEVICE, size, 0, ptr) : cudaSuccess);
}

cudaError_t
cudaFreeAsync(void *ptr, cudaStream_t stream)
{
	struct CUstream_st *s;
	struct later *l = NULL;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess && s->capture)
		e = cudaErrorNotSupported;
	if (e == cudaSuccess && !ptr)
		return cudaSuccess;
	if (e == cudaSuccess && !(l = calloc(1, sizeof *l)))
		e = cudaErrorMemoryAllocation;
	if (e == cudaSuccess)
		e = order_end_of(s, &l->point);
	if (e == cudaSuccess)
		e = take_out(ptr, &l->memory);
	if (e != cudaSuccess) {
		free(l);
		return cuda_done(e);
	}
	pthread_mutex_lock(&later_lock);
	l->next = laters;
	laters = l;
	pthread_mutex_unlock(&later_lock);
	return cudaSuccess;
}

/* Take any allocation of the device. */
static bool
take_any(const struct device *d, struct memory *m)
{
	bool taken = false;

	pthread_rwlock_wrlock(&table_lock);
	for (size_t i = 0; i < table.n && !taken; i++)
		if (table.v[i].ordinal == d->ordinal &&
		    (table.v[i].kind == MEMORY_DEVICE || table.v[i].kind == MEMORY_MANAGED))
			taken = allocs_take(&table, table.v[i].base, m);
	pthread_rwlock_unlock(&table_lock);
	return taken;
}

void
memory_forget_all(struct device *d)
{
	struct memory m;

	free_laters();
	while (take_any(d, &m))
		release(&m);
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
	d = cuda_current();
	e = cuda_error_of(gpusim_devices(cuda_connection(), &v, &n));
	for (size_t i = 0; i < n; i++)
		if (v[i].device.id == d->space->device.id)
			used = v[i].used_bytes;
	free(v);
	/* The coordinator's count is as old as the device's last heartbeat. */
	pthread_rwlock_rdlock(&table_lock);
	for (size_t i = 0; i < table.n; i++)
		if (table.v[i].ordinal == d->ordinal && table.v[i].kind <= MEMORY_MANAGED)
			own += table.v[i].nbytes;
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
memory_find(const void *p, size_t nbytes, struct memory *out, uint64_t *addr)
{
	const struct memory *m;
	cudaError_t e = cudaSuccess;

	pthread_rwlock_rdlock(&table_lock);
	m = allocs_find(&table, p);
	if (m)
		*out = *m;
	pthread_rwlock_unlock(&table_lock);
	if (!m) {
		*out = (struct memory){.kind = MEMORY_PAGEABLE};
		if (space_find(p) || space_is_pinned(p))
			e = cudaErrorInvalidValue;
	} else if ((uint64_t)((const unsigned char *)p - out->base) + nbytes > out->nbytes) {
		/* Host memory of which only a part was registered is still host memory. */
		if (out->kind != MEMORY_REGISTERED)
			e = cudaErrorInvalidValue;
	} else if (addr) {
		*addr = out->addr + (uint64_t)((const unsigned char *)p - out->base);
	}
	return e;
}

bool
gpusim_cuda_find(const void *p, size_t nbytes, struct gpusim_cuda_place *out)
{
	struct gpusim_cuda_place place = {0};
	struct memory m = {0};

	if (cuda_enter() != cudaSuccess || memory_find(p, nbytes, &m, &place.addr) != cudaSuccess) {
		*out = place;
		return false;
	}
	place.ordinal = m.ordinal;
	place.host = m.kind == MEMORY_PINNED || m.kind == MEMORY_REGISTERED;
	*out = place;
	return m.kind == MEMORY_DEVICE || m.kind == MEMORY_MANAGED;
}

void *
gpusim_cuda_touch(const void *p, size_t nbytes)
{
	struct memory m = {0};
	const struct space_device *d;
	uint64_t addr = 0;
	void *at;

	if (cuda_enter() != cudaSuccess || memory_find(p, nbytes, &m, &addr) != cudaSuccess ||
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
			   .kind = kind,
			   .ordinal = cuda_current()->ordinal,
			   .flags = flags};
	cudaError_t e = enter_table(&m);

	return e == cudaSuccess || kind == MEMORY_PINNED ? e : cudaErrorHostMemoryAlreadyRegistered;
}

cudaError_t
memory_take_host(const void *base, enum memory_kind kind, struct memory *out)
{
	const struct memory *f;
	bool taken = false;

	pthread_rwlock_wrlock(&table_lock);
	f = allocs_find(&table, base);
	if (f && f->base == base && f->kind == kind)
		taken = allocs_take(&table, base, out);
	pthread_rwlock_unlock(&table_lock);
	return taken ? cudaSuccess : cudaErrorInvalidValue;
}
