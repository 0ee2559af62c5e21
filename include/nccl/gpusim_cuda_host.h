/*
 * gpusim_cuda_host.h - in C++: calls that name a kernel or a variable, with their types. cuda_runtime.h
 * includes it.
 */
#ifndef GPUSIM_CUDA_HOST_H
#define GPUSIM_CUDA_HOST_H

#include "cuda_runtime_api.h"

template <class T>
static inline cudaError_t
cudaLaunchKernel(T *func, dim3 grid, dim3 block, void **args, size_t shared = 0,
		 cudaStream_t stream = 0)
{
	return ::cudaLaunchKernel((const void *)func, grid, block, args, shared, stream);
}

template <class T>
static inline cudaError_t
cudaLaunchCooperativeKernel(T *func, dim3 grid, dim3 block, void **args, size_t shared = 0,
			    cudaStream_t stream = 0)
{
	return ::cudaLaunchCooperativeKernel((const void *)func, grid, block, args, shared, stream);
}

template <class... P, class... A>
static inline cudaError_t
cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A &&...args)
{
	return [&](P... p) {
		void *v[] = {(void *)&p..., nullptr};
		return ::cudaLaunchKernelExC(config, (const void *)kernel, v);
	}(static_cast<A &&>(args)...);
}

template <class T>
static inline cudaError_t
cudaFuncGetAttributes(struct cudaFuncAttributes *attr, T *func)
{
	return ::cudaFuncGetAttributes(attr, (const void *)func);
}

template <class T>
static inline cudaError_t
cudaFuncSetAttribute(T *func, enum cudaFuncAttribute attr, int value)
{
	return ::cudaFuncSetAttribute((const void *)func, attr, value);
}

template <class T>
static inline cudaError_t
cudaFuncSetCacheConfig(T *func, enum cudaFuncCache config)
{
	return ::cudaFuncSetCacheConfig((const void *)func, config);
}

template <class T>
static inline cudaError_t
cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *nblocks, T func, int block, size_t shared)
{
	return ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(nblocks, (const void *)func, block,
							       shared);
}

template <class T>
static inline cudaError_t
cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *nblocks, T func, int block,
						       size_t shared, unsigned flags)
{
	return ::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(nblocks, (const void *)func,
									block, shared, flags);
}

/* The largest block, and as many of them as there are multiprocessors. */
template <class T>
static inline cudaError_t
cudaOccupancyMaxPotentialBlockSize(int *min_grid, int *block, T func, size_t shared = 0,
				   int limit = 0)
{
	struct cudaFuncAttributes attr;
	int device = 0, per = 0, sms = 0;
	cudaError_t e = cudaGetDevice(&device);

	if (e == cudaSuccess)
		e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
	if (e == cudaSuccess)
		e = ::cudaFuncGetAttributes(&attr, (const void *)func);
	if (e != cudaSuccess)
		return e;
	*block = attr.maxThreadsPerBlock;
	if (limit > 0 && limit < *block)
		*block = limit;
	e = ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per, (const void *)func, *block,
							    shared);
	*min_grid = per * sms;
	return e;
}

/* A symbol is the variable itself. */
template <class T>
static inline cudaError_t
cudaMemcpyToSymbol(const T &symbol, const void *src, size_t count, size_t offset = 0,
		   enum cudaMemcpyKind kind = cudaMemcpyHostToDevice)
{
	return ::cudaMemcpyToSymbol((const void *)&symbol, src, count, offset, kind);
}

template <class T>
static inline cudaError_t
cudaMemcpyFromSymbol(void *dst, const T &symbol, size_t count, size_t offset = 0,
		     enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost)
{
	return ::cudaMemcpyFromSymbol(dst, (const void *)&symbol, count, offset, kind);
}

template <class T>
static inline cudaError_t
cudaMemcpyToSymbolAsync(const T &symbol, const void *src, size_t count, size_t offset = 0,
			enum cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = 0)
{
	return ::cudaMemcpyToSymbolAsync((const void *)&symbol, src, count, offset, kind, stream);
}

template <class T>
static inline cudaError_t
cudaMemcpyFromSymbolAsync(void *dst, const T &symbol, size_t count, size_t offset = 0,
			  enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
			  cudaStream_t stream = 0)
{
	return ::cudaMemcpyFromSymbolAsync(dst, (const void *)&symbol, count, offset, kind, stream);
}

template <class T>
static inline cudaError_t
cudaGetSymbolAddress(void **ptr, const T &symbol)
{
	return ::cudaGetSymbolAddress(ptr, (const void *)&symbol);
}

template <class T>
static inline cudaError_t
cudaGetSymbolSize(size_t *size, const T &symbol)
{
	*size = sizeof symbol;
	return cudaSuccess;
}

#endif
