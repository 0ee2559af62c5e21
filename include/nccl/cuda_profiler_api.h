/* cuda_profiler_api.h - the part of a program that a profiler looks at. `gpuctl trace` shows all of it. */
#ifndef __CUDA_PROFILER_API_H__
#define __CUDA_PROFILER_API_H__

#include "cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Both do nothing and succeed. */
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

#ifdef __cplusplus
}
#endif
#endif
