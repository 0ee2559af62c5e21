/*
 * Pools: each device has only its default pool, which keeps nothing: freed memory goes back to the device.
 * Advice about managed memory is accepted and has no effect: it is always in the device's memory.
 */
#include "cudart/cuda_impl.h"

/* A pool's handle is its device. */
static cudaMemPool_t
pool_of(struct device *d)
{
	return (cudaMemPool_t)(void *)d;
}

static struct device *
device_of(cudaMemPool_t pool)
{
	for (int i = 0; i < cuda_device_count(); i++)
		if (pool_of(cuda_device_at(i)) == pool)
			return cuda_device_at(i);
	return NULL;
}

static cudaError_t
get_pool(cudaMemPool_t *pool, int device)
{
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && !pool)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && !cuda_device_at(device))
		e = cudaErrorInvalidDevice;
	if (e == cudaSuccess)
		*pool = pool_of(cuda_device_at(device));
	return cuda_done(e);
}

cudaError_t
cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
	return get_pool(memPool, device);
}

cudaError_t
cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
	return get_pool(memPool, device);
}

static cudaError_t
about(cudaMemPool_t pool)
{
	cudaError_t e = cuda_enter();

	return e == cudaSuccess && !device_of(pool) ? cudaErrorInvalidValue : e;
}

cudaError_t
cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
	cudaError_t e = about(memPool);

	if (e == cudaSuccess && device_of(memPool)->ordinal != device)
		e = cudaErrorInvalidDevice;
	return cuda_done(e);
}

cudaError_t
cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
	cudaError_t e = about(memPool);

	return e == cudaSuccess ? cudaMallocAsync(ptr, size, stream) : cuda_done(e);
}

cudaError_t
cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
	(void)minBytesToKeep;
	return cuda_done(about(memPool));
}

cudaError_t
cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
	cudaError_t e = about(memPool);

	if (e == cudaSuccess && (!value || attr < 1 || attr > cudaMemPoolAttrUsedMemHigh))
		e = cudaErrorInvalidValue;
	return cuda_done(e);
}

cudaError_t
cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
	cudaError_t e = about(memPool);

	if (e == cudaSuccess && (!value || attr < 1 || attr > cudaMemPoolAttrUsedMemHigh))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && attr < cudaMemPoolAttrReleaseThreshold)
		*(int *)value = 1;
	else if (e == cudaSuccess)
		*(unsigned long long *)value = 0;
	return cuda_done(e);
}

static cudaError_t
check_managed(const void *p, size_t n)
{
	struct memory m = {0};
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess)
		e = memory_find(p, n, &m, NULL);
	return cuda_done(e == cudaSuccess && m.kind != MEMORY_MANAGED ? cudaErrorInvalidValue : e);
}

cudaError_t
cudaMemAdvise(const void *ptr, size_t count, enum cudaMemoryAdvise advice, int device)
{
	(void)advice, (void)device;
	return check_managed(ptr, count);
}

cudaError_t
cudaMemPrefetchAsync(const void *ptr, size_t count, int dstDevice, cudaStream_t stream)
{
	struct CUstream_st *s;
	cudaError_t e = check_managed(ptr, count);

	if (e == cudaSuccess && dstDevice != cudaCpuDeviceId && !cuda_device_at(dstDevice))
		e = cudaErrorInvalidDevice;
	return cuda_done(e == cudaSuccess ? stream_of(stream, &s) : e);
}
