/*
 * kern_shard.c - cross-entropy and accuracy of logits whose classes are divided over ranks: each rank's
 * shares, which are combined by all-reduces.
 */
#include <inttypes.h>
#include <math.h>

#include "kern/kern_exp.h"
#include "kern/kern_impl.h"

#define COLUMNS_PARAMS(first_one)                                              \
	[first_one] = {"logits", KP_ADDR, false, 0, "[rows,cols] in"},         \
	[first_one + 1] = {"rows", KP_COUNT, false, 0, "rows of logits"},      \
	[first_one + 2] = {"classes", KP_COUNT, false, 0,                      \
			   "the rank's classes: the first columns; may be 0"}, \
	[first_one + 3] = {"cols", KP_COUNT, false, 0, "columns of logits"},   \
	[first_one + 4] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "f32, f16 or bf16"}

/* The logits at parameter `at`, and the numbers after it. */
static const float *
columns(struct kern_call *c, unsigned at)
{
	if (c->v[at + 2].u > c->v[at + 3].u)
		kern_fail(c, RC_INVAL, "classes: %" PRIu64 " is more than the %" PRIu64 " columns",
			  c->v[at + 2].u, c->v[at + 3].u);
	if (c->v[at + 4].u == GPUSIM_F64)
		kern_fail(c, RC_INVAL, "dtype: must be f32, f16 or bf16, not f64");
	return kern_at(c, at, c->v[at + 1].u, c->v[at + 3].u, kern_float(c, at + 4));
}

/* Is a logit the largest one? NaN counts as larger than any number, as in argmax. */
static bool
is_top(float logit, float top)
{
	return logit == top || (isnan(logit) && isnan(top));
}

/* ---- shard_top */

enum { TOP_TOP, TOP_LOGITS, TOP_ROWS, TOP_CLASSES, TOP_COLS, TOP_DTYPE };

static enum rc
shard_top_run(struct kern_call *c)
{
	const float *logits = columns(c, TOP_LOGITS);
	uint64_t rows = c->v[TOP_ROWS].u, classes = c->v[TOP_CLASSES].u, cols = c->v[TOP_COLS].u;
	float *top = kern_plain(c, TOP_TOP, rows, 1, sizeof *top);

	kern_apart(c, TOP_TOP, TOP_LOGITS);
	if (c->rc != RC_OK)
		return c->rc;
	for (uint64_t r = 0; r < rows; r++) {
		top[r] = -INFINITY;
		for (uint64_t j = 0; j < classes && !isnan(top[r]); j++)
			if (!(logits[r * cols + j] <= top[r]))
				top[r] = logits[r * cols + j];
	}
	return RC_OK;
}

/*
 * shard_top - top[r] = the largest of the rank's logits of a row; -infinity of no classes, NaN if one is NaN.
 *
 * To be combined by an all-reduce, max. Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_shard.c
 */
const struct kernel kernel_shard_top = {
    .name = "shard_top",
    .summary = "largest logit of each row, of a rank's classes",
    .params = {[TOP_TOP] = {"top", KP_ADDR, false, 0, "f32[rows] out"}, COLUMNS_PARAMS(TOP_LOGITS)},
    .run = shard_top_run,
};

/* ---- shard_sums */

enum {
	SUMS_SUMS,
	SUMS_TOP,
	SUMS_LABELS,
	SUMS_FIRST,
	SUMS_LOGITS,
	SUMS_ROWS,
	SUMS_CLASSES,
	SUMS_COLS,
	SUMS_DTYPE,
};

static enum rc
shard_sums_run(struct kern_call *c)
{
	static const unsigned others[] = {SUMS_TOP, SUMS_LABELS, SUMS_LOGITS};
	const float *logits = columns(c, SUMS_LOGITS);
	uint64_t rows = c->v[SUMS_ROWS].u, classes = c->v[SUMS_CLASSES].u, cols = c->v[SUMS_COLS].u;
	uint64_t first = c->v[SUMS_FIRST].u;
	float *sums = kern_plain(c, SUMS_SUMS, rows, 3, sizeof *sums);
	const float *top = kern_plain(c, SUMS_TOP, rows, 1, sizeof *top);
	const uint8_t *labels = kern_at(c, SUMS_LABELS, rows, 1, sizeof *labels);

	kern_apart_from(c, SUMS_SUMS, others, sizeof others / sizeof others[0]);
	if (c->rc != RC_OK)
		return c->rc;
	for (uint64_t r = 0; r < rows; r++) {
		const float *row = logits + r * cols;
		double sum = 0, right = 0, before = 0;

		for (uint64_t j = 0; j < classes; j++) {
			sum += exp_negative((double)row[j] - (double)top[r]);
			right += first + j == labels[r] ? (double)row[j] : 0;
			before += first + j < labels[r] && is_top(row[j], top[r]);
		}
		sums[3 * r] = (float)sum;
		sums[3 * r + 1] = (float)right;
		sums[3 * r + 2] = (float)before;
	}
	return RC_OK;
}

/*
 * shard_sums - of the rank's classes of each row: sums[r,0] = sum of exp(logit - top[r]); sums[r,1] = the
 * logit of the label, or 0; sums[r,2] = the number of classes before the label whose logit is top[r].
 *
 * top: of all ranks. To be combined by an all-reduce, sum. Errors: RC_INVAL. Checked by:
 * tests/unit/kern/t_kern_shard.c
 */
const struct kernel kernel_shard_sums = {
    .name = "shard_sums",
    .summary = "a rank's share of each row's softmax and label",
    .params =
	{
	    [SUMS_SUMS] = {"sums", KP_ADDR, false, 0, "f32[rows,3] out"},
	    [SUMS_TOP] = {"top", KP_ADDR, false, 0, "f32[rows] largest logit of all ranks"},
	    [SUMS_LABELS] = {"labels", KP_ADDR, false, 0, "u8[rows] right classes"},
	    [SUMS_FIRST] = {"first", KP_COUNT, false, 0, "number of the rank's first class"},
	    COLUMNS_PARAMS(SUMS_LOGITS),
	},
    .run = shard_sums_run,
};

/* ---- shard_xent */

enum {
	XENT_GRAD,
	XENT_LOSS,
	XENT_TOP,
	XENT_SUMS,
	XENT_LABELS,
	XENT_FIRST,
	XENT_SCALE,
	XENT_SCALE_AT,
	XENT_LOGITS,
	XENT_ROWS,
	XENT_CLASSES,
	XENT_COLS,
	XENT_DTYPE,
};

static enum rc
shard_xent_run(struct kern_call *c)
{
	static const unsigned others[] = {XENT_LOSS, XENT_TOP, XENT_SUMS, XENT_LABELS};
	const float *logits = columns(c, XENT_LOGITS);
	uint64_t rows = c->v[XENT_ROWS].u, classes = c->v[XENT_CLASSES].u, cols = c->v[XENT_COLS].u;
	uint64_t first = c->v[XENT_FIRST].u;
	double scale, loss = 0;
	float *grad = kern_out(c, XENT_GRAD, rows, cols, sizeof *grad);
	float *out = kern_plain(c, XENT_LOSS, 1, 1, sizeof *out);
	const float *top = kern_plain(c, XENT_TOP, rows, 1, sizeof *top);
	const float *sums = kern_plain(c, XENT_SUMS, rows, 3, sizeof *sums);
	const uint8_t *labels = kern_at(c, XENT_LABELS, rows, 1, sizeof *labels);

	kern_apart_from(c, XENT_GRAD, others, sizeof others / sizeof others[0]);
	kern_inplace(c, XENT_GRAD, XENT_LOGITS);
	kern_apart_from(c, XENT_LOSS, others + 1, sizeof others / sizeof others[0] - 1);
	kern_apart(c, XENT_LOSS, XENT_LOGITS);
	scale = c->v[XENT_SCALE].f *
		kern_factor(c, XENT_SCALE_AT, (const unsigned[]){XENT_GRAD, XENT_LOSS}, 2);
	if (c->rc != RC_OK)
		return c->rc;
	for (uint64_t r = 0; r < rows; r++) {
		double sum = (double)sums[3 * r];

		loss += log(sum) - ((double)sums[3 * r + 1] - (double)top[r]);
		for (uint64_t j = 0; j < cols; j++) {
			double p =
			    j < classes
				? exp_negative((double)logits[r * cols + j] - (double)top[r]) / sum
				: 0;

			grad[r * cols + j] =
			    (float)(scale * (p - (j < classes && first + j == labels[r])));
		}
	}
	*out = (float)loss;
	return RC_OK;
}

/*
 * shard_xent - loss[0] = the sum of the rows' losses; grad[r,j] = scale * (softmax(logits[r,:])[j] - (j is the
 * label)) for the rank's classes, 0 in further columns.
 *
 * top, sums: of all ranks. Computed in double. grad may be logits. Errors: RC_INVAL. Checked by:
 * tests/unit/kern/t_kern_shard.c
 */
const struct kernel kernel_shard_xent = {
    .name = "shard_xent",
    .summary = "softmax cross-entropy of divided classes, and a rank's share of its gradient",
    .params =
	{
	    [XENT_GRAD] = {"grad", KP_ADDR, false, 0, "[rows,cols] out; may be logits"},
	    [XENT_LOSS] = {"loss", KP_ADDR, false, 0, "f32[1] out"},
	    [XENT_TOP] = {"top", KP_ADDR, false, 0, "f32[rows] largest logit of all ranks"},
	    [XENT_SUMS] = {"sums", KP_ADDR, false, 0, "f32[rows,3] of all ranks, see shard_sums"},
	    [XENT_LABELS] = {"labels", KP_ADDR, false, 0, "u8[rows] right classes"},
	    [XENT_FIRST] = {"first", KP_COUNT, false, 0, "number of the rank's first class"},
	    [XENT_SCALE] = {"scale", KP_REAL, true, 1, "factor of grad"},
	    [XENT_SCALE_AT] = {"scale_at", KP_ADDR, true, 0, "f32[1] a further factor of grad"},
	    COLUMNS_PARAMS(XENT_LOGITS),
	},
    .run = shard_xent_run,
};

/* ---- shard_hits */

enum { HITS_COUNT, HITS_TOP, HITS_SUMS, HITS_ROWS };

static enum rc
shard_hits_run(struct kern_call *c)
{
	uint64_t rows = c->v[HITS_ROWS].u, hits = 0;
	uint64_t *count = kern_at(c, HITS_COUNT, 1, 1, sizeof *count);
	const float *top = kern_at(c, HITS_TOP, rows, 1, sizeof *top);
	const float *sums = kern_at(c, HITS_SUMS, rows, 3, sizeof *sums);

	kern_apart(c, HITS_COUNT, HITS_TOP);
	kern_apart(c, HITS_COUNT, HITS_SUMS);
	if (c->rc != RC_OK)
		return c->rc;
	for (uint64_t r = 0; r < rows; r++)
		hits += is_top(sums[3 * r + 1], top[r]) && sums[3 * r + 2] == 0;
	*count = hits;
	return RC_OK;
}

/*
 * shard_hits - count[0] = the number of rows whose label is the first class with the largest logit, as accuracy says.
 *
 * top, sums: of all ranks. Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_shard.c
 */
const struct kernel kernel_shard_hits = {
    .name = "shard_hits",
    .summary = "count the rows whose largest logit, of divided classes, is at their label",
    .params =
	{
	    [HITS_COUNT] = {"count", KP_ADDR, false, 0, "u64[1] out"},
	    [HITS_TOP] = {"top", KP_ADDR, false, 0, "f32[rows] largest logit of all ranks"},
	    [HITS_SUMS] = {"sums", KP_ADDR, false, 0, "f32[rows,3] of all ranks, see shard_sums"},
	    [HITS_ROWS] = {"rows", KP_COUNT, false, 0, "number of rows"},
	},
    .run = shard_hits_run,
};
