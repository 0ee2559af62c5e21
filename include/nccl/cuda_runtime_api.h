/*
 * cuda_runtime_api.h - the CUDA runtime's C interface, as far as gpusim has it.
 */
#ifndef CUDA_RUNTIME_API_H
#define CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDART_VERSION 12040

typedef struct CUstream_st *cudaStream_t;
typedef enum cudaError { cudaSuccess = 0 } cudaError_t;

cudaError_t cudaRuntimeGetVersion(int *version);

#ifdef __cplusplus
}
#endif
#endif
