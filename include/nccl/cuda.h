/*
 * cuda.h - names of the CUDA driver's interface that runtime programs also use. The driver's calls are not simulated:
 * using one is an error of the preprocessor, in .cu files and for a plain compiler.
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
	(_Pragma("GCC error \"the driver API (cu*) is not simulated; use the runtime's calls (cuda*)\"") \
	     CUDA_ERROR_NOT_SUPPORTED)
/* clang-format on */
#include <gpusim_no_driver.h> /* a macro for each call; the Makefile writes them */

#endif
