/*
 * cuda_fp16.h - half: a float of 16 bits. Arithmetic is that of float, rounded once to the nearest even; a
 * fused multiply-add rounds once. Written from the CUDA Math API's documentation; C++.
 */
#ifndef CUDA_FP16_H
#define CUDA_FP16_H

#define __CUDA_FP16_TYPES_EXIST__

#ifdef __cplusplus

#include "gpusim_cuda_small.h"

typedef struct __attribute__((aligned(2))) {
	unsigned short x;
} __half_raw;

typedef struct __attribute__((aligned(4))) {
	unsigned short x, y;
} __half2_raw;

struct __attribute__((aligned(2))) __half {
      protected:
	unsigned short __x;

      public:
	GPUSIM_SMALL_CLASS(__half, __half_raw, half_from_float, half_to_float)
};

struct __attribute__((aligned(4))) __half2 {
	__half x, y;

	__half2() = default;
	__host__ __device__
	__half2(const __half &a, const __half &b)
	    : x(a), y(b)
	{
	}
	__host__ __device__
	__half2(const __half2_raw &r)
	    : x(__half_raw{r.x}), y(__half_raw{r.y})
	{
	}
	__host__ __device__ operator __half2_raw() const
	{
		return __half2_raw{((__half_raw)x).x, ((__half_raw)y).x};
	}
};

namespace gpusim_cuda
{

GPUSIM_SMALL __half_raw
flip_sign(__half a)
{
	return __half_raw{(unsigned short)(((__half_raw)a).x ^ 0x8000)};
}

GPUSIM_SMALL __half_raw
clear_sign(__half a)
{
	return __half_raw{(unsigned short)(((__half_raw)a).x & 0x7fff)};
}

} // namespace gpusim_cuda

GPUSIM_SMALL_ARITHMETIC(__half, __half2)
GPUSIM_SMALL_CONVERSIONS(__half, __half2, __half_raw, half, 5, 10)

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
typedef __half nv_half;
typedef __half2 nv_half2;

#ifdef __GPUSIM_NVCC__
#include "gpusim_cuda_device.h"

GPUSIM_DEVICE __half
atomicAdd(__half *p, __half v)
{
	return gpusim_cuda::atomic_update(p, [v](__half o) { return o + v; });
}

GPUSIM_DEVICE __half2
atomicAdd(__half2 *p, __half2 v)
{
	return gpusim_cuda::atomic_update(p, [v](__half2 o) { return o + v; });
}
#endif

#else
typedef struct __attribute__((aligned(2))) {
	unsigned short x;
} __half; /* in C only its size is known */
#endif
#endif
