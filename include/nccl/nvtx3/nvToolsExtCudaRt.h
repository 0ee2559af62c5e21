/* nvtx3/nvToolsExtCudaRt.h - NVTX: names of CUDA's objects. Those of streams are shown; the others have no line. */
#ifndef NVTOOLSEXT_CUDART_V3
#define NVTOOLSEXT_CUDART_V3

#include <nvtx3/nvToolsExt.h>

#include <cuda_runtime_api.h>

GPUSIM_NVTX_IS(void, nvtxNameCudaStreamA, (cudaStream_t stream, const char *name),
	       gpusim_nvtx(GPUSIM_NVTX_STREAM, (uint64_t)(uintptr_t)stream, NULL, name, 0, 0))
GPUSIM_NVTX_IS(void, nvtxNameCudaDeviceA, (int device, const char *name), ((void)device, name))
GPUSIM_NVTX_IS(void, nvtxNameCudaEventA, (cudaEvent_t event, const char *name), ((void)event, name))

#define nvtxNameCudaStream nvtxNameCudaStreamA
#define nvtxNameCudaDevice nvtxNameCudaDeviceA
#define nvtxNameCudaEvent  nvtxNameCudaEventA

#endif
