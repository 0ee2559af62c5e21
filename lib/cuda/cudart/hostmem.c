/* Memory of the host that devices may use: pinned and registered. */
#include "cudart/cuda_impl.h"
#include "cudart/memcheck.h"

static cudaError_t
add_host(void *base, size_t nbytes, enum memory_kind kind, unsigned flags)
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

static cudaError_t
pin(void **out, size_t nbytes, unsigned flags)
{
	cudaError_t e = cuda_enter();
	void *p;

	if (e == cudaSuccess && (!out || flags & ~7u))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = capture_forbids();
	if (e != cudaSuccess)
		return e;
	*out = NULL;
	if (nbytes == 0)
		return cudaSuccess;
	p = space_pin(nbytes);
	if (!p)
		return cudaErrorMemoryAllocation;
	e = add_host(p, nbytes, MEMORY_PINNED, flags);
	if (e == cudaSuccess)
		*out = p;
	else
		space_unpin(p, nbytes);
	return e;
}

cudaError_t
cudaHostAlloc(void **host, size_t size, unsigned int flags)
{
	return cuda_done(pin(host, size, flags));
}

cudaError_t
cudaMallocHost(void **ptr, size_t size)
{
	return cuda_done(pin(ptr, size, 0));
}

cudaError_t
cudaFreeHost(void *ptr)
{
	cudaError_t e = cuda_enter();
	struct memory m;

	if (e == cudaSuccess && ptr)
		e = capture_forbids();
	if (e != cudaSuccess || !ptr)
		return cuda_done(e);
	e = memory_take(ptr, MEMORY_PINNED, &m);
	if (e != cudaSuccess)
		return cuda_done(e);
	for (int i = 0; i < cuda_device_count(); i++)
		order_drain_device(cuda_device_at(i));
	space_forget(m.base, space_pages(m.nbytes), m.nbytes);
	space_unpin(m.base, m.nbytes);
	return cudaSuccess;
}

cudaError_t
cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && (!ptr || !size || flags & ~15u))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = capture_forbids();
	if (e == cudaSuccess && (space_find(ptr) || space_is_pinned(ptr)))
		e = cudaErrorHostMemoryAlreadyRegistered;
	return cuda_done(e == cudaSuccess ? add_host(ptr, size, MEMORY_REGISTERED, flags) : e);
}

cudaError_t
cudaHostUnregister(void *ptr)
{
	cudaError_t e = cuda_enter();
	struct memory m;

	if (e == cudaSuccess)
		e = capture_forbids();
	if (e == cudaSuccess && memory_take(ptr, MEMORY_REGISTERED, &m) != cudaSuccess)
		e = cudaErrorHostMemoryNotRegistered;
	if (e == cudaSuccess)
		for (int i = 0; i < cuda_device_count(); i++)
			order_drain_device(cuda_device_at(i));
	return cuda_done(e);
}

static cudaError_t
find_host(const void *p, struct memory *m)
{
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess)
		e = memory_find(p, 1, m, NULL);
	if (e == cudaSuccess && m->kind != MEMORY_PINNED && m->kind != MEMORY_REGISTERED)
		e = cudaErrorInvalidValue;
	return e;
}

cudaError_t
cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
	struct memory m;
	cudaError_t e = flags || !device ? cudaErrorInvalidValue : find_host(host, &m);

	if (e == cudaSuccess && m.kind == MEMORY_REGISTERED) {
		cuda_tell("cudaHostGetDevicePointer: kernels cannot access memory of "
			  "cudaHostRegister, only memory of cudaHostAlloc and cudaMallocHost");
		e = cudaErrorNotSupported;
	}
	if (e == cudaSuccess)
		*device = host; /* program, device and helper use one address */
	return cuda_done(e);
}

cudaError_t
cudaHostGetFlags(unsigned int *flags, void *host)
{
	struct memory m;
	cudaError_t e = !flags ? cudaErrorInvalidValue : find_host(host, &m);

	if (e == cudaSuccess)
		*flags = m.flags;
	return cuda_done(e);
}
