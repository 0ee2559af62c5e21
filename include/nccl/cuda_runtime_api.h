/*
 * cuda_runtime_api.h - the CUDA runtime's C interface over simulated devices. Prototypes are those of CUDA
 * 12.4; NVIDIA's manual describes the calls, and lib/cuda/cudart/README.md the differences. A call that it does
 * not implement returns cudaErrorNotSupported.
 */
#ifndef __CUDA_RUNTIME_API_H__
#define __CUDA_RUNTIME_API_H__

#include "host_defines.h"
#include "builtin_types.h"

#define CUDART_VERSION	     12040
#define __CUDART_API_VERSION CUDART_VERSION

#ifdef __cplusplus
#define CUDA_DEFAULT(value) = value
#else
#define CUDA_DEFAULT(value)
#endif

/* In CUDA 12 these names stand for later versions of the functions. */
#define cudaGetDeviceProperties	 cudaGetDeviceProperties_v2
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v2

/* nvcc --default-stream per-thread: 0 is the thread's own stream. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define cudaMemcpy		 cudaMemcpy_ptds
#define cudaMemcpy2D		 cudaMemcpy2D_ptds
#define cudaMemcpy3D		 cudaMemcpy3D_ptds
#define cudaMemset		 cudaMemset_ptds
#define cudaMemset2D		 cudaMemset2D_ptds
#define cudaMemcpyAsync		 cudaMemcpyAsync_ptsz
#define cudaMemcpy2DAsync	 cudaMemcpy2DAsync_ptsz
#define cudaMemsetAsync		 cudaMemsetAsync_ptsz
#define cudaMemset2DAsync	 cudaMemset2DAsync_ptsz
#define cudaMemcpy3DAsync	 cudaMemcpy3DAsync_ptsz
#define cudaStreamQuery		 cudaStreamQuery_ptsz
#define cudaStreamSynchronize	 cudaStreamSynchronize_ptsz
#define cudaStreamWaitEvent	 cudaStreamWaitEvent_ptsz
#define cudaStreamAddCallback	 cudaStreamAddCallback_ptsz
#define cudaStreamGetFlags	 cudaStreamGetFlags_ptsz
#define cudaStreamGetPriority	 cudaStreamGetPriority_ptsz
#define cudaEventRecord		 cudaEventRecord_ptsz
#define cudaEventRecordWithFlags cudaEventRecordWithFlags_ptsz
#define cudaLaunchKernel	 cudaLaunchKernel_ptsz
#define cudaLaunchHostFunc	 cudaLaunchHostFunc_ptsz
#define cudaGraphLaunch		 cudaGraphLaunch_ptsz
#define cudaStreamBeginCapture	 cudaStreamBeginCapture_ptsz
#define cudaStreamEndCapture	 cudaStreamEndCapture_ptsz
#define cudaStreamIsCapturing	 cudaStreamIsCapturing_ptsz
#define cudaMallocAsync		 cudaMallocAsync_ptsz
#define cudaFreeAsync		 cudaFreeAsync_ptsz
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef void(CUDART_CB *cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status,
					      void *userData);

/* -------------------------------------------------- results: of the calling thread's last failing call */

cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);

/* -------------------------------------------- devices: this host's, as CUDA_VISIBLE_DEVICES orders them */

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetValidDevices(int *device_arr, int len);
cudaError_t cudaSetDeviceFlags(unsigned int flags);
cudaError_t cudaGetDeviceFlags(unsigned int *flags);
cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags);
cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device);
cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice,
				      int dstDevice);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value);
cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit);
cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *cacheConfig);
cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig);
cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config);
cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config);
cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority);
cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId);
cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device);
cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
					       enum cudaFlushGPUDirectRDMAWritesScope scope);
cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice);
cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags);
cudaError_t cudaDeviceDisablePeerAccess(int peerDevice);
cudaError_t cudaDriverGetVersion(int *driverVersion);
cudaError_t cudaRuntimeGetVersion(int *runtimeVersion);
cudaError_t cudaThreadExit(void);
cudaError_t cudaThreadSynchronize(void);
cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value);
cudaError_t cudaThreadGetLimit(size_t *value, enum cudaLimit limit);
cudaError_t cudaThreadGetCacheConfig(enum cudaFuncCache *cacheConfig);
cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache cacheConfig);
cudaError_t cudaCtxResetPersistingL2Cache(void);

/* ------------------------------------------------------------------ memory */

cudaError_t cudaMalloc(void **ptr, size_t size);
cudaError_t cudaFree(void *ptr);
cudaError_t cudaMallocManaged(void **ptr, size_t size,
			      unsigned int flags CUDA_DEFAULT(cudaMemAttachGlobal));
cudaError_t cudaMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height);
cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent);
cudaError_t cudaMallocHost(void **ptr, size_t size);
cudaError_t cudaHostAlloc(void **host, size_t size, unsigned int flags);
cudaError_t cudaFreeHost(void *ptr);
cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags);
cudaError_t cudaHostUnregister(void *ptr);
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags);
cudaError_t cudaHostGetFlags(unsigned int *flags, void *host);
cudaError_t cudaMallocAsync(void **ptr, size_t size, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream);
cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool,
				    cudaStream_t stream);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr);
cudaError_t cudaMemPrefetchAsync(const void *ptr, size_t count, int dstDevice,
				 cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemPrefetchAsync_v2(const void *ptr, size_t count, struct cudaMemLocation location,
				    unsigned int flags, cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemAdvise(const void *ptr, size_t count, enum cudaMemoryAdvise advice, int device);
cudaError_t cudaMemAdvise_v2(const void *ptr, size_t count, enum cudaMemoryAdvise advice,
			     struct cudaMemLocation location);
cudaError_t cudaMemRangeGetAttribute(void *data, size_t dataSize,
				     enum cudaMemRangeAttribute attribute, const void *ptr,
				     size_t count);
cudaError_t cudaMemRangeGetAttributes(void **data, size_t *dataSizes,
				      enum cudaMemRangeAttribute *attributes, size_t numAttributes,
				      const void *ptr, size_t count);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device);
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device);
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool);
cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value);
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList,
				 size_t count);
cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
				 struct cudaMemLocation *location);
cudaError_t cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool,
					       enum cudaMemAllocationHandleType handleType,
					       unsigned int flags);
cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool, void *shareableHandle,
						 enum cudaMemAllocationHandleType handleType,
						 unsigned int flags);
cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData, void *ptr);
cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
				     struct cudaMemPoolPtrExportData *exportData);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *ptr);
cudaError_t cudaIpcOpenMemHandle(void **ptr, cudaIpcMemHandle_t handle, unsigned int flags);
cudaError_t cudaIpcCloseMemHandle(void *ptr);
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event);
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle);

/* ------------------------------------------------------------------ copies */

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count);
cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
			 size_t height, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p);
cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
			    cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
				size_t count, cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
			      size_t width, size_t height, enum cudaMemcpyKind kind,
			      cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p,
			      cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p,
				  cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemset(void *ptr, int value, size_t count);
cudaError_t cudaMemset2D(void *ptr, size_t pitch, int value, size_t width, size_t height);
cudaError_t cudaMemset3D(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent);
cudaError_t cudaMemsetAsync(void *ptr, int value, size_t count,
			    cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemset2DAsync(void *ptr, size_t pitch, int value, size_t width, size_t height,
			      cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr pitchedDevPtr, int value,
			      struct cudaExtent extent, cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count,
			       size_t offset CUDA_DEFAULT(0),
			       enum cudaMemcpyKind kind CUDA_DEFAULT(cudaMemcpyHostToDevice));
cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count,
				 size_t offset CUDA_DEFAULT(0),
				 enum cudaMemcpyKind kind CUDA_DEFAULT(cudaMemcpyDeviceToHost));
cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
				    size_t offset, enum cudaMemcpyKind kind,
				    cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
				      enum cudaMemcpyKind kind,
				      cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaGetSymbolAddress(void **ptr, const void *symbol);
cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol);

/* ------------------------------------------------------------------ streams and events */

cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
				unsigned int flags CUDA_DEFAULT(0));
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
				  void *userData, unsigned int flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority);
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device);
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags);
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *streamId);
cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src);
cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID attr,
				   cudaStreamAttrValue *value);
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attr,
				   const cudaStreamAttrValue *value);
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *ptr, size_t length CUDA_DEFAULT(0),
				     unsigned int flags CUDA_DEFAULT(cudaMemAttachSingle));
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream CUDA_DEFAULT(0),
				     unsigned int flags CUDA_DEFAULT(0));
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);

/* ------------------------------------------------------------------ kernels */

cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
			     size_t sharedMem, cudaStream_t stream);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args);
cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
					size_t sharedMem, cudaStream_t stream);
cudaError_t cudaLaunchCooperativeKernelMultiDevice(struct cudaLaunchParams *launchParamsList,
						   unsigned int numDevices,
						   unsigned int flags CUDA_DEFAULT(0));
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func);
cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value);
cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig);
cudaError_t cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config);
cudaError_t cudaFuncGetName(const char **name, const void *func);
cudaError_t cudaFuncGetParamInfo(const void *func, size_t paramIndex, size_t *paramOffset,
				 size_t *paramSize);
cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol);
cudaError_t cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func,
							  int blockSize, size_t dynamicSMemSize);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func,
								   int blockSize,
								   size_t dynamicSMemSize,
								   unsigned int flags);
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func,
						      int numBlocks, int blockSize);
cudaError_t cudaOccupancyMaxPotentialClusterSize(int *clusterSize, const void *func,
						 const cudaLaunchConfig_t *launchConfig);
cudaError_t cudaOccupancyMaxActiveClusters(int *numClusters, const void *func,
					   const cudaLaunchConfig_t *launchConfig);

/* ------------------------------------------------------------------ capture */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
					  const cudaGraphNode_t *dependencies,
					  const cudaGraphEdgeData *dependencyData,
					  size_t ndependencies, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus);
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
					enum cudaStreamCaptureStatus *captureStatus,
					unsigned long long *id CUDA_DEFAULT(0),
					cudaGraph_t *graph CUDA_DEFAULT(0),
					const cudaGraphNode_t **dependencies CUDA_DEFAULT(0),
					size_t *ndependencies CUDA_DEFAULT(0));
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream,
					enum cudaStreamCaptureStatus *captureStatus,
					unsigned long long *id CUDA_DEFAULT(0),
					cudaGraph_t *graph CUDA_DEFAULT(0),
					const cudaGraphNode_t **dependencies CUDA_DEFAULT(0),
					const cudaGraphEdgeData **edgeData CUDA_DEFAULT(0),
					size_t *ndependencies CUDA_DEFAULT(0));
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
						size_t ndependencies,
						unsigned int flags CUDA_DEFAULT(0));
cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream,
						   cudaGraphNode_t *dependencies,
						   const cudaGraphEdgeData *dependencyData,
						   size_t ndependencies,
						   unsigned int flags CUDA_DEFAULT(0));

/* ------------------------------------------------------------------ graphs */

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags);
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *graphNode, cudaGraph_t graph,
				   const cudaGraphNode_t *dependencies, size_t ndependencies,
				   const struct cudaKernelNodeParams *nodeParams);
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
					 struct cudaKernelNodeParams *nodeParams);
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
					 const struct cudaKernelNodeParams *nodeParams);
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t src, cudaGraphNode_t dst);
cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID attr,
					    cudaKernelNodeAttrValue *value);
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID attr,
					    const cudaKernelNodeAttrValue *value);
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *graphNode, cudaGraph_t graph,
				   const cudaGraphNode_t *dependencies, size_t ndependencies,
				   const struct cudaMemcpy3DParms *copyParams);
cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *graphNode, cudaGraph_t graph,
					   const cudaGraphNode_t *dependencies,
					   size_t ndependencies, const void *symbol,
					   const void *src, size_t count, size_t offset,
					   enum cudaMemcpyKind kind);
cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *graphNode, cudaGraph_t graph,
					     const cudaGraphNode_t *dependencies,
					     size_t ndependencies, void *dst, const void *symbol,
					     size_t count, size_t offset, enum cudaMemcpyKind kind);
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *graphNode, cudaGraph_t graph,
				     const cudaGraphNode_t *dependencies, size_t ndependencies,
				     void *dst, const void *src, size_t count,
				     enum cudaMemcpyKind kind);
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
					 struct cudaMemcpy3DParms *nodeParams);
cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
					 const struct cudaMemcpy3DParms *nodeParams);
cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol,
						 const void *src, size_t count, size_t offset,
						 enum cudaMemcpyKind kind);
cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst,
						   const void *symbol, size_t count, size_t offset,
						   enum cudaMemcpyKind kind);
cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src,
					   size_t count, enum cudaMemcpyKind kind);
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *graphNode, cudaGraph_t graph,
				   const cudaGraphNode_t *dependencies, size_t ndependencies,
				   const struct cudaMemsetParams *memsetParams);
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *nodeParams);
cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
					 const struct cudaMemsetParams *nodeParams);
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *graphNode, cudaGraph_t graph,
				 const cudaGraphNode_t *dependencies, size_t ndependencies,
				 const struct cudaHostNodeParams *nodeParams);
cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *nodeParams);
cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
				       const struct cudaHostNodeParams *nodeParams);
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *graphNode, cudaGraph_t graph,
				       const cudaGraphNode_t *dependencies, size_t ndependencies,
				       cudaGraph_t childGraph);
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *graph);
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *graphNode, cudaGraph_t graph,
				  const cudaGraphNode_t *dependencies, size_t ndependencies);
cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *graphNode, cudaGraph_t graph,
					const cudaGraphNode_t *dependencies, size_t ndependencies,
					cudaEvent_t event);
cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event);
cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event);
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *graphNode, cudaGraph_t graph,
				      const cudaGraphNode_t *dependencies, size_t ndependencies,
				      cudaEvent_t event);
cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event);
cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event);
cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *graphNode, cudaGraph_t graph,
				     const cudaGraphNode_t *dependencies, size_t ndependencies,
				     struct cudaMemAllocNodeParams *nodeParams);
cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
					   struct cudaMemAllocNodeParams *params);
cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *graphNode, cudaGraph_t graph,
				    const cudaGraphNode_t *dependencies, size_t ndependencies,
				    void *dptr);
cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *dptr);
cudaError_t cudaDeviceGraphMemTrim(int device);
cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr,
					   void *value);
cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr,
					   void *value);
cudaError_t cudaGraphClone(cudaGraph_t *graphClone, cudaGraph_t originalGraph);
cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *node, cudaGraphNode_t originalNode,
				     cudaGraph_t clonedGraph);
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes);
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *rootNodes,
				  size_t *numRootNodes);
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
			      size_t *numEdges);
cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
				 cudaGraphEdgeData *edgeData, size_t *numEdges);
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *dependencies,
					 size_t *ndependencies);
cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t *dependencies,
					    cudaGraphEdgeData *edgeData, size_t *ndependencies);
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *dependentNodes,
					   size_t *numDependentNodes);
cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node, cudaGraphNode_t *dependentNodes,
					      cudaGraphEdgeData *edgeData,
					      size_t *numDependentNodes);
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
				     const cudaGraphNode_t *to, size_t ndependencies);
cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from,
					const cudaGraphNode_t *to,
					const cudaGraphEdgeData *edgeData, size_t ndependencies);
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
					const cudaGraphNode_t *to, size_t ndependencies);
cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from,
					   const cudaGraphNode_t *to,
					   const cudaGraphEdgeData *edgeData, size_t ndependencies);
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *graphExec, cudaGraph_t graph,
				 unsigned long long flags CUDA_DEFAULT(0));
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *graphExec, cudaGraph_t graph,
					  unsigned long long flags CUDA_DEFAULT(0));
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *graphExec, cudaGraph_t graph,
					   cudaGraphInstantiateParams *instantiateParams);
cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long *flags);
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
					     const struct cudaKernelNodeParams *nodeParams);
cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
					     const struct cudaMemcpy3DParms *nodeParams);
cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t graphExec,
						     cudaGraphNode_t node, const void *symbol,
						     const void *src, size_t count, size_t offset,
						     enum cudaMemcpyKind kind);
cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t graphExec,
						       cudaGraphNode_t node, void *dst,
						       const void *symbol, size_t count,
						       size_t offset, enum cudaMemcpyKind kind);
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t graphExec, cudaGraphNode_t node,
					       void *dst, const void *src, size_t count,
					       enum cudaMemcpyKind kind);
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
					     const struct cudaMemsetParams *nodeParams);
cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
					   const struct cudaHostNodeParams *nodeParams);
cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
						 cudaGraph_t childGraph);
cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t graphExec, cudaGraphNode_t node,
						 cudaEvent_t event);
cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t graphExec, cudaGraphNode_t node,
					       cudaEvent_t event);
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t graphExec, cudaGraphNode_t node,
				    unsigned int isEnabled);
cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t graphExec, cudaGraphNode_t node,
				    unsigned int *isEnabled);
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t graphExec, cudaGraph_t graph,
				cudaGraphExecUpdateResultInfo *resultInfo);
cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags);
cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *ptr, cudaHostFn_t destroy,
				 unsigned int initialRefcount, unsigned int flags);
cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count CUDA_DEFAULT(1));
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count CUDA_DEFAULT(1));
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
				      unsigned int count CUDA_DEFAULT(1),
				      unsigned int flags CUDA_DEFAULT(0));
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
				       unsigned int count CUDA_DEFAULT(1));
cudaError_t cudaGraphAddNode(cudaGraphNode_t *graphNode, cudaGraph_t graph,
			     const cudaGraphNode_t *dependencies, size_t ndependencies,
			     struct cudaGraphNodeParams *nodeParams);
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *graphNode, cudaGraph_t graph,
				const cudaGraphNode_t *dependencies,
				const cudaGraphEdgeData *dependencyData, size_t ndependencies,
				struct cudaGraphNodeParams *nodeParams);
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams);
cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
				       struct cudaGraphNodeParams *nodeParams);
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
					     unsigned int defaultLaunchValue CUDA_DEFAULT(0),
					     unsigned int flags CUDA_DEFAULT(0));

/* ------------------------------------------------------------------ others */

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
			    size_t width, size_t height CUDA_DEFAULT(0),
			    unsigned int flags CUDA_DEFAULT(0));
cudaError_t cudaFreeArray(cudaArray_t array);
cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray);
cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
			      struct cudaExtent extent, unsigned int flags CUDA_DEFAULT(0));
cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray,
				     const struct cudaChannelFormatDesc *desc,
				     struct cudaExtent extent, unsigned int numLevels,
				     unsigned int flags CUDA_DEFAULT(0));
cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *levelArray,
				       cudaMipmappedArray_const_t mipmappedArray,
				       unsigned int level);
cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
			     unsigned int *flags, cudaArray_t array);
cudaError_t cudaArrayGetPlane(cudaArray_t *planeArray, cudaArray_t hArray, unsigned int planeIdx);
cudaError_t cudaMemcpy2DToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
				size_t spitch, size_t width, size_t height,
				enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DFromArray(void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset,
				  size_t hOffset, size_t width, size_t height,
				  enum cudaMemcpyKind kind);
cudaError_t
cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
			 cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc, size_t width,
			 size_t height,
			 enum cudaMemcpyKind kind CUDA_DEFAULT(cudaMemcpyDeviceToDevice));
cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset,
				     const void *src, size_t spitch, size_t width, size_t height,
				     enum cudaMemcpyKind kind, cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_const_t src,
				       size_t wOffset, size_t hOffset, size_t width, size_t height,
				       enum cudaMemcpyKind kind,
				       cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemcpyToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
			      size_t count, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyFromArray(void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset,
				size_t count, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
				   cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc,
				   size_t count,
				   enum cudaMemcpyKind kind CUDA_DEFAULT(cudaMemcpyDeviceToDevice));
cudaError_t cudaMemcpyToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
				   size_t count, enum cudaMemcpyKind kind,
				   cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaMemcpyFromArrayAsync(void *dst, cudaArray_const_t src, size_t wOffset,
				     size_t hOffset, size_t count, enum cudaMemcpyKind kind,
				     cudaStream_t stream CUDA_DEFAULT(0));
cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array);
struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
						   enum cudaChannelFormatKind f);
cudaError_t
cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
			enum cudaDriverEntryPointQueryResult *driverStatus CUDA_DEFAULT(NULL));
cudaError_t cudaGetDriverEntryPointByVersion(
    const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *driverStatus CUDA_DEFAULT(NULL));
cudaError_t cudaGetExportTable(const void **ppExportTable, const cudaUUID_t *exportTableId);

#ifdef __cplusplus
}
#include "cuda_runtime_cxx.h"
#endif

#endif
