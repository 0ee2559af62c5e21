/*
 * kern_attention.c - self-attention of several heads, forward and backward.
 *
 * Design notes. The keys of a block are turned, so that a row's scores are computed for many keys at a time; scores
 * become weights and are used while they are in the cache, and no matrix of all weights is ever in memory (Dao et al.,
 * arXiv:2205.14135). What a row has so far is scaled when a later block has a larger score. The backward pass computes
 * the weights again, from the logarithm of their sum. Few tokens make small products, for which a call of the BLAS
 * costs more than the product: they have loops of their own. Block 0 is the textbook, that the blocks are checked
 * against.
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

/* What a call computes with: its sizes and areas, and scratch memory for a head. */
struct attention {
	uint64_t samples, tokens, heads, dim, block;
	size_t size;
	void *y, *qkv, *lse, *dy, *dqkv;
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
	if (a->block > a->tokens)
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

/* The keys of a block, in whole vectors of 64 bytes; without blocks, all of them. */
static size_t
span_of(const struct attention *a)
{
	size_t wide = 64 / a->size, n = a->block ? a->block : a->tokens;

	return (n + wide - 1) / wide * wide;
}

static size_t
longest_of(const struct attention *a)
{
	size_t n = a->dim > a->tokens ? a->dim : a->tokens, span = span_of(a);

	return n > span ? n : span;
}

/* Scratch for a head; false: there is nothing to compute, or no memory. */
static bool
begin(struct kern_call *call, struct attention *a)
{
	size_t n = 2 * (a->dim + a->tokens) * span_of(a) + 3 * a->tokens;

	if (call->rc != RC_OK || a->samples * a->tokens * a->heads * a->dim == 0)
		return false;
	a->scratch = calloc(n + 2 * longest_of(a) * (64 / a->size), a->size);
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

/* Head h of sample n as the loops of a type take it, and the loops. */
#define ATTEND(type)                                                                          \
	static void head_##type(const struct attention *a, size_t n, size_t h,                \
				struct head_##type *out)                                      \
	{                                                                                     \
		size_t width = a->heads * a->dim, span = span_of(a), t = a->tokens;           \
		size_t at = n * t * 3 * width + h * a->dim, own = n * t * width + h * a->dim; \
		type *qkv = (type *)a->qkv + at, *scratch = a->scratch;                       \
		type *dqkv = a->dqkv ? (type *)a->dqkv + at : qkv;                            \
		type *dy = a->dy ? (type *)a->dy + own : qkv;                                 \
                                                                                              \
		*out = (struct head_##type){                                                  \
		    .q = {qkv, 3 * width, 1},                                                 \
		    .k = {qkv + width, 3 * width, 1},                                         \
		    .v = {qkv + 2 * width, 3 * width, 1},                                     \
		    .y = {(type *)a->y + own, width, 1},                                      \
		    .dy = {dy, width, 1},                                                     \
		    .dq = {dqkv, 3 * width, 1},                                               \
		    .dk = {dqkv + width, 3 * width, 1},                                       \
		    .dv = {dqkv + 2 * width, 3 * width, 1},                                   \
		    .lse = (type *)a->lse + (n * a->heads + h) * t,                           \
		    .turned = scratch,                                                        \
		    .turned_v = scratch + a->dim * span,                                      \
		    .score = scratch + 2 * a->dim * span,                                     \
		    .slope = scratch + (2 * a->dim + t) * span,                               \
		    .most = scratch + 2 * (a->dim + t) * span,                                \
		    .kept = scratch + 2 * (a->dim + t) * span + t,                            \
		    .due = scratch + 2 * (a->dim + t) * span + 2 * t,                         \
		    .tail = scratch + 2 * (a->dim + t) * span + 3 * t,                        \
		    .t = t,                                                                   \
		    .dim = a->dim,                                                            \
		    .block = a->block,                                                        \
		    .span = span,                                                             \
		    .longest = longest_of(a),                                                 \
		    .sum = a->sum,                                                            \
		    .scale = (type)(1 / sqrt((double)a->dim)),                                \
		};                                                                            \
	}                                                                                     \
	static void attend_##type(const struct attention *a, size_t n, size_t h)              \
	{                                                                                     \
		struct head_##type head;                                                      \
                                                                                              \
		head_##type(a, n, h, &head);                                                  \
		(a->block ? forward_##type : plain_##type)(&head);                            \
	}                                                                                     \
	static void attend_back_##type(const struct attention *a, size_t n, size_t h)         \
	{                                                                                     \
		struct head_##type head;                                                      \
                                                                                              \
		head_##type(a, n, h, &head);                                                  \
		(a->block ? backward_##type : plain_back_##type)(&head);                      \
	}
ATTEND(float)
ATTEND(double)

static enum rc
attention_run(struct kern_call *call)
{
	static const unsigned areas[] = {Y, QKV, LSE};
	struct attention a;
	uint64_t rows;

	sizes(call, SAMPLES, &a);
	rows = rows_of(call, &a);
	a.y = kern_out(call, Y, rows, width_of(call, &a, 1), a.size);
	a.qkv = kern_at(call, QKV, rows, width_of(call, &a, 3), a.size);
	a.lse = kern_plain(call, LSE, rows, a.heads, a.size);
	kern_apart_from(call, Y, areas, 3);
	kern_apart_from(call, LSE, areas, 3);
	if (begin(call, &a))
		for (size_t n = 0; n < a.samples * a.heads; n++)
			KERN_LOOP(a.size, attend, &a, n / a.heads, n % a.heads);
	end(&a);
	return call->rc;
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
	    [BLOCK] = {"block", KP_COUNT, true, 32, "keys at a time; 0: the plain loops"},
	    [DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = attention_run,
};

static enum rc
attention_grad_run(struct kern_call *call)
{
	static const unsigned areas[] = {G_DY, G_QKV, G_Y, G_LSE};
	struct attention a;
	uint64_t rows, width;

	sizes(call, G_SAMPLES, &a);
	rows = rows_of(call, &a);
	width = width_of(call, &a, 3);
	a.dqkv = kern_out(call, G_DQKV, rows, width, a.size);
	a.dy = kern_at(call, G_DY, rows, width_of(call, &a, 1), a.size);
	a.qkv = kern_at(call, G_QKV, rows, width, a.size);
	a.y = kern_at(call, G_Y, rows, width_of(call, &a, 1), a.size);
	a.lse = kern_plain(call, G_LSE, rows, a.heads, a.size);
	kern_apart_from(call, G_DQKV, areas, 4);
	if (begin(call, &a)) {
		if (a.block == 0)
			memset(a.dqkv, 0, rows * width * a.size);
		for (size_t n = 0; n < a.samples * a.heads; n++)
			KERN_LOOP(a.size, attend_back, &a, n / a.heads, n % a.heads);
	}
	end(&a);
	return call->rc;
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
	    [G_BLOCK] = {"block", KP_COUNT, true, 32, "keys at a time; 0: the plain loops"},
	    [G_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = attention_grad_run,
};
