/* vector_functions.h - short vectors from their parts: make_float4(x, y, z, w). */
#ifndef __VECTOR_FUNCTIONS_H__
#define __VECTOR_FUNCTIONS_H__

#include "vector_types.h"

#define GPUSIM_MAKE static inline __attribute__((unused)) __host__ __device__
#define GPUSIM_MAKERS(t, name)                                 \
	GPUSIM_MAKE name##1 make_##name##1(t x)                \
	{                                                      \
		name##1 v = {x};                               \
		return v;                                      \
	}                                                      \
	GPUSIM_MAKE name##2 make_##name##2(t x, t y)           \
	{                                                      \
		name##2 v = {x, y};                            \
		return v;                                      \
	}                                                      \
	GPUSIM_MAKE name##3 make_##name##3(t x, t y, t z)      \
	{                                                      \
		name##3 v = {x, y, z};                         \
		return v;                                      \
	}                                                      \
	GPUSIM_MAKE name##4 make_##name##4(t x, t y, t z, t w) \
	{                                                      \
		name##4 v = {x, y, z, w};                      \
		return v;                                      \
	}
GPUSIM_MAKERS(signed char, char)
GPUSIM_MAKERS(unsigned char, uchar)
GPUSIM_MAKERS(short, short)
GPUSIM_MAKERS(unsigned short, ushort)
GPUSIM_MAKERS(int, int)
GPUSIM_MAKERS(unsigned int, uint)
GPUSIM_MAKERS(long, long)
GPUSIM_MAKERS(unsigned long, ulong)
GPUSIM_MAKERS(long long, longlong)
GPUSIM_MAKERS(unsigned long long, ulonglong)
GPUSIM_MAKERS(float, float)
GPUSIM_MAKERS(double, double)
#undef GPUSIM_MAKERS
#undef GPUSIM_MAKE

#endif
