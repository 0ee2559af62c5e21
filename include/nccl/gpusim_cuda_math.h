/*
 * gpusim_cuda_math.h - in .cu files: CUDA's arithmetic of integers and floats. cuda_runtime.h includes it.
 * The functions of <cmath> are the C library's; those that a GPU approximates (__expf) are as exact as
 * these.
 */
#ifndef GPUSIM_CUDA_MATH_H
#define GPUSIM_CUDA_MATH_H

#include "gpusim_cuda.h"

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <math.h> /* isnan and others in the global namespace */

#define GPUSIM_MATH static inline __attribute__((unused))

namespace gpusim_cuda
{

template <class To, class From>
inline To
bit_cast(From v)
{
	To t;

	static_assert(sizeof t == sizeof v, "as many bits");
	memcpy(&t, &v, sizeof t);
	return t;
}

/* To an integer, as a GPU: NaN is 0, out of range becomes the nearest integer in range. */
template <class I, class F>
inline I
saturate_to(F v)
{
	const F lo = (F)std::numeric_limits<I>::min(), hi = (F)std::numeric_limits<I>::max();

	if (v != v)
		return 0;
	if (v <= lo)
		return std::numeric_limits<I>::min();
	if (v >= hi)
		return std::numeric_limits<I>::max();
	return (I)v;
}

} // namespace gpusim_cuda

/* ---- min and max of the types of CUDA's overloads; mixed types as C does */

#define GPUSIM_MINMAX(t)                                  \
	GPUSIM_MATH constexpr t min(const t a, const t b) \
	{                                                 \
		return b < a ? b : a;                     \
	}                                                 \
	GPUSIM_MATH constexpr t max(const t a, const t b) \
	{                                                 \
		return a < b ? b : a;                     \
	}
GPUSIM_MINMAX(int)
GPUSIM_MINMAX(unsigned)
GPUSIM_MINMAX(long)
GPUSIM_MINMAX(unsigned long)
GPUSIM_MINMAX(long long)
GPUSIM_MINMAX(unsigned long long)
#undef GPUSIM_MINMAX
#define GPUSIM_MINMAX_MIXED(a_t, b_t, t)                      \
	GPUSIM_MATH constexpr t min(const a_t a, const b_t b) \
	{                                                     \
		return min((t)a, (t)b);                       \
	}                                                     \
	GPUSIM_MATH constexpr t max(const a_t a, const b_t b) \
	{                                                     \
		return max((t)a, (t)b);                       \
	}
GPUSIM_MINMAX_MIXED(int, unsigned, unsigned)
GPUSIM_MINMAX_MIXED(unsigned, int, unsigned)
GPUSIM_MINMAX_MIXED(long, unsigned long, unsigned long)
GPUSIM_MINMAX_MIXED(unsigned long, long, unsigned long)
GPUSIM_MINMAX_MIXED(long long, unsigned long long, unsigned long long)
GPUSIM_MINMAX_MIXED(unsigned long long, long long, unsigned long long)
#define GPUSIM_MINMAX_REAL(a_t, b_t, t, s)          \
	GPUSIM_MATH t min(const a_t a, const b_t b) \
	{                                           \
		return fmin##s((t)a, (t)b);         \
	}                                           \
	GPUSIM_MATH t max(const a_t a, const b_t b) \
	{                                           \
		return fmax##s((t)a, (t)b);         \
	}
GPUSIM_MINMAX_REAL(float, float, float, f)
GPUSIM_MINMAX_REAL(double, double, double, )
GPUSIM_MINMAX_REAL(float, double, double, )
GPUSIM_MINMAX_REAL(double, float, double, )
#undef GPUSIM_MINMAX_MIXED
#undef GPUSIM_MINMAX_REAL

#define GPUSIM_INT_MINMAX(p, t)        \
	GPUSIM_MATH t p##min(t a, t b) \
	{                              \
		return b < a ? b : a;  \
	}                              \
	GPUSIM_MATH t p##max(t a, t b) \
	{                              \
		return a < b ? b : a;  \
	}
GPUSIM_INT_MINMAX(u, unsigned)
GPUSIM_INT_MINMAX(ll, long long)
GPUSIM_INT_MINMAX(ull, unsigned long long)
#undef GPUSIM_INT_MINMAX

/* ---- integers */

#define GPUSIM_1(r, name, t, expr) \
	GPUSIM_MATH r name(t a)    \
	{                          \
		return (r)(expr);  \
	}
#define GPUSIM_2(r, name, t, expr)   \
	GPUSIM_MATH r name(t a, t b) \
	{                            \
		return (r)(expr);    \
	}
#define GPUSIM_3(r, name, t, expr)        \
	GPUSIM_MATH r name(t a, t b, t c) \
	{                                 \
		return (r)(expr);         \
	}
GPUSIM_1(int, __clz, int, a ? __builtin_clz((unsigned)a) : 32)
GPUSIM_1(int, __clzll, long long, a ? __builtin_clzll((unsigned long long)a) : 64)
GPUSIM_1(int, __ffs, int, __builtin_ffs(a))
GPUSIM_1(int, __ffsll, long long, __builtin_ffsll(a))
GPUSIM_1(int, __popc, unsigned, __builtin_popcount(a))
GPUSIM_1(int, __popcll, unsigned long long, __builtin_popcountll(a))
GPUSIM_2(int, __mulhi, int, (long long)a *b >> 32)
GPUSIM_2(unsigned, __umulhi, unsigned, (unsigned long long)a *b >> 32)
GPUSIM_2(long long, __mul64hi, long long, (__int128)a *b >> 64)
GPUSIM_2(unsigned long long, __umul64hi, unsigned long long, (unsigned __int128)a *b >> 64)
GPUSIM_2(int, __mul24, int, (a << 8 >> 8) * (b << 8 >> 8))
GPUSIM_2(unsigned, __umul24, unsigned, (a & 0xffffff) * (b & 0xffffff))
GPUSIM_2(int, __hadd, int, ((long long)a + b) >> 1)
GPUSIM_2(int, __rhadd, int, ((long long)a + b + 1) >> 1)
GPUSIM_2(unsigned, __uhadd, unsigned, ((unsigned long long)a + b) >> 1)
GPUSIM_2(unsigned, __urhadd, unsigned, ((unsigned long long)a + b + 1) >> 1)

GPUSIM_MATH unsigned
__sad(int a, int b, unsigned c)
{
	return c + (unsigned)llabs((long long)a - b);
}

GPUSIM_MATH unsigned
__usad(unsigned a, unsigned b, unsigned c)
{
	return c + (a > b ? a - b : b - a);
}

GPUSIM_MATH unsigned
__brev(unsigned a)
{
	a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
	a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
	a = (a >> 4 & 0x0f0f0f0f) | (a & 0x0f0f0f0f) << 4;
	return __builtin_bswap32(a);
}

GPUSIM_MATH unsigned long long
__brevll(unsigned long long a)
{
	return (unsigned long long)__brev((unsigned)a) << 32 | __brev((unsigned)(a >> 32));
}

/* Each of the four low digits of s picks a byte of y:x; its bit 3 spreads that byte's sign instead. */
GPUSIM_MATH unsigned
__byte_perm(unsigned x, unsigned y, unsigned s)
{
	unsigned long long both = (unsigned long long)y << 32 | x;
	unsigned out = 0;

	for (int i = 0; i < 4; i++) {
		unsigned digit = s >> 4 * i & 15, byte = both >> 8 * (digit & 7) & 0xff;

		out |= (digit & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
	}
	return out;
}

GPUSIM_MATH unsigned
__funnelshift_l(unsigned lo, unsigned hi, unsigned n)
{
	return (unsigned)((((unsigned long long)hi << 32 | lo) << (n & 31)) >> 32);
}

GPUSIM_MATH unsigned
__funnelshift_r(unsigned lo, unsigned hi, unsigned n)
{
	return (unsigned)(((unsigned long long)hi << 32 | lo) >> (n & 31));
}

GPUSIM_MATH unsigned
__funnelshift_lc(unsigned lo, unsigned hi, unsigned n)
{
	return n >= 32 ? lo : __funnelshift_l(lo, hi, n);
}

GPUSIM_MATH unsigned
__funnelshift_rc(unsigned lo, unsigned hi, unsigned n)
{
	return n >= 32 ? hi : __funnelshift_r(lo, hi, n);
}

/* ---- bits of floats */

GPUSIM_1(int, __float_as_int, float, gpusim_cuda::bit_cast<int>(a))
GPUSIM_1(unsigned, __float_as_uint, float, gpusim_cuda::bit_cast<unsigned>(a))
GPUSIM_1(float, __int_as_float, int, gpusim_cuda::bit_cast<float>(a))
GPUSIM_1(float, __uint_as_float, unsigned, gpusim_cuda::bit_cast<float>(a))
GPUSIM_1(long long, __double_as_longlong, double, gpusim_cuda::bit_cast<long long>(a))
GPUSIM_1(double, __longlong_as_double, long long, gpusim_cuda::bit_cast<double>(a))
GPUSIM_1(int, __double2hiint, double, gpusim_cuda::bit_cast<long long>(a) >> 32)
GPUSIM_1(int, __double2loint, double, gpusim_cuda::bit_cast<long long>(a))

GPUSIM_MATH double
__hiloint2double(int hi, int lo)
{
	return gpusim_cuda::bit_cast<double>((unsigned long long)(unsigned)hi << 32 | (unsigned)lo);
}

/* ---- arithmetic, rounded to the nearest */

GPUSIM_2(float, __fadd_rn, float, a + b)
GPUSIM_2(float, __fsub_rn, float, a - b)
GPUSIM_2(float, __fmul_rn, float, a *b)
GPUSIM_2(float, __fdiv_rn, float, a / b)
GPUSIM_2(float, __fdividef, float, a / b)
GPUSIM_2(float, fdividef, float, a / b)
GPUSIM_3(float, __fmaf_rn, float, fmaf(a, b, c))
GPUSIM_1(float, __frcp_rn, float, 1 / a)
GPUSIM_1(float, __fsqrt_rn, float, sqrtf(a))
GPUSIM_1(float, __frsqrt_rn, float, (float)(1 / sqrt((double)a)))
GPUSIM_1(float, __saturatef, float, a > 0 ? (a < 1 ? a : 1) : 0)
GPUSIM_2(double, __dadd_rn, double, a + b)
GPUSIM_2(double, __dsub_rn, double, a - b)
GPUSIM_2(double, __dmul_rn, double, a *b)
GPUSIM_2(double, __ddiv_rn, double, a / b)
GPUSIM_3(double, __fma_rn, double, fma(a, b, c))
GPUSIM_1(double, __drcp_rn, double, 1 / a)
GPUSIM_1(double, __dsqrt_rn, double, sqrt(a))

/* ---- arithmetic, rounded down, up, towards zero: in the processor's mode for it */

namespace gpusim_cuda
{

/* Returns the former mode. */
inline unsigned
set_rounding(unsigned mode)
{
#ifdef __SSE2__
	unsigned old =
	    __builtin_ia32_stmxcsr(); /* where FE_ values are 3 bits higher: without a call */

	__builtin_ia32_ldmxcsr((old & ~0x6000u) | mode << 3);
	return (old & 0x6000) >> 3;
#else
	unsigned old = (unsigned)fegetround();

	fesetround((int)mode);
	return old;
#endif
}

template <class F>
inline auto
rounded(int mode, F f)
{
	unsigned old = set_rounding((unsigned)mode);
	volatile auto r = f(); /* volatile values are read and written between the calls */

	set_rounding(old);
	return r;
}

} // namespace gpusim_cuda

#define GPUSIM_ROUNDED(r, name, params, values, expr)                                  \
	GPUSIM_MATH r name##_rd params                                                 \
	{                                                                              \
		values;                                                                \
		return gpusim_cuda::rounded(FE_DOWNWARD, [&] { return (r)(expr); });   \
	}                                                                              \
	GPUSIM_MATH r name##_ru params                                                 \
	{                                                                              \
		values;                                                                \
		return gpusim_cuda::rounded(FE_UPWARD, [&] { return (r)(expr); });     \
	}                                                                              \
	GPUSIM_MATH r name##_rz params                                                 \
	{                                                                              \
		values;                                                                \
		return gpusim_cuda::rounded(FE_TOWARDZERO, [&] { return (r)(expr); }); \
	}
#define GPUSIM_ROUNDED_1(r, name, t, expr) GPUSIM_ROUNDED(r, name, (t p), volatile t a = p, expr)
#define GPUSIM_ROUNDED_2(t, name, expr) \
	GPUSIM_ROUNDED(t, name, (t p, t q), volatile t a = p; volatile t b = q, expr)
#define GPUSIM_ROUNDED_3(t, name, expr)                                              \
	GPUSIM_ROUNDED(t, name, (t p, t q, t s), volatile t a = p; volatile t b = q; \
		       volatile t c = s, expr)
GPUSIM_ROUNDED_2(float, __fadd, a + b)
GPUSIM_ROUNDED_2(float, __fsub, a - b)
GPUSIM_ROUNDED_2(float, __fmul, a *b)
GPUSIM_ROUNDED_2(float, __fdiv, a / b)
GPUSIM_ROUNDED_3(float, __fmaf, fmaf(a, b, c))
GPUSIM_ROUNDED_1(float, __frcp, float, 1 / a)
GPUSIM_ROUNDED_1(float, __fsqrt, float, sqrtf(a))
GPUSIM_ROUNDED_2(double, __dadd, a + b)
GPUSIM_ROUNDED_2(double, __dsub, a - b)
GPUSIM_ROUNDED_2(double, __dmul, a *b)
GPUSIM_ROUNDED_2(double, __ddiv, a / b)
GPUSIM_ROUNDED_3(double, __fma, fma(a, b, c))
GPUSIM_ROUNDED_1(double, __drcp, double, 1 / a)
GPUSIM_ROUNDED_1(double, __dsqrt, double, sqrt(a))
GPUSIM_ROUNDED_1(float, __int2float, int, a)
GPUSIM_ROUNDED_1(float, __uint2float, unsigned, a)
GPUSIM_ROUNDED_1(float, __ll2float, long long, a)
GPUSIM_ROUNDED_1(float, __ull2float, unsigned long long, a)
GPUSIM_ROUNDED_1(double, __ll2double, long long, a)
GPUSIM_ROUNDED_1(double, __ull2double, unsigned long long, a)
GPUSIM_ROUNDED_1(float, __double2float, double, a)
#undef GPUSIM_ROUNDED_1
#undef GPUSIM_ROUNDED_2
#undef GPUSIM_ROUNDED_3
#undef GPUSIM_ROUNDED

/* Macros, because the C library has functions of these names for itself. */
#define __expf(a)	   expf(a)
#define __exp10f(a)	   exp10f(a)
#define __logf(a)	   logf(a)
#define __log2f(a)	   log2f(a)
#define __log10f(a)	   log10f(a)
#define __sinf(a)	   sinf(a)
#define __cosf(a)	   cosf(a)
#define __tanf(a)	   tanf(a)
#define __powf(a, b)	   powf(a, b)
#define __sincosf(a, s, c) sincosf(a, s, c)
/* Macros here, too: newer C libraries have these functions, which round differently. */
#define rsqrtf gpusim_rsqrtf
#define rsqrt  gpusim_rsqrt
#define sinpif gpusim_sinpif
#define cospif gpusim_cospif
#define sinpi  gpusim_sinpi
#define cospi  gpusim_cospi
GPUSIM_1(float, rsqrtf, float, 1 / sqrtf(a))
GPUSIM_1(double, rsqrt, double, 1 / sqrt(a))
GPUSIM_1(float, rcbrtf, float, 1 / cbrtf(a))
GPUSIM_1(double, rcbrt, double, 1 / cbrt(a))
GPUSIM_1(float, sinpif, float, (float)sin(M_PI *(double)a))
GPUSIM_1(float, cospif, float, (float)cos(M_PI *(double)a))
GPUSIM_1(double, sinpi, double, sin(M_PI *fmod(a, 2)))
GPUSIM_1(double, cospi, double, cos(M_PI *fmod(a, 2)))
GPUSIM_1(float, normcdff, float, 0.5f * erfcf(-a * (float)M_SQRT1_2))
GPUSIM_1(double, normcdf, double, 0.5 * erfc(-a * M_SQRT1_2))
GPUSIM_2(float, rhypotf, float, 1 / hypotf(a, b))
GPUSIM_2(double, rhypot, double, 1 / hypot(a, b))
GPUSIM_3(float, norm3df, float, sqrtf(a *a + b * b + c * c))
GPUSIM_3(double, norm3d, double, sqrt(a *a + b * b + c * c))
GPUSIM_3(float, rnorm3df, float, 1 / sqrtf(a * a + b * b + c * c))

/* ---- conversions, named by how they round */

#define GPUSIM_TO_WHOLE(from, F, to, I, s)                                                 \
	GPUSIM_1(I, __##from##2##to##_rn, F, gpusim_cuda::saturate_to<I>(nearbyint##s(a))) \
	GPUSIM_1(I, __##from##2##to##_rz, F, gpusim_cuda::saturate_to<I>(trunc##s(a)))     \
	GPUSIM_1(I, __##from##2##to##_rd, F, gpusim_cuda::saturate_to<I>(floor##s(a)))     \
	GPUSIM_1(I, __##from##2##to##_ru, F, gpusim_cuda::saturate_to<I>(ceil##s(a)))
GPUSIM_TO_WHOLE(float, float, int, int, f)
GPUSIM_TO_WHOLE(float, float, uint, unsigned, f)
GPUSIM_TO_WHOLE(float, float, ll, long long, f)
GPUSIM_TO_WHOLE(float, float, ull, unsigned long long, f)
GPUSIM_TO_WHOLE(double, double, int, int, )
GPUSIM_TO_WHOLE(double, double, uint, unsigned, )
GPUSIM_TO_WHOLE(double, double, ll, long long, )
GPUSIM_TO_WHOLE(double, double, ull, unsigned long long, )
#undef GPUSIM_TO_WHOLE
GPUSIM_1(float, __int2float_rn, int, a)
GPUSIM_1(float, __uint2float_rn, unsigned, a)
GPUSIM_1(float, __ll2float_rn, long long, a)
GPUSIM_1(float, __ull2float_rn, unsigned long long, a)
GPUSIM_1(double, __int2double_rn, int, a)
GPUSIM_1(double, __uint2double_rn, unsigned, a)
GPUSIM_1(double, __ll2double_rn, long long, a)
GPUSIM_1(double, __ull2double_rn, unsigned long long, a)
GPUSIM_1(float, __double2float_rn, double, a)

#endif
