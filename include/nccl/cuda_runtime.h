/* cuda_runtime.h - the CUDA runtime: its C interface, and in .cu files what kernels use. */
#ifndef CUDA_RUNTIME_H
#define CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#endif
