#include "kern/blas.h"

#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* OpenBLAS's own limit: products with m n k up to it use kernels that do not pack. */
#define SMALL_PRODUCT 1000000

static unsigned threads = 1;
/* Guards OpenBLAS's one number of threads. */
static pthread_rwlock_t number = PTHREAD_RWLOCK_INITIALIZER;

void
blas_set_threads(unsigned n)
{
	threads = n;
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

void
blas_reload(char **argv)
{
	const char *core = getenv("OPENBLAS_CORETYPE") ? NULL : blas_better_core();
	char self[PATH_MAX];
	ssize_t n = core ? readlink("/proc/self/exe", self, sizeof self - 1) : 0;

	if (n <= 0 || setenv("OPENBLAS_CORETYPE", core, 1) != 0)
		return;
	self[n] = '\0';
	execv(self, argv); /* on failure gemm is only slow */
}

/* Single precision has small kernels with 512-bit vectors. */
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
 * A large product packs both matrices first, which pays when each element is used often. For the few rows
 * of a batch packing takes a quarter of the time, and the small kernels, which read the matrices in
 * place, are as fast as the processor. Their best width of a strip was measured: rows of b that are
 * columns of the product in memory cost them more, and must be whole vectors.
 */
size_t
blas_strip(bool ta, bool tb, size_t m, size_t n, size_t k)
{
	static const size_t wide[] = {64, 32};

	if (m > SMALL_PRODUCT || k > SMALL_PRODUCT || n > SMALL_PRODUCT ||
	    m * k > SMALL_PRODUCT / 16 || m * k * n <= SMALL_PRODUCT || !has_small_kernels())
		return n;
	if (tb)
		return !ta && m <= 64 && m % 16 == 0 && k % 16 == 0 ? 16 : n;
	for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
		if (m * k <= SMALL_PRODUCT / wide[i])
			return wide[i];
	return n;
}

static void
multiply_float(const struct blas_product *p)
{
	size_t m = p->m, n = p->n, k = p->k, strip = blas_strip(p->ta, p->tb, m, n, k), at, count;
	const float *b = p->b;
	float *c = p->c;

	for (at = 0; at < n; at += count) {
		count = n - at < strip ? n - at : strip;
		cblas_sgemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans,
			    p->tb ? CblasTrans : CblasNoTrans, (int)m, (int)count, (int)k,
			    (float)p->alpha, p->a, (int)(p->ta ? m : k), b + (p->tb ? at * k : at),
			    (int)(p->tb ? k : n), (float)p->beta, c + at, (int)n);
	}
}

static void
multiply_double(const struct blas_product *p)
{
	int m = (int)p->m, n = (int)p->n, k = (int)p->k;

	cblas_dgemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans,
		    p->tb ? CblasTrans : CblasNoTrans, m, n, k, p->alpha, p->a, p->ta ? m : k, p->b,
		    p->tb ? k : n, p->beta, p->c, n);
}

static void
multiply(const struct blas_product *p)
{
	/* Products of a row or a column may become matrix-vector products, which in some versions of OpenBLAS
	 * multiply c by a zero beta and keep its NaNs. */
	if (p->beta == 0 && (p->m == 1 || p->n == 1))
		memset(p->c, 0, p->m * p->n * p->size);
	if (p->size == sizeof(float))
		multiply_float(p);
	else
		multiply_double(p);
}

/* With several threads, a single-threaded product has OpenBLAS to itself. */
void
blas_multiply(const struct blas_product *p)
{
	if (threads == 1) {
		multiply(p);
	} else if (p->single) {
		pthread_rwlock_wrlock(&number);
		openblas_set_num_threads(1);
		multiply(p);
		openblas_set_num_threads((int)threads);
		pthread_rwlock_unlock(&number);
	} else {
		pthread_rwlock_rdlock(&number);
		multiply(p);
		pthread_rwlock_unlock(&number);
	}
}
