/*
 * thrust/system/cuda/detail/core/agent_launcher.h - thrust's own, with the code for compilers of one pass: for others
 * its kernels are empty in the program's half.
 */
#pragma once

#include <thrust/system/cuda/detail/core/triple_chevron_launch.h>
#include <thrust/system/cuda/detail/core/util.h>

#define _NVHPC_CUDA 1
#include_next <thrust/system/cuda/detail/core/agent_launcher.h>
#undef _NVHPC_CUDA
