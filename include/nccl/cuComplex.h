/* cuComplex.h - complex numbers as pairs, x + iy: cuFloatComplex and cuDoubleComplex, for C, C++ and kernels. */
#ifndef CU_COMPLEX_H_
#define CU_COMPLEX_H_

#include <math.h>

#include "vector_functions.h"

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define GPUSIM_COMPLEX static __inline__ __attribute__((unused)) __host__ __device__

/* T: the pair; t: its parts' type; s: the suffix of names. A quotient is scaled by its divisor, so that it does
 * not overflow where the result does not; a modulus by hypot. */
#define GPUSIM_COMPLEX_TYPE(T, t, s, name)                                                         \
	GPUSIM_COMPLEX T make_##name(t x, t y)                                                     \
	{                                                                                          \
		T v = {x, y};                                                                      \
		return v;                                                                          \
	}                                                                                          \
	GPUSIM_COMPLEX t cuCreal##s(T a)                                                           \
	{                                                                                          \
		return a.x;                                                                        \
	}                                                                                          \
	GPUSIM_COMPLEX t cuCimag##s(T a)                                                           \
	{                                                                                          \
		return a.y;                                                                        \
	}                                                                                          \
	GPUSIM_COMPLEX T cuConj##s(T a)                                                            \
	{                                                                                          \
		return make_##name(a.x, -a.y);                                                     \
	}                                                                                          \
	GPUSIM_COMPLEX T cuCadd##s(T a, T b)                                                       \
	{                                                                                          \
		return make_##name(a.x + b.x, a.y + b.y);                                          \
	}                                                                                          \
	GPUSIM_COMPLEX T cuCsub##s(T a, T b)                                                       \
	{                                                                                          \
		return make_##name(a.x - b.x, a.y - b.y);                                          \
	}                                                                                          \
	GPUSIM_COMPLEX T cuCmul##s(T a, T b)                                                       \
	{                                                                                          \
		return make_##name(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);                  \
	}                                                                                          \
	GPUSIM_COMPLEX T cuCdiv##s(T a, T b)                                                       \
	{                                                                                          \
		t r = 1 / (fabs##s(b.x) + fabs##s(b.y)), ax = a.x * r, ay = a.y * r, bx = b.x * r, \
		  by = b.y * r, n = 1 / (bx * bx + by * by);                                       \
		return make_##name((ax * bx + ay * by) * n, (ay * bx - ax * by) * n);              \
	}                                                                                          \
	GPUSIM_COMPLEX t cuCabs##s(T a)                                                            \
	{                                                                                          \
		return hypot##s(a.x, a.y);                                                         \
	}                                                                                          \
	GPUSIM_COMPLEX T cuCfma##s(T a, T b, T c)                                                  \
	{                                                                                          \
		return cuCadd##s(cuCmul##s(a, b), c);                                              \
	}
GPUSIM_COMPLEX_TYPE(cuFloatComplex, float, f, cuFloatComplex)
GPUSIM_COMPLEX_TYPE(cuDoubleComplex, double, , cuDoubleComplex)
#undef GPUSIM_COMPLEX_TYPE

GPUSIM_COMPLEX cuComplex
make_cuComplex(float x, float y)
{
	return make_cuFloatComplex(x, y);
}

GPUSIM_COMPLEX cuDoubleComplex
cuComplexFloatToDouble(cuFloatComplex a)
{
	return make_cuDoubleComplex(a.x, a.y);
}

GPUSIM_COMPLEX cuFloatComplex
cuComplexDoubleToFloat(cuDoubleComplex a)
{
	return make_cuFloatComplex((float)a.x, (float)a.y);
}
#undef GPUSIM_COMPLEX

#endif
