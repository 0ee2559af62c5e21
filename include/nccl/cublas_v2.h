/* cublas_v2.h - the names of cuBLAS's calls, for their second version; see cublas_api.h. */
#ifndef CUBLAS_V2_H_
#define CUBLAS_V2_H_

#include "cublas_api.h"

#define cublasCreate	     cublasCreate_v2
#define cublasDestroy	     cublasDestroy_v2
#define cublasGetVersion     cublasGetVersion_v2
#define cublasSetWorkspace   cublasSetWorkspace_v2
#define cublasSetStream	     cublasSetStream_v2
#define cublasGetStream	     cublasGetStream_v2
#define cublasSetPointerMode cublasSetPointerMode_v2
#define cublasGetPointerMode cublasGetPointerMode_v2
#define cublasSnrm2	     cublasSnrm2_v2
#define cublasSasum	     cublasSasum_v2
#define cublasSdot	     cublasSdot_v2
#define cublasSscal	     cublasSscal_v2
#define cublasSaxpy	     cublasSaxpy_v2
#define cublasScopy	     cublasScopy_v2
#define cublasSswap	     cublasSswap_v2
#define cublasSrot	     cublasSrot_v2
#define cublasSgemv	     cublasSgemv_v2
#define cublasSger	     cublasSger_v2
#define cublasSgemm	     cublasSgemm_v2
#define cublasStrsm	     cublasStrsm_v2
#define cublasSsyrk	     cublasSsyrk_v2
#define cublasSsymm	     cublasSsymm_v2
#define cublasIsamax	     cublasIsamax_v2
#define cublasIsamin	     cublasIsamin_v2
#define cublasDnrm2	     cublasDnrm2_v2
#define cublasDasum	     cublasDasum_v2
#define cublasDdot	     cublasDdot_v2
#define cublasDscal	     cublasDscal_v2
#define cublasDaxpy	     cublasDaxpy_v2
#define cublasDcopy	     cublasDcopy_v2
#define cublasDswap	     cublasDswap_v2
#define cublasDrot	     cublasDrot_v2
#define cublasDgemv	     cublasDgemv_v2
#define cublasDger	     cublasDger_v2
#define cublasDgemm	     cublasDgemm_v2
#define cublasDtrsm	     cublasDtrsm_v2
#define cublasDsyrk	     cublasDsyrk_v2
#define cublasDsymm	     cublasDsymm_v2
#define cublasIdamax	     cublasIdamax_v2
#define cublasIdamin	     cublasIdamin_v2

#ifdef __cplusplus
/* Programs of CUDA 10 give the type of the computation as that of the data. */
static inline cublasComputeType_t
gpusim_cublas_compute(cudaDataType type)
{
	return type == CUDA_R_16F   ? CUBLAS_COMPUTE_16F
	       : type == CUDA_R_32F ? CUBLAS_COMPUTE_32F
	       : type == CUDA_R_64F ? CUBLAS_COMPUTE_64F
				    : (cublasComputeType_t)0;
}

static inline cublasStatus_t
cublasGemmEx(cublasHandle_t h, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
	     int k, const void *alpha, const void *a, cudaDataType atype, int lda, const void *b,
	     cudaDataType btype, int ldb, const void *beta, void *c, cudaDataType ctype, int ldc,
	     cudaDataType compute, cublasGemmAlgo_t algo)
{
	return cublasGemmEx(h, transa, transb, m, n, k, alpha, a, atype, lda, b, btype, ldb, beta,
			    c, ctype, ldc, gpusim_cublas_compute(compute), algo);
}
#endif
#endif
