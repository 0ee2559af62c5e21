/*
 * cuda_runtime_cxx.h - forms of the runtime's calls that C++ programs use besides: typed pointers, and
 * cudaGraphInstantiate as it was before CUDA 12.
 */
#ifndef CUDA_RUNTIME_CXX_H
#define CUDA_RUNTIME_CXX_H

/* Also without -O: a memory check names the line of the program, not this file. */
#define GPUSIM_INLINE static inline __attribute__((always_inline))

template <class T>
GPUSIM_INLINE cudaError_t
cudaMalloc(T **ptr, size_t size)
{
	return ::cudaMalloc((void **)(void *)ptr, size);
}

template <class T>
GPUSIM_INLINE cudaError_t
cudaMallocHost(T **ptr, size_t size, unsigned int flags = 0)
{
	return ::cudaHostAlloc((void **)(void *)ptr, size, flags);
}

template <class T>
GPUSIM_INLINE cudaError_t
cudaHostAlloc(T **ptr, size_t size, unsigned int flags)
{
	return ::cudaHostAlloc((void **)(void *)ptr, size, flags);
}

template <class T>
GPUSIM_INLINE cudaError_t
cudaHostGetDevicePointer(T **device, void *host, unsigned int flags)
{
	return ::cudaHostGetDevicePointer((void **)(void *)device, host, flags);
}

template <class T>
GPUSIM_INLINE cudaError_t
cudaMallocManaged(T **ptr, size_t size, unsigned int flags = cudaMemAttachGlobal)
{
	return ::cudaMallocManaged((void **)(void *)ptr, size, flags);
}

template <class T>
GPUSIM_INLINE cudaError_t
cudaMallocAsync(T **ptr, size_t size, cudaStream_t stream)
{
	return ::cudaMallocAsync((void **)(void *)ptr, size, stream);
}

template <class T>
GPUSIM_INLINE cudaError_t
cudaMallocPitch(T **ptr, size_t *pitch, size_t width, size_t height)
{
	return ::cudaMallocPitch((void **)(void *)ptr, pitch, width, height);
}

GPUSIM_INLINE cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphNode_t *error_node,
		     char *log, size_t log_nbytes)
{
	if (error_node)
		*error_node = 0;
	if (log && log_nbytes)
		log[0] = '\0';
	return ::cudaGraphInstantiate(exec, graph, 0);
}

/* As before CUDA 12. */
GPUSIM_INLINE cudaError_t
cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error_node,
		    enum cudaGraphExecUpdateResult *result)
{
	cudaGraphExecUpdateResultInfo info = {};
	cudaError_t e = ::cudaGraphExecUpdate(exec, graph, &info);

	if (result)
		*result = info.result;
	if (error_node)
		*error_node = info.errorNode;
	return e;
}

/* As from CUDA 13 on. */
GPUSIM_INLINE cudaError_t
cudaMemPrefetchAsync(const void *ptr, size_t count, struct cudaMemLocation location,
		     unsigned int flags, cudaStream_t stream = 0)
{
	return ::cudaMemPrefetchAsync_v2(ptr, count, location, flags, stream);
}

GPUSIM_INLINE cudaError_t
cudaMemAdvise(const void *ptr, size_t count, enum cudaMemoryAdvise advice,
	      struct cudaMemLocation location)
{
	return ::cudaMemAdvise_v2(ptr, count, advice, location);
}

GPUSIM_INLINE cudaError_t
cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
		 const cudaGraphEdgeData *data, size_t ndependencies,
		 struct cudaGraphNodeParams *params)
{
	return ::cudaGraphAddNode_v2(node, graph, dependencies, data, ndependencies, params);
}

GPUSIM_INLINE cudaError_t
cudaEventCreate(cudaEvent_t *event, unsigned int flags)
{
	return ::cudaEventCreateWithFlags(event, flags);
}

#endif
