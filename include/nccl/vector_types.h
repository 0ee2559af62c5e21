/*
 * vector_types.h - CUDA's short vectors, and dim3. Sizes and alignments are those of CUDA 12.
 */
#ifndef __VECTOR_TYPES_H__
#define __VECTOR_TYPES_H__

#include "host_defines.h"

#define GPUSIM_VECTORS(t, name, align2, align4) \
	struct name##1                          \
	{                                       \
		t x;                            \
	};                                      \
	struct align2 name##2                   \
	{                                       \
		t x, y;                         \
	};                                      \
	struct name##3                          \
	{                                       \
		t x, y, z;                      \
	};                                      \
	struct align4 name##4                   \
	{                                       \
		t x, y, z, w;                   \
	};                                      \
	typedef struct name##1 name##1;         \
	typedef struct name##2 name##2;         \
	typedef struct name##3 name##3;         \
	typedef struct name##4 name##4;

GPUSIM_VECTORS(signed char, char, __align__(2), __align__(4))
GPUSIM_VECTORS(unsigned char, uchar, __align__(2), __align__(4))
GPUSIM_VECTORS(short, short, __align__(4), __align__(8))
GPUSIM_VECTORS(unsigned short, ushort, __align__(4), __align__(8))
GPUSIM_VECTORS(int, int, __align__(8), __align__(16))
GPUSIM_VECTORS(unsigned int, uint, __align__(8), __align__(16))
GPUSIM_VECTORS(long, long, __align__(16), __align__(16))
GPUSIM_VECTORS(unsigned long, ulong, __align__(16), __align__(16))
GPUSIM_VECTORS(long long, longlong, __align__(16), __align__(16))
GPUSIM_VECTORS(unsigned long long, ulonglong, __align__(16), __align__(16))
GPUSIM_VECTORS(float, float, __align__(8), __align__(16))
GPUSIM_VECTORS(double, double, __align__(16), __align__(16))
#undef GPUSIM_VECTORS

/* Sizes of a grid or block; in C++ missing sizes are 1. */
struct dim3 {
	unsigned int x, y, z;
#ifdef __cplusplus
	__host__ __device__ constexpr dim3(unsigned int vx = 1, unsigned int vy = 1,
					   unsigned int vz = 1)
	    : x(vx), y(vy), z(vz)
	{
	}
	__host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
	{
	}
	__host__ __device__ constexpr operator uint3() const
	{
		return uint3{x, y, z};
	}
#endif
};
typedef struct dim3 dim3;

#endif
