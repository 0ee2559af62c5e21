/*
 * kern_token.c - a picture as tokens: its patches, the class token and the positions that go with them, picking some.
 */
#include "kern/kern_impl.h"

#include <inttypes.h>
#include <string.h>

#include "mem/clones.h"

#define BLOCK 256 /* columns that are summed together */

/* ---- patches */

enum { P_Y, P_X, P_N, P_C, P_H, P_W, P_SIZE, P_DTYPE };

static enum rc
patches_run(struct kern_call *call)
{
	const union kernel_value *v = call->v;
	uint64_t n = v[P_N].u, c = v[P_C].u, h = v[P_H].u, w = v[P_W].u, p = v[P_SIZE].u;
	size_t size = kern_float(call, P_DTYPE);
	uint64_t plane = kern_product(call, "x", (uint64_t[]){c, h, w}, 3);
	unsigned char *y = kern_out(call, P_Y, n, plane, size);
	const unsigned char *x = kern_at(call, P_X, n, plane, size);

	if (p == 0 || h % p || w % p)
		kern_fail(call, RC_INVAL,
			  "size: %" PRIu64 " does not divide pictures of %" PRIu64 " x %" PRIu64, p,
			  h, w);
	kern_apart(call, P_Y, P_X);
	if (call->rc != RC_OK)
		return call->rc;
	for (uint64_t i = 0; i < n; i++, x += plane * size)
		for (uint64_t row = 0; row < h; row += p)
			for (uint64_t col = 0; col < w; col += p)
				for (uint64_t k = 0; k < c; k++)
					for (uint64_t line = 0; line < p; line++, y += p * size)
						memcpy(y,
						       x + ((k * h + row + line) * w + col) * size,
						       p * size);
	return RC_OK;
}

/*
 * patches - cut each picture into squares, from left to right and from the top down: a row of y is a patch, by channel,
 * line and column.
 *
 * y does not overlap x. Errors: RC_INVAL. Source: Dosovitskiy et al., arXiv:2010.11929.
 * Checked by: tests/unit/kern/t_kern_token.c
 */
const struct kernel kernel_patches = {
    .name = "patches",
    .summary = "cut pictures into square patches",
    .params =
	{
	    [P_Y] = {"y", KP_ADDR, false, 0, "[n,h/size,w/size,c,size,size] out"},
	    [P_X] = {"x", KP_ADDR, false, 0, "[n,c,h,w] in"},
	    [P_N] = {"n", KP_COUNT, false, 0, "pictures"},
	    [P_C] = {"c", KP_COUNT, false, 0, "channels"},
	    [P_H] = {"h", KP_COUNT, false, 0, "rows of a picture"},
	    [P_W] = {"w", KP_COUNT, false, 0, "columns of a picture"},
	    [P_SIZE] = {"size", KP_COUNT, false, 0, "rows and columns of a patch; divides h and w"},
	    [P_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = patches_run,
};

/* ---- tokens */

/* y[j] = a[j] + b[j], or y[j] += b[j] */
#define SUMS(type)                                                                              \
	HOT_CLONES static void sum_##type(type *y, const type *a, const type *b, size_t n)      \
	{                                                                                       \
		size_t j;                                                                       \
                                                                                                \
		HOT_LOOP                                                                        \
		for (j = 0; j < n; j++)                                                         \
			y[j] = a[j] + b[j];                                                     \
	}                                                                                       \
	static void tokens_##type(type *y, const type *x, const type *first, const type *place, \
				  size_t n, size_t t, size_t h)                                 \
	{                                                                                       \
		for (size_t i = 0; i < n; i++, y += t * h, x += (t - 1) * h) {                  \
			sum_##type(y, first, place, h);                                         \
			sum_##type(y + h, x, place + h, (t - 1) * h);                           \
		}                                                                               \
	}                                                                                       \
	/* Sums over the samples of n columns, from the first sample down. */                   \
	HOT_CLONES static void columns_##type(double *restrict sum, const type *dy,             \
					      size_t samples, size_t step, size_t n)            \
	{                                                                                       \
		for (size_t i = 0; i < samples; i++, dy += step)                                \
			for (size_t j = 0; j < n; j++)                                          \
				sum[j] += (double)dy[j];                                        \
	}
SUMS(float)
SUMS(double)

enum { T_Y, T_X, T_FIRST, T_PLACE, T_N, T_TOKENS, T_COLS, T_DTYPE };

static enum rc
tokens_run(struct kern_call *call)
{
	static const unsigned areas[] = {T_X, T_FIRST, T_PLACE};
	uint64_t n = call->v[T_N].u, t = call->v[T_TOKENS].u, h = call->v[T_COLS].u;
	size_t size = kern_float(call, T_DTYPE);
	uint64_t one = kern_product(call, "y", (uint64_t[]){t, h}, 2);
	void *y = kern_out(call, T_Y, n, one, size);
	const void *x = kern_at(call, T_X, n, t ? one - h : 0, size);
	const void *first = kern_at(call, T_FIRST, h, 1, size),
		   *place = kern_at(call, T_PLACE, t, h, size);

	if (t == 0)
		kern_fail(call, RC_INVAL, "tokens: 0; the first one is the class token");
	kern_apart_from(call, T_Y, areas, 3);
	if (call->rc != RC_OK)
		return call->rc;
	KERN_LOOP(size, tokens, y, x, first, place, n, t, h);
	return RC_OK;
}

/*
 * tokens - y of each sample: the class token, then the sample's rows of x, each plus the vector of its place.
 *
 * y overlaps nothing. Errors: RC_INVAL. Source: Dosovitskiy et al., arXiv:2010.11929, equation 1.
 * Checked by: tests/unit/kern/t_kern_token.c
 */
const struct kernel kernel_tokens = {
    .name = "tokens",
    .summary = "put a class token before each sample's rows, and add places",
    .params =
	{
	    [T_Y] = {"y", KP_ADDR, false, 0, "[n,tokens,cols] out"},
	    [T_X] = {"x", KP_ADDR, false, 0, "[n,tokens-1,cols] in"},
	    [T_FIRST] = {"first", KP_ADDR, false, 0, "[cols] the class token"},
	    [T_PLACE] = {"place", KP_ADDR, false, 0, "[tokens,cols] vectors of the places"},
	    [T_N] = {"n", KP_COUNT, false, 0, "samples"},
	    [T_TOKENS] = {"tokens", KP_COUNT, false, 0, "tokens of a sample, with the class token"},
	    [T_COLS] = {"cols", KP_COUNT, false, 0, "elements of a token"},
	    [T_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = tokens_run,
};

enum { TG_DFIRST, TG_DPLACE, TG_DY, TG_N, TG_TOKENS, TG_COLS, TG_DTYPE };

static enum rc
tokens_grad_run(struct kern_call *call)
{
	static const unsigned areas[] = {TG_DFIRST, TG_DPLACE, TG_DY};
	uint64_t n = call->v[TG_N].u, t = call->v[TG_TOKENS].u, h = call->v[TG_COLS].u;
	size_t size = kern_float(call, TG_DTYPE), count;
	uint64_t one = kern_product(call, "dy", (uint64_t[]){t, h}, 2);
	void *dfirst = kern_out(call, TG_DFIRST, h, 1, size);
	unsigned char *dplace = kern_out(call, TG_DPLACE, t, h, size);
	const unsigned char *dy = kern_at(call, TG_DY, n, one, size);

	if (t == 0)
		kern_fail(call, RC_INVAL, "tokens: 0; the first one is the class token");
	kern_apart_from(call, TG_DFIRST, areas, 3);
	kern_apart_from(call, TG_DPLACE, areas, 3);
	if (call->rc != RC_OK)
		return call->rc;
	for (uint64_t at = 0; at < one; at += count) {
		double sum[BLOCK] = {0};

		count = one - at < BLOCK ? one - at : BLOCK;
		if (size == sizeof(float))
			columns_float(sum, (const float *)dy + at, n, one, count);
		else
			columns_double(sum, (const double *)dy + at, n, one, count);
		for (size_t j = 0; j < count; j++)
			kern_put(dplace, at + j, size, sum[j]);
	}
	memcpy(dfirst, dplace, h * size);
	return RC_OK;
}

/*
 * tokens_grad - the gradients of tokens' class token and places: sums over the samples, in double. Those of its rows
 * are dy's own, without the class token: see pick.
 *
 * Outputs overlap nothing. Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_token.c
 */
const struct kernel kernel_tokens_grad = {
    .name = "tokens_grad",
    .summary = "gradients of tokens' class token and places",
    .params =
	{
	    [TG_DFIRST] = {"dfirst", KP_ADDR, false, 0, "[cols] out"},
	    [TG_DPLACE] = {"dplace", KP_ADDR, false, 0, "[tokens,cols] out"},
	    [TG_DY] = {"dy", KP_ADDR, false, 0, "[n,tokens,cols] gradient of the output"},
	    [TG_N] = {"n", KP_COUNT, false, 0, "samples"},
	    [TG_TOKENS] = {"tokens", KP_COUNT, false, 0,
			   "tokens of a sample, with the class token"},
	    [TG_COLS] = {"cols", KP_COUNT, false, 0, "elements of a token"},
	    [TG_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = tokens_grad_run,
};

/* ---- pick */

enum { K_OUT, K_IN, K_N, K_TOKENS, K_COLS, K_FIRST, K_COUNT, K_DTYPE };

/* Both kernels: some tokens of each sample, `wide`, and a matrix of them alone, `own`. */
static enum rc
pick(struct kern_call *call, bool back)
{
	uint64_t n = call->v[K_N].u, t = call->v[K_TOKENS].u, h = call->v[K_COLS].u;
	uint64_t first = call->v[K_FIRST].u, count = call->v[K_COUNT].u;
	size_t size = kern_float(call, K_DTYPE), part, whole;
	unsigned char *out, *in;

	if (first > t || count > t - first)
		kern_fail(call, RC_INVAL, "count: tokens %" PRIu64 " to %" PRIu64 " of %" PRIu64,
			  first, first + count, t);
	part = kern_product(call, "part", (uint64_t[]){count, h}, 2);
	whole = kern_product(call, "sample", (uint64_t[]){t, h}, 2);
	out = kern_out(call, K_OUT, n, back ? whole : part, size);
	in = kern_at(call, K_IN, n, back ? part : whole, size);
	kern_apart(call, K_OUT, K_IN);
	if (call->rc != RC_OK)
		return call->rc;
	if (back)
		memset(out, 0, n * whole * size);
	for (uint64_t i = 0; i < n; i++)
		if (back)
			memcpy(out + (i * whole + first * h) * size, in + i * part * size,
			       part * size);
		else
			memcpy(out + i * part * size, in + (i * whole + first * h) * size,
			       part * size);
	return RC_OK;
}

static enum rc
pick_run(struct kern_call *call)
{
	return pick(call, false);
}

/*
 * pick - some tokens of each sample; by default the first one, the class token.
 *
 * y does not overlap x. Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_token.c
 */
const struct kernel kernel_pick = {
    .name = "pick",
    .summary = "some tokens of each sample",
    .params =
	{
	    [K_OUT] = {"y", KP_ADDR, false, 0, "[n,count,cols] out"},
	    [K_IN] = {"x", KP_ADDR, false, 0, "[n,tokens,cols] in"},
	    [K_N] = {"n", KP_COUNT, false, 0, "samples"},
	    [K_TOKENS] = {"tokens", KP_COUNT, false, 0, "tokens of a sample"},
	    [K_COLS] = {"cols", KP_COUNT, false, 0, "elements of a token"},
	    [K_FIRST] = {"first", KP_COUNT, true, 0, "the first token"},
	    [K_COUNT] = {"count", KP_COUNT, true, 1, "tokens from it on"},
	    [K_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = pick_run,
};

static enum rc
pick_grad_run(struct kern_call *call)
{
	return pick(call, true);
}

/*
 * pick_grad - the gradient of pick's input: dy in the place of those tokens, 0 elsewhere.
 *
 * dx does not overlap dy. Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_token.c
 */
const struct kernel kernel_pick_grad = {
    .name = "pick_grad",
    .summary = "gradient of pick's input",
    .params =
	{
	    [K_OUT] = {"dx", KP_ADDR, false, 0, "[n,tokens,cols] out"},
	    [K_IN] = {"dy", KP_ADDR, false, 0, "[n,count,cols] gradient of the output"},
	    [K_N] = {"n", KP_COUNT, false, 0, "samples"},
	    [K_TOKENS] = {"tokens", KP_COUNT, false, 0, "tokens of a sample"},
	    [K_COLS] = {"cols", KP_COUNT, false, 0, "elements of a token"},
	    [K_FIRST] = {"first", KP_COUNT, true, 0, "the first token"},
	    [K_COUNT] = {"count", KP_COUNT, true, 1, "tokens from it on"},
	    [K_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = pick_grad_run,
};
