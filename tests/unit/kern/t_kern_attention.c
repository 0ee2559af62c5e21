/* Attention in blocks against the textbook's loops, its gradients against differences and against one block. */
#define KT_NBYTES (2u << 20)
#include "kern_test.h"

struct heads {
	size_t samples, tokens, heads, dim, block, size;
	uint64_t qkv, y, lse, dy, dqkv;
	enum gpusim_dtype t;
};

static struct heads
heads_new(size_t samples, size_t tokens, size_t heads, size_t dim, size_t block,
	  enum gpusim_dtype t)
{
	struct heads v = {.samples = samples,
			  .tokens = tokens,
			  .heads = heads,
			  .dim = dim,
			  .block = block,
			  .size = dtype_size(t),
			  .t = t};
	size_t n = samples * tokens * heads * dim;

	v.qkv = kt_vector(3 * n, v.size);
	v.y = kt_vector(n + 1, v.size);
	v.lse = kt_vector(samples * tokens * heads + 1, v.size);
	v.dy = kt_vector(n, v.size);
	v.dqkv = kt_vector(3 * n + 1, v.size);
	return v;
}

#define SHAPE(v)                                                                      \
	U("samples", (v)->samples), U("tokens", (v)->tokens), U("heads", (v)->heads), \
	    U("dim", (v)->dim), U("block", (v)->block), U("dtype", (v)->t)
#define FORWARD(v) U("y", (v)->y), U("qkv", (v)->qkv), U("lse", (v)->lse), SHAPE(v)
#define BACKWARD(v)                                                                 \
	U("dqkv", (v)->dqkv), U("dy", (v)->dy), U("qkv", (v)->qkv), U("y", (v)->y), \
	    U("lse", (v)->lse), SHAPE(v)

static bool
forward(void *ctx)
{
	struct heads *v = ctx;

	return kt_run("attention", ARGS(FORWARD(v))) == RC_OK;
}

/* Element c of a token's query (0), key (1) or value (2). */
static long double
element(const struct heads *v, size_t n, size_t token, size_t which, size_t head, size_t c)
{
	return kt_get(v->qkv,
		      (((n * v->tokens + token) * 3 + which) * v->heads + head) * v->dim + c,
		      v->size);
}

/* The textbook's: all scores, their exponentials, the weighted sum of the values. */
static bool
row_same(const struct heads *v, size_t n, size_t h, size_t i)
{
	long double score[256], most = -INFINITY, sum = 0, y;
	double eps = v->size == 4 ? 0x1p-20 : 0x1p-46;
	bool good = true;

	for (size_t j = 0; j < v->tokens; j++) {
		score[j] = 0;
		for (size_t c = 0; c < v->dim; c++)
			score[j] += element(v, n, i, 0, h, c) * element(v, n, j, 1, h, c);
		score[j] /= sqrtl(v->dim);
		most = score[j] > most ? score[j] : most;
	}
	eps *= 1 + (double)fabsl(most);
	for (size_t j = 0; j < v->tokens; j++)
		sum += expl(score[j] - most);
	for (size_t c = 0; c < v->dim && good; c++) {
		y = 0;
		for (size_t j = 0; j < v->tokens; j++)
			y += expl(score[j] - most) / sum * element(v, n, j, 2, h, c);
		good = kt_near(
		    "y", c,
		    kt_get(v->y, ((n * v->tokens + i) * v->heads + h) * v->dim + c, v->size),
		    (double)y, eps);
	}
	return good &&
	       kt_near("lse", i, kt_get(v->lse, (n * v->heads + h) * v->tokens + i, v->size),
		       (double)(most + logl(sum)), 4 * eps);
}

/* Forward against the reference; nothing beside the outputs changes. */
static bool
check(const struct heads *v)
{
	size_t n = v->samples * v->tokens * v->heads;
	double guard[] = {kt_get(v->y, n * v->dim, v->size), kt_get(v->lse, n, v->size),
			  kt_get(v->dqkv, 3 * n * v->dim, v->size)};
	bool good =
	    forward((void *)(uintptr_t)v) && kt_run("attention_grad", ARGS(BACKWARD(v))) == RC_OK;

	for (size_t k = 0; k < n && good; k++)
		good =
		    row_same(v, k / v->tokens / v->heads, k / v->tokens % v->heads, k % v->tokens);
	good = good && kt_get(v->y, n * v->dim, v->size) == guard[0] &&
	       kt_get(v->lse, n, v->size) == guard[1] &&
	       kt_get(v->dqkv, 3 * n * v->dim, v->size) == guard[2];
	if (!good)
		printf("# %zu x %zu x %zu x %zu, %zu at a time: %s\n", v->samples, v->tokens,
		       v->heads, v->dim, v->block, kt_err.text);
	return good;
}

/* Gradients in blocks are those of the plain loops; scores of thousands are rounded to thousands of times the eps. */
static bool
blocks_agree(struct heads v, double scores)
{
	size_t n = 3 * v.samples * v.tokens * v.heads * v.dim;
	double *whole = malloc(n * sizeof *whole), largest = 0,
	       eps = scores * (v.size == 4 ? 0x1p-20 : 0x1p-46);
	bool good = check(&v);

	for (size_t i = 0; i < n; i++) {
		whole[i] = kt_get(v.dqkv, i, v.size);
		largest = fmax(largest, fabs(whole[i]));
	}
	v.block = 0;
	good = good && check(&v) && largest > 0;
	for (size_t i = 0; i < n && good; i++)
		good = kt_near("dqkv", i, kt_get(v.dqkv, i, v.size), whole[i], eps * largest);
	free(whole);
	return good;
}

static void
sizes(enum gpusim_dtype t)
{
	static const size_t tokens[] = {1, 2, 15, 16, 17, 33, 50}, dims[] = {1, 3, 8, 16, 20, 64};
	bool good = true;

	for (size_t i = 0; i < sizeof tokens / sizeof *tokens && good; i++)
		for (size_t j = 0; j < sizeof dims / sizeof *dims && good; j++) {
			struct heads v;

			kt_open();
			v = heads_new(2, tokens[i], 1 + j % 3, dims[j], 16, t);
			good = blocks_agree(v, 1);
			v.block = 7;
			good = good && blocks_agree(v, 1);
			kt_close();
		}
	ok(good, "attention %s: many sizes and blocks", dtype_name(t));
}

static void
differences(void)
{
	static const size_t blocks[] = {0, 2, 32};
	bool good = true;

	for (size_t i = 0; i < 3; i++) {
		struct heads v;
		struct kt_slope s;

		kt_open();
		v = heads_new(2, 5, 3, 4, blocks[i], GPUSIM_F64);
		s = (struct kt_slope){forward, &v, v.y, v.dy, 2 * 5 * 3 * 4};
		good = good && forward(&v) &&
		       kt_run("attention_grad", ARGS(BACKWARD(&v))) == RC_OK &&
		       kt_gradient("qkv", &s, v.qkv, 3 * s.ny, v.dqkv, 1e-8);
		kt_close();
	}
	ok(good, "attention: gradients are what differences say");
}

/* Scores of 1000 and more, which overflow without their maximum. */
static void
large(enum gpusim_dtype t)
{
	struct heads v;
	bool good = true;

	kt_open();
	v = heads_new(1, 40, 1, 8, 16, t);
	for (size_t i = 0; i < 40 * 3 * 8; i++)
		if (i / 8 % 3 < 2)
			kt_put(v.qkv, i, v.size, 60 * kt_get(v.qkv, i, v.size));
	good = blocks_agree(v, 1000);
	kt_close();
	ok(good, "attention %s: large scores", dtype_name(t));
}

static void
refusals(void)
{
	struct heads v;

	kt_open();
	v = heads_new(2, 5, 2, 4, 3, GPUSIM_F32);
	kt_any_count = "block";
	ok(kt_sweep("attention", NULL, ARGS(FORWARD(&v))), "attention: bad arguments");
	ok(kt_sweep("attention_grad", NULL, ARGS(BACKWARD(&v))), "attention_grad: bad arguments");
	kt_any_count = NULL;
	v.tokens = 5000;
	v.samples = v.heads = v.dim = 1;
	ok(kt_refuses(RC_INVAL, "attention", ARGS(FORWARD(&v))) &&
	       strstr(kt_err.text, "at most 4096"),
	   "too many tokens");
	v.tokens = 5;
	v.samples = 0;
	ok(kt_run("attention", ARGS(FORWARD(&v))) == RC_OK &&
	       kt_run("attention_grad", ARGS(BACKWARD(&v))) == RC_OK,
	   "no samples");
	kt_close();
}

int
main(void)
{
	sizes(GPUSIM_F32);
	sizes(GPUSIM_F64);
	differences();
	large(GPUSIM_F32);
	large(GPUSIM_F64);
	refusals();
	return tap_done();
}
