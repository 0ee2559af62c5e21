/*
 * gpusim_cuda_small.h - floats of 16 and 8 bits: conversions that round once, to the nearest even, and the
 * functions that half and bfloat16 share. cuda_fp16.h, cuda_bf16.h and cuda_fp8.h include it; C++11.
 *
 * A value that is wider than a float comes to a small type through a float that is "rounded to odd": cut,
 * and its last bit set if anything was cut. Such a float has two bits more than any result needs, so that
 * the second rounding decides as if there had been one.
 */
#ifndef GPUSIM_CUDA_SMALL_H
#define GPUSIM_CUDA_SMALL_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "vector_types.h"

#define GPUSIM_SMALL static inline __attribute__((unused)) __host__ __device__

namespace gpusim_cuda
{

template <class To, class From>
GPUSIM_SMALL To
small_bits(From v)
{
	To t;

	static_assert(sizeof t == sizeof v, "as many bits");
	memcpy(&t, &v, sizeof t);
	return t;
}

/* ---- wide values to a float, rounded to odd */

GPUSIM_SMALL float
odd_float(float v)
{
	return v;
}

GPUSIM_SMALL float
odd_float(double v)
{
	float f = (float)v;
	uint32_t b = small_bits<uint32_t>(f);

	/* Not exact and even: one of its neighbours is odd and lies on v's side. */
	if ((double)f != v && v == v && !(b & 1)) {
		bool up = (double)f < v;

		if ((b & 0x7fffffff) == 0)
			b = (v < 0 ? 0x80000000u : 0u) | 1;
		else
			b += up == !(b >> 31) ? 1 : -1;
	}
	return small_bits<float>(b);
}

GPUSIM_SMALL float
odd_float(unsigned long long v)
{
	int cut = v >> 24 ? 40 - __builtin_clzll(v) : 0;
	unsigned long long kept = v >> cut;

	if (kept << cut != v)
		kept |= 1;
	return ldexpf((float)kept, cut);
}

GPUSIM_SMALL float
odd_float(long long v)
{
	return v < 0 ? -odd_float(0ull - (unsigned long long)v) : odd_float((unsigned long long)v);
}

GPUSIM_SMALL float
odd_float(unsigned v)
{
	return odd_float((unsigned long long)v);
}

GPUSIM_SMALL float
odd_float(int v)
{
	return odd_float((long long)v);
}

/* a * b + c, rounded to odd as a double; the product is exact. */
GPUSIM_SMALL double
odd_fma(float a, float b, float c)
{
	double p = (double)a * b, s = p + c, back = s - p, lost = (p - (s - back)) + (c - back);
	uint64_t bits = small_bits<uint64_t>(s);

	if (lost != 0 && std::isfinite(s) && !(bits & 1))
		bits += (lost > 0) == (s > 0) ? 1 : -1;
	return small_bits<double>(bits);
}

/* ---- a float to a small float */

enum rounding { to_nearest, to_zero, down, up };

/*
 * Round to a type with `exp` bits of exponent, `man` of mantissa, IEEE's infinities and NaN; the result's
 * bits are the low ones.
 */
template <int exp, int man>
GPUSIM_SMALL uint32_t
small_from_float(float f, rounding how)
{
	const int bias = (1 << (exp - 1)) - 1, cut = 23 - man;
	const uint32_t inf = ((1u << exp) - 1) << man;
	uint32_t b = small_bits<uint32_t>(f), sign = b >> 31, mag = b & 0x7fffffff, out, rest, half;

	if (mag > 0x7f800000)
		return inf | ((1u << man) - 1); /* CUDA's NaN */
	if (mag == 0x7f800000)
		return sign << (exp + man) | inf;
	int e = (int)(mag >> 23) - 127 + bias; /* of the result */
	uint32_t m = mag >> 23 ? (mag & 0x7fffff) | 0x800000 : (mag & 0x7fffff) << 1;
	int shift = e >= 1 ? cut : cut + 1 - e;

	if (shift > 25)
		shift = 25;
	out = m >> shift;
	rest = m & ((1u << shift) - 1);
	half = 1u << (shift - 1);
	if (mag && !out && !rest)
		rest = 1;
	if (e >= 1)
		out += (uint32_t)(e - 1) << man;
	if (how == to_nearest)
		out += rest > half || (rest == half && (out & 1));
	else
		out += rest && ((how == up && !sign) || (how == down && sign));
	if (out >= inf) {
		bool stays = how == to_zero || (how == up && sign) || (how == down && !sign);

		out = stays ? inf - 1 : inf;
	}
	return sign << (exp + man) | out;
}

template <int exp, int man>
GPUSIM_SMALL float
small_to_float(uint32_t b)
{
	const int bias = (1 << (exp - 1)) - 1;
	uint32_t sign = b >> (exp + man) & 1, e = b >> man & ((1u << exp) - 1),
		 m = b & ((1u << man) - 1);

	if (e == (1u << exp) - 1)
		return small_bits<float>(sign << 31 | 0x7f800000 | m << (23 - man));
	if (e)
		return small_bits<float>(sign << 31 | (e + 127 - bias) << 23 | m << (23 - man));
	/* exact: a small integer times a power of two */
	float v = (float)(int)m * small_bits<float>((uint32_t)(127 + 1 - bias - man) << 23);

	return sign ? -v : v;
}

/* ---- half and bfloat16: specialised for speed, checked against the general form by a test */

GPUSIM_SMALL uint16_t
half_from_float(float f)
{
	uint32_t b = small_bits<uint32_t>(f), sign = b & 0x80000000u;

	b ^= sign;
	if (b >= 0x47800000) /* 65536 and more, inf, NaN */
		return (uint16_t)(b > 0x7f800000 ? 0x7fff : sign >> 16 | 0x7c00);
	if (b < 0x38800000) { /* subnormal: the float's adder rounds */
		float v = small_bits<float>(b) + 0.5f;

		return (uint16_t)(sign >> 16 | (small_bits<uint32_t>(v) - 0x3f000000));
	}
	b += 0xc8000fff + (b >> 13 & 1);
	return (uint16_t)(sign >> 16 | b >> 13);
}

GPUSIM_SMALL float
half_to_float(uint16_t h)
{
	uint32_t b = (uint32_t)(h & 0x7fff) << 13, e = b & 0x0f800000;

	b += (127 - 15) << 23;
	if (e == 0x0f800000) /* inf, NaN */
		b += (128 - 16) << 23;
	else if (e == 0)
		b = small_bits<uint32_t>(small_bits<float>(b + (1 << 23)) -
					 small_bits<float>(113u << 23));
	return small_bits<float>(b | (uint32_t)(h & 0x8000) << 16);
}

GPUSIM_SMALL uint16_t
bf16_from_float(float f)
{
	uint32_t b = small_bits<uint32_t>(f);

	if ((b & 0x7fffffff) > 0x7f800000)
		return 0x7fff;
	return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

GPUSIM_SMALL float
bf16_to_float(uint16_t h)
{
	return small_bits<float>((uint32_t)h << 16);
}

template <class I>
GPUSIM_SMALL I
small_to_whole(float v)
{
	if (v != v)
		return 0;
	if (v <= (float)std::numeric_limits<I>::min())
		return std::numeric_limits<I>::min();
	if (v >= (float)std::numeric_limits<I>::max())
		return std::numeric_limits<I>::max();
	return (I)v;
}

} // namespace gpusim_cuda

namespace gpusim_cuda
{

/* The type that odd_float takes a value as. */
template <class T> struct widened {
	typedef typename std::conditional<(T)-1 < (T)0, long long, unsigned long long>::type type;
};
template <> struct widened<float> {
	typedef float type;
};
template <> struct widened<double> {
	typedef double type;
};

} // namespace gpusim_cuda

/* ---- for both types of 16 bits: T, its pair T2, and n, the letters of conversion functions */

#define GPUSIM_SMALL_1(T, r, name, expr) \
	GPUSIM_SMALL r name(const T a)   \
	{                                \
		return (expr);           \
	}
#define GPUSIM_SMALL_2(T, r, name, expr)          \
	GPUSIM_SMALL r name(const T a, const T b) \
	{                                         \
		return (expr);                    \
	}
#define GPUSIM_SMALL_3(T, r, name, expr)                     \
	GPUSIM_SMALL r name(const T a, const T b, const T c) \
	{                                                    \
		return (expr);                               \
	}

/* The class's conversions; from_float(float) gives its bits, to_float(bits) its value. */
#define GPUSIM_SMALL_CLASS(T, raw, from_float, to_float)         \
	T() = default;                                           \
	__host__ __device__ constexpr T(const raw &r) : __x(r.x) \
	{                                                        \
	}                                                        \
	__host__ __device__ operator raw() const                 \
	{                                                        \
		return raw{__x};                                 \
	}                                                        \
	GPUSIM_SMALL_FROM(T, float, from_float)                  \
	GPUSIM_SMALL_FROM(T, double, from_float)                 \
	GPUSIM_SMALL_FROM(T, short, from_float)                  \
	GPUSIM_SMALL_FROM(T, unsigned short, from_float)         \
	GPUSIM_SMALL_FROM(T, int, from_float)                    \
	GPUSIM_SMALL_FROM(T, unsigned, from_float)               \
	GPUSIM_SMALL_FROM(T, long, from_float)                   \
	GPUSIM_SMALL_FROM(T, unsigned long, from_float)          \
	GPUSIM_SMALL_FROM(T, long long, from_float)              \
	GPUSIM_SMALL_FROM(T, unsigned long long, from_float)     \
	__host__ __device__ operator float() const               \
	{                                                        \
		return gpusim_cuda::to_float(__x);               \
	}                                                        \
	__host__ __device__ operator bool() const                \
	{                                                        \
		return (__x & 0x7fff) != 0;                      \
	}                                                        \
	GPUSIM_SMALL_TO(signed char, to_float)                   \
	GPUSIM_SMALL_TO(unsigned char, to_float)                 \
	GPUSIM_SMALL_TO(char, to_float)                          \
	GPUSIM_SMALL_TO(short, to_float)                         \
	GPUSIM_SMALL_TO(unsigned short, to_float)                \
	GPUSIM_SMALL_TO(int, to_float)                           \
	GPUSIM_SMALL_TO(unsigned, to_float)                      \
	GPUSIM_SMALL_TO(long, to_float)                          \
	GPUSIM_SMALL_TO(unsigned long, to_float)                 \
	GPUSIM_SMALL_TO(long long, to_float)                     \
	GPUSIM_SMALL_TO(unsigned long long, to_float)

#define GPUSIM_SMALL_FROM(T, of, from_float)                                  \
	__host__ __device__ T(const of v)                                     \
	    : __x(gpusim_cuda::from_float(                                    \
		  gpusim_cuda::odd_float((gpusim_cuda::widened<of>::type)v))) \
	{                                                                     \
	}                                                                     \
	__host__ __device__ T &operator=(const of v)                          \
	{                                                                     \
		return *this = T(v);                                          \
	}
#define GPUSIM_SMALL_TO(of, to_float)                                               \
	__host__ __device__ operator of() const                                     \
	{                                                                           \
		return gpusim_cuda::small_to_whole<of>(gpusim_cuda::to_float(__x)); \
	}

#define GPUSIM_SMALL_ARITHMETIC(T, T2)                                                            \
	GPUSIM_SMALL_2(T, T, __hadd, T((float)a + (float)b))                                      \
	GPUSIM_SMALL_2(T, T, __hsub, T((float)a - (float)b))                                      \
	GPUSIM_SMALL_2(T, T, __hmul, T((float)a *(float)b))                                       \
	GPUSIM_SMALL_2(T, T, __hdiv, T((float)a / (float)b))                                      \
	GPUSIM_SMALL_2(T, T, __hadd_rn, __hadd(a, b))                                             \
	GPUSIM_SMALL_2(T, T, __hsub_rn, __hsub(a, b))                                             \
	GPUSIM_SMALL_2(T, T, __hmul_rn, __hmul(a, b))                                             \
	GPUSIM_SMALL_1(T, T, __hneg, T(gpusim_cuda::flip_sign(a)))                                \
	GPUSIM_SMALL_1(T, T, __habs, T(gpusim_cuda::clear_sign(a)))                               \
	GPUSIM_SMALL_3(T, T, __hfma, T(gpusim_cuda::odd_fma((float)a, (float)b, (float)c)))       \
	GPUSIM_SMALL_1(T, T, gpusim_saturate,                                                     \
		       (float)a > 0 ? ((float)a < 1 ? a : T(1.0f)) : T(0.0f))                     \
	GPUSIM_SMALL_2(T, T, __hadd_sat, gpusim_saturate(__hadd(a, b)))                           \
	GPUSIM_SMALL_2(T, T, __hsub_sat, gpusim_saturate(__hsub(a, b)))                           \
	GPUSIM_SMALL_2(T, T, __hmul_sat, gpusim_saturate(__hmul(a, b)))                           \
	GPUSIM_SMALL_3(T, T, __hfma_sat, gpusim_saturate(__hfma(a, b, c)))                        \
	GPUSIM_SMALL_3(T, T, __hfma_relu, (float)__hfma(a, b, c) < 0 ? T(0.0f) : __hfma(a, b, c)) \
	GPUSIM_SMALL_2(T, bool, __heq, (float)a == (float)b)                                      \
	GPUSIM_SMALL_2(T, bool, __hne, (float)a<(float)b || (float)a>(float) b)                   \
	GPUSIM_SMALL_2(T, bool, __hlt, (float)a < (float)b)                                       \
	GPUSIM_SMALL_2(T, bool, __hle, (float)a <= (float)b)                                      \
	GPUSIM_SMALL_2(T, bool, __hgt, (float)a > (float)b)                                       \
	GPUSIM_SMALL_2(T, bool, __hge, (float)a >= (float)b)                                      \
	GPUSIM_SMALL_2(T, bool, __hequ, !__hne(a, b))                                             \
	GPUSIM_SMALL_2(T, bool, __hneu, !__heq(a, b))                                             \
	GPUSIM_SMALL_2(T, bool, __hltu, !__hge(a, b))                                             \
	GPUSIM_SMALL_2(T, bool, __hleu, !__hgt(a, b))                                             \
	GPUSIM_SMALL_2(T, bool, __hgtu, !__hle(a, b))                                             \
	GPUSIM_SMALL_2(T, bool, __hgeu, !__hlt(a, b))                                             \
	GPUSIM_SMALL_1(T, bool, __hisnan, (float)a != (float)a)                                   \
	GPUSIM_SMALL_1(T, int, __hisinf, std::isinf((float)a) ? ((float)a < 0 ? -1 : 1) : 0)      \
	GPUSIM_SMALL_2(T, T, __hmin, gpusim_cuda::small_min(a, b))                                \
	GPUSIM_SMALL_2(T, T, __hmax, gpusim_cuda::small_max(a, b))                                \
	GPUSIM_SMALL_2(T, T, __hmin_nan, __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b))        \
	GPUSIM_SMALL_2(T, T, __hmax_nan, __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b))        \
	GPUSIM_SMALL_1(T, T, hsqrt, T(sqrtf((float)a)))                                           \
	GPUSIM_SMALL_1(T, T, hrsqrt, T(1 / sqrt((double)(float)a)))                               \
	GPUSIM_SMALL_1(T, T, hrcp, T(1 / (float)a))                                               \
	GPUSIM_SMALL_1(T, T, hexp, T(exp((double)(float)a)))                                      \
	GPUSIM_SMALL_1(T, T, hexp2, T(exp2((double)(float)a)))                                    \
	GPUSIM_SMALL_1(T, T, hexp10, T(pow(10.0, (double)(float)a)))                              \
	GPUSIM_SMALL_1(T, T, hlog, T(log((double)(float)a)))                                      \
	GPUSIM_SMALL_1(T, T, hlog2, T(log2((double)(float)a)))                                    \
	GPUSIM_SMALL_1(T, T, hlog10, T(log10((double)(float)a)))                                  \
	GPUSIM_SMALL_1(T, T, hsin, T(sin((double)(float)a)))                                      \
	GPUSIM_SMALL_1(T, T, hcos, T(cos((double)(float)a)))                                      \
	GPUSIM_SMALL_1(T, T, htanh, T(tanh((double)(float)a)))                                    \
	GPUSIM_SMALL_1(T, T, hceil, T(ceilf((float)a)))                                           \
	GPUSIM_SMALL_1(T, T, hfloor, T(floorf((float)a)))                                         \
	GPUSIM_SMALL_1(T, T, htrunc, T(truncf((float)a)))                                         \
	GPUSIM_SMALL_1(T, T, hrint, T(rintf((float)a)))                                           \
	GPUSIM_SMALL_2(T, T, operator+, __hadd(a, b))                                             \
	GPUSIM_SMALL_2(T, T, operator-, __hsub(a, b))                                             \
	GPUSIM_SMALL_2(T, T, operator*, __hmul(a, b))                                             \
	GPUSIM_SMALL_2(T, T, operator/, __hdiv(a, b))                                             \
	GPUSIM_SMALL_1(T, T, operator+, a)                                                        \
	GPUSIM_SMALL_1(T, T, operator-, __hneg(a))                                                \
	GPUSIM_SMALL_2(T, bool, operator==, __heq(a, b))                                          \
	GPUSIM_SMALL_2(T, bool, operator!=, __hneu(a, b))                                         \
	GPUSIM_SMALL_2(T, bool, operator<, __hlt(a, b))                                           \
	GPUSIM_SMALL_2(T, bool, operator<=, __hle(a, b))                                          \
	GPUSIM_SMALL_2(T, bool, operator>, __hgt(a, b))                                           \
	GPUSIM_SMALL_2(T, bool, operator>=, __hge(a, b))                                          \
	GPUSIM_SMALL_ASSIGN(T)                                                                    \
	GPUSIM_SMALL_PAIR(T, T2)

#define GPUSIM_SMALL_ASSIGN(T)                      \
	GPUSIM_SMALL T &operator+=(T &a, const T b) \
	{                                           \
		return a = a + b;                   \
	}                                           \
	GPUSIM_SMALL T &operator-=(T &a, const T b) \
	{                                           \
		return a = a - b;                   \
	}                                           \
	GPUSIM_SMALL T &operator*=(T &a, const T b) \
	{                                           \
		return a = a * b;                   \
	}                                           \
	GPUSIM_SMALL T &operator/=(T &a, const T b) \
	{                                           \
		return a = a / b;                   \
	}                                           \
	GPUSIM_SMALL T &operator++(T &a)            \
	{                                           \
		return a = a + T(1.0f);             \
	}                                           \
	GPUSIM_SMALL T &operator--(T &a)            \
	{                                           \
		return a = a - T(1.0f);             \
	}                                           \
	GPUSIM_SMALL T operator++(T &a, int)        \
	{                                           \
		const T was = a;                    \
                                                    \
		++a;                                \
		return was;                         \
	}                                           \
	GPUSIM_SMALL T operator--(T &a, int)        \
	{                                           \
		const T was = a;                    \
                                                    \
		--a;                                \
		return was;                         \
	}

namespace gpusim_cuda
{

/* A NaN loses against a number; -0 is less than +0. */
template <class T>
GPUSIM_SMALL T
small_min(const T a, const T b)
{
	const float x = (float)a, y = (float)b;

	if (x != x)
		return b;
	if (y != y)
		return a;
	return x < y || (x == y && std::signbit(x)) ? a : b;
}

template <class T>
GPUSIM_SMALL T
small_max(const T a, const T b)
{
	const float x = (float)a, y = (float)b;

	if (x != x)
		return b;
	if (y != y)
		return a;
	return x > y || (x == y && !std::signbit(x)) ? a : b;
}

} // namespace gpusim_cuda

#define GPUSIM_PAIR_1(T2, name, f)         \
	GPUSIM_SMALL T2 name(const T2 a)   \
	{                                  \
		return T2(f(a.x), f(a.y)); \
	}
#define GPUSIM_PAIR_2(T2, name, f)                   \
	GPUSIM_SMALL T2 name(const T2 a, const T2 b) \
	{                                            \
		return T2(f(a.x, b.x), f(a.y, b.y)); \
	}
#define GPUSIM_PAIR_3(T2, name, f)                               \
	GPUSIM_SMALL T2 name(const T2 a, const T2 b, const T2 c) \
	{                                                        \
		return T2(f(a.x, b.x, c.x), f(a.y, b.y, c.y));   \
	}
#define GPUSIM_PAIR_COMPARE(T, T2, op)                                                             \
	GPUSIM_SMALL T2 __h##op##2(const T2 a, const T2 b)                                         \
	{                                                                                          \
		return T2(T(__h##op(a.x, b.x) ? 1.0f : 0.0f), T(__h##op(a.y, b.y) ? 1.0f : 0.0f)); \
	}                                                                                          \
	GPUSIM_SMALL bool __hb##op##2(const T2 a, const T2 b)                                      \
	{                                                                                          \
		return __h##op(a.x, b.x) && __h##op(a.y, b.y);                                     \
	}
#define GPUSIM_SMALL_PAIR(T, T2)                             \
	GPUSIM_PAIR_2(T2, __hadd2, __hadd)                   \
	GPUSIM_PAIR_2(T2, __hsub2, __hsub)                   \
	GPUSIM_PAIR_2(T2, __hmul2, __hmul)                   \
	GPUSIM_PAIR_2(T2, __h2div, __hdiv)                   \
	GPUSIM_PAIR_2(T2, __hadd2_rn, __hadd)                \
	GPUSIM_PAIR_2(T2, __hsub2_rn, __hsub)                \
	GPUSIM_PAIR_2(T2, __hmul2_rn, __hmul)                \
	GPUSIM_PAIR_2(T2, __hadd2_sat, __hadd_sat)           \
	GPUSIM_PAIR_2(T2, __hsub2_sat, __hsub_sat)           \
	GPUSIM_PAIR_2(T2, __hmul2_sat, __hmul_sat)           \
	GPUSIM_PAIR_2(T2, __hmin2, __hmin)                   \
	GPUSIM_PAIR_2(T2, __hmax2, __hmax)                   \
	GPUSIM_PAIR_3(T2, __hfma2, __hfma)                   \
	GPUSIM_PAIR_3(T2, __hfma2_sat, __hfma_sat)           \
	GPUSIM_PAIR_1(T2, __hneg2, __hneg)                   \
	GPUSIM_PAIR_1(T2, __habs2, __habs)                   \
	GPUSIM_PAIR_1(T2, h2sqrt, hsqrt)                     \
	GPUSIM_PAIR_1(T2, h2rsqrt, hrsqrt)                   \
	GPUSIM_PAIR_1(T2, h2rcp, hrcp)                       \
	GPUSIM_PAIR_1(T2, h2exp, hexp)                       \
	GPUSIM_PAIR_1(T2, h2exp2, hexp2)                     \
	GPUSIM_PAIR_1(T2, h2log, hlog)                       \
	GPUSIM_PAIR_1(T2, h2log2, hlog2)                     \
	GPUSIM_PAIR_1(T2, h2sin, hsin)                       \
	GPUSIM_PAIR_1(T2, h2cos, hcos)                       \
	GPUSIM_PAIR_1(T2, h2ceil, hceil)                     \
	GPUSIM_PAIR_1(T2, h2floor, hfloor)                   \
	GPUSIM_PAIR_1(T2, h2trunc, htrunc)                   \
	GPUSIM_PAIR_1(T2, h2rint, hrint)                     \
	GPUSIM_PAIR_COMPARE(T, T2, eq)                       \
	GPUSIM_PAIR_COMPARE(T, T2, ne)                       \
	GPUSIM_PAIR_COMPARE(T, T2, lt)                       \
	GPUSIM_PAIR_COMPARE(T, T2, le)                       \
	GPUSIM_PAIR_COMPARE(T, T2, gt)                       \
	GPUSIM_PAIR_COMPARE(T, T2, ge)                       \
	GPUSIM_PAIR_2(T2, operator+, __hadd)                 \
	GPUSIM_PAIR_2(T2, operator-, __hsub)                 \
	GPUSIM_PAIR_2(T2, operator*, __hmul)                 \
	GPUSIM_PAIR_2(T2, operator/, __hdiv)                 \
	GPUSIM_PAIR_1(T2, operator-, __hneg)                 \
	GPUSIM_SMALL T2 &operator+=(T2 &a, const T2 b)       \
	{                                                    \
		return a = a + b;                            \
	}                                                    \
	GPUSIM_SMALL T2 &operator-=(T2 &a, const T2 b)       \
	{                                                    \
		return a = a - b;                            \
	}                                                    \
	GPUSIM_SMALL T2 &operator*=(T2 &a, const T2 b)       \
	{                                                    \
		return a = a * b;                            \
	}                                                    \
	GPUSIM_SMALL bool operator==(const T2 a, const T2 b) \
	{                                                    \
		return __hbeq2(a, b);                        \
	}                                                    \
	GPUSIM_SMALL bool operator!=(const T2 a, const T2 b) \
	{                                                    \
		return !(a == b);                            \
	}

/* Conversions whose names contain the type's: long_ is "half" in __half2int_rn, from_ "half" in
 * __int2half_rn. */
#define GPUSIM_SMALL_ROUND(T, I, to, word, how, f)                  \
	GPUSIM_SMALL I __##word##2##to##_##how(const T a)           \
	{                                                           \
		return gpusim_cuda::small_to_whole<I>(f((float)a)); \
	}
#define GPUSIM_SMALL_ROUNDS(T, I, to, word)            \
	GPUSIM_SMALL_ROUND(T, I, to, word, rn, rintf)  \
	GPUSIM_SMALL_ROUND(T, I, to, word, rz, truncf) \
	GPUSIM_SMALL_ROUND(T, I, to, word, rd, floorf) \
	GPUSIM_SMALL_ROUND(T, I, to, word, ru, ceilf)  \
	GPUSIM_SMALL T __##to##2##word##_rn(const I a) \
	{                                              \
		return T(a);                           \
	}
#define GPUSIM_SMALL_CONVERSIONS(T, T2, raw, word, exp, man)                \
	GPUSIM_SMALL_ROUNDS(T, short, short, word)                          \
	GPUSIM_SMALL_ROUNDS(T, unsigned short, ushort, word)                \
	GPUSIM_SMALL_ROUNDS(T, int, int, word)                              \
	GPUSIM_SMALL_ROUNDS(T, unsigned, uint, word)                        \
	GPUSIM_SMALL_ROUNDS(T, long long, ll, word)                         \
	GPUSIM_SMALL_ROUNDS(T, unsigned long long, ull, word)               \
	GPUSIM_SMALL T __float2##word(const float a)                        \
	{                                                                   \
		return T(a);                                                \
	}                                                                   \
	GPUSIM_SMALL T __float2##word##_rn(const float a)                   \
	{                                                                   \
		return T(a);                                                \
	}                                                                   \
	GPUSIM_SMALL T __double2##word(const double a)                      \
	{                                                                   \
		return T(a);                                                \
	}                                                                   \
	GPUSIM_SMALL_FLOAT_TO(T, raw, word, rz, to_zero, exp, man)          \
	GPUSIM_SMALL_FLOAT_TO(T, raw, word, rd, down, exp, man)             \
	GPUSIM_SMALL_FLOAT_TO(T, raw, word, ru, up, exp, man)               \
	GPUSIM_SMALL float __##word##2float(const T a)                      \
	{                                                                   \
		return (float)a;                                            \
	}                                                                   \
	GPUSIM_SMALL unsigned short __##word##_as_ushort(const T a)         \
	{                                                                   \
		return ((raw)a).x;                                          \
	}                                                                   \
	GPUSIM_SMALL short __##word##_as_short(const T a)                   \
	{                                                                   \
		return (short)((raw)a).x;                                   \
	}                                                                   \
	GPUSIM_SMALL T __ushort_as_##word(const unsigned short a)           \
	{                                                                   \
		return T(raw{a});                                           \
	}                                                                   \
	GPUSIM_SMALL T __short_as_##word(const short a)                     \
	{                                                                   \
		return T(raw{(unsigned short)a});                           \
	}                                                                   \
	GPUSIM_SMALL T __low2##word(const T2 a)                             \
	{                                                                   \
		return a.x;                                                 \
	}                                                                   \
	GPUSIM_SMALL T __high2##word(const T2 a)                            \
	{                                                                   \
		return a.y;                                                 \
	}                                                                   \
	GPUSIM_SMALL float __low2float(const T2 a)                          \
	{                                                                   \
		return (float)a.x;                                          \
	}                                                                   \
	GPUSIM_SMALL float __high2float(const T2 a)                         \
	{                                                                   \
		return (float)a.y;                                          \
	}                                                                   \
	GPUSIM_SMALL T2 __low2##word##2(const T2 a)                         \
	{                                                                   \
		return T2(a.x, a.x);                                        \
	}                                                                   \
	GPUSIM_SMALL T2 __high2##word##2(const T2 a)                        \
	{                                                                   \
		return T2(a.y, a.y);                                        \
	}                                                                   \
	GPUSIM_SMALL T2 __lowhigh2highlow(const T2 a)                       \
	{                                                                   \
		return T2(a.y, a.x);                                        \
	}                                                                   \
	GPUSIM_SMALL T2 __lows2##word##2(const T2 a, const T2 b)            \
	{                                                                   \
		return T2(a.x, b.x);                                        \
	}                                                                   \
	GPUSIM_SMALL T2 __highs2##word##2(const T2 a, const T2 b)           \
	{                                                                   \
		return T2(a.y, b.y);                                        \
	}                                                                   \
	GPUSIM_SMALL T2 __##word##2##word##2(const T a)                     \
	{                                                                   \
		return T2(a, a);                                            \
	}                                                                   \
	GPUSIM_SMALL T2 __halves2##word##2(const T a, const T b)            \
	{                                                                   \
		return T2(a, b);                                            \
	}                                                                   \
	GPUSIM_SMALL T2 __floats2##word##2_rn(const float a, const float b) \
	{                                                                   \
		return T2(T(a), T(b));                                      \
	}                                                                   \
	GPUSIM_SMALL T2 __float2##word##2_rn(const float a)                 \
	{                                                                   \
		return T2(T(a), T(a));                                      \
	}                                                                   \
	GPUSIM_SMALL T2 __float22##word##2_rn(const float2 a)               \
	{                                                                   \
		return T2(T(a.x), T(a.y));                                  \
	}                                                                   \
	GPUSIM_SMALL float2 __##word##22float2(const T2 a)                  \
	{                                                                   \
		return float2{(float)a.x, (float)a.y};                      \
	}                                                                   \
	GPUSIM_SMALL T2 make_##word##2(const T a, const T b)                \
	{                                                                   \
		return T2(a, b);                                            \
	}
#define GPUSIM_SMALL_FLOAT_TO(T, raw, word, how, rounding, exp, man)                  \
	GPUSIM_SMALL T __float2##word##_##how(const float a)                          \
	{                                                                             \
		return T(raw{(unsigned short)gpusim_cuda::small_from_float<exp, man>( \
		    a, gpusim_cuda::rounding)});                                      \
	}

#endif
