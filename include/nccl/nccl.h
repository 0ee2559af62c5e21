/*
 * nccl.h - NCCL's interface, as gpusim has it.
 */
#ifndef NCCL_H
#define NCCL_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_MAJOR	  2
#define NCCL_MINOR	  27
#define NCCL_PATCH	  7
#define NCCL_VERSION_CODE 22707

typedef enum { ncclSuccess = 0 } ncclResult_t;

ncclResult_t ncclGetVersion(int *version);

#ifdef __cplusplus
}
#endif
#endif
