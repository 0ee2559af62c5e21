/* cuda_runtime.h - the CUDA runtime: its C interface, and in .cu files what kernels use. */
#ifndef __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_H__

#include "cuda_runtime_api.h"
#include "driver_functions.h"
#include "library_types.h"
#include "vector_functions.h"

#ifdef __cplusplus
#include "cuda_runtime_cxx.h"
#include "gpusim_cuda_host.h"
#ifdef __GPUSIM_NVCC__
#include <limits>

#include "gpusim_cuda.h"
#include "gpusim_cuda_device.h"
#include "gpusim_cuda_math.h"
#include "gpusim_cuda_ptx.h"
#include "gpusim_cuda_cub.h"
#include "texture_types.h"
#endif
#endif

#endif
