/* Queries and settings of kernels' attributes. */
#include <stdio.h>
#include <string.h>

#include "cudart/cuda_impl.h"
#include "cudart/launch.h"
#include "cudart/registry.h"

/* cudaErrorInvalidDeviceFunction: no such kernel. */
static cudaError_t
find(const void *func, struct __gpusim_kernel **out)
{
	cudaError_t e = cuda_enter();

	*out = e == cudaSuccess ? registry_find(func) : NULL;
	return e == cudaSuccess && !*out ? cudaErrorInvalidDeviceFunction : e;
}

cudaError_t
cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
	struct __gpusim_kernel *k;
	cudaError_t e = find(func, &k);

	if (e == cudaSuccess && !attr)
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	memset(attr, 0, sizeof *attr);
	attr->maxThreadsPerBlock = LAUNCH_THREADS;
	attr->numRegs = 32;
	attr->ptxVersion = attr->binaryVersion = 80;
	attr->maxDynamicSharedSizeBytes =
	    k->max_dynamic_shared > LAUNCH_SHARED ? k->max_dynamic_shared : LAUNCH_SHARED;
	return cudaSuccess;
}

cudaError_t
cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
	struct __gpusim_kernel *k;
	cudaError_t e = find(func, &k);

	if (e == cudaSuccess && attr == cudaFuncAttributeMaxDynamicSharedMemorySize) {
		if (value < 0 || value > LAUNCH_SHARED_MAX)
			e = cudaErrorInvalidValue;
		else
			k->max_dynamic_shared = value;
	} else if (e == cudaSuccess && attr != cudaFuncAttributePreferredSharedMemoryCarveout) {
		e = cudaErrorNotSupported;
	}
	return cuda_done(e);
}

cudaError_t
cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache config)
{
	struct __gpusim_kernel *k;

	(void)config;
	return cuda_done(find(func, &k));
}

cudaError_t
cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
	struct __gpusim_kernel *k;

	(void)config;
	return cuda_done(find(func, &k));
}

cudaError_t
cudaFuncGetName(const char **name, const void *func)
{
	static _Thread_local char text[512];
	struct __gpusim_kernel *k;
	cudaError_t e = find(func, &k);

	if (e == cudaSuccess && !name)
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	registry_name(k, text, sizeof text);
	*name = text;
	return cudaSuccess;
}

cudaError_t
cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *nblocks, const void *func, int block,
					      size_t shared)
{
	struct __gpusim_kernel *k;
	cudaError_t e = find(func, &k);

	if (e == cudaSuccess && (!nblocks || block <= 0 || shared > LAUNCH_SHARED_MAX))
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	*nblocks = launch_per_sm((uint64_t)block, shared);
	return cudaSuccess;
}

cudaError_t
cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *nblocks, const void *func, int block,
						       size_t shared, unsigned flags)
{
	(void)flags;
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(nblocks, func, block, shared);
}

cudaError_t
cudaOccupancyAvailableDynamicSMemPerBlock(size_t *nbytes, const void *func, int nblocks, int block)
{
	struct __gpusim_kernel *k;
	cudaError_t e = find(func, &k);

	if (e == cudaSuccess && (!nbytes || nblocks <= 0 || block <= 0))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		*nbytes = (size_t)(LAUNCH_SHARED_MAX / nblocks);
	return cuda_done(e);
}
