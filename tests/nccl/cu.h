/* cu.h - shared by the programs of this folder that use the CUDA runtime. */
#ifndef CU_H
#define CU_H

#include <stdio.h>
#include <stdlib.h>

#include "cuda_runtime_api.h"

/* A call that has to succeed. */
#define CU(call)                                                                      \
	do {                                                                          \
		cudaError_t cu_e = (call);                                            \
		if (cu_e != cudaSuccess) {                                            \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
				cudaGetErrorName(cu_e));                              \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

/* A call that has to fail with this error. */
#define FAILS(call, want)                                                                     \
	do {                                                                                  \
		cudaError_t cu_e = (call);                                                    \
		if (cu_e != (want)) {                                                         \
			fprintf(stderr, "%s:%d: %s: %s, not %s\n", __FILE__, __LINE__, #call, \
				cudaGetErrorName(cu_e), cudaGetErrorName(want));              \
			exit(1);                                                              \
		}                                                                             \
		cudaGetLastError();                                                           \
	} while (0)

#define CHECK(cond)                                                                        \
	do {                                                                               \
		if (!(cond)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

#endif
