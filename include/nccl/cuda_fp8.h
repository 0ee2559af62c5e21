/*
 * cuda_fp8.h - floats of 8 bits, as the OCP 8-bit Floating Point Specification has them: e4m3 (largest 448,
 * no infinity, NaN 0x7f) and e5m2 (largest 57344, infinities). A conversion rounds once, to the nearest
 * even. The constructors saturate: more than the largest, infinity too, becomes the largest. NaN becomes
 * 0x7f. Written from the CUDA Math API's documentation; C++.
 */
#ifndef CUDA_FP8_H
#define CUDA_FP8_H

#define __CUDA_FP8_TYPES_EXIST__

#ifdef __cplusplus

#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;

typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

namespace gpusim_cuda
{

/* e4m3's highest exponent holds numbers, so it is rounded with one more bit of exponent than it has; exact
 * scaling then corrects the bias. */
GPUSIM_SMALL unsigned char
e4m3_from_float(float f, __nv_saturation_t saturate)
{
	const unsigned sign = small_bits<uint32_t>(f) >> 31 << 7;
	const float mag = fabsf(f);
	unsigned out;

	if (f != f)
		return 0x7f;
	if (mag > 464.0f) /* halfway to 480 is 464, and 448 is even */
		return (unsigned char)(sign | (saturate == __NV_SATFINITE ? 0x7e : 0x7f));
	/* As the low 7 bits of a type of 5 bits exponent, whose values are 2^8 times smaller. */
	out = small_from_float<5, 3>(mag * (1.0f / 256), to_nearest);
	return (unsigned char)(sign | (out > 0x7e ? 0x7e : out));
}

GPUSIM_SMALL unsigned char
e5m2_from_float(float f, __nv_saturation_t saturate)
{
	unsigned out;

	if (f != f)
		return 0x7f;
	out = small_from_float<5, 2>(f, to_nearest);
	if ((out & 0x7f) == 0x7c && saturate == __NV_SATFINITE)
		out = (out & 0x80) | 0x7b;
	return (unsigned char)out;
}

GPUSIM_SMALL float
e4m3_to_float(unsigned char b)
{
	float v;

	if ((b & 0x7f) == 0x7f)
		return small_bits<float>(0x7fffffffu);
	v = small_to_float<5, 3>(b & 0x7f) * 256;
	return b & 0x80 ? -v : v;
}

GPUSIM_SMALL float
e5m2_to_float(unsigned char b)
{
	return small_to_float<5, 2>(b);
}

GPUSIM_SMALL unsigned char
fp8_from_float(float f, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind)
{
	return kind == __NV_E4M3 ? e4m3_from_float(f, saturate) : e5m2_from_float(f, saturate);
}

} // namespace gpusim_cuda

GPUSIM_SMALL __nv_fp8_storage_t
__nv_cvt_float_to_fp8(const float x, const __nv_saturation_t saturate,
		      const __nv_fp8_interpretation_t kind)
{
	return gpusim_cuda::fp8_from_float(x, saturate, kind);
}

GPUSIM_SMALL __nv_fp8_storage_t
__nv_cvt_double_to_fp8(const double x, const __nv_saturation_t saturate,
		       const __nv_fp8_interpretation_t kind)
{
	return gpusim_cuda::fp8_from_float(gpusim_cuda::odd_float(x), saturate, kind);
}

GPUSIM_SMALL __nv_fp8_storage_t
__nv_cvt_halfraw_to_fp8(const __half_raw x, const __nv_saturation_t saturate,
			const __nv_fp8_interpretation_t kind)
{
	return gpusim_cuda::fp8_from_float((float)__half(x), saturate, kind);
}

GPUSIM_SMALL __nv_fp8_storage_t
__nv_cvt_bfloat16raw_to_fp8(const __nv_bfloat16_raw x, const __nv_saturation_t saturate,
			    const __nv_fp8_interpretation_t kind)
{
	return gpusim_cuda::fp8_from_float((float)__nv_bfloat16(x), saturate, kind);
}

GPUSIM_SMALL __half_raw
__nv_cvt_fp8_to_halfraw(const __nv_fp8_storage_t x, const __nv_fp8_interpretation_t kind)
{
	if (kind == __NV_E5M2)
		return __half_raw{(unsigned short)(x << 8)};
	return __half(gpusim_cuda::e4m3_to_float(x));
}

GPUSIM_SMALL __nv_fp8x2_storage_t
__nv_cvt_float2_to_fp8x2(const float2 x, const __nv_saturation_t saturate,
			 const __nv_fp8_interpretation_t kind)
{
	return (__nv_fp8x2_storage_t)(gpusim_cuda::fp8_from_float(x.x, saturate, kind) |
				      gpusim_cuda::fp8_from_float(x.y, saturate, kind) << 8);
}

#define GPUSIM_FP8_FROM(T, of, from_float)                                                    \
	explicit __host__ __device__ T(const of v)                                            \
	    : __x(gpusim_cuda::from_float(                                                    \
		  gpusim_cuda::odd_float((gpusim_cuda::widened<of>::type)v), __NV_SATFINITE)) \
	{                                                                                     \
	}
#define GPUSIM_FP8_TO(of, to_float)                                                 \
	explicit __host__ __device__ operator of() const                            \
	{                                                                           \
		return gpusim_cuda::small_to_whole<of>(gpusim_cuda::to_float(__x)); \
	}
#define GPUSIM_FP8(T, from_float, to_float)                                  \
	struct T {                                                           \
		__nv_fp8_storage_t __x;                                      \
                                                                             \
		T() = default;                                               \
		GPUSIM_FP8_FROM(T, float, from_float)                        \
		GPUSIM_FP8_FROM(T, double, from_float)                       \
		GPUSIM_FP8_FROM(T, short, from_float)                        \
		GPUSIM_FP8_FROM(T, unsigned short, from_float)               \
		GPUSIM_FP8_FROM(T, int, from_float)                          \
		GPUSIM_FP8_FROM(T, unsigned, from_float)                     \
		GPUSIM_FP8_FROM(T, long, from_float)                         \
		GPUSIM_FP8_FROM(T, unsigned long, from_float)                \
		GPUSIM_FP8_FROM(T, long long, from_float)                    \
		GPUSIM_FP8_FROM(T, unsigned long long, from_float)           \
		explicit __host__ __device__                                 \
		T(const __half v)                                            \
		    : __x(gpusim_cuda::from_float((float)v, __NV_SATFINITE)) \
		{                                                            \
		}                                                            \
		explicit __host__ __device__                                 \
		T(const __nv_bfloat16 v)                                     \
		    : __x(gpusim_cuda::from_float((float)v, __NV_SATFINITE)) \
		{                                                            \
		}                                                            \
		explicit __host__ __device__ operator float() const          \
		{                                                            \
			return gpusim_cuda::to_float(__x);                   \
		}                                                            \
		explicit __host__ __device__ operator double() const         \
		{                                                            \
			return (double)gpusim_cuda::to_float(__x);           \
		}                                                            \
		explicit __host__ __device__ operator __half() const         \
		{                                                            \
			return __half(gpusim_cuda::to_float(__x));           \
		}                                                            \
		explicit __host__ __device__ operator __nv_bfloat16() const  \
		{                                                            \
			return __nv_bfloat16(gpusim_cuda::to_float(__x));    \
		}                                                            \
		explicit __host__ __device__ operator bool() const           \
		{                                                            \
			return (__x & 0x7f) != 0;                            \
		}                                                            \
		GPUSIM_FP8_TO(signed char, to_float)                         \
		GPUSIM_FP8_TO(unsigned char, to_float)                       \
		GPUSIM_FP8_TO(char, to_float)                                \
		GPUSIM_FP8_TO(short, to_float)                               \
		GPUSIM_FP8_TO(unsigned short, to_float)                      \
		GPUSIM_FP8_TO(int, to_float)                                 \
		GPUSIM_FP8_TO(unsigned, to_float)                            \
		GPUSIM_FP8_TO(long, to_float)                                \
		GPUSIM_FP8_TO(unsigned long, to_float)                       \
		GPUSIM_FP8_TO(long long, to_float)                           \
		GPUSIM_FP8_TO(unsigned long long, to_float)                  \
	};
GPUSIM_FP8(__nv_fp8_e4m3, e4m3_from_float, e4m3_to_float)
GPUSIM_FP8(__nv_fp8_e5m2, e5m2_from_float, e5m2_to_float)
#undef GPUSIM_FP8
#undef GPUSIM_FP8_FROM
#undef GPUSIM_FP8_TO

/* Two side by side; the first is the lowest byte. */
struct __nv_fp8x2_e4m3 {
	__nv_fp8x2_storage_t __x;

	__nv_fp8x2_e4m3() = default;
	explicit __host__ __device__
	__nv_fp8x2_e4m3(const float2 v)
	    : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, __NV_E4M3))
	{
	}
	explicit __host__ __device__ operator float2() const
	{
		return float2{gpusim_cuda::e4m3_to_float((unsigned char)__x),
			      gpusim_cuda::e4m3_to_float((unsigned char)(__x >> 8))};
	}
};
struct __nv_fp8x2_e5m2 {
	__nv_fp8x2_storage_t __x;

	__nv_fp8x2_e5m2() = default;
	explicit __host__ __device__
	__nv_fp8x2_e5m2(const float2 v)
	    : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, __NV_E5M2))
	{
	}
	explicit __host__ __device__ operator float2() const
	{
		return float2{gpusim_cuda::e5m2_to_float((unsigned char)__x),
			      gpusim_cuda::e5m2_to_float((unsigned char)(__x >> 8))};
	}
};

#endif
#endif
