/*
 * nccl_test.h - shared by the nccl_*.c programs: a failed call ends the program with its message;
 * elements of all types as doubles.
 */
#ifndef NCCL_TEST_H
#define NCCL_TEST_H

#include <cuda_runtime.h>
#include <math.h>
#include <nccl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CUDA(call)                                                                    \
	do {                                                                          \
		cudaError_t e_ = (call);                                              \
		if (e_ != cudaSuccess) {                                              \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
				cudaGetErrorString(e_));                              \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

#define NCCL(call)                                                                                 \
	do {                                                                                       \
		ncclResult_t r_ = (call);                                                          \
		if (r_ != ncclSuccess) {                                                           \
			fprintf(stderr, "%s:%d: %s: %d: %s\n", __FILE__, __LINE__, #call, (int)r_, \
				ncclGetLastError(NULL));                                           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* The call's result is the expected one. */
#define WANT(result, call)                                                                        \
	do {                                                                                      \
		ncclResult_t r_ = (call);                                                         \
		if (r_ != (result)) {                                                             \
			fprintf(stderr, "%s:%d: %s: %d, not %d: %s\n", __FILE__, __LINE__, #call, \
				(int)r_, (int)(result), ncclGetLastError(NULL));                  \
			exit(1);                                                                  \
		}                                                                                 \
	} while (0)

#define CHECK(good)                                                                        \
	do {                                                                               \
		if (!(good)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #good); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

#define MAX_RANKS 8

/* All ranks in this process, each with a stream. */
struct world {
	int n;
	ncclComm_t comm[MAX_RANKS];
	cudaStream_t stream[MAX_RANKS];
};

static inline void
world_streams(struct world *w)
{
	for (int r = 0; r < w->n; r++) {
		CUDA(cudaSetDevice(r));
		CUDA(cudaStreamCreate(&w->stream[r]));
	}
}

static inline void
world_init(struct world *w)
{
	CUDA(cudaGetDeviceCount(&w->n));
	CHECK(w->n <= MAX_RANKS);
	NCCL(ncclCommInitAll(w->comm, w->n, NULL));
	world_streams(w);
}

static inline void
world_sync(struct world *w)
{
	for (int r = 0; r < w->n; r++) {
		CUDA(cudaSetDevice(r));
		CUDA(cudaStreamSynchronize(w->stream[r]));
	}
}

static inline void
world_fini(struct world *w)
{
	for (int r = 0; r < w->n; r++) {
		CUDA(cudaSetDevice(r));
		CUDA(cudaStreamDestroy(w->stream[r]));
		NCCL(ncclCommDestroy(w->comm[r]));
	}
}

/* Device memory of a rank with bytes of the host in it. */
static inline void *
device_bytes(int rank, const void *from, size_t nbytes)
{
	void *p;

	CUDA(cudaSetDevice(rank));
	CUDA(cudaMalloc(&p, nbytes ? nbytes : 1));
	if (from)
		CUDA(cudaMemcpy(p, from, nbytes, cudaMemcpyHostToDevice));
	return p;
}

/* ---- types */

static const struct {
	const char *name;
	size_t size;
} dtypes[ncclNumTypes] = {{"int8", 1},	 {"uint8", 1},	  {"int32", 4},	 {"uint32", 4},
			  {"int64", 8},	 {"uint64", 8},	  {"half", 2},	 {"float", 4},
			  {"double", 8}, {"bfloat16", 2}, {"f8e4m3", 1}, {"f8e5m2", 1}};

/* A small float of e exponent bits and m of mantissa, from a value that it represents exactly. */
static inline unsigned
pack_small(double v, int e, int m)
{
	int bias = (1 << (e - 1)) - 1, exponent;
	unsigned sign = signbit(v) ? 1u << (e + m) : 0;
	double f = frexp(fabs(v), &exponent); /* f in [0.5, 1) */

	if (v == 0)
		return sign;
	return sign | (unsigned)(exponent - 1 + bias) << m |
	       ((unsigned)lrint(ldexp(f, m + 1)) & ((1u << m) - 1));
}

static inline double
unpack_small(unsigned bits, int e, int m)
{
	int bias = (1 << (e - 1)) - 1;
	int exponent = (int)(bits >> m & ((1u << e) - 1));
	double f = (double)(bits & ((1u << m) - 1)) + (exponent ? (double)(1u << m) : 0);
	double v = ldexp(f, (exponent ? exponent : 1) - bias - m);

	return bits >> (e + m) & 1 ? -v : v;
}

static inline void
put(void *at, int dtype, size_t i, double v)
{
	switch (dtype) {
	case ncclInt8:
		((int8_t *)at)[i] = (int8_t)v;
		return;
	case ncclUint8:
		((uint8_t *)at)[i] = (uint8_t)v;
		return;
	case ncclInt32:
		((int32_t *)at)[i] = (int32_t)v;
		return;
	case ncclUint32:
		((uint32_t *)at)[i] = (uint32_t)v;
		return;
	case ncclInt64:
		((int64_t *)at)[i] = (int64_t)v;
		return;
	case ncclUint64:
		((uint64_t *)at)[i] = (uint64_t)v;
		return;
	case ncclFloat16:
		((uint16_t *)at)[i] = (uint16_t)pack_small(v, 5, 10);
		return;
	case ncclFloat32:
		((float *)at)[i] = (float)v;
		return;
	case ncclFloat64:
		((double *)at)[i] = v;
		return;
	case ncclBfloat16:
		((uint16_t *)at)[i] = (uint16_t)pack_small(v, 8, 7);
		return;
	case ncclFloat8e4m3:
		((uint8_t *)at)[i] = (uint8_t)pack_small(v, 4, 3);
		return;
	default:
		((uint8_t *)at)[i] = (uint8_t)pack_small(v, 5, 2);
	}
}

static inline double
get(const void *at, int dtype, size_t i)
{
	switch (dtype) {
	case ncclInt8:
		return ((const int8_t *)at)[i];
	case ncclUint8:
		return ((const uint8_t *)at)[i];
	case ncclInt32:
		return ((const int32_t *)at)[i];
	case ncclUint32:
		return ((const uint32_t *)at)[i];
	case ncclInt64:
		return (double)((const int64_t *)at)[i];
	case ncclUint64:
		return (double)((const uint64_t *)at)[i];
	case ncclFloat16:
		return unpack_small(((const uint16_t *)at)[i], 5, 10);
	case ncclFloat32:
		return (double)((const float *)at)[i];
	case ncclFloat64:
		return ((const double *)at)[i];
	case ncclBfloat16:
		return unpack_small(((const uint16_t *)at)[i], 8, 7);
	case ncclFloat8e4m3:
		return unpack_small(((const uint8_t *)at)[i], 4, 3);
	default:
		return unpack_small(((const uint8_t *)at)[i], 5, 2);
	}
}

#endif
