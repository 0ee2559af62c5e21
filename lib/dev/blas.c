#include "dev/blas.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

/* OpenBLAS's own bound: products with m n k up to it go to kernels that do not pack. */
#define SMALL_PRODUCT 1000000
#define STRIP	      16
#define STRIP_ROWS    64

void
blas_set_threads(unsigned n)
{
	openblas_set_num_threads((int)n);
}

const char *
blas_better_core(void)
{
#ifdef __x86_64__
	static const char *const fallbacks[] = {"Prescott", "Core2", "Penryn", "Dunnington",
						"Generic"};
	const char *core = openblas_get_corename();
	bool fallen = false;

	for (size_t i = 0; i < sizeof fallbacks / sizeof fallbacks[0]; i++)
		fallen |= strcmp(core, fallbacks[i]) == 0;
	__builtin_cpu_init();
	if (!fallen || !__builtin_cpu_supports("fma"))
		return NULL;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
		return "SkylakeX";
	return __builtin_cpu_supports("avx2") ? "Haswell" : NULL;
#else
	return NULL;
#endif
}

/* Whether single precision has small kernels with 512-bit vectors. */
static bool
has_small_kernels(void)
{
	static const char *const cores[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
	const char *core = openblas_get_corename();

	for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++)
		if (strcmp(core, cores[i]) == 0)
			return true;
	return false;
}

/*
 * A large product packs both matrices first, which pays when each element is used often. For few
 * rows of dense dot products (a layer's forward pass) it takes a third of the time, and the small
 * kernels, which read the rows in place, are as fast as the processor. They want whole vectors.
 */
size_t
blas_strip(bool ta, bool tb, size_t m, size_t n, size_t k)
{
	if (ta || !tb || m > STRIP_ROWS || m % STRIP != 0 || k % STRIP != 0 || n <= STRIP ||
	    m * k > SMALL_PRODUCT / STRIP || m * k * n <= SMALL_PRODUCT || !has_small_kernels())
		return n;
	return STRIP;
}
