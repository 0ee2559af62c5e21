/*
 * Calls that this library does not support; they report that. Arrays, textures' formats, sharing
 * between processes, clusters of blocks, conditional nodes, memory nodes, edges with data.
 */
#include <stdio.h>

#include "cudart/cuda_impl.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static cudaError_t
refuse(const char *name)
{
	char text[128];

	snprintf(text, sizeof text, "%s: not supported by simulated devices", name);
	cuda_tell(text);
	return cuda_done(cudaErrorNotSupported);
}

#define NO(name, params)              \
	cudaError_t name params       \
	{                             \
		return refuse(#name); \
	}

NO(cudaMallocArray, (cudaArray_t * array, const struct cudaChannelFormatDesc *desc, size_t width,
		     size_t height, unsigned int flags))
NO(cudaFreeArray, (cudaArray_t array))
NO(cudaFreeMipmappedArray, (cudaMipmappedArray_t mipmappedArray))
NO(cudaMalloc3DArray, (cudaArray_t * array, const struct cudaChannelFormatDesc *desc,
		       struct cudaExtent extent, unsigned int flags))
NO(cudaMallocMipmappedArray,
   (cudaMipmappedArray_t * mipmappedArray, const struct cudaChannelFormatDesc *desc,
    struct cudaExtent extent, unsigned int numLevels, unsigned int flags))
NO(cudaGetMipmappedArrayLevel,
   (cudaArray_t * levelArray, cudaMipmappedArray_const_t mipmappedArray, unsigned int level))
NO(cudaArrayGetInfo, (struct cudaChannelFormatDesc * desc, struct cudaExtent *extent,
		      unsigned int *flags, cudaArray_t array))
NO(cudaArrayGetPlane, (cudaArray_t * planeArray, cudaArray_t hArray, unsigned int planeIdx))
NO(cudaMemcpy2DToArray, (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
			 size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind))
NO(cudaMemcpy2DFromArray, (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset,
			   size_t hOffset, size_t width, size_t height, enum cudaMemcpyKind kind))
NO(cudaMemcpy2DArrayToArray,
   (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src, size_t wOffsetSrc,
    size_t hOffsetSrc, size_t width, size_t height, enum cudaMemcpyKind kind))
NO(cudaMemcpy2DToArrayAsync,
   (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch, size_t width,
    size_t height, enum cudaMemcpyKind kind, cudaStream_t stream))
NO(cudaMemcpy2DFromArrayAsync,
   (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t width,
    size_t height, enum cudaMemcpyKind kind, cudaStream_t stream))
NO(cudaMemRangeGetAttribute, (void *data, size_t dataSize, enum cudaMemRangeAttribute attribute,
			      const void *ptr, size_t count))
NO(cudaMemRangeGetAttributes,
   (void **data, size_t *dataSizes, enum cudaMemRangeAttribute *attributes, size_t numAttributes,
    const void *ptr, size_t count))
NO(cudaMemcpyToArray, (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
		       size_t count, enum cudaMemcpyKind kind))
NO(cudaMemcpyFromArray, (void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset,
			 size_t count, enum cudaMemcpyKind kind))
NO(cudaMemcpyArrayToArray,
   (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src, size_t wOffsetSrc,
    size_t hOffsetSrc, size_t count, enum cudaMemcpyKind kind))
NO(cudaMemcpyToArrayAsync, (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
			    size_t count, enum cudaMemcpyKind kind, cudaStream_t stream))
NO(cudaMemcpyFromArrayAsync, (void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset,
			      size_t count, enum cudaMemcpyKind kind, cudaStream_t stream))
NO(cudaMemPoolExportToShareableHandle,
   (void *shareableHandle, cudaMemPool_t memPool, enum cudaMemAllocationHandleType handleType,
    unsigned int flags))
NO(cudaMemPoolImportFromShareableHandle,
   (cudaMemPool_t * memPool, void *shareableHandle, enum cudaMemAllocationHandleType handleType,
    unsigned int flags))
NO(cudaMemPoolExportPointer, (struct cudaMemPoolPtrExportData * exportData, void *ptr))
NO(cudaMemPoolImportPointer,
   (void **ptr, cudaMemPool_t memPool, struct cudaMemPoolPtrExportData *exportData))
NO(cudaGetChannelDesc, (struct cudaChannelFormatDesc * desc, cudaArray_const_t array))
NO(cudaGraphKernelNodeCopyAttributes, (cudaGraphNode_t src, cudaGraphNode_t dst))
NO(cudaGraphKernelNodeGetAttribute,
   (cudaGraphNode_t node, cudaKernelNodeAttrID attr, cudaKernelNodeAttrValue *value))
NO(cudaGraphKernelNodeSetAttribute,
   (cudaGraphNode_t node, cudaKernelNodeAttrID attr, const cudaKernelNodeAttrValue *value))
NO(cudaGraphAddMemcpyNodeToSymbol,
   (cudaGraphNode_t * graphNode, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
    size_t ndependencies, const void *symbol, const void *src, size_t count, size_t offset,
    enum cudaMemcpyKind kind))
NO(cudaGraphAddMemcpyNodeFromSymbol,
   (cudaGraphNode_t * graphNode, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
    size_t ndependencies, void *dst, const void *symbol, size_t count, size_t offset,
    enum cudaMemcpyKind kind))
NO(cudaGraphMemcpyNodeSetParamsToSymbol, (cudaGraphNode_t node, const void *symbol, const void *src,
					  size_t count, size_t offset, enum cudaMemcpyKind kind))
NO(cudaGraphMemcpyNodeSetParamsFromSymbol, (cudaGraphNode_t node, void *dst, const void *symbol,
					    size_t count, size_t offset, enum cudaMemcpyKind kind))
NO(cudaGraphAddMemAllocNode,
   (cudaGraphNode_t * graphNode, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
    size_t ndependencies, struct cudaMemAllocNodeParams *nodeParams))
NO(cudaGraphMemAllocNodeGetParams, (cudaGraphNode_t node, struct cudaMemAllocNodeParams *params))
NO(cudaGraphAddMemFreeNode, (cudaGraphNode_t * graphNode, cudaGraph_t graph,
			     const cudaGraphNode_t *dependencies, size_t ndependencies, void *dptr))
NO(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void *dptr))
NO(cudaDeviceGraphMemTrim, (int device))
NO(cudaDeviceGetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType attr, void *value))
NO(cudaDeviceSetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType attr, void *value))
NO(cudaGraphGetEdges_v2, (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
			  cudaGraphEdgeData *edgeData, size_t *numEdges))
NO(cudaGraphNodeGetDependencies_v2, (cudaGraphNode_t node, cudaGraphNode_t *dependencies,
				     cudaGraphEdgeData *edgeData, size_t *ndependencies))
NO(cudaGraphNodeGetDependentNodes_v2, (cudaGraphNode_t node, cudaGraphNode_t *dependentNodes,
				       cudaGraphEdgeData *edgeData, size_t *numDependentNodes))
NO(cudaGraphAddDependencies_v2,
   (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
    const cudaGraphEdgeData *edgeData, size_t ndependencies))
NO(cudaGraphRemoveDependencies_v2,
   (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
    const cudaGraphEdgeData *edgeData, size_t ndependencies))
NO(cudaGraphExecMemcpyNodeSetParamsToSymbol,
   (cudaGraphExec_t graphExec, cudaGraphNode_t node, const void *symbol, const void *src,
    size_t count, size_t offset, enum cudaMemcpyKind kind))
NO(cudaGraphExecMemcpyNodeSetParamsFromSymbol,
   (cudaGraphExec_t graphExec, cudaGraphNode_t node, void *dst, const void *symbol, size_t count,
    size_t offset, enum cudaMemcpyKind kind))
NO(cudaGraphExecChildGraphNodeSetParams,
   (cudaGraphExec_t graphExec, cudaGraphNode_t node, cudaGraph_t childGraph))
NO(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char *path, unsigned int flags))
NO(cudaUserObjectCreate, (cudaUserObject_t * object, void *ptr, cudaHostFn_t destroy,
			  unsigned int initialRefcount, unsigned int flags))
NO(cudaUserObjectRetain, (cudaUserObject_t object, unsigned int count))
NO(cudaUserObjectRelease, (cudaUserObject_t object, unsigned int count))
NO(cudaGraphRetainUserObject,
   (cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags))
NO(cudaGraphReleaseUserObject, (cudaGraph_t graph, cudaUserObject_t object, unsigned int count))
NO(cudaGraphAddNode_v2,
   (cudaGraphNode_t * graphNode, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
    const cudaGraphEdgeData *dependencyData, size_t ndependencies,
    struct cudaGraphNodeParams *nodeParams))
NO(cudaGraphNodeSetParams, (cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams))
NO(cudaGraphExecNodeSetParams,
   (cudaGraphExec_t graphExec, cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams))
NO(cudaGraphConditionalHandleCreate, (cudaGraphConditionalHandle * handle, cudaGraph_t graph,
				      unsigned int defaultLaunchValue, unsigned int flags))
NO(cudaFuncGetParamInfo,
   (const void *func, size_t paramIndex, size_t *paramOffset, size_t *paramSize))
NO(cudaGetFuncBySymbol, (cudaFunction_t * function, const void *symbol))
NO(cudaGetKernel, (cudaKernel_t * kernelPtr, const void *entryFuncAddr))
NO(cudaOccupancyMaxActiveClusters,
   (int *numClusters, const void *func, const cudaLaunchConfig_t *launchConfig))
NO(cudaOccupancyMaxPotentialClusterSize,
   (int *clusterSize, const void *func, const cudaLaunchConfig_t *launchConfig))
NO(cudaGetExportTable, (const void **ppExportTable, const cudaUUID_t *exportTableId))

cudaError_t
cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
			enum cudaDriverEntryPointQueryResult *driverStatus)
{
	if (!symbol || !funcPtr)
		return cuda_done(cudaErrorInvalidValue);
	*funcPtr = NULL; /* there is no driver library */
	if (!driverStatus)
		return cuda_done(cudaErrorSymbolNotFound);
	*driverStatus = cudaDriverEntryPointSymbolNotFound;
	return cudaSuccess;
}

cudaError_t
cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion,
				 unsigned long long flags,
				 enum cudaDriverEntryPointQueryResult *driverStatus)
{
	return cudaGetDriverEntryPoint(symbol, funcPtr, flags, driverStatus);
}

struct cudaChannelFormatDesc
cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind f)
{
	return (struct cudaChannelFormatDesc){x, y, z, w, f};
}

/* ---- programs that another nvcc has built */

/* NVIDIA's static runtime, and later shared ones, look for the driver in libcuda.so.1: a name of this library. */
#define NO_DRIVER(name)                                                                         \
	int name(void);                                                                         \
	int name(void)                                                                          \
	{                                                                                       \
		cuda_tell("the program calls CUDA's driver, which is not simulated: build the " \
			  "program with "                                                       \
			  "bin/nvcc of `gpuctl nccl-home`, not with NVIDIA's");                 \
		return 801; /* CUDA_ERROR_NOT_SUPPORTED */                                      \
	}
NO_DRIVER(cuInit)
NO_DRIVER(cuDriverGetVersion)
NO_DRIVER(cuGetProcAddress)
NO_DRIVER(cuGetProcAddress_v2)

/* What NVIDIA's nvcc calls for kernels in a program that loads this library: they are code for GPUs. */
void **__cudaRegisterFatBinary(void *fat);
void **
__cudaRegisterFatBinary(void *fat)
{
	static void *handle;

	cuda_tell(
	    "NVIDIA's nvcc has compiled the program's kernels, for GPUs: build the program with "
	    "bin/nvcc of `gpuctl nccl-home`");
	return &handle;
}

#define NO_KERNEL(type, name, result)  \
	type name(void);               \
	type name(void)                \
	{                              \
		return (type)(result); \
	}
NO_KERNEL(void, __cudaRegisterFatBinaryEnd, 0)
NO_KERNEL(void, __cudaUnregisterFatBinary, 0)
NO_KERNEL(void, __cudaRegisterFunction, 0)
NO_KERNEL(void, __cudaRegisterVar, 0)
NO_KERNEL(void, __cudaRegisterManagedVar, 0)
NO_KERNEL(char, __cudaInitModule, 0)
/* Not 0: the launch that follows is left out. */
NO_KERNEL(unsigned, __cudaPushCallConfiguration, cuda_done(cudaErrorNoKernelImageForDevice))
NO_KERNEL(cudaError_t, __cudaPopCallConfiguration, cuda_done(cudaErrorNoKernelImageForDevice))
