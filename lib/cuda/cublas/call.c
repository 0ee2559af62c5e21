/*
 * Handles, and how a call gets into its stream and is carried out there.
 *
 * Design notes. OpenBLAS may not be in a product while the process forks (cudart forks its helpers): it ends its
 * threads then. So a call runs under a lock that fork takes first.
 */
#include <cblas.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cublas/cublas_impl.h"
#include "cudart/hooks.h"
#include "mem/half.h"

#define MAGIC 0x677075626c617331ull

static pthread_rwlock_t no_fork = PTHREAD_RWLOCK_INITIALIZER;

static void
before_fork(void)
{
	pthread_rwlock_wrlock(&no_fork);
}

static void
after_fork(void)
{
	pthread_rwlock_unlock(&no_fork);
}

static void
in_child(void)
{
	pthread_rwlock_init(&no_fork, NULL);
}

static void __attribute__((constructor)) begin(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

enum type
type_of(cudaDataType t)
{
	switch ((int)t) {
	case CUDA_R_32F:
		return TYPE_F32;
	case CUDA_R_64F:
		return TYPE_F64;
	case CUDA_R_16F:
		return TYPE_F16;
	case CUDA_R_16BF:
		return TYPE_BF16;
	default:
		return TYPE_NONE;
	}
}

size_t
type_size(enum type t)
{
	return t == TYPE_F64 ? 8 : t == TYPE_F32 ? 4 : 2;
}

static double
load(enum type t, const void *p)
{
	union {
		float f;
		double d;
		uint16_t h;
	} v;

	memcpy(&v, p, type_size(t));
	return t == TYPE_F32   ? (double)v.f
	       : t == TYPE_F64 ? v.d
	       : t == TYPE_F16 ? (double)f16_to_f32(v.h)
			       : (double)bf16_to_f32(v.h);
}

cublasStatus_t
call_refuse(const char *name, const char *why)
{
	static atomic_uint told[64]; /* hashes of sentences */
	char text[256];
	uint32_t hash = 1, none = 0;

	snprintf(text, sizeof text, "%s: %s", name, why);
	for (const char *p = text; *p; p++)
		hash = hash * 31 + (unsigned char)*p;
	for (int i = 0; i < 64; i++, none = 0) {
		if (atomic_compare_exchange_strong(&told[i], &none, hash)) {
			gpusim_cuda_tell(text);
			break;
		}
		if (none == hash)
			break;
	}
	return CUBLAS_STATUS_NOT_SUPPORTED;
}

/* ------------------------------------------------------------------ what a call consists of */

static void
note(struct call *c, cublasStatus_t status)
{
	if (c->status == CUBLAS_STATUS_SUCCESS)
		c->status = status;
}

void
call_needs(struct call *c, bool ok)
{
	if (!ok)
		note(c, CUBLAS_STATUS_INVALID_VALUE);
}

void
call_vector(struct call *c, enum which w, const void *p, int n, int inc, size_t size)
{
	int64_t step = inc < 0 ? -(int64_t)inc : inc;

	c->x[w].p = p;
	c->x[w].nbytes = n > 0 ? ((size_t)((n - 1) * step) + 1) * size : 0;
}

void
call_matrix(struct call *c, enum which w, const void *p, int64_t rows, int64_t cols, int64_t ld,
	    size_t size)
{
	call_needs(c, rows >= 0 && cols >= 0 && ld >= (rows > 1 ? rows : 1));
	c->x[w].p = p;
	c->x[w].nbytes = 0;
	if (c->status == CUBLAS_STATUS_SUCCESS && rows && cols)
		c->x[w].nbytes = (size_t)((cols - 1) * ld + rows) * size;
}

/* Return true if the host may read or write there: it is no memory of a device's own. */
static bool
is_of_host(const void *p, size_t size)
{
	struct gpusim_cuda_place place;

	return p && (!gpusim_cuda_find(p, size, &place) || gpusim_cuda_touch(p, size, false) == p);
}

static void
scalar(struct call *c, bool host, enum type t, const void *p, enum which w, double *out)
{
	if (!p)
		return;
	if (!host) {
		c->x[w] = (struct operand){.p = p, .nbytes = type_size(t)};
	} else if (is_of_host(p, type_size(t))) {
		*out = load(t, p);
	} else {
		call_refuse(c->name, "alpha or beta is device memory, but the pointer mode is that "
				     "of the host");
		note(c, CUBLAS_STATUS_INVALID_VALUE);
	}
}

void
call_scalars(struct call *c, const struct cublasContext *h, enum type t, const void *alpha,
	     const void *beta)
{
	bool host = !handle_is(h) || h->pointers == CUBLAS_POINTER_MODE_HOST;

	c->scalar = t;
	call_needs(c, alpha != NULL);
	scalar(c, host, t, alpha, ALPHA, &c->alpha);
	scalar(c, host, t, beta, BETA, &c->beta);
}

void
call_result(struct call *c, const struct cublasContext *h, void *result, size_t size)
{
	call_needs(c, result != NULL);
	if (handle_is(h) && h->pointers == CUBLAS_POINTER_MODE_DEVICE) {
		c->x[C] = (struct operand){.p = result, .nbytes = size};
		return;
	}
	if (result && !is_of_host(result, size)) {
		call_refuse(c->name,
			    "the result is device memory, but the pointer mode is that of the "
			    "host");
		note(c, CUBLAS_STATUS_INVALID_VALUE);
	}
	c->result = result;
	c->result_size = size;
}

void *
call_slot(struct call *c)
{
	return c->slot ? c->slot : c->x[C].at;
}

/* ------------------------------------------------------------------ in the stream */

/* Find the places of all operands. They stay: a program may free memory as soon as it has enqueued its last use. */
static enum rc
place(struct call *c, struct err *err)
{
	for (int i = 0; i < OPERANDS; i++) {
		struct operand *x = &c->x[i];

		if (x->nbytes && !(x->at = gpusim_cuda_touch(x->p, x->nbytes, false)))
			return err_set(err, RC_INVAL,
				       "%s: %zu bytes at %p are not in one allocation that a "
				       "kernel can access",
				       c->name, x->nbytes, x->p);
	}
	return RC_OK;
}

void *
call_of_array(const struct call *c, enum which w, int i, size_t nbytes, struct err *err)
{
	void *const *array = c->x[w].at;
	void *at = gpusim_cuda_touch(array[i], nbytes, true);

	if (!at)
		err_set(err, RC_INVAL,
			"%s: matrix %d of a batch: %zu bytes at %p are not in one allocation that "
			"a kernel "
			"can access",
			c->name, i, nbytes, array[i]);
	return at;
}

static enum rc
run(void *arg, struct err *err)
{
	struct call *c = arg;
	enum rc rc;

	if (c->x[ALPHA].nbytes)
		c->alpha = load(c->scalar, c->x[ALPHA].at);
	if (c->x[BETA].nbytes)
		c->beta = load(c->scalar, c->x[BETA].at);
	pthread_rwlock_rdlock(&no_fork);
	rc = c->run(c, err);
	pthread_rwlock_unlock(&no_fork);
	return rc;
}

/* Wait for the stream: the result is the host's. */
static cublasStatus_t
await(const struct cublasContext *h)
{
	int before;
	cudaError_t e = cudaGetDevice(&before);

	if (e == cudaSuccess)
		e = cudaSetDevice(h->ordinal);
	if (e == cudaSuccess)
		e = cudaStreamSynchronize(h->stream);
	cudaSetDevice(before);
	return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* Return whether the call should go on, else *out. */
static bool
check(const struct cublasContext *h, struct call *c, cublasStatus_t *out)
{
	static const char *const names[OPERANDS] = {"a",     "b",    "c",    "d",
						    "alpha", "beta", "bias", "aux"};
	struct err err = {0};

	*out = c->status;
	if (!handle_is(h))
		*out = CUBLAS_STATUS_NOT_INITIALIZED;
	if (*out != CUBLAS_STATUS_SUCCESS || c->empty)
		return false;
	if (c->result && gpusim_cuda_is_capturing(h->stream)) {
		*out = call_refuse(c->name, "in a capture a result can only be the device's: "
					    "cublasSetPointerMode(CUBLAS_POINTER_MODE_DEVICE)");
		return false;
	}
	for (int i = 0; i < OPERANDS; i++)
		if (c->x[i].nbytes)
			gpusim_cuda_memcheck(c->name, names[i], c->x[i].p, c->x[i].nbytes,
					     h->stream, false);
	if (place(c, &err) != RC_OK) {
		gpusim_cuda_tell(err.text);
		*out = CUBLAS_STATUS_EXECUTION_FAILED;
	}
	return *out == CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
call_submit(const struct cublasContext *h, struct call *c)
{
	cublasStatus_t status;
	struct call *copy;
	double *slot = NULL;

	if (!check(h, c, &status))
		return status;
	copy = malloc(sizeof *copy);
	if (c->result)
		slot = calloc(1, sizeof *slot);
	if (!copy || (c->result && !slot)) {
		free(copy);
		free(slot);
		return CUBLAS_STATUS_ALLOC_FAILED;
	}
	*copy = *c;
	copy->slot = slot;
	if (gpusim_cuda_work(h->stream, h->ordinal, c->name, run, copy, free) != cudaSuccess)
		status = CUBLAS_STATUS_EXECUTION_FAILED;
	else if (slot)
		status = await(h);
	if (status == CUBLAS_STATUS_SUCCESS && slot) {
		memcpy(c->result, slot, c->result_size);
		free(slot);
	} /* after a failure the call may still be going to write there */
	return status;
}

/* ------------------------------------------------------------------ handles */

bool
handle_is(const struct cublasContext *h)
{
	return h && h->magic == MAGIC;
}

cublasStatus_t
cublasCreate_v2(cublasHandle_t *handle)
{
	struct cublasContext *h;
	int ordinal;

	if (!handle)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (cudaGetDevice(&ordinal) != cudaSuccess)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	h = calloc(1, sizeof *h);
	if (!h)
		return CUBLAS_STATUS_ALLOC_FAILED;
	h->magic = MAGIC;
	h->ordinal = ordinal;
	h->atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
	*handle = h;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasDestroy_v2(cublasHandle_t handle)
{
	if (!handle_is(handle))
		return CUBLAS_STATUS_NOT_INITIALIZED;
	await(handle);
	handle->magic = 0;
	free(handle);
	return CUBLAS_STATUS_SUCCESS;
}

#define SETTER(name, type, field, ok)                         \
	cublasStatus_t name(cublasHandle_t handle, type v)    \
	{                                                     \
		if (!handle_is(handle))                       \
			return CUBLAS_STATUS_NOT_INITIALIZED; \
		if (!(ok))                                    \
			return CUBLAS_STATUS_INVALID_VALUE;   \
		handle->field = v;                            \
		return CUBLAS_STATUS_SUCCESS;                 \
	}
#define GETTER(name, type, value)                             \
	cublasStatus_t name(cublasHandle_t handle, type *out) \
	{                                                     \
		if (!handle_is(handle))                       \
			return CUBLAS_STATUS_NOT_INITIALIZED; \
		if (!out)                                     \
			return CUBLAS_STATUS_INVALID_VALUE;   \
		*out = value;                                 \
		return CUBLAS_STATUS_SUCCESS;                 \
	}
SETTER(cublasSetStream_v2, cudaStream_t, stream, true)
GETTER(cublasGetStream_v2, cudaStream_t, handle->stream)
SETTER(cublasSetPointerMode_v2, cublasPointerMode_t, pointers, (unsigned)v <= 1)
GETTER(cublasGetPointerMode_v2, cublasPointerMode_t, handle->pointers)
SETTER(cublasSetAtomicsMode, cublasAtomicsMode_t, atomics, (unsigned)v <= 1)
GETTER(cublasGetAtomicsMode, cublasAtomicsMode_t, handle->atomics)
SETTER(cublasSetMathMode, cublasMath_t, math, ((unsigned)v & ~16u) <= 3)
GETTER(cublasGetMathMode, cublasMath_t, handle->math)
SETTER(cublasSetSmCountTarget, int, sms, v >= 0)
GETTER(cublasGetSmCountTarget, int, handle->sms)
GETTER(cublasGetVersion_v2, int, CUBLAS_VERSION)

cublasStatus_t
cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t nbytes)
{
	(void)workspace, (void)nbytes;
	return handle_is(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t
cublasGetProperty(libraryPropertyType type, int *value)
{
	static const int v[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};

	if (!value || (unsigned)type > PATCH_LEVEL)
		return CUBLAS_STATUS_INVALID_VALUE;
	*value = v[type];
	return CUBLAS_STATUS_SUCCESS;
}

size_t
cublasGetCudartVersion(void)
{
	return CUDART_VERSION;
}

static const struct {
	cublasStatus_t status;
	const char *name, *text;
} statuses[] = {
#define ROW(name, text)                                            \
	{                                                          \
		CUBLAS_STATUS_##name, "CUBLAS_STATUS_" #name, text \
	}
    ROW(SUCCESS, "success"),
    ROW(NOT_INITIALIZED, "the library was not initialized"),
    ROW(ALLOC_FAILED, "the resource allocation failed"),
    ROW(INVALID_VALUE, "an unsupported value or parameter was passed to the function"),
    ROW(ARCH_MISMATCH, "the function requires an architectural feature that is absent"),
    ROW(MAPPING_ERROR, "an access to GPU memory space failed"),
    ROW(EXECUTION_FAILED, "the function failed to launch on the GPU"),
    ROW(INTERNAL_ERROR, "an internal operation failed"),
    ROW(NOT_SUPPORTED, "the requested functionality is not supported"),
    ROW(LICENSE_ERROR, "the functionality requested requires a license that is not there"),
};

const char *
cublasGetStatusName(cublasStatus_t status)
{
	for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
		if (statuses[i].status == status)
			return statuses[i].name;
	return "unrecognized status";
}

const char *
cublasGetStatusString(cublasStatus_t status)
{
	for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
		if (statuses[i].status == status)
			return statuses[i].text;
	return "unrecognized status";
}
