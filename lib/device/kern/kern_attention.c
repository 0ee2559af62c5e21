/*
 * kern_attention.c - self-attention of several heads, forward and backward.
 *
 * Design notes. The keys of a block are turned, so that a row's scores are computed for many keys at a time; scores
 * become weights and are used while they are in the cache, and no matrix of weights is ever in memory (Dao et al.,
 * arXiv:2205.14135). What a row has so far is scaled when a later block has a larger score. The backward pass computes
 * the weights again, from the logarithm of their sum. With block 0 all keys are one block, as in the textbook; that is
 * what the blocks are checked against.
 */
#include "kern/kern_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kern/kern_exp.h"
#include "mem/clones.h"

#define MAX_TOKENS 4096
#define MAX_DIM	   1024 /* of a head */

#define REAL	float
#define NAME(x) x##_float
#include "kern/kern_attention_loops.h"
#undef REAL
#undef NAME
#define REAL	double
#define NAME(x) x##_double
#include "kern/kern_attention_loops.h"
#undef REAL
#undef NAME

enum { Y, QKV, LSE, SAMPLES, TOKENS, HEADS, DIM, BLOCK, DTYPE };
enum { G_DQKV, G_DY, G_QKV, G_Y, G_LSE, G_SAMPLES, G_TOKENS, G_HEADS, G_DIM, G_BLOCK, G_DTYPE };

/* What a call computes with: its sizes, and scratch memory for a head. */
struct attention {
	uint64_t samples, tokens, heads, dim, block;
	size_t size;
	void *scratch;
	double *sum;
};

/* Take the sizes from parameter `first` on. */
static void
sizes(struct kern_call *call, unsigned first, struct attention *a)
{
	const union kernel_value *v = call->v + first;

	*a = (struct attention){v[0].u, v[1].u, v[2].u, v[3].u, v[4].u, .size = 0};
	a->size = kern_float(call, first + 5);
	if (a->tokens > MAX_TOKENS || a->dim > MAX_DIM)
		kern_fail(call, RC_INVAL, "tokens must be at most %d, dim at most %d", MAX_TOKENS,
			  MAX_DIM);
	if (a->block == 0 || a->block > a->tokens)
		a->block = a->tokens;
}

static uint64_t
rows_of(struct kern_call *call, const struct attention *a)
{
	const uint64_t factor[] = {a->samples, a->tokens};

	return kern_product(call, "samples * tokens", factor, 2);
}

static uint64_t
width_of(struct kern_call *call, const struct attention *a, uint64_t times)
{
	const uint64_t factor[] = {a->heads, a->dim, times};

	return kern_product(call, "heads * dim", factor, 3);
}

/* Scratch for a head; false: there is nothing to compute, or no memory. */
static bool
begin(struct kern_call *call, struct attention *a)
{
	if (call->rc != RC_OK || a->samples * a->tokens * a->heads * a->dim == 0)
		return false;
	a->scratch = calloc(2 * (a->dim + 1) * a->block, a->size);
	a->sum = calloc(a->tokens, sizeof *a->sum);
	if (!a->scratch || !a->sum)
		kern_fail(call, RC_NOMEM, "out of memory");
	return call->rc == RC_OK;
}

static void
end(struct attention *a)
{
	free(a->scratch);
	free(a->sum);
}

/* The head of a sample, as the loops of a type take it. */
#define HEAD(type, a, n, h, qkv_, y_, dy_, dqkv_, lse_)                                            \
	const size_t width = (a)->heads * (a)->dim, step = 3 * width;                              \
	const size_t at = (n) * (a)->tokens * step + (h) * (a)->dim;                               \
	const size_t own = (n) * (a)->tokens * width + (h) * (a)->dim;                             \
	type *scratch = (a)->scratch;                                                              \
	type *grad = (dqkv_);                                                                      \
	struct head_##type head = {.q = (const type *)(qkv_) + at,                                 \
				   .k = (const type *)(qkv_) + at + width,                         \
				   .v = (const type *)(qkv_) + at + 2 * width,                     \
				   .out = (type *)(y_) + own,                                      \
				   .y = (const type *)(y_) + own,                                  \
				   .dy = (dy_) ? (const type *)(dy_) + own : NULL,                 \
				   .dq = grad ? grad + at : NULL,                                  \
				   .dk = grad ? grad + at + width : NULL,                          \
				   .dv = grad ? grad + at + 2 * width : NULL,                      \
				   .lse = (type *)(lse_) + ((n) * (a)->heads + (h)) * (a)->tokens, \
				   .turned = scratch,                                              \
				   .turned_v = scratch + (a)->dim * (a)->block,                    \
				   .score = scratch + 2 * (a)->dim * (a)->block,                   \
				   .slope = scratch + (2 * (a)->dim + 1) * (a)->block,             \
				   .t = (a)->tokens,                                               \
				   .dim = (a)->dim,                                                \
				   .step = step,                                                   \
				   .width = width,                                                 \
				   .block = (a)->block,                                            \
				   .scale = (type)(1 / sqrt((double)(a)->dim))}

#define ATTEND(type)                                                                              \
	static void attend_##type(const struct attention *a, const void *qkv, void *y, void *lse, \
				  size_t n, size_t h)                                             \
	{                                                                                         \
		HEAD(type, a, n, h, qkv, y, (const type *)NULL, (type *)NULL, lse);               \
		forward_##type(&head, a->sum);                                                    \
	}                                                                                         \
	static void attend_back_##type(const struct attention *a, const void *qkv, void *y,       \
				       const void *dy, void *dqkv, void *lse, size_t n, size_t h) \
	{                                                                                         \
		HEAD(type, a, n, h, qkv, y, dy, (type *)dqkv, lse);                               \
		backward_##type(&head);                                                           \
	}
ATTEND(float)
ATTEND(double)

static enum rc
attention_run(struct kern_call *call)
{
	static const unsigned areas[] = {Y, QKV, LSE};
	struct attention a;
	uint64_t rows;
	const void *qkv;
	void *y, *lse;

	sizes(call, SAMPLES, &a);
	rows = rows_of(call, &a);
	y = kern_at(call, Y, rows, width_of(call, &a, 1), a.size);
	qkv = kern_at(call, QKV, rows, width_of(call, &a, 3), a.size);
	lse = kern_at(call, LSE, rows, a.heads, a.size);
	kern_apart_from(call, Y, areas, 3);
	kern_apart_from(call, LSE, areas, 3);
	if (!begin(call, &a)) {
		end(&a);
		return call->rc;
	}
	for (size_t n = 0; n < a.samples; n++)
		for (size_t h = 0; h < a.heads; h++)
			KERN_LOOP(a.size, attend, &a, qkv, y, lse, n, h);
	end(&a);
	return RC_OK;
}

/*
 * attention - for each head: y = softmax(q k' / sqrt(dim)) v over the tokens of each sample. lse, by sample, head and
 * token, is the logarithm of the sum of e^score, for the gradient.
 *
 * Outputs overlap nothing. Errors: RC_INVAL, RC_NOMEM.
 * Source: Vaswani et al., arXiv:1706.03762, section 3.2. Checked by: tests/unit/kern/t_kern_attention.c
 */
const struct kernel kernel_attention = {
    .name = "attention",
    .summary = "self-attention of several heads",
    .params =
	{
	    [Y] = {"y", KP_ADDR, false, 0, "[samples,tokens,heads,dim] out"},
	    [QKV] = {"qkv", KP_ADDR, false, 0,
		     "[samples,tokens,3,heads,dim] queries, keys, values"},
	    [LSE] = {"lse", KP_ADDR, false, 0,
		     "[samples,heads,tokens] out: logarithms of the sums"},
	    [SAMPLES] = {"samples", KP_COUNT, false, 0, "samples"},
	    [TOKENS] = {"tokens", KP_COUNT, false, 0, "tokens of a sample, at most 4096"},
	    [HEADS] = {"heads", KP_COUNT, false, 0, "heads"},
	    [DIM] = {"dim", KP_COUNT, false, 0, "elements of a head, at most 1024"},
	    [BLOCK] = {"block", KP_COUNT, true, 32, "keys at a time; 0: all"},
	    [DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "f32 or f64"},
	},
    .run = attention_run,
};

static enum rc
attention_grad_run(struct kern_call *call)
{
	static const unsigned areas[] = {G_DY, G_QKV, G_Y, G_LSE};
	struct attention a;
	uint64_t rows;
	const void *qkv, *dy;
	void *y, *lse, *dqkv;

	sizes(call, G_SAMPLES, &a);
	rows = rows_of(call, &a);
	dqkv = kern_at(call, G_DQKV, rows, width_of(call, &a, 3), a.size);
	dy = kern_at(call, G_DY, rows, width_of(call, &a, 1), a.size);
	qkv = kern_at(call, G_QKV, rows, width_of(call, &a, 3), a.size);
	y = kern_at(call, G_Y, rows, width_of(call, &a, 1), a.size);
	lse = kern_at(call, G_LSE, rows, a.heads, a.size);
	kern_apart_from(call, G_DQKV, areas, 4);
	if (!begin(call, &a)) {
		end(&a);
		return call->rc;
	}
	for (size_t n = 0; n < a.samples; n++)
		for (size_t h = 0; h < a.heads; h++)
			KERN_LOOP(a.size, attend_back, &a, qkv, y, dy, dqkv, lse, n, h);
	end(&a);
	return RC_OK;
}

/*
 * attention_grad - the gradient of attention's queries, keys and values, by its output y and lse.
 *
 * dqkv overlaps nothing. Errors: RC_INVAL, RC_NOMEM.
 * Source: Dao et al., arXiv:2205.14135, algorithm 4. Checked by: tests/unit/kern/t_kern_attention.c
 */
const struct kernel kernel_attention_grad = {
    .name = "attention_grad",
    .summary = "gradient of attention's queries, keys and values",
    .params =
	{
	    [G_DQKV] = {"dqkv", KP_ADDR, false, 0, "[samples,tokens,3,heads,dim] out"},
	    [G_DY] = {"dy", KP_ADDR, false, 0, "[samples,tokens,heads,dim] gradient of the output"},
	    [G_QKV] = {"qkv", KP_ADDR, false, 0, "[samples,tokens,3,heads,dim] attention's input"},
	    [G_Y] = {"y", KP_ADDR, false, 0, "[samples,tokens,heads,dim] attention's output"},
	    [G_LSE] = {"lse", KP_ADDR, false, 0, "[samples,heads,tokens] attention's"},
	    [G_SAMPLES] = {"samples", KP_COUNT, false, 0, "samples"},
	    [G_TOKENS] = {"tokens", KP_COUNT, false, 0, "tokens of a sample, at most 4096"},
	    [G_HEADS] = {"heads", KP_COUNT, false, 0, "heads"},
	    [G_DIM] = {"dim", KP_COUNT, false, 0, "elements of a head, at most 1024"},
	    [G_BLOCK] = {"block", KP_COUNT, true, 32, "keys at a time; 0: all"},
	    [G_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "f32 or f64"},
	},
    .run = attention_grad_run,
};
