/*
 * Design notes. Signed sums and products run in the unsigned type of the same width: the bits are
 * the same and wrapping is defined. The operations are inline functions of one element, and the
 * loops in reduce_loops.inc, which the compiler widens for each target.
 */
#include "mem/reduce_isa.h"

#include <string.h>

#include "mem/clones.h"
#include "mem/half.h"

/* Elements as they lie in memory: at any address, and whatever the caller calls them. */
#define UNALIGNED(type, name) typedef type name __attribute__((aligned(1), may_alias))
UNALIGNED(uint8_t, mem_u8);
UNALIGNED(int8_t, mem_i8);
UNALIGNED(uint16_t, mem_u16);
UNALIGNED(uint32_t, mem_u32);
UNALIGNED(int32_t, mem_i32);
UNALIGNED(uint64_t, mem_u64);
UNALIGNED(int64_t, mem_i64);
UNALIGNED(float, mem_f32);
UNALIGNED(double, mem_f64);

#define OP(name, type, expr)                    \
	static inline type name(type x, type y) \
	{                                       \
		return (type)(expr);            \
	}
#define OPS_ARITH(suffix, type)       \
	OP(add_##suffix, type, x + y) \
	OP(mul_##suffix, type, x *y)
#define OPS_ORDER(suffix, type)               \
	OP(min_##suffix, type, x < y ? x : y) \
	OP(max_##suffix, type, x > y ? x : y)
OPS_ARITH(u8, uint8_t)
OPS_ARITH(u32, uint32_t)
OPS_ARITH(u64, uint64_t)
OPS_ARITH(f32, float)
OPS_ARITH(f64, double)
OPS_ORDER(u8, uint8_t)
OPS_ORDER(i8, int8_t)
OPS_ORDER(u32, uint32_t)
OPS_ORDER(i32, int32_t)
OPS_ORDER(u64, uint64_t)
OPS_ORDER(i64, int64_t)

/*
 * IEEE 754-2019 minimum and maximum. The comparison with a NaN is false and takes y, which leaves
 * the NaN in x to see to. Equal numbers differ at most in the sign of zero, which or-ing (min) or
 * and-ing (max) the bits settles.
 */
#define FLOAT_MINMAX(name, less, zeros, type, uint, bits, of_bits, pick)     \
	static inline type name(type x, type y)                              \
	{                                                                    \
		uint bx = bits(x), by = bits(y), r = pick(x less y, bx, by); \
                                                                             \
		r = pick(x == y, bx zeros by, r);                            \
		return of_bits(pick(x != x, bx, r));                         \
	}
FLOAT_MINMAX(min_f32, <, |, float, uint32_t, f32_bits, f32_of_bits, pick32)
FLOAT_MINMAX(max_f32, >, &, float, uint32_t, f32_bits, f32_of_bits, pick32)
FLOAT_MINMAX(min_f64, <, |, double, uint64_t, f64_bits, f64_of_bits, pick64)
FLOAT_MINMAX(max_f64, >, &, double, uint64_t, f64_bits, f64_of_bits, pick64)

#define KEY(type, op) ((unsigned)(type)*GPUSIM_NREDOPS + (unsigned)(op))
#define LINE	      64 /* bytes of a cache line; streaming stores fill whole ones */

#define ISA(name)  name##_portable
#define ISA_NAME   "portable"
#define ISA_TARGET /* the one the compiler was told */
#if defined(__x86_64__)
#include <immintrin.h>
#define ISA_VECTOR  __m128i
#define ISA_LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define ISA_STREAM  _mm_stream_si128
#endif
#include "mem/reduce_loops.inc"

#if defined(__x86_64__)
#define ISA(name)   name##_avx2
#define ISA_NAME    "avx2"
#define ISA_TARGET  __attribute__((target("avx2,f16c")))
#define ISA_VECTOR  __m256i
#define ISA_LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define ISA_STREAM  _mm256_stream_si256
#define ISA_HALVES  8
#define ISA_WIDEN(dst, src) \
	_mm256_storeu_ps(dst, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src))))
#define ISA_NARROW(dst, src)               \
	_mm_storeu_si128((__m128i *)(dst), \
			 _mm256_cvtps_ph(_mm256_loadu_ps(src), _MM_FROUND_TO_NEAREST_INT))
#include "mem/reduce_loops.inc"

#define ISA(name)   name##_avx512
#define ISA_NAME    "avx512"
#define ISA_TARGET  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define ISA_VECTOR  __m512i
#define ISA_LOAD(p) _mm512_loadu_si512(p)
#define ISA_STREAM  _mm512_stream_si512
#define ISA_HALVES  16
#define ISA_WIDEN(dst, src) \
	_mm512_storeu_ps(dst, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(src))))
#define ISA_NARROW(dst, src)                  \
	_mm256_storeu_si256((__m256i *)(dst), \
			    _mm512_cvtps_ph(_mm512_loadu_ps(src), _MM_FROUND_TO_NEAREST_INT))
#include "mem/reduce_loops.inc"

/* Every processor with AVX2 has F16C, and clang 14 knows no name to ask for F16C alone. */
const struct reduce_isa *
reduce_isa_at(unsigned i)
{
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && i-- == 0)
		return &isa_avx512;
	if (__builtin_cpu_supports("avx2") && i-- == 0)
		return &isa_avx2;
	return i == 0 ? &isa_portable : NULL;
}

void
reduce_isa_fence(void)
{
	_mm_sfence();
}
#else
const struct reduce_isa *
reduce_isa_at(unsigned i)
{
	return i == 0 ? &isa_portable : NULL;
}

void
reduce_isa_fence(void)
{
}
#endif
