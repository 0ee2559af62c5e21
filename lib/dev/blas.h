/*
 * blas.h - OpenBLAS as a device wants it.
 */
#ifndef DEV_BLAS_H
#define DEV_BLAS_H

#include <stdbool.h>
#include <stddef.h>

/* How many threads gemm may use; before the first product. The default of OpenBLAS is all cores, in every device. */
void blas_set_threads(unsigned n);

/*
 * OpenBLAS chooses its kernels by the processor's model when it is loaded, and takes the oldest for
 * a model that is newer than itself: gemm is then four times as slow. Returns the
 * OPENBLAS_CORETYPE to load it with instead, NULL when its choice is as good as the processor.
 */
const char *blas_better_core(void);

/* The first thing of a program that uses it: where there is a better choice, this program again with
 * it. Returns where there is none, or where that cannot be. */
void blas_reload(char **argv);

/*
 * How many columns of c [m,n] = op(a) [m,k] op(b) [k,n] to ask for at a time in f32: n, or fewer
 * where several small products take less time than a large one.
 */
size_t blas_strip(bool ta, bool tb, size_t m, size_t n, size_t k);

/* c [m,n] = alpha op(a) [m,k] op(b) [k,n] + beta c, dense rows of float (size 4) or double. */
struct blas_product {
	size_t m, n, k; /* 1 to INT_MAX */
	size_t size;
	bool ta, tb; /* a is [k,m], b is [n,k] */
	bool single; /* by one thread, however many there may be: the same bits for any number */
	double alpha, beta;
	const void *a, *b;
	void *c; /* with beta 0 not read */
};

void blas_multiply(const struct blas_product *p);

#endif
