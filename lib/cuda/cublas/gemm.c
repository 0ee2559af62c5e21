/*
 * Products of matrices, of cuBLAS and cublasLt: by OpenBLAS at once, or by blocks in f32.
 *
 * A product of shorter floats, or with an epilogue, is made in blocks of MB x NB that fit the cache: pieces of a
 * and b are widened to f32, multiplied by sgemm, summed over k in f32; then alpha, beta and the epilogue are
 * applied, and the result is rounded to the nearest even, once.
 */
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cublas/cublas_impl.h"
#include "mem/half.h"

#define MB 512 /* a block's rows, columns, and piece of k */
#define NB 512
#define KB 1024

/* The matrices of one product of a batch. */
struct item {
	const char *a, *b, *c, *bias;
	char *d, *aux;
	void *grad; /* the bias, as an output */
	double alpha, beta;
};

static _Thread_local float *scratch; /* of a worker, kept: the block, and a piece of a and of b */

static const char *
element(enum type t, const char *p, int64_t i)
{
	return p + i * (int64_t)type_size(t);
}

static void
widen(enum type t, const char *p, float *out, int64_t n)
{
	const uint16_t *h = (const uint16_t *)(const void *)p;

	if (t == TYPE_F32)
		memcpy(out, p, (size_t)n * sizeof *out);
	else if (t == TYPE_F16)
		for (int64_t i = 0; i < n; i++)
			out[i] = f16_to_f32(h[i]);
	else
		for (int64_t i = 0; i < n; i++)
			out[i] = bf16_to_f32(h[i]);
}

static void
narrow(enum type t, const float *in, char *p, int64_t n)
{
	uint16_t *h = (uint16_t *)(void *)p;

	if (t == TYPE_F32)
		memcpy(p, in, (size_t)n * sizeof *in);
	else if (t == TYPE_F16)
		for (int64_t i = 0; i < n; i++)
			h[i] = f16_from_f32(in[i]);
	else
		for (int64_t i = 0; i < n; i++)
			h[i] = bf16_from_f32(in[i]);
}

/* ------------------------------------------------------------------ epilogues */

#define GELU_SCALE 0.7978845608028654f /* sqrt(2 / pi) */

static float
gelu(float x)
{
	return 0.5f * x * (1 + tanhf(GELU_SCALE * (x + 0.044715f * x * x * x)));
}

static float
dgelu(float x)
{
	float t = tanhf(GELU_SCALE * (x + 0.044715f * x * x * x));

	return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * GELU_SCALE * (1 + 3 * 0.044715f * x * x);
}

/* Apply the epilogue to v: rows i0 to i0 + n of column j. */
static void
apply(const struct gemm *g, const struct item *x, int64_t i0, int64_t j, int64_t n, float *v)
{
	unsigned e = g->epilogue;
	float t[MB];
	char *aux = x->aux;

	if (aux)
		aux += (i0 + j * g->aux_ld) * (int64_t)type_size(g->aux_type);
	if (e & CUBLASLT_EPILOGUE_BIAS) {
		widen(g->bias_type, element(g->bias_type, x->bias, i0), t, n);
		for (int64_t i = 0; i < n; i++)
			v[i] += t[i];
	}
	if (e & CUBLASLT_EPILOGUE_RELU)
		for (int64_t i = 0; i < n; i++)
			v[i] = v[i] > 0 ? v[i] : 0;
	if (e == CUBLASLT_EPILOGUE_DGELU) {
		widen(g->aux_type, aux, t, n);
		for (int64_t i = 0; i < n; i++)
			v[i] *= dgelu(t[i]);
	} else if (e & CUBLASLT_EPILOGUE_GELU) {
		if (aux)
			narrow(g->aux_type, v, aux, n);
		for (int64_t i = 0; i < n; i++)
			v[i] = gelu(v[i]);
	}
}

/* Sum a matrix over its rows (out has a number for each column) or across its columns. False: out of memory. */
static bool
sum(enum type t, const char *p, int64_t ld, int64_t rows, int64_t cols, bool across,
    enum type out_type, void *out)
{
	int64_t n = across ? rows : cols;
	float *v = calloc((size_t)n + (size_t)rows, sizeof *v), *col = v + n;

	for (int64_t j = 0; v && j < cols; j++) {
		widen(t, element(t, p, j * ld), col, rows);
		for (int64_t i = 0; i < rows; i++)
			v[across ? i : j] += col[i];
	}
	if (v)
		narrow(out_type, v, out, n);
	free(v);
	return v != NULL;
}

/* ------------------------------------------------------------------ by blocks */

struct block {
	const float *p;
	int64_t ld;
};

/* rows x cols of a matrix in f32: itself, or widened into room. */
static struct block
piece(enum type t, const char *p, int64_t ld, int64_t row, int64_t col, int64_t rows, int64_t cols,
      float *room)
{
	if (t == TYPE_F32)
		return (struct block){(const float *)(const void *)p + row + col * ld, ld};
	for (int64_t j = 0; j < cols; j++)
		widen(t, element(t, p, row + (col + j) * ld), room + j * rows, rows);
	return (struct block){room, rows};
}

/* A block of op(a) op(b), from row i0 and column j0 on. */
static void
sum_block(const struct gemm *g, const struct item *x, int64_t i0, int64_t j0, int64_t mb,
	  int64_t nb, float *out)
{
	float *room_a = out + MB * NB, *room_b = room_a + MB * KB;

	memset(out, 0, MB * (size_t)nb * sizeof *out);
	for (int64_t k0 = 0; k0 < g->k; k0 += KB) {
		int64_t kb = g->k - k0 < KB ? g->k - k0 : KB;
		struct block a = g->ta ? piece(g->type[A], x->a, g->ld[A], k0, i0, kb, mb, room_a)
				       : piece(g->type[A], x->a, g->ld[A], i0, k0, mb, kb, room_a);
		struct block b = g->tb ? piece(g->type[B], x->b, g->ld[B], j0, k0, nb, kb, room_b)
				       : piece(g->type[B], x->b, g->ld[B], k0, j0, kb, nb, room_b);

		cblas_sgemm(CblasColMajor, g->ta ? CblasTrans : CblasNoTrans,
			    g->tb ? CblasTrans : CblasNoTrans, (int)mb, (int)nb, (int)kb, 1, a.p,
			    (int)a.ld, b.p, (int)b.ld, 1, out, MB);
	}
}

static void
finish_block(const struct gemm *g, const struct item *x, int64_t i0, int64_t j0, int64_t mb,
	     int64_t nb, float *v)
{
	float alpha = (float)x->alpha, beta = (float)x->beta, old[MB];

	for (int64_t j = j0; j < j0 + nb; j++, v += MB) {
		for (int64_t i = 0; i < mb; i++)
			v[i] *= alpha;
		if (beta != 0) {
			widen(g->type[C], element(g->type[C], x->c, i0 + j * g->ld[C]), old, mb);
			for (int64_t i = 0; i < mb; i++)
				v[i] += beta * old[i];
		}
		apply(g, x, i0, j, mb, v);
		narrow(g->type[D], v, x->d + (i0 + j * g->ld[D]) * (int64_t)type_size(g->type[D]),
		       mb);
	}
}

static enum rc
by_blocks(const struct gemm *g, const struct item *x, struct err *err)
{
	bool ok = true;

	if (!scratch)
		scratch = malloc((MB * NB + MB * KB + KB * NB) * sizeof *scratch);
	for (int64_t j0 = 0; scratch && j0 < g->n; j0 += NB)
		for (int64_t i0 = 0; i0 < g->m; i0 += MB) {
			int64_t mb = g->m - i0 < MB ? g->m - i0 : MB;
			int64_t nb = g->n - j0 < NB ? g->n - j0 : NB;

			sum_block(g, x, i0, j0, mb, nb, scratch);
			finish_block(g, x, i0, j0, mb, nb, scratch);
		}
	if (g->epilogue == CUBLASLT_EPILOGUE_BGRADA)
		ok = sum(g->type[A], x->a, g->ld[A], g->ta ? g->k : g->m, g->ta ? g->m : g->k,
			 !g->ta, g->bias_type, x->grad);
	if (g->epilogue == CUBLASLT_EPILOGUE_BGRADB)
		ok = sum(g->type[B], x->b, g->ld[B], g->tb ? g->n : g->k, g->tb ? g->k : g->n,
			 g->tb, g->bias_type, x->grad);
	return scratch && ok ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

/* ------------------------------------------------------------------ at once */

/* Set d to c, or to 0 if c is not read: some versions of OpenBLAS multiply what is there by 0. */
static void
prepare(const struct gemm *g, const struct item *x)
{
	size_t size = type_size(g->type[D]), nbytes = (size_t)g->m * size;

	if (x->beta == 0 && g->m > 1 && g->n > 1)
		return;
	for (int64_t j = 0; j < g->n; j++) {
		char *to = x->d + j * g->ld[D] * (int64_t)size;

		if (x->beta == 0)
			memset(to, 0, nbytes);
		else if (x->c != x->d)
			memcpy(to, x->c + j * g->ld[C] * (int64_t)size, nbytes);
	}
}

static void
at_once(const struct gemm *g, const struct item *x)
{
	int ta = g->ta ? CblasTrans : CblasNoTrans, tb = g->tb ? CblasTrans : CblasNoTrans;
	int m = (int)g->m, n = (int)g->n, k = (int)g->k;

	prepare(g, x);
	if (g->type[A] == TYPE_F32)
		cblas_sgemm(CblasColMajor, ta, tb, m, n, k, (float)x->alpha, (const void *)x->a,
			    (int)g->ld[A], (const void *)x->b, (int)g->ld[B], (float)x->beta,
			    (void *)x->d, (int)g->ld[D]);
	else
		cblas_dgemm(CblasColMajor, ta, tb, m, n, k, x->alpha, (const void *)x->a,
			    (int)g->ld[A], (const void *)x->b, (int)g->ld[B], x->beta, (void *)x->d,
			    (int)g->ld[D]);
}

/* ------------------------------------------------------------------ the call */

static bool
is_uniform(const struct gemm *g)
{
	return g->type[A] == g->type[B] && g->type[A] == g->type[C] && g->type[A] == g->type[D] &&
	       (g->type[A] == TYPE_F32 || g->type[A] == TYPE_F64) &&
	       g->epilogue == CUBLASLT_EPILOGUE_DEFAULT;
}

/* Bytes of one matrix. */
static size_t
span(const struct gemm *g, enum which w)
{
	bool t = w == A ? g->ta : w == B ? g->tb : false;
	int64_t rows = w == B ? g->k : g->m, cols = w == A ? g->k : g->n;

	if (t)
		return (size_t)((rows - 1) * g->ld[w] + cols) * type_size(g->type[w]);
	return (size_t)((cols - 1) * g->ld[w] + rows) * type_size(g->type[w]);
}

/* The place of matrix w of item i; NULL also: it is not used. */
static char *
place(const struct call *c, enum which w, int i, struct err *err)
{
	const struct gemm *g = &c->gemm;

	if (!c->x[w].nbytes)
		return NULL;
	if (g->arrays)
		return call_of_array(c, w, i, span(g, w), err);
	return (char *)c->x[w].at + i * g->stride[w] * (int64_t)type_size(g->type[w]);
}

static enum rc
run_gemm(struct call *c, struct err *err)
{
	const struct gemm *g = &c->gemm;
	enum rc rc = RC_OK;

	err->rc = RC_OK;
	for (int i = 0; i < g->batch && rc == RC_OK; i++) {
		struct item x = {.a = place(c, A, i, err),
				 .b = place(c, B, i, err),
				 .c = place(c, C, i, err),
				 .d = place(c, D, i, err),
				 .alpha = c->alpha,
				 .beta = c->beta};

		rc = err->rc;
		if (c->x[BIAS].nbytes) {
			x.grad = (char *)c->x[BIAS].at +
				 i * g->bias_stride * (int64_t)type_size(g->bias_type);
			x.bias = x.grad;
		}
		if (c->x[AUX].nbytes)
			x.aux = (char *)c->x[AUX].at +
				i * g->aux_stride * (int64_t)type_size(g->aux_type);
		if (rc == RC_OK && is_uniform(g))
			at_once(g, &x);
		else if (rc == RC_OK)
			rc = by_blocks(g, &x, err);
	}
	return rc;
}

/* Note the bytes of an operand with a stride. */
static void
needs(struct call *c, enum which w, size_t one, int64_t stride, enum type t)
{
	const struct gemm *g = &c->gemm;

	call_needs(c, stride >= 0 || g->batch <= 1);
	c->x[w].nbytes = one + (size_t)(g->batch - 1) * (size_t)stride * type_size(t);
}

static void
check(struct call *c)
{
	const struct gemm *g = &c->gemm;
	int64_t rows[4] = {g->ta ? g->k : g->m, g->tb ? g->n : g->k, g->m, g->m};

	call_needs(c, g->m >= 0 && g->n >= 0 && g->k >= 0 && g->batch >= 0);
	for (int w = A; w <= D; w++)
		call_needs(c, g->ld[w] >= (rows[w] > 1 ? rows[w] : 1) && g->ld[w] <= INT_MAX);
}

cublasStatus_t
gemm_submit(const struct cublasContext *h, struct call *c, enum type scalar, const void *alpha,
	    const void *beta)
{
	const struct gemm *g = &c->gemm;
	bool multiplied, added;

	c->run = run_gemm;
	check(c);
	call_scalars(c, h, scalar, alpha, beta);
	if (c->status != CUBLAS_STATUS_SUCCESS || c->empty)
		return call_submit(h, c);
	multiplied = g->k > 0 && (c->x[ALPHA].p || c->alpha != 0);
	added = c->x[BETA].p || c->beta != 0;
	if (!multiplied)
		c->gemm.k = 0;
	for (int w = A; w <= D; w++) {
		if ((w <= B && !multiplied) || (w == C && !added))
			continue;
		if (g->arrays)
			c->x[w].nbytes = (size_t)g->batch * sizeof(void *);
		else
			needs(c, w, span(g, w), g->stride[w], g->type[w]);
	}
	if (c->x[BIAS].p)
		needs(c, BIAS,
		      (size_t)(g->epilogue == CUBLASLT_EPILOGUE_BGRADB ? g->n : g->m) *
			  type_size(g->bias_type),
		      g->bias_stride, g->bias_type);
	if (c->x[AUX].p)
		needs(c, AUX, (size_t)((g->n - 1) * g->aux_ld + g->m) * type_size(g->aux_type),
		      g->aux_stride, g->aux_type);
	return call_submit(h, c);
}

enum type
gemm_scalar(cublasComputeType_t compute, const enum type type[4])
{
	bool doubles = false, halves = true;

	for (int w = A; w <= D; w++) {
		if (type[w] == TYPE_NONE)
			return TYPE_NONE;
		doubles |= type[w] == TYPE_F64;
		halves &= type[w] == TYPE_F16;
	}
	if (type[A] != type[B] || (doubles && (type[A] != type[C] || type[A] != type[D])))
		return TYPE_NONE;
	switch ((int)compute) {
	case CUBLAS_COMPUTE_64F:
	case CUBLAS_COMPUTE_64F_PEDANTIC:
		return doubles ? TYPE_F64 : TYPE_NONE;
	case CUBLAS_COMPUTE_16F:
	case CUBLAS_COMPUTE_16F_PEDANTIC:
		return halves ? TYPE_F16 : TYPE_NONE;
	case CUBLAS_COMPUTE_32F:
	case CUBLAS_COMPUTE_32F_PEDANTIC:
	case CUBLAS_COMPUTE_32F_FAST_16F:
	case CUBLAS_COMPUTE_32F_FAST_16BF:
	case CUBLAS_COMPUTE_32F_FAST_TF32:
		return doubles ? TYPE_NONE : TYPE_F32;
	default:
		return TYPE_NONE;
	}
}
