/* Memory of devices: the calls, and classifying pointers. */
#include <stdlib.h>

#include "cudart/cuda_impl.h"
#include "cudart/memcheck.h"

cudaError_t
memory_for_variables(struct device *d, size_t nbytes, struct memory *out)
{
	void *p;
	cudaError_t e = pool_allocate(
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
		   ? pool_allocate(cuda_current(),
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

cudaError_t
cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	struct gpusim_device_info *v = NULL;
	cudaError_t e = cuda_enter();
	struct device *d;
	uint64_t used = 0, own;
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
	own = memory_used(d->ordinal); /* the coordinator's count is as old as the last heartbeat */
	used = used > own ? used : own;
	if (free_bytes)
		*free_bytes = d->space->nbytes > used ? d->space->nbytes - used : 0;
	if (total)
		*total = d->space->nbytes;
	return cuda_done(e);
}

/* ------------------------------------------------------------------ pointers */

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
