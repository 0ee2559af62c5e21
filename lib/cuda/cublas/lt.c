/* cublasLt: descriptions of products, which matmul turns into a product of gemm.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cublas/cublas_impl.h"

struct desc {
	int32_t compute, scale, pointers, trans[3], fill;
	uint32_t epilogue;
	int32_t sms, aux_type, bias_type;
	int8_t fast;
	void *bias, *aux;
	int64_t bias_stride, aux_ld, aux_stride;
	void *refused; /* a scale's or maximum's pointer */
};
_Static_assert(sizeof(struct desc) <= sizeof(cublasLtMatmulDescOpaque_t), "it is kept there");

struct layout {
	uint32_t type;
	int32_t order, batch;
	uint64_t rows, cols;
	int64_t ld, stride;
};
_Static_assert(sizeof(struct layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "it is kept there");

/* ------------------------------------------------------------------ attributes */

struct attribute {
	int number;
	size_t offset, size;
};
#define FIELD(number, type, field)                                                   \
	{                                                                            \
		number, offsetof(struct type, field), sizeof((struct type){0}.field) \
	}
static const struct attribute desc_attributes[] = {
    FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, desc, compute),
    FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, desc, scale),
    FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, desc, pointers),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSA, desc, trans[0]),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSB, desc, trans[1]),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSC, desc, trans[2]),
    FIELD(CUBLASLT_MATMUL_DESC_FILL_MODE, desc, fill),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, desc, epilogue),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, desc, bias),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, desc, bias_stride),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, desc, aux),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, desc, aux_ld),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, desc, aux_stride),
    FIELD(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, desc, sms),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, desc, aux_type),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, desc, bias_type),
    FIELD(CUBLASLT_MATMUL_DESC_FAST_ACCUM, desc, fast),
    FIELD(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, desc, refused),
    FIELD(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, desc, refused),
    FIELD(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, desc, refused),
    FIELD(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, desc, refused),
    FIELD(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, desc, refused),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, desc, refused),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, desc, refused),
    {-1, 0, 0},
};
static const struct attribute layout_attributes[] = {
    FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, layout, type),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, layout, order),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, layout, rows),
    FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, layout, cols),
    FIELD(CUBLASLT_MATRIX_LAYOUT_LD, layout, ld),
    FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout, batch),
    FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout, stride),
    {-1, 0, 0},
};

static cublasStatus_t
find(const char *name, const struct attribute *v, int number, const void *of,
     const struct attribute **out)
{
	char text[64];

	if (!of)
		return CUBLAS_STATUS_INVALID_VALUE;
	while (v->number >= 0 && v->number != number)
		v++;
	*out = v;
	if (v->number >= 0)
		return CUBLAS_STATUS_SUCCESS;
	snprintf(text, sizeof text, "attribute %d is not supported", number);
	return call_refuse(name, text);
}

static cublasStatus_t
set(const char *name, const struct attribute *v, int number, void *to, const void *buf, size_t size)
{
	const struct attribute *a;
	cublasStatus_t s = find(name, v, number, to, &a);

	if (s != CUBLAS_STATUS_SUCCESS)
		return s;
	if (!buf || size != a->size)
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy((char *)to + a->offset, buf, size);
	return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
get(const char *name, const struct attribute *v, int number, const void *from, void *buf,
    size_t size, size_t *written)
{
	const struct attribute *a;
	cublasStatus_t s = find(name, v, number, from, &a);

	if (s != CUBLAS_STATUS_SUCCESS)
		return s;
	if (written)
		*written = a->size;
	if (size == 0)
		return written ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
	if (!buf || size < a->size)
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy(buf, (const char *)from + a->offset, a->size);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attr,
			       const void *buf, size_t size)
{
	struct desc *d = (struct desc *)(void *)desc;
	cublasStatus_t s = set(__func__, desc_attributes, (int)attr, d, buf, size);

	if (s != CUBLAS_STATUS_SUCCESS || !d->refused)
		return s;
	d->refused = NULL;
	return call_refuse(__func__, "scales and maxima of matrices are not supported");
}

cublasStatus_t
cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attr,
			       void *buf, size_t size, size_t *written)
{
	return get(__func__, desc_attributes, (int)attr, desc, buf, size, written);
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
				 cublasLtMatrixLayoutAttribute_t attr, const void *buf, size_t size)
{
	return set(__func__, layout_attributes, (int)attr, layout, buf, size);
}

cublasStatus_t
cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
				 cublasLtMatrixLayoutAttribute_t attr, void *buf, size_t size,
				 size_t *written)
{
	return get(__func__, layout_attributes, (int)attr, layout, buf, size, written);
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
				     cublasLtMatmulPreferenceAttributes_t attr, const void *buf,
				     size_t size)
{
	(void)size;
	return pref && buf && (unsigned)attr <= CUBLASLT_MATMUL_PREF_IMPL_MASK
		   ? CUBLAS_STATUS_SUCCESS
		   : CUBLAS_STATUS_INVALID_VALUE;
}

/* ------------------------------------------------------------------ making and ending them */

cublasStatus_t
cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size, cublasComputeType_t compute,
				cudaDataType scale)
{
	if (!desc || size < sizeof *desc)
		return CUBLAS_STATUS_INVALID_VALUE;
	memset(desc, 0, sizeof *desc);
	*(struct desc *)(void *)desc = (struct desc){.compute = (int32_t)compute,
						     .scale = (int32_t)scale,
						     .fill = CUBLAS_FILL_MODE_FULL,
						     .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
						     .aux_type = -1,
						     .bias_type = -1};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size, cudaDataType type,
				  uint64_t rows, uint64_t cols, int64_t ld)
{
	if (!layout || size < sizeof *layout)
		return CUBLAS_STATUS_INVALID_VALUE;
	memset(layout, 0, sizeof *layout);
	*(struct layout *)(void *)layout =
	    (struct layout){.type = type, .rows = rows, .cols = cols, .ld = ld, .batch = 1};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t pref, size_t size)
{
	if (!pref || size < sizeof *pref)
		return CUBLAS_STATUS_INVALID_VALUE;
	memset(pref, 0, sizeof *pref);
	return CUBLAS_STATUS_SUCCESS;
}

/* Allocate *out and let `init` fill it in. */
#define CREATE(out, init)                           \
	if (!(out))                                 \
		return CUBLAS_STATUS_INVALID_VALUE; \
	*(out) = malloc(sizeof **(out));            \
	return *(out) ? (init) : CUBLAS_STATUS_ALLOC_FAILED

cublasStatus_t
cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
			 cudaDataType scale)
{
	CREATE(desc, cublasLtMatmulDescInit(*desc, compute, scale));
}

cublasStatus_t
cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
			   uint64_t cols, int64_t ld)
{
	CREATE(layout, cublasLtMatrixLayoutInit(*layout, type, rows, cols, ld));
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
	CREATE(pref, cublasLtMatmulPreferenceInit(*pref));
}

#define DESTROY(name, type)                   \
	cublasStatus_t name(type p)           \
	{                                     \
		free(p);                      \
		return CUBLAS_STATUS_SUCCESS; \
	}
DESTROY(cublasLtMatmulDescDestroy, cublasLtMatmulDesc_t)
DESTROY(cublasLtMatrixLayoutDestroy, cublasLtMatrixLayout_t)
DESTROY(cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t)

/* ------------------------------------------------------------------ handles: cuBLAS's are valid as well */

cublasStatus_t
cublasLtCreate(cublasLtHandle_t *handle)
{
	return cublasCreate_v2((cublasHandle_t *)(void *)handle);
}

cublasStatus_t
cublasLtDestroy(cublasLtHandle_t handle)
{
	return cublasDestroy_v2((cublasHandle_t)(void *)handle);
}

size_t
cublasLtGetVersion(void)
{
	return CUBLAS_VERSION;
}

size_t
cublasLtGetCudartVersion(void)
{
	return CUDART_VERSION;
}

cublasStatus_t
cublasLtGetProperty(libraryPropertyType type, int *value)
{
	return cublasGetProperty(type, value);
}

const char *
cublasLtGetStatusName(cublasStatus_t status)
{
	return cublasGetStatusName(status);
}

const char *
cublasLtGetStatusString(cublasStatus_t status)
{
	return cublasGetStatusString(status);
}

/* ------------------------------------------------------------------ products */

static const char name[] = "cublasLtMatmul";

static bool
is_epilogue(unsigned e)
{
	static const unsigned v[] = {CUBLASLT_EPILOGUE_DEFAULT,	 CUBLASLT_EPILOGUE_RELU,
				     CUBLASLT_EPILOGUE_BIAS,	 CUBLASLT_EPILOGUE_RELU_BIAS,
				     CUBLASLT_EPILOGUE_GELU,	 CUBLASLT_EPILOGUE_GELU_BIAS,
				     CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
				     CUBLASLT_EPILOGUE_DGELU,	 CUBLASLT_EPILOGUE_BGRADA,
				     CUBLASLT_EPILOGUE_BGRADB};

	for (size_t i = 0; i < sizeof v / sizeof v[0]; i++)
		if (v[i] == e)
			return true;
	return false;
}

/* What is not supported; NULL: everything is. */
static const char *
lacks(const struct desc *d, const struct layout *const v[4], const enum type type[4])
{
	if (!is_epilogue(d->epilogue))
		return "this epilogue is not supported";
	if (d->pointers > CUBLASLT_POINTER_MODE_DEVICE)
		return "vectors of alpha are not supported";
	if (d->trans[2] != CUBLAS_OP_N || d->fill != CUBLAS_FILL_MODE_FULL)
		return "a transposed or triangular C is not supported";
	for (int w = A; w <= D; w++)
		if (v[w]->order != CUBLASLT_ORDER_COL && v[w]->order != CUBLASLT_ORDER_ROW)
			return "the order of a matrix is neither COL nor ROW";
	if (v[C]->order != v[D]->order)
		return "C and D of different orders are not supported";
	if (d->epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
	    (type[A] == TYPE_F64 || v[D]->order == CUBLASLT_ORDER_ROW))
		return "an epilogue needs columns of floats";
	if (gemm_scalar((cublasComputeType_t)d->compute, type) == TYPE_NONE ||
	    type_of((cudaDataType)d->scale) != gemm_scalar((cublasComputeType_t)d->compute, type))
		return "this combination of types is not supported";
	return NULL;
}

static void
exchange(struct call *c)
{
	struct gemm *g = &c->gemm;
	struct gemm was = *g;
	struct operand a = c->x[A];

	c->x[A] = c->x[B];
	c->x[B] = a;
	g->m = was.n;
	g->n = was.m;
	for (int w = A; w <= B; w++) {
		g->ld[w] = was.ld[!w];
		g->stride[w] = was.stride[!w];
		g->type[w] = was.type[!w];
	}
	g->ta = !was.tb;
	g->tb = !was.ta;
}

/* Describe the product in c->gemm. A ROW matrix is the transposed COL matrix; so a product in a ROW matrix is the
 * product of the transposed operands, exchanged. */
static cublasStatus_t
describe(struct call *c, const struct desc *d, const struct layout *const v[4])
{
	struct gemm *g = &c->gemm;
	const char *why;
	bool t[2];

	for (int w = A; w <= D; w++) {
		g->type[w] = type_of((cudaDataType)v[w]->type);
		g->ld[w] = v[w]->ld;
		g->stride[w] = v[w]->stride;
		call_needs(c, v[w]->batch == v[D]->batch && v[w]->rows <= INT32_MAX &&
				  v[w]->cols <= INT32_MAX && (unsigned)d->trans[0] <= 2 &&
				  (unsigned)d->trans[1] <= 2);
	}
	why = lacks(d, v, g->type);
	if (why)
		return call_refuse(name, why);
	for (int w = A; w <= B; w++)
		t[w] = d->trans[w] != CUBLAS_OP_N;
	g->m = (int64_t)v[D]->rows;
	g->n = (int64_t)v[D]->cols;
	g->k = (int64_t)(t[A] ? v[A]->rows : v[A]->cols);
	call_needs(c, (t[A] ? v[A]->cols : v[A]->rows) == v[D]->rows &&
			  (t[B] ? v[B]->cols : v[B]->rows) == (uint64_t)g->k &&
			  (t[B] ? v[B]->rows : v[B]->cols) == v[D]->cols &&
			  v[C]->rows == v[D]->rows && v[C]->cols == v[D]->cols);
	g->ta = t[A] != (v[A]->order == CUBLASLT_ORDER_ROW);
	g->tb = t[B] != (v[B]->order == CUBLASLT_ORDER_ROW);
	g->batch = v[D]->batch;
	g->epilogue = d->epilogue;
	c->empty = g->m == 0 || g->n == 0 || g->batch == 0;
	if (v[D]->order == CUBLASLT_ORDER_ROW)
		exchange(c);
	return CUBLAS_STATUS_SUCCESS;
}

/* The vector and the matrix of the epilogue. */
static cublasStatus_t
describe_epilogue(struct call *c, const struct desc *d)
{
	struct gemm *g = &c->gemm;
	bool bias = d->epilogue &
		    (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);
	bool aux = d->epilogue & 128;

	g->bias_type = d->bias_type < 0 ? g->type[D] : type_of((cudaDataType)d->bias_type);
	g->aux_type = d->aux_type < 0 ? g->type[D] : type_of((cudaDataType)d->aux_type);
	if ((bias && g->bias_type == TYPE_NONE) || (aux && g->aux_type == TYPE_NONE) ||
	    (bias && g->bias_type == TYPE_F64) || (aux && g->aux_type == TYPE_F64))
		return call_refuse(name, "the type of a bias or auxiliary matrix is not supported");
	g->bias_stride = d->bias_stride;
	g->aux_ld = d->aux_ld;
	g->aux_stride = d->aux_stride;
	c->x[BIAS].p = bias ? d->bias : NULL;
	c->x[AUX].p = aux ? d->aux : NULL;
	call_needs(c, (!bias || d->bias) && (!aux || (d->aux && d->aux_ld >= g->m)));
	return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
build(struct call *c, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
      cublasLtMatrixLayout_t cc, cublasLtMatrixLayout_t d)
{
	const struct layout *const v[4] = {(const void *)a, (const void *)b, (const void *)cc,
					   (const void *)d};
	cublasStatus_t s;

	if (!desc || !a || !b || !cc || !d)
		return CUBLAS_STATUS_INVALID_VALUE;
	s = describe(c, (const void *)desc, v);
	return s == CUBLAS_STATUS_SUCCESS ? describe_epilogue(c, (const void *)desc) : s;
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
			       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
			       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
			       cublasLtMatmulPreference_t pref, int requested,
			       cublasLtMatmulHeuristicResult_t results[], int *returned)
{
	struct call call = {.name = name};
	cublasStatus_t s;

	if (!handle_is((const void *)handle))
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (!pref || !results || !returned || requested < 1)
		return CUBLAS_STATUS_INVALID_VALUE;
	*returned = 0;
	s = build(&call, desc, a, b, c, d);
	if (s == CUBLAS_STATUS_SUCCESS)
		s = call.status;
	if (s != CUBLAS_STATUS_SUCCESS)
		return s;
	results[0] = (cublasLtMatmulHeuristicResult_t){
	    .algo = {{1}}, .state = CUBLAS_STATUS_SUCCESS, .wavesCount = 1};
	*returned = 1;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
	       cublasLtMatrixLayout_t alayout, const void *b, cublasLtMatrixLayout_t blayout,
	       const void *beta, const void *c, cublasLtMatrixLayout_t clayout, void *d,
	       cublasLtMatrixLayout_t dlayout, const cublasLtMatmulAlgo_t *algo, void *workspace,
	       size_t nbytes, cudaStream_t stream)
{
	struct call call = {.name = name, .x = {{.p = a}, {.p = b}, {.p = c}, {.p = d}}};
	const struct desc *of = (const void *)desc;
	struct cublasContext h;
	cublasStatus_t s;

	(void)algo, (void)workspace, (void)nbytes;
	if (!handle_is((const void *)handle))
		return CUBLAS_STATUS_NOT_INITIALIZED;
	s = build(&call, desc, alayout, blayout, clayout, dlayout);
	if (s != CUBLAS_STATUS_SUCCESS)
		return s;
	h = *(const struct cublasContext *)(const void *)handle;
	h.stream = stream;
	h.pointers = (cublasPointerMode_t)of->pointers;
	if (cudaGetDevice(&h.ordinal) != cudaSuccess)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	call_needs(&call, beta != NULL);
	return gemm_submit(&h, &call, type_of((cudaDataType)of->scale), alpha, beta);
}

#define NO(name)                                                            \
	cublasStatus_t name(const void *first, ...)                         \
	{                                                                   \
		(void)first;                                                \
		return call_refuse(#name, "not supported by this library"); \
	}
GPUSIM_CUBLASLT_NO(NO)
