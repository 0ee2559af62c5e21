/*
 * cuda_bf16.h - bfloat16: the upper half of a float. Arithmetic is that of float, rounded once to the
 * nearest even; a fused multiply-add rounds once. Written from the CUDA Math API's documentation; C++.
 */
#ifndef CUDA_BF16_H
#define CUDA_BF16_H

#define __CUDA_BF16_TYPES_EXIST__

#ifdef __cplusplus

#include "cuda_fp16.h"

typedef struct __attribute__((aligned(2))) {
	unsigned short x;
} __nv_bfloat16_raw;

typedef struct __attribute__((aligned(4))) {
	unsigned short x, y;
} __nv_bfloat162_raw;

struct __attribute__((aligned(2))) __nv_bfloat16 {
      protected:
	unsigned short __x;

      public:
	GPUSIM_SMALL_CLASS(__nv_bfloat16, __nv_bfloat16_raw, bf16_from_float, bf16_to_float)
};

struct __attribute__((aligned(4))) __nv_bfloat162 {
	__nv_bfloat16 x, y;

	__nv_bfloat162() = default;
	__host__ __device__
	__nv_bfloat162(const __nv_bfloat16 &a, const __nv_bfloat16 &b)
	    : x(a), y(b)
	{
	}
	__host__ __device__
	__nv_bfloat162(const __nv_bfloat162_raw &r)
	    : x(__nv_bfloat16_raw{r.x}), y(__nv_bfloat16_raw{r.y})
	{
	}
	__host__ __device__ operator __nv_bfloat162_raw() const
	{
		return __nv_bfloat162_raw{((__nv_bfloat16_raw)x).x, ((__nv_bfloat16_raw)y).x};
	}
};

namespace gpusim_cuda
{

GPUSIM_SMALL __nv_bfloat16_raw
flip_sign(__nv_bfloat16 a)
{
	return __nv_bfloat16_raw{(unsigned short)(((__nv_bfloat16_raw)a).x ^ 0x8000)};
}

GPUSIM_SMALL __nv_bfloat16_raw
clear_sign(__nv_bfloat16 a)
{
	return __nv_bfloat16_raw{(unsigned short)(((__nv_bfloat16_raw)a).x & 0x7fff)};
}

} // namespace gpusim_cuda

GPUSIM_SMALL_ARITHMETIC(__nv_bfloat16, __nv_bfloat162)
GPUSIM_SMALL_CONVERSIONS(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw, bfloat16, 8, 7)

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#ifdef __GPUSIM_NVCC__
GPUSIM_DEVICE __nv_bfloat16
atomicAdd(__nv_bfloat16 *p, __nv_bfloat16 v)
{
	return gpusim_cuda::atomic_update(p, [v](__nv_bfloat16 o) { return o + v; });
}

GPUSIM_DEVICE __nv_bfloat162
atomicAdd(__nv_bfloat162 *p, __nv_bfloat162 v)
{
	return gpusim_cuda::atomic_update(p, [v](__nv_bfloat162 o) { return o + v; });
}
#endif

#endif
#endif
