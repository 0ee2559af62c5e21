#include "mem/halfvec.h"

#include <stdint.h>
#include <string.h>

#include "mem/half.h"

/* The reference, and the only way on processors without F16C. */
static void
widen_each(float *dst, const unsigned char *src, size_t nelem)
{
	uint16_t h;
	size_t i;

	for (i = 0; i < nelem; i++) {
		memcpy(&h, src + 2 * i, sizeof h);
		dst[i] = half_widen(h);
	}
}

static void
narrow_each(unsigned char *dst, const float *src, size_t nelem)
{
	uint16_t h;
	size_t i;

	for (i = 0; i < nelem; i++) {
		h = half_narrow(src[i]);
		memcpy(dst + 2 * i, &h, sizeof h);
	}
}

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx,f16c"))) static void
widen_f16c(float *dst, const unsigned char *src, size_t nelem)
{
	size_t i;

	for (i = 0; i + 8 <= nelem; i += 8)
		_mm256_storeu_ps(dst + i,
				 _mm256_cvtph_ps(_mm_loadu_si128((const void *)(src + 2 * i))));
	widen_each(dst + i, src + 2 * i, nelem - i);
}

__attribute__((target("avx,f16c"))) static void
narrow_f16c(unsigned char *dst, const float *src, size_t nelem)
{
	size_t i;

	for (i = 0; i + 8 <= nelem; i += 8)
		_mm_storeu_si128((void *)(dst + 2 * i),
				 _mm256_cvtps_ph(_mm256_loadu_ps(src + i),
						 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	narrow_each(dst + 2 * i, src + i, nelem - i);
}

/* Every processor with AVX2 has F16C, and clang 14 knows no name to ask for F16C alone. */
static bool
has_f16c(void)
{
	return __builtin_cpu_supports("avx2");
}
#else
#define widen_f16c  widen_each
#define narrow_f16c narrow_each

static bool
has_f16c(void)
{
	return false;
}
#endif

void
halfvec_widen(float *dst, const void *src, size_t nelem)
{
	(has_f16c() ? widen_f16c : widen_each)(dst, src, nelem);
}

void
halfvec_narrow(void *dst, const float *src, size_t nelem)
{
	(has_f16c() ? narrow_f16c : narrow_each)(dst, src, nelem);
}
