/* Calls about kernels, for a library that is built without them. */
#include "cudart/cuda_impl.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define NO(name, params)                                 \
	__attribute__((weak)) cudaError_t name params    \
	{                                                \
		return cuda_done(cudaErrorNotSupported); \
	}

NO(cudaLaunchKernel, (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
		      cudaStream_t stream))
NO(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *func, void **args))
NO(cudaLaunchCooperativeKernel, (const void *func, dim3 gridDim, dim3 blockDim, void **args,
				 size_t sharedMem, cudaStream_t stream))
NO(cudaLaunchCooperativeKernelMultiDevice,
   (struct cudaLaunchParams * launchParamsList, unsigned int numDevices, unsigned int flags))
NO(cudaFuncGetAttributes, (struct cudaFuncAttributes * attr, const void *func))
NO(cudaFuncSetAttribute, (const void *func, enum cudaFuncAttribute attr, int value))
NO(cudaFuncSetCacheConfig, (const void *func, enum cudaFuncCache cacheConfig))
NO(cudaFuncSetSharedMemConfig, (const void *func, enum cudaSharedMemConfig config))
NO(cudaFuncGetName, (const char **name, const void *func))
NO(cudaFuncGetParamInfo,
   (const void *func, size_t paramIndex, size_t *paramOffset, size_t *paramSize))
NO(cudaGetFuncBySymbol, (cudaFunction_t * function, const void *symbol))
NO(cudaGetKernel, (cudaKernel_t * kernelPtr, const void *entryFuncAddr))
NO(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
   (int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize))
NO(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
   (int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize, unsigned int flags))
NO(cudaOccupancyAvailableDynamicSMemPerBlock,
   (size_t * dynamicSmemSize, const void *func, int numBlocks, int blockSize))
NO(cudaOccupancyMaxPotentialClusterSize,
   (int *clusterSize, const void *func, const cudaLaunchConfig_t *launchConfig))
NO(cudaOccupancyMaxActiveClusters,
   (int *numClusters, const void *func, const cudaLaunchConfig_t *launchConfig))
NO(cudaMemcpyToSymbol,
   (const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind))
NO(cudaMemcpyFromSymbol,
   (void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind))
NO(cudaMemcpyToSymbolAsync, (const void *symbol, const void *src, size_t count, size_t offset,
			     enum cudaMemcpyKind kind, cudaStream_t stream))
NO(cudaMemcpyFromSymbolAsync, (void *dst, const void *symbol, size_t count, size_t offset,
			       enum cudaMemcpyKind kind, cudaStream_t stream))
NO(cudaGetSymbolAddress, (void **ptr, const void *symbol))
NO(cudaGetSymbolSize, (size_t * size, const void *symbol))
