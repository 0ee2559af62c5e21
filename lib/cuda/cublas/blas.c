/* cuBLAS's calls: for each type those of real.inc, and products of mixed types. */
#include <cblas.h>
#include <string.h>

#include "cublas/cublas_impl.h"

#define PASTE_(a, b, c) a##b##c
#define PASTE(a, b, c)	PASTE_(a, b, c)
#define STRING_(a)	#a
#define STRING(a)	STRING_(a)

static bool
is_trans(cublasOperation_t op)
{
	return (unsigned)op <= CUBLAS_OP_C;
}

/* The conjugate of a real matrix is itself. */
static int
trans_of(int op)
{
	return op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans;
}

static int
side_of(cublasSideMode_t side)
{
	return side == CUBLAS_SIDE_LEFT ? CblasLeft : CblasRight;
}

static int
uplo_of(cublasFillMode_t uplo)
{
	return uplo == CUBLAS_FILL_MODE_UPPER ? CblasUpper : CblasLower;
}

/* ------------------------------------------------------------------ products */

struct product {
	const char *name;
	cublasHandle_t h;
	cublasOperation_t op[2];
	int m, n, k;
	const void *alpha, *beta;
	bool arrays;
};

struct matrix {
	const void *p; /* or an array of pointers */
	int ld;
	long long stride;
};

/* scalar: the type of alpha and beta; TYPE_NONE: not supported. */
static cublasStatus_t
multiply(const struct product *p, struct matrix a, struct matrix b, struct matrix c, int batch,
	 const enum type type[4], enum type scalar)
{
	struct call call = {.name = p->name,
			    .empty = p->m == 0 || p->n == 0 || batch == 0,
			    .x = {{.p = a.p}, {.p = b.p}, {.p = c.p}, {.p = c.p}},
			    .gemm = {.ta = p->op[0] != CUBLAS_OP_N,
				     .tb = p->op[1] != CUBLAS_OP_N,
				     .arrays = p->arrays,
				     .m = p->m,
				     .n = p->n,
				     .k = p->k,
				     .ld = {a.ld, b.ld, c.ld, c.ld},
				     .stride = {a.stride, b.stride, c.stride, c.stride},
				     .type = {type[0], type[1], type[2], type[3]},
				     .batch = batch,
				     .epilogue = CUBLASLT_EPILOGUE_DEFAULT}};

	if (!handle_is(p->h))
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (scalar == TYPE_NONE)
		return call_refuse(p->name, "this combination of types is not supported");
	call_needs(&call, is_trans(p->op[0]) && is_trans(p->op[1]) && p->beta);
	return gemm_submit(p->h, &call, scalar, p->alpha, p->beta);
}

#define LETTER S
#define SMALL  s
#define REAL   float
#define TYPE   TYPE_F32
#define GEMM   gemm_v2
#include "cublas/real.inc"

#define LETTER D
#define SMALL  d
#define REAL   double
#define TYPE   TYPE_F64
#define GEMM   gemm_v2
#include "cublas/real.inc"

#define LETTER H
#define SMALL  h
#define REAL   __half
#define TYPE   TYPE_F16
#define GEMM   gemm
#define ONLY_GEMM
#include "cublas/real.inc"

/* ------------------------------------------------------------------ products of mixed types */

static cublasStatus_t
mixed(const struct product *p, struct matrix a, cudaDataType ta, struct matrix b, cudaDataType tb,
      struct matrix c, cudaDataType tc, int batch, cublasComputeType_t compute)
{
	enum type type[4] = {type_of(ta), type_of(tb), type_of(tc), type_of(tc)};

	return multiply(p, a, b, c, batch, type, gemm_scalar(compute, type));
}

cublasStatus_t
cublasGemmEx(cublasHandle_t h, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
	     int k, const void *alpha, const void *a, cudaDataType atype, int lda, const void *b,
	     cudaDataType btype, int ldb, const void *beta, void *c, cudaDataType ctype, int ldc,
	     cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
	struct product p = {"cublasGemmEx", h, {transa, transb}, m, n, k, alpha, beta, false};

	(void)algo;
	return mixed(&p, (struct matrix){a, lda, 0}, atype, (struct matrix){b, ldb, 0}, btype,
		     (struct matrix){c, ldc, 0}, ctype, 1, compute);
}

cublasStatus_t
cublasSgemmEx(cublasHandle_t h, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
	      int k, const float *alpha, const void *a, cudaDataType atype, int lda, const void *b,
	      cudaDataType btype, int ldb, const float *beta, void *c, cudaDataType ctype, int ldc)
{
	return cublasGemmEx(h, transa, transb, m, n, k, alpha, a, atype, lda, b, btype, ldb, beta,
			    c, ctype, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t
cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t transa, cublasOperation_t transb,
			   int m, int n, int k, const void *alpha, const void *a,
			   cudaDataType atype, int lda, long long stridea, const void *b,
			   cudaDataType btype, int ldb, long long strideb, const void *beta,
			   void *c, cudaDataType ctype, int ldc, long long stridec, int batch,
			   cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
	struct product p = {
	    "cublasGemmStridedBatchedEx", h, {transa, transb}, m, n, k, alpha, beta, false};

	(void)algo;
	return mixed(&p, (struct matrix){a, lda, stridea}, atype, (struct matrix){b, ldb, strideb},
		     btype, (struct matrix){c, ldc, stridec}, ctype, batch, compute);
}

cublasStatus_t
cublasGemmBatchedEx(cublasHandle_t h, cublasOperation_t transa, cublasOperation_t transb, int m,
		    int n, int k, const void *alpha, const void *const a[], cudaDataType atype,
		    int lda, const void *const b[], cudaDataType btype, int ldb, const void *beta,
		    void *const c[], cudaDataType ctype, int ldc, int batch,
		    cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
	struct product p = {"cublasGemmBatchedEx", h, {transa, transb}, m, n, k, alpha, beta, true};

	(void)algo;
	return mixed(&p, (struct matrix){a, lda, 0}, atype, (struct matrix){b, ldb, 0}, btype,
		     (struct matrix){c, ldc, 0}, ctype, batch, compute);
}
