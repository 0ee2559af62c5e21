/*
 * kern_token.c - a picture as a row of tokens: its patches, and the class token and the positions that go with them.
 */
#include "kern/kern_impl.h"

#include <inttypes.h>
#include <string.h>

#include "mem/clones.h"

/* ---- patches */

enum { P_Y, P_X, P_N, P_C, P_H, P_W, P_SIZE, P_DTYPE };

static enum rc
patches_run(struct kern_call *call)
{
	const union kernel_value *v = call->v;
	uint64_t n = v[P_N].u, c = v[P_C].u, h = v[P_H].u, w = v[P_W].u, p = v[P_SIZE].u;
	size_t size = kern_float(call, P_DTYPE);
	uint64_t plane = kern_product(call, "x", (uint64_t[]){c, h, w}, 3);
	unsigned char *y = kern_at(call, P_Y, n, plane, size);
	const unsigned char *x = kern_at(call, P_X, n, plane, size);

	if (p == 0 || h % p || w % p)
		kern_fail(call, RC_INVAL, "size: %" PRIu64 " does not divide pictures of %" PRIu64 " x %" PRIu64, p, h,
			  w);
	kern_apart(call, P_Y, P_X);
	if (call->rc != RC_OK)
		return call->rc;
	for (uint64_t i = 0; i < n; i++, x += plane * size)
		for (uint64_t row = 0; row < h; row += p)
			for (uint64_t col = 0; col < w; col += p)
				for (uint64_t k = 0; k < c; k++)
					for (uint64_t line = 0; line < p; line++, y += p * size)
						memcpy(y, x + ((k * h + row + line) * w + col) * size, p * size);
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
	    [P_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "f32 or f64"},
	},
    .run = patches_run,
};

/* ---- tokens */

/* y[j] = a[j] + b[j], or y[j] += b[j] */
#define SUMS(type)                                                                                        \
	HOT_CLONES static void sum_##type(type *y, const type *a, const type *b, size_t n)                \
	{                                                                                                 \
		size_t j;                                                                                 \
                                                                                                          \
		HOT_LOOP                                                                                  \
		for (j = 0; j < n; j++)                                                                   \
			y[j] = a[j] + b[j];                                                               \
	}                                                                                                 \
	static void tokens_##type(type *y, const type *x, const type *first, const type *place, size_t n, \
				  size_t t, size_t h)                                                     \
	{                                                                                                 \
		for (size_t i = 0; i < n; i++, y += t * h, x += (t - 1) * h) {                            \
			sum_##type(y, first, place, h);                                                   \
			sum_##type(y + h, x, place + h, (t - 1) * h);                                     \
		}                                                                                         \
	}                                                                                                 \
	static void tokens_grad_##type(type *dx, type *dfirst, type *dplace, const type *dy, size_t n,    \
				       size_t t, size_t h)                                                \
	{                                                                                                 \
		memset(dplace, 0, t *h * sizeof(type));                                                   \
		for (size_t i = 0; i < n; i++, dy += t * h, dx += (t - 1) * h) {                          \
			sum_##type(dplace, dplace, dy, t * h);                                            \
			memcpy(dx, dy + h, (t - 1) * h * sizeof(type));                                   \
		}                                                                                         \
		memcpy(dfirst, dplace, h * sizeof(type));                                                 \
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
	void *y = kern_at(call, T_Y, n, one, size);
	const void *x = kern_at(call, T_X, n, t ? one - h : 0, size);
	const void *first = kern_at(call, T_FIRST, h, 1, size), *place = kern_at(call, T_PLACE, t, h, size);

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
	    [T_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "f32 or f64"},
	},
    .run = tokens_run,
};

enum { TG_DX, TG_DFIRST, TG_DPLACE, TG_DY, TG_N, TG_TOKENS, TG_COLS, TG_DTYPE };

static enum rc
tokens_grad_run(struct kern_call *call)
{
	static const unsigned areas[] = {TG_DX, TG_DFIRST, TG_DPLACE, TG_DY};
	uint64_t n = call->v[TG_N].u, t = call->v[TG_TOKENS].u, h = call->v[TG_COLS].u;
	size_t size = kern_float(call, TG_DTYPE);
	uint64_t one = kern_product(call, "dy", (uint64_t[]){t, h}, 2);
	void *dx = kern_at(call, TG_DX, n, t ? one - h : 0, size), *dfirst = kern_at(call, TG_DFIRST, h, 1, size);
	void *dplace = kern_at(call, TG_DPLACE, t, h, size);
	const void *dy = kern_at(call, TG_DY, n, one, size);

	if (t == 0)
		kern_fail(call, RC_INVAL, "tokens: 0; the first one is the class token");
	for (unsigned i = 0; i < 3; i++)
		kern_apart_from(call, areas[i], areas, 4);
	if (call->rc != RC_OK)
		return call->rc;
	KERN_LOOP(size, tokens_grad, dx, dfirst, dplace, dy, n, t, h);
	return RC_OK;
}

/*
 * tokens_grad - the gradients of tokens' rows, class token and places, summed over the samples in their order.
 *
 * Outputs overlap nothing. Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_token.c
 */
const struct kernel kernel_tokens_grad = {
    .name = "tokens_grad",
    .summary = "gradients of tokens' rows, class token and places",
    .params =
	{
	    [TG_DX] = {"dx", KP_ADDR, false, 0, "[n,tokens-1,cols] out"},
	    [TG_DFIRST] = {"dfirst", KP_ADDR, false, 0, "[cols] out"},
	    [TG_DPLACE] = {"dplace", KP_ADDR, false, 0, "[tokens,cols] out"},
	    [TG_DY] = {"dy", KP_ADDR, false, 0, "[n,tokens,cols] gradient of the output"},
	    [TG_N] = {"n", KP_COUNT, false, 0, "samples"},
	    [TG_TOKENS] = {"tokens", KP_COUNT, false, 0, "tokens of a sample, with the class token"},
	    [TG_COLS] = {"cols", KP_COUNT, false, 0, "elements of a token"},
	    [TG_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "f32 or f64"},
	},
    .run = tokens_grad_run,
};
