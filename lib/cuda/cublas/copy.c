/* Copies of vectors and matrices between host and device, and calls that this library does not support. */
#include "cublas/cublas_impl.h"

static cublasStatus_t
copy(int rows, int cols, int size, const void *src, int lds, void *dst, int ldd,
     enum cudaMemcpyKind kind, bool async, cudaStream_t stream)
{
	size_t n = (size_t)size, width = (size_t)rows * n, to = (size_t)ldd * n,
	       from = (size_t)lds * n;
	cudaError_t e;

	if (rows < 0 || cols < 0 || size <= 0 || lds < (rows > 1 ? rows : 1) ||
	    ldd < (rows > 1 ? rows : 1))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (rows == 0 || cols == 0)
		return CUBLAS_STATUS_SUCCESS;
	e = async ? cudaMemcpy2DAsync(dst, to, src, from, width, (size_t)cols, kind, stream)
		  : cudaMemcpy2D(dst, to, src, from, width, (size_t)cols, kind);
	return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;
}

/* A vector is a matrix of one row, whose leading dimension is the increment. */
#define COPIES(Way, kind)                                                                          \
	cublasStatus_t cublas##Way##Vector(int n, int size, const void *x, int incx, void *y,      \
					   int incy)                                               \
	{                                                                                          \
		return copy(n > 0, n, size, x, incx, y, incy, kind, false, NULL);                  \
	}                                                                                          \
	cublasStatus_t cublas##Way##VectorAsync(int n, int size, const void *x, int incx, void *y, \
						int incy, cudaStream_t stream)                     \
	{                                                                                          \
		return copy(n > 0, n, size, x, incx, y, incy, kind, true, stream);                 \
	}                                                                                          \
	cublasStatus_t cublas##Way##Matrix(int rows, int cols, int size, const void *a, int lda,   \
					   void *b, int ldb)                                       \
	{                                                                                          \
		return copy(rows, cols, size, a, lda, b, ldb, kind, false, NULL);                  \
	}                                                                                          \
	cublasStatus_t cublas##Way##MatrixAsync(int rows, int cols, int size, const void *a,       \
						int lda, void *b, int ldb, cudaStream_t stream)    \
	{                                                                                          \
		return copy(rows, cols, size, a, lda, b, ldb, kind, true, stream);                 \
	}
COPIES(Set, cudaMemcpyHostToDevice)
COPIES(Get, cudaMemcpyDeviceToHost)

#define NO(name)                                                            \
	cublasStatus_t name(cublasHandle_t handle, ...)                     \
	{                                                                   \
		(void)handle;                                               \
		return call_refuse(#name, "not supported by this library"); \
	}
GPUSIM_CUBLAS_NO(NO)
