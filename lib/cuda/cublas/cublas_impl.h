/*
 * cublas_impl.h - shared by the files of libcublas and libcublasLt.
 *
 * Design notes. Each call becomes a struct call: its operands, numbers and the function that does it. Helpers note
 * the first wrong argument in it; call_submit then returns that, or enqueues a copy. The function runs later, on
 * the stream's worker thread, with the operands at their places in this process.
 */
#ifndef CUBLAS_IMPL_H
#define CUBLAS_IMPL_H

#include <stdbool.h>

#include "base/rc.h"
#include "cublasLt.h"
#include "cublas_v2.h"

enum type { TYPE_F32, TYPE_F64, TYPE_F16, TYPE_BF16, TYPE_NONE };
enum type type_of(cudaDataType t); /* TYPE_NONE: not one that is computed with */
size_t type_size(enum type t);

struct cublasContext {
	uint64_t magic;
	int ordinal;
	cudaStream_t stream;
	cublasPointerMode_t pointers;
	cublasAtomicsMode_t atomics;
	cublasMath_t math;
	int sms;
};
bool handle_is(const struct cublasContext *h);

/* Vectors are A and B too; a result is C. */
enum which { A, B, C, D, ALPHA, BETA, BIAS, AUX, OPERANDS };

struct operand {
	const void *p; /* as the program gave it */
	size_t nbytes; /* 0: not used */
	void *at;      /* in this process */
};

/* d = epilogue(alpha op(a) op(b) + beta c), by batch; a [m,k], b [k,n], c and d [m,n], column-major. */
struct gemm {
	bool ta, tb;
	bool arrays; /* operands are arrays of `batch` pointers */
	int64_t m, n, k, ld[4], stride[4];
	enum type type[4], bias_type, aux_type;
	int batch;
	unsigned epilogue; /* cublasLtEpilogue_t */
	int64_t bias_stride, aux_ld, aux_stride;
};

struct call {
	const char *name;
	enum rc (*run)(struct call *c, struct err *err);
	cublasStatus_t status; /* the first wrong argument */
	bool empty;	       /* nothing to do */
	struct operand x[OPERANDS];
	enum type scalar;   /* of alpha and beta */
	double alpha, beta; /* of the device: set when the call runs */
	int m, n, k, inc[2], ld[3];
	int trans[2], side, uplo, diag; /* cblas's numbers; trans: cuBLAS's */
	void *result;			/* of the host, with its size; it is waited for */
	size_t result_size;
	double *slot; /* where the call leaves the result */
	struct gemm gemm;
};

/* Note an argument that is wrong: cublasStatus_t INVALID_VALUE. */
void call_needs(struct call *c, bool ok);
/* n elements with an increment; rows x cols with a leading dimension. */
void call_vector(struct call *c, enum which w, const void *p, int n, int inc, size_t size);
void call_matrix(struct call *c, enum which w, const void *p, int64_t rows, int64_t cols,
		 int64_t ld, size_t size);
/* alpha and beta (either may be NULL: 0) by the handle's pointer mode. */
void call_scalars(struct call *c, const struct cublasContext *h, enum type t, const void *alpha,
		  const void *beta);
/* Where a number goes, by the pointer mode. */
void call_result(struct call *c, const struct cublasContext *h, void *result, size_t size);
/* Within run(): the place of the result. */
void *call_slot(struct call *c);

/* Within run(): the place of an operand whose address is number i of the array in operand w. NULL, with *err: it is no
 * memory of an allocation. */
void *call_of_array(const struct call *c, enum which w, int i, size_t nbytes, struct err *err);

/* Check all operands and enqueue. CUBLAS_STATUS_EXECUTION_FAILED, with a sentence: an operand is not memory of an
 * allocation, or the stream has failed. */
cublasStatus_t call_submit(const struct cublasContext *h, struct call *c);
/* Refuse with a sentence, printed once. */
cublasStatus_t call_refuse(const char *name, const char *why);

/* Enqueue the product c->gemm, whose operands' pointers are in c->x. */
cublasStatus_t gemm_submit(const struct cublasContext *h, struct call *c, enum type scalar,
			   const void *alpha, const void *beta);
/* TYPE_NONE: not a computation in f32, or in f64 for f64. */
enum type gemm_scalar(cublasComputeType_t compute, const enum type type[4]);

#endif
