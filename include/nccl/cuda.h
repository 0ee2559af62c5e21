/*
 * cuda.h - names of the CUDA driver's interface that runtime programs also use. The driver's calls are not simulated: using
 * one is an error of the preprocessor, in .cu files and for a plain compiler.
 */
#ifndef __cuda_cuda_h__
#define __cuda_cuda_h__

#include "cuda_runtime_api.h"

#define CUDA_VERSION 12040

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUarray_st *CUarray;
typedef struct CUtexref_st *CUtexref;
typedef struct CUlinkState_st *CUlinkState;
typedef cudaStream_t CUstream;
typedef cudaEvent_t CUevent;
typedef enum cudaError_enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_UNKNOWN = 999
} CUresult;

/* clang-format off */
#define GPUSIM_NO_DRIVER(...) \
	(_Pragma("GCC error \"the driver API (cu*) is not simulated; use the runtime's calls (cuda*)\"") CUDA_ERROR_NOT_SUPPORTED)
/* clang-format on */
#define cuInit(...)					 GPUSIM_NO_DRIVER()
#define cuDriverGetVersion(...)				 GPUSIM_NO_DRIVER()
#define cuGetErrorName(...)				 GPUSIM_NO_DRIVER()
#define cuGetErrorString(...)				 GPUSIM_NO_DRIVER()
#define cuGetProcAddress(...)				 GPUSIM_NO_DRIVER()
#define cuGetExportTable(...)				 GPUSIM_NO_DRIVER()
#define cuDeviceGet(...)				 GPUSIM_NO_DRIVER()
#define cuDeviceGetCount(...)				 GPUSIM_NO_DRIVER()
#define cuDeviceGetName(...)				 GPUSIM_NO_DRIVER()
#define cuDeviceGetAttribute(...)			 GPUSIM_NO_DRIVER()
#define cuDeviceGetUuid(...)				 GPUSIM_NO_DRIVER()
#define cuDeviceGetUuid_v2(...)				 GPUSIM_NO_DRIVER()
#define cuDeviceTotalMem(...)				 GPUSIM_NO_DRIVER()
#define cuDeviceComputeCapability(...)			 GPUSIM_NO_DRIVER()
#define cuDeviceCanAccessPeer(...)			 GPUSIM_NO_DRIVER()
#define cuDeviceGetPCIBusId(...)			 GPUSIM_NO_DRIVER()
#define cuDevicePrimaryCtxRetain(...)			 GPUSIM_NO_DRIVER()
#define cuDevicePrimaryCtxRelease(...)			 GPUSIM_NO_DRIVER()
#define cuDeviceGetP2PAttribute(...)			 GPUSIM_NO_DRIVER()
#define cuCtxCreate(...)				 GPUSIM_NO_DRIVER()
#define cuCtxDestroy(...)				 GPUSIM_NO_DRIVER()
#define cuCtxSynchronize(...)				 GPUSIM_NO_DRIVER()
#define cuCtxGetCurrent(...)				 GPUSIM_NO_DRIVER()
#define cuCtxSetCurrent(...)				 GPUSIM_NO_DRIVER()
#define cuCtxGetDevice(...)				 GPUSIM_NO_DRIVER()
#define cuCtxGetApiVersion(...)				 GPUSIM_NO_DRIVER()
#define cuCtxPushCurrent(...)				 GPUSIM_NO_DRIVER()
#define cuCtxPopCurrent(...)				 GPUSIM_NO_DRIVER()
#define cuCtxEnablePeerAccess(...)			 GPUSIM_NO_DRIVER()
#define cuCtxDisablePeerAccess(...)			 GPUSIM_NO_DRIVER()
#define cuModuleLoad(...)				 GPUSIM_NO_DRIVER()
#define cuModuleLoadData(...)				 GPUSIM_NO_DRIVER()
#define cuModuleLoadDataEx(...)				 GPUSIM_NO_DRIVER()
#define cuModuleUnload(...)				 GPUSIM_NO_DRIVER()
#define cuModuleGetFunction(...)			 GPUSIM_NO_DRIVER()
#define cuModuleGetGlobal(...)				 GPUSIM_NO_DRIVER()
#define cuLibraryLoadData(...)				 GPUSIM_NO_DRIVER()
#define cuLibraryGetKernel(...)				 GPUSIM_NO_DRIVER()
#define cuLinkCreate(...)				 GPUSIM_NO_DRIVER()
#define cuLinkAddData(...)				 GPUSIM_NO_DRIVER()
#define cuLinkAddFile(...)				 GPUSIM_NO_DRIVER()
#define cuLinkComplete(...)				 GPUSIM_NO_DRIVER()
#define cuLinkDestroy(...)				 GPUSIM_NO_DRIVER()
#define cuFuncGetAttribute(...)				 GPUSIM_NO_DRIVER()
#define cuFuncSetAttribute(...)				 GPUSIM_NO_DRIVER()
#define cuLaunchKernel(...)				 GPUSIM_NO_DRIVER()
#define cuLaunchKernelEx(...)				 GPUSIM_NO_DRIVER()
#define cuLaunchCooperativeKernel(...)			 GPUSIM_NO_DRIVER()
#define cuLaunchHostFunc(...)				 GPUSIM_NO_DRIVER()
#define cuOccupancyMaxPotentialBlockSize(...)		 GPUSIM_NO_DRIVER()
#define cuOccupancyMaxActiveBlocksPerMultiprocessor(...) GPUSIM_NO_DRIVER()
#define cuMemAlloc(...)					 GPUSIM_NO_DRIVER()
#define cuMemAllocHost(...)				 GPUSIM_NO_DRIVER()
#define cuMemAllocManaged(...)				 GPUSIM_NO_DRIVER()
#define cuMemAllocAsync(...)				 GPUSIM_NO_DRIVER()
#define cuMemFree(...)					 GPUSIM_NO_DRIVER()
#define cuMemFreeHost(...)				 GPUSIM_NO_DRIVER()
#define cuMemFreeAsync(...)				 GPUSIM_NO_DRIVER()
#define cuMemGetInfo(...)				 GPUSIM_NO_DRIVER()
#define cuMemcpy(...)					 GPUSIM_NO_DRIVER()
#define cuMemcpyAsync(...)				 GPUSIM_NO_DRIVER()
#define cuMemcpyHtoD(...)				 GPUSIM_NO_DRIVER()
#define cuMemcpyHtoDAsync(...)				 GPUSIM_NO_DRIVER()
#define cuMemcpyDtoH(...)				 GPUSIM_NO_DRIVER()
#define cuMemcpyDtoHAsync(...)				 GPUSIM_NO_DRIVER()
#define cuMemcpyDtoD(...)				 GPUSIM_NO_DRIVER()
#define cuMemcpy2D(...)					 GPUSIM_NO_DRIVER()
#define cuMemcpy3D(...)					 GPUSIM_NO_DRIVER()
#define cuMemsetD8(...)					 GPUSIM_NO_DRIVER()
#define cuMemsetD32(...)				 GPUSIM_NO_DRIVER()
#define cuMemHostAlloc(...)				 GPUSIM_NO_DRIVER()
#define cuMemHostRegister(...)				 GPUSIM_NO_DRIVER()
#define cuMemHostUnregister(...)			 GPUSIM_NO_DRIVER()
#define cuMemHostGetDevicePointer(...)			 GPUSIM_NO_DRIVER()
#define cuPointerGetAttribute(...)			 GPUSIM_NO_DRIVER()
#define cuMemCreate(...)				 GPUSIM_NO_DRIVER()
#define cuMemRelease(...)				 GPUSIM_NO_DRIVER()
#define cuMemMap(...)					 GPUSIM_NO_DRIVER()
#define cuMemUnmap(...)					 GPUSIM_NO_DRIVER()
#define cuMemSetAccess(...)				 GPUSIM_NO_DRIVER()
#define cuMemAddressReserve(...)			 GPUSIM_NO_DRIVER()
#define cuMemAddressFree(...)				 GPUSIM_NO_DRIVER()
#define cuMemGetAllocationGranularity(...)		 GPUSIM_NO_DRIVER()
#define cuMemExportToShareableHandle(...)		 GPUSIM_NO_DRIVER()
#define cuMemImportFromShareableHandle(...)		 GPUSIM_NO_DRIVER()
#define cuMemGetAllocationPropertiesFromHandle(...)	 GPUSIM_NO_DRIVER()
#define cuMulticastCreate(...)				 GPUSIM_NO_DRIVER()
#define cuStreamCreate(...)				 GPUSIM_NO_DRIVER()
#define cuStreamDestroy(...)				 GPUSIM_NO_DRIVER()
#define cuStreamQuery(...)				 GPUSIM_NO_DRIVER()
#define cuStreamSynchronize(...)			 GPUSIM_NO_DRIVER()
#define cuStreamWaitEvent(...)				 GPUSIM_NO_DRIVER()
#define cuStreamWaitValue32(...)			 GPUSIM_NO_DRIVER()
#define cuStreamWriteValue32(...)			 GPUSIM_NO_DRIVER()
#define cuEventCreate(...)				 GPUSIM_NO_DRIVER()
#define cuEventDestroy(...)				 GPUSIM_NO_DRIVER()
#define cuEventQuery(...)				 GPUSIM_NO_DRIVER()
#define cuEventRecord(...)				 GPUSIM_NO_DRIVER()
#define cuEventSynchronize(...)				 GPUSIM_NO_DRIVER()
#define cuEventElapsedTime(...)				 GPUSIM_NO_DRIVER()
#define cuArrayCreate(...)				 GPUSIM_NO_DRIVER()
#define cuArray3DCreate(...)				 GPUSIM_NO_DRIVER()
#define cuArrayDestroy(...)				 GPUSIM_NO_DRIVER()
#define cuTexObjectCreate(...)				 GPUSIM_NO_DRIVER()
#define cuTexObjectDestroy(...)				 GPUSIM_NO_DRIVER()
#define cuTexRefSetArray(...)				 GPUSIM_NO_DRIVER()
#define cuTexRefSetFlags(...)				 GPUSIM_NO_DRIVER()
#define cuProfilerInitialize(...)			 GPUSIM_NO_DRIVER()
#define cuProfilerStart(...)				 GPUSIM_NO_DRIVER()
#define cuProfilerStop(...)				 GPUSIM_NO_DRIVER()

#endif
