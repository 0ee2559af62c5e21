/*
 * Design notes. Signed sums and products run in the unsigned type of the same width: the bits are
 * the same and wrapping is defined. A fold is an inline function of two elements. REDOPS and DTYPES
 * make a loop of each fold and type in reduce_loops.inc, which the compiler widens for each target.
 */
#include "mem/reduce_isa.h"

#include <string.h>

#include "mem/clones.h"
#include "mem/dtype.h"
#include "mem/redop.h"

/* Elements as they lie in memory: at any address, and whatever the caller calls them. */
#define UNALIGNED(constant, name, type, kind, ...) \
	typedef type mem_##name __attribute__((aligned(1), may_alias));
DTYPES(UNALIGNED)

/*
 * The folds, two elements to one: add_f32, max_i8 ... A fold that a row of REDOPS names has a line
 * in both lists.
 */
#define FOLD(name, type, expr)                                          \
	__attribute__((unused)) static inline type name(type x, type y) \
	{                                                               \
		return (type)(expr);                                    \
	}
#define FOLDS_WHOLE(name, type, utype)              \
	FOLD(add_##name, type, (utype)x + (utype)y) \
	FOLD(mul_##name, type, (utype)x *(utype)y)  \
	FOLD(min_##name, type, x < y ? x : y)       \
	FOLD(max_##name, type, x > y ? x : y)       \
	FOLD(and_##name, type, x &y)                \
	FOLD(or_##name, type, x | y)                \
	FOLD(xor_##name, type, x ^ y)
#define FOLDS_REAL(name, type, uint, pick)                                            \
	FOLD(add_##name, type, x + y)                                                 \
	FOLD(mul_##name, type, x *y)                                                  \
	FLOAT_MINMAX(min_##name, <, |, type, uint, name##_bits, name##_of_bits, pick) \
	FLOAT_MINMAX(max_##name, >, &, type, uint, name##_bits, name##_of_bits, pick)

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

/* The one NaN of canonical results. */
#define f32_quiet __builtin_nanf("")
#define f64_quiet __builtin_nan("")

static inline float
settle_f32(float x)
{
	return x == x ? x : f32_quiet;
}

static inline double
settle_f64(double x)
{
	return x == x ? x : f64_quiet;
}

FOLDS_REAL(f32, float, uint32_t, pick32)
FOLDS_REAL(f64, double, uint64_t, pick64)
#define REAL(name, type)
#define HALF(name, type)
#define SIGNED(name, type)		       FOLDS_WHOLE(name, type, u##type)
#define UNSIGNED(name, type)		       FOLDS_WHOLE(name, type, type)
#define FOLDS(constant, name, type, kind, ...) kind(name, type)
DTYPES(FOLDS)
#undef REAL
#undef HALF
#undef SIGNED
#undef UNSIGNED

/*
 * The loops of a type, one a fold, and their row in struct reduce_isa, an entry a redop: of the floats shorter than f32
 * none. What does not depend on the sign of an integer is a loop of the unsigned type alone.
 */
#define LOOPS_NUMBERS(ROW, name) ROW(add, name) ROW(mul, name) ROW(min, name) ROW(max, name)
#define LOOPS_REAL(name)	 LOOPS_NUMBERS(LOOP, name)
#define LOOPS_HALF(name)
#define LOOPS_SIGNED(name) LOOP(min, name) LOOP(max, name)
#define LOOPS_UNSIGNED(name) \
	LOOPS_NUMBERS(LOOP, name) LOOP(and, name) LOOP(or, name) LOOP(xor, name)
#define LOOPS(constant, name, type, kind, ...) LOOPS_##kind(name)
#define ENTRY_REAL(name)		       REDOPS(ENTRY_FLOAT, name)
#define FLOATS_ANY(...)			       __VA_ARGS__
#define FLOATS_WHOLE(...)
#define ENTRY_HALF(name)
#define ENTRY_SIGNED(name)			 REDOPS(ENTRY_SIGNLESS, name)
#define ENTRY_UNSIGNED(name)			 REDOPS(ENTRY, name)
#define ENTRIES(constant, name, type, kind, ...) [GPUSIM_##constant] = {ENTRY_##kind(name)},

#define TWIN_i8		    u8
#define TWIN_i32	    u32
#define TWIN_i64	    u64
#define PASTE(fold, name)   fold##_##name
#define LOOP_OF(fold, name) PASTE(fold, name)
#define SIGNLESS_add(name)  LOOP_OF(add, TWIN_##name)
#define SIGNLESS_mul(name)  LOOP_OF(mul, TWIN_##name)
#define SIGNLESS_and(name)  LOOP_OF(and, TWIN_##name)
#define SIGNLESS_or(name)   LOOP_OF(or, TWIN_##name)
#define SIGNLESS_xor(name)  LOOP_OF(xor, TWIN_##name)
#define SIGNLESS_min(name)  LOOP_OF(min, name)
#define SIGNLESS_max(name)  LOOP_OF(max, name)
#define ISA_OF(loop)	    ISA(loop)

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
