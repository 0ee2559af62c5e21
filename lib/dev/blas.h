/*
 * blas.h - how many threads gemm may use. The default of OpenBLAS is all cores, in every device.
 */
#ifndef DEV_BLAS_H
#define DEV_BLAS_H

void blas_set_threads(unsigned n);

#endif
