/*
 * cublas_api.h - the names of cuBLAS 12 that libcublas.so.12 of this home has, over simulated devices.
 *
 * Matrices are column-major. Results, and the vectors and matrices of all calls, are memory that kernels can
 * access; alpha, beta and results of numbers are the host's or the device's by cublasSetPointerMode. A pointer
 * to too little memory is CUBLAS_STATUS_EXECUTION_FAILED. Real numbers only: the calls of GPUSIM_CUBLAS_NO
 * return CUBLAS_STATUS_NOT_SUPPORTED.
 */
#ifndef CUBLAS_API_H_
#define CUBLAS_API_H_

#include <stddef.h>
#include <stdint.h>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime_api.h"
#include "library_types.h"
#ifdef __has_include
#if __has_include("cuComplex.h")
#include "cuComplex.h"
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CUBLAS_VER_MAJOR 12
#define CUBLAS_VER_MINOR 4
#define CUBLAS_VER_PATCH 5
#define CUBLAS_VER_BUILD 8
#define CUBLAS_VERSION	 (CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH)

typedef enum {
	CUBLAS_STATUS_SUCCESS = 0,
	CUBLAS_STATUS_NOT_INITIALIZED = 1,
	CUBLAS_STATUS_ALLOC_FAILED = 3,
	CUBLAS_STATUS_INVALID_VALUE = 7,
	CUBLAS_STATUS_ARCH_MISMATCH = 8,
	CUBLAS_STATUS_MAPPING_ERROR = 11,
	CUBLAS_STATUS_EXECUTION_FAILED = 13,
	CUBLAS_STATUS_INTERNAL_ERROR = 14,
	CUBLAS_STATUS_NOT_SUPPORTED = 15,
	CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;

typedef enum {
	CUBLAS_FILL_MODE_LOWER = 0,
	CUBLAS_FILL_MODE_UPPER = 1,
	CUBLAS_FILL_MODE_FULL = 2
} cublasFillMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 } cublasDiagType_t;
typedef enum { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 } cublasSideMode_t;
typedef enum {
	CUBLAS_OP_N = 0,
	CUBLAS_OP_T = 1,
	CUBLAS_OP_C = 2,
	CUBLAS_OP_HERMITAN = 2,
	CUBLAS_OP_CONJG = 3
} cublasOperation_t;
typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 } cublasAtomicsMode_t;

/* Algorithms 0 to 23, and 0 to 15 with tensor cores from 100 on, are names for the same one. */
typedef enum {
	CUBLAS_GEMM_DFALT = -1,
	CUBLAS_GEMM_DEFAULT = -1,
	CUBLAS_GEMM_ALGO0 = 0,
	CUBLAS_GEMM_ALGO1 = 1,
	CUBLAS_GEMM_ALGO2 = 2,
	CUBLAS_GEMM_ALGO3 = 3,
	CUBLAS_GEMM_ALGO23 = 23,
	CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
	CUBLAS_GEMM_DFALT_TENSOR_OP = 99,
	CUBLAS_GEMM_ALGO0_TENSOR_OP = 100,
	CUBLAS_GEMM_ALGO15_TENSOR_OP = 115
} cublasGemmAlgo_t;
typedef enum {
	CUBLAS_DEFAULT_MATH = 0,
	CUBLAS_TENSOR_OP_MATH = 1,
	CUBLAS_PEDANTIC_MATH = 2,
	CUBLAS_TF32_TENSOR_OP_MATH = 3,
	CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
} cublasMath_t;
typedef enum {
	CUBLAS_COMPUTE_16F = 64,
	CUBLAS_COMPUTE_16F_PEDANTIC = 65,
	CUBLAS_COMPUTE_32F = 68,
	CUBLAS_COMPUTE_32F_PEDANTIC = 69,
	CUBLAS_COMPUTE_64F = 70,
	CUBLAS_COMPUTE_64F_PEDANTIC = 71,
	CUBLAS_COMPUTE_32I = 72,
	CUBLAS_COMPUTE_32I_PEDANTIC = 73,
	CUBLAS_COMPUTE_32F_FAST_16F = 74,
	CUBLAS_COMPUTE_32F_FAST_16BF = 75,
	CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;

typedef cudaDataType cublasDataType_t;
typedef struct cublasContext *cublasHandle_t;

/* Handles belong to the thread's device at their creation. */
cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version);
cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value);
size_t cublasGetCudartVersion(void);
/* Accepted and not used. */
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t nbytes);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream);
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t *mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t *mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode);
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count);
cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int *count);
const char *cublasGetStatusName(cublasStatus_t status);
const char *cublasGetStatusString(cublasStatus_t status);

/* Copies of n elements, or of rows x cols, between host and device. */
cublasStatus_t cublasSetVector(int n, int size, const void *x, int incx, void *device, int incy);
cublasStatus_t cublasGetVector(int n, int size, const void *device, int incx, void *y, int incy);
cublasStatus_t cublasSetMatrix(int rows, int cols, int size, const void *a, int lda, void *device,
			       int ldb);
cublasStatus_t cublasGetMatrix(int rows, int cols, int size, const void *device, int lda, void *b,
			       int ldb);
cublasStatus_t cublasSetVectorAsync(int n, int size, const void *x, int incx, void *device,
				    int incy, cudaStream_t stream);
cublasStatus_t cublasGetVectorAsync(int n, int size, const void *device, int incx, void *y,
				    int incy, cudaStream_t stream);
cublasStatus_t cublasSetMatrixAsync(int rows, int cols, int size, const void *a, int lda,
				    void *device, int ldb, cudaStream_t stream);
cublasStatus_t cublasGetMatrixAsync(int rows, int cols, int size, const void *device, int lda,
				    void *b, int ldb, cudaStream_t stream);

/* BLAS by the letter of its type, S: float, D: double. */
/* clang-format off */
#define GPUSIM_CUBLAS_GEMM(L, gemm, T) \
	cublasStatus_t cublas##L##gemm(cublasHandle_t h, cublasOperation_t transa, cublasOperation_t transb, int m, int n, \
	    int k, const T *alpha, const T *a, int lda, const T *b, int ldb, const T *beta, T *c, int ldc); \
	cublasStatus_t cublas##L##gemmBatched(cublasHandle_t h, cublasOperation_t transa, cublasOperation_t transb, \
	    int m, int n, int k, const T *alpha, const T *const a[], int lda, const T *const b[], int ldb, const T *beta, \
	    T *const c[], int ldc, int batch); \
	cublasStatus_t cublas##L##gemmStridedBatched(cublasHandle_t h, cublasOperation_t transa, \
	    cublasOperation_t transb, int m, int n, int k, const T *alpha, const T *a, int lda, long long stridea, \
	    const T *b, int ldb, long long strideb, const T *beta, T *c, int ldc, long long stridec, int batch);
/* I_amax, I_amin: the first place of the largest or smallest absolute value, from 1. getrfBatched: LU of each n x n
 * matrix in place; pivots NULL: without exchanges of rows. */
#define GPUSIM_CUBLAS(L, l, T) \
	cublasStatus_t cublas##L##nrm2_v2(cublasHandle_t h, int n, const T *x, int incx, T *result); \
	cublasStatus_t cublas##L##asum_v2(cublasHandle_t h, int n, const T *x, int incx, T *result); \
	cublasStatus_t cublasI##l##amax_v2(cublasHandle_t h, int n, const T *x, int incx, int *result); \
	cublasStatus_t cublasI##l##amin_v2(cublasHandle_t h, int n, const T *x, int incx, int *result); \
	cublasStatus_t cublas##L##dot_v2(cublasHandle_t h, int n, const T *x, int incx, const T *y, int incy, T *result); \
	cublasStatus_t cublas##L##scal_v2(cublasHandle_t h, int n, const T *alpha, T *x, int incx); \
	cublasStatus_t cublas##L##axpy_v2(cublasHandle_t h, int n, const T *alpha, const T *x, int incx, T *y, int incy); \
	cublasStatus_t cublas##L##copy_v2(cublasHandle_t h, int n, const T *x, int incx, T *y, int incy); \
	cublasStatus_t cublas##L##swap_v2(cublasHandle_t h, int n, T *x, int incx, T *y, int incy); \
	cublasStatus_t cublas##L##rot_v2(cublasHandle_t h, int n, T *x, int incx, T *y, int incy, const T *c, const T *s); \
	cublasStatus_t cublas##L##gemv_v2(cublasHandle_t h, cublasOperation_t trans, int m, int n, const T *alpha, \
	    const T *a, int lda, const T *x, int incx, const T *beta, T *y, int incy); \
	cublasStatus_t cublas##L##ger_v2(cublasHandle_t h, int m, int n, const T *alpha, const T *x, int incx, const T *y, \
	    int incy, T *a, int lda); \
	cublasStatus_t cublas##L##geam(cublasHandle_t h, cublasOperation_t transa, cublasOperation_t transb, int m, int n, \
	    const T *alpha, const T *a, int lda, const T *beta, const T *b, int ldb, T *c, int ldc); \
	cublasStatus_t cublas##L##dgmm(cublasHandle_t h, cublasSideMode_t side, int m, int n, const T *a, int lda, \
	    const T *x, int incx, T *c, int ldc); \
	cublasStatus_t cublas##L##trsm_v2(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t uplo, \
	    cublasOperation_t trans, cublasDiagType_t diag, int m, int n, const T *alpha, const T *a, int lda, T *b, \
	    int ldb); \
	cublasStatus_t cublas##L##syrk_v2(cublasHandle_t h, cublasFillMode_t uplo, cublasOperation_t trans, int n, int k, \
	    const T *alpha, const T *a, int lda, const T *beta, T *c, int ldc); \
	cublasStatus_t cublas##L##symm_v2(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t uplo, int m, int n, \
	    const T *alpha, const T *a, int lda, const T *b, int ldb, const T *beta, T *c, int ldc); \
	cublasStatus_t cublas##L##getrfBatched(cublasHandle_t h, int n, T *const a[], int lda, int *pivots, int *info, \
	    int batch);
/* clang-format on */
GPUSIM_CUBLAS(S, s, float)
GPUSIM_CUBLAS(D, d, double)
GPUSIM_CUBLAS_GEMM(S, gemm_v2, float)
GPUSIM_CUBLAS_GEMM(D, gemm_v2, double)
GPUSIM_CUBLAS_GEMM(H, gemm, __half)
#undef GPUSIM_CUBLAS
#undef GPUSIM_CUBLAS_GEMM

/* Products whose matrices are f64, or f32, f16 or bf16 (computed in f32 and rounded once). */
cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t transa, cublasOperation_t transb,
			     int m, int n, int k, const float *alpha, const void *a,
			     cudaDataType atype, int lda, const void *b, cudaDataType btype,
			     int ldb, const float *beta, void *c, cudaDataType ctype, int ldc);
cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t transa, cublasOperation_t transb,
			    int m, int n, int k, const void *alpha, const void *a,
			    cudaDataType atype, int lda, const void *b, cudaDataType btype, int ldb,
			    const void *beta, void *c, cudaDataType ctype, int ldc,
			    cublasComputeType_t compute, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t h, cublasOperation_t transa,
				   cublasOperation_t transb, int m, int n, int k, const void *alpha,
				   const void *const a[], cudaDataType atype, int lda,
				   const void *const b[], cudaDataType btype, int ldb,
				   const void *beta, void *const c[], cudaDataType ctype, int ldc,
				   int batch, cublasComputeType_t compute, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t h, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
    const void *alpha, const void *a, cudaDataType atype, int lda, long long stridea, const void *b,
    cudaDataType btype, int ldb, long long strideb, const void *beta, void *c, cudaDataType ctype,
    int ldc, long long stridec, int batch, cublasComputeType_t compute, cublasGemmAlgo_t algo);

/* Calls that always return CUBLAS_STATUS_NOT_SUPPORTED, and say so once. */
/* clang-format off */
#define GPUSIM_CUBLAS_NO_REAL(X, L) \
	X(cublas##L##rotg) X(cublas##L##rotm) X(cublas##L##rotmg) X(cublas##L##gbmv) X(cublas##L##trmv) \
	X(cublas##L##tbmv) X(cublas##L##tpmv) X(cublas##L##trsv) X(cublas##L##tbsv) X(cublas##L##tpsv) \
	X(cublas##L##symv) X(cublas##L##sbmv) X(cublas##L##spmv) X(cublas##L##syr) X(cublas##L##spr) \
	X(cublas##L##syr2) X(cublas##L##spr2) X(cublas##L##syr2k) X(cublas##L##syrkx) X(cublas##L##trmm) \
	X(cublas##L##gemvBatched) X(cublas##L##gemvStridedBatched) X(cublas##L##trsmBatched) \
	X(cublas##L##getrsBatched) X(cublas##L##getriBatched) X(cublas##L##matinvBatched) \
	X(cublas##L##geqrfBatched) X(cublas##L##gelsBatched) X(cublas##L##tpttr) X(cublas##L##trttp)
#define GPUSIM_CUBLAS_NO_COMPLEX(X, L, l, R) \
	X(cublas##R##nrm2) X(cublas##R##asum) X(cublasI##l##amax) X(cublasI##l##amin) X(cublas##L##dotu) \
	X(cublas##L##dotc) X(cublas##L##scal) X(cublas##L##axpy) X(cublas##L##copy) X(cublas##L##swap) \
	X(cublas##L##rot) X(cublas##L##gemv) X(cublas##L##geru) X(cublas##L##gerc) X(cublas##L##hemv) \
	X(cublas##L##her) X(cublas##L##her2) X(cublas##L##gemm) X(cublas##L##gemm3m) \
	X(cublas##L##gemmBatched) X(cublas##L##gemmStridedBatched) X(cublas##L##symm) X(cublas##L##hemm) \
	X(cublas##L##syrk) X(cublas##L##herk) X(cublas##L##her2k) X(cublas##L##trsm) X(cublas##L##trmm) \
	X(cublas##L##geam) X(cublas##L##dgmm) X(cublas##L##getrfBatched) X(cublas##L##getrsBatched) \
	X(cublas##L##getriBatched)
#define GPUSIM_CUBLAS_NO(X) \
	GPUSIM_CUBLAS_NO_REAL(X, S) GPUSIM_CUBLAS_NO_REAL(X, D) GPUSIM_CUBLAS_NO_COMPLEX(X, C, c, Sc) \
	GPUSIM_CUBLAS_NO_COMPLEX(X, Z, z, Dz) X(cublasCsscal) X(cublasZdscal) X(cublasCsrot) \
	X(cublasZdrot) X(cublasAxpyEx) X(cublasDotEx) X(cublasDotcEx) X(cublasNrm2Ex) X(cublasScalEx) \
	X(cublasRotEx) X(cublasIamaxEx) X(cublasIaminEx) X(cublasAsumEx) X(cublasCopyEx) X(cublasSwapEx) \
	X(cublasCgemmEx) X(cublasCsyrkEx) X(cublasCherkEx) X(cublasGemmGroupedBatchedEx) \
	X(cublasSgemmGroupedBatched) X(cublasDgemmGroupedBatched)
/* clang-format on */
#define GPUSIM_CUBLAS_DECLARE(name) cublasStatus_t name(cublasHandle_t handle, ...);
GPUSIM_CUBLAS_NO(GPUSIM_CUBLAS_DECLARE)
#undef GPUSIM_CUBLAS_DECLARE

#ifdef __cplusplus
}
#endif
#endif
