/* get_value.h - thrust's own, with the code for compilers of one pass; see cpp_compatibility.h. */
#pragma once

#include <thrust/system/cuda/detail/cross_system.h>

#define _NVHPC_CUDA 1
#include_next <thrust/system/cuda/detail/get_value.h>
#undef _NVHPC_CUDA
