/*
 * blas.h - OpenBLAS: threads, kernels, products.
 */
#ifndef DEV_BLAS_H
#define DEV_BLAS_H

#include <stdbool.h>
#include <stddef.h>

/* Set gemm's number of threads, before the first product. OpenBLAS's default is all cores. */
void blas_set_threads(unsigned n);

/*
 * OpenBLAS chooses its kernels by the processor's model when it is loaded, and uses the oldest ones for a
 * model that it does not know: gemm is then four times as slow. Returns the OPENBLAS_CORETYPE to load it
 * with instead, NULL when its own choice is good.
 */
const char *blas_better_core(void);

/* Call first in main: if there is a better choice, execute this program again with it. Returns if there
 * is none, or on failure. */
void blas_reload(char **argv);

/*
 * The number of columns of c [m,n] = op(a) [m,k] op(b) [k,n] to compute at a time in f32: n, or fewer where
 * several small products take less time than a large one.
 */
size_t blas_strip(bool ta, bool tb, size_t m, size_t n, size_t k);

/* c [m,n] = alpha op(a) [m,k] op(b) [k,n] + beta c, dense rows of float (size 4) or double. */
struct blas_product {
	size_t m, n, k; /* 1 to INT_MAX */
	size_t size;
	bool ta, tb; /* a is [k,m], b is [n,k] */
	bool single; /* by one thread: the same bits for any number of threads */
	double alpha, beta;
	const void *a, *b;
	void *c; /* not read with beta 0 */
};

void blas_multiply(const struct blas_product *p);

#endif
