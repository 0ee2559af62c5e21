/*
 * kern_loss.c - the end of a classifier: losses, argmax, accuracy.
 */
#include "kern/kern_impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kern/kern_exp.h"
#include "mem/clones.h"

#define BLOCK 256

/* Volatile: another thread may write the labels meanwhile, and the checked value must be the used one. */
typedef const volatile uint8_t label;

/* Fails when a label is not a class. */
static void
check_labels(struct kern_call *c, label *labels, uint64_t rows, uint64_t classes)
{
	uint64_t r;
	unsigned l;

	for (r = 0; c->rc == RC_OK && r < rows; r++) {
		if ((l = labels[r]) >= classes)
			kern_fail(c, RC_BADDATA,
				  "labels: row %" PRIu64 " has label %u: must be less than %" PRIu64
				  " classes",
				  r, l, classes);
	}
}

/* ---- softmax_xent */

/* The parameters of a loss. */
enum {
	XENT_LOGITS,
	XENT_LABELS,
	XENT_LOSS,
	XENT_ROWS,
	XENT_CLASSES,
	XENT_GRAD,
	XENT_SCALE,
	XENT_GRAD_SCALE,
	XENT_DTYPE,
	XENT_SCALE_AT,
};

#define LOSS_PARAMS                                                                            \
	{                                                                                      \
		[XENT_LOGITS] = {"logits", KP_ADDR, false, 0, "[rows,classes] in"},            \
		[XENT_LABELS] = {"labels", KP_ADDR, false, 0, "u8[rows] right classes"},       \
		[XENT_LOSS] = {"loss", KP_ADDR, false, 0,                                      \
			       "[1] out: scale * sum of the rows' losses"},                    \
		[XENT_ROWS] = {"rows", KP_COUNT, false, 0, "rows of logits"},                  \
		[XENT_CLASSES] = {"classes", KP_COUNT, false, 0, "columns of logits"},         \
		[XENT_GRAD] = {"grad", KP_ADDR, true, 0, "[rows,classes] out; may be logits"}, \
		[XENT_SCALE] = {"scale", KP_REAL, true, 1,                                     \
				"factor of the loss, 1/rows for a mean"},                      \
		[XENT_GRAD_SCALE] = {"grad_scale", KP_REAL, true, NAN,                         \
				     "factor of grad; nan: scale"},                            \
		[XENT_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},             \
		[XENT_SCALE_AT] = {"scale_at", KP_ADDR, true, 0,                               \
				   "f32[1] a further factor of grad"},                         \
	}

/*
 * The loss of one row; grad (or NULL) may be the logits. `l` < classes.
 *
 * Shifted by the largest logit, every exponential is at most 1 and one of them is 1.
 */
static ALWAYS_INLINE double
xent_row(void *grad, const void *logits, size_t classes, size_t size, unsigned l, double grad_scale)
{
	double top = kern_get(logits, 0, size), right = kern_get(logits, l, size), sum = 0;
	double e[BLOCK], factor;
	size_t at, i, n;

	for (i = 1; i < classes; i++)
		top = kern_get(logits, i, size) > top ? kern_get(logits, i, size) : top;
	for (at = 0; at < classes; at += n) {
		n = classes - at < BLOCK ? classes - at : BLOCK;
		for (i = 0; i < n; i++)
			e[i] = exp_negative(kern_get(logits, at + i, size) - top);
		for (i = 0; i < n; i++)
			sum += e[i];
		for (i = 0; grad != NULL && i < n; i++)
			kern_put(grad, at + i, size, e[i]);
	}
	if (grad != NULL) {
		factor = grad_scale / sum;
		for (i = 0; i < classes; i++)
			kern_put(grad, i, size, kern_get(grad, i, size) * factor);
		kern_put(grad, l, size, grad_scale * (exp_negative(right - top) / sum - 1));
	}
	return log(sum) - (right - top);
}

/* Sum of the losses in *sum. False: a label has changed since it was checked. */
static ALWAYS_INLINE bool
xent_rows(unsigned char *grad, const unsigned char *logits, label *labels, size_t rows,
	  size_t classes, size_t size, double grad_scale, double *sum)
{
	size_t r, row_bytes = classes * size;
	unsigned l;

	*sum = 0;
	for (r = 0; r < rows; r++) {
		if ((l = labels[r]) >= classes)
			return false;
		*sum += xent_row(grad != NULL ? grad + r * row_bytes : NULL, logits + r * row_bytes,
				 classes, size, l, grad_scale);
	}
	return true;
}

#define XENT_ROWS(type)                                                                         \
	HOT_CLONES static bool xent_rows_##type(type *grad, const type *logits, label *labels,  \
						size_t rows, size_t classes, double grad_scale, \
						double *sum)                                    \
	{                                                                                       \
		return xent_rows((unsigned char *)grad, (const unsigned char *)logits, labels,  \
				 rows, classes, sizeof(type), grad_scale, sum);                 \
	}
XENT_ROWS(float)
XENT_ROWS(double)

/* A loss's checked arguments. */
struct loss {
	const void *logits;
	label *labels;
	void *loss, *grad; /* grad may be NULL */
	uint64_t rows, classes;
	size_t size;
	double scale, grad_scale;
};

/* The arguments of a loss. */
static enum rc
loss_bind(struct kern_call *call, struct loss *l)
{
	static const unsigned written[] = {XENT_LOSS, XENT_GRAD};
	const union kernel_value *v = call->v;

	l->rows = v[XENT_ROWS].u;
	l->classes = v[XENT_CLASSES].u;
	l->size = kern_float(call, XENT_DTYPE);
	l->logits = kern_at(call, XENT_LOGITS, l->rows, l->classes, l->size);
	l->labels = kern_at(call, XENT_LABELS, l->rows, 1, sizeof *l->labels);
	l->loss = kern_plain(call, XENT_LOSS, 1, 1, l->size);
	l->grad = NULL;
	if (v[XENT_GRAD].u != 0)
		l->grad = kern_out(call, XENT_GRAD, l->rows, l->classes, l->size);
	kern_apart(call, XENT_LOSS, XENT_LOGITS);
	kern_apart(call, XENT_LOSS, XENT_LABELS);
	kern_apart(call, XENT_LOSS, XENT_GRAD);
	kern_apart(call, XENT_GRAD, XENT_LABELS);
	kern_inplace(call, XENT_GRAD, XENT_LOGITS);
	check_labels(call, l->labels, l->rows, l->classes);
	l->scale = v[XENT_SCALE].f;
	l->grad_scale = isnan(v[XENT_GRAD_SCALE].f) ? l->scale : v[XENT_GRAD_SCALE].f;
	l->grad_scale *=
	    kern_factor(call, XENT_SCALE_AT, written, sizeof written / sizeof *written);
	return call->rc;
}

/* The loss from the sum over the rows. steady: no label has changed. */
static enum rc
loss_end(struct kern_call *call, const struct loss *l, bool steady, double sum)
{
	if (!steady)
		return kern_fail(call, RC_BADDATA, "labels changed during the kernel");
	kern_put(l->loss, 0, l->size, l->scale * sum);
	return RC_OK;
}

static enum rc
softmax_xent_run(struct kern_call *call)
{
	struct loss l;
	double sum;
	bool steady;

	if (loss_bind(call, &l) != RC_OK)
		return call->rc;
	if (l.size == sizeof(float))
		steady = xent_rows_float(l.grad, l.logits, l.labels, l.rows, l.classes,
					 l.grad_scale, &sum);
	else
		steady = xent_rows_double(l.grad, l.logits, l.labels, l.rows, l.classes,
					  l.grad_scale, &sum);
	return loss_end(call, &l, steady, sum);
}

/*
 * softmax_xent - loss[0] = scale * sum over r of (log sum_j exp(logits[r,j]) -
 * logits[r,labels[r]]); grad[r,j] = grad_scale * (softmax(logits[r,:])[j] - (j == labels[r])).
 *
 * Computed in double. grad may be logits; nothing else overlaps. No rows: the loss is 0.
 * Errors: RC_INVAL; RC_BADDATA a label that is not a class. Checked by: tests/unit/kern/t_kern_loss.c
 */
const struct kernel kernel_softmax_xent = {
    .name = "softmax_xent",
    .summary = "softmax cross-entropy loss and its gradient",
    .params = LOSS_PARAMS,
    .run = softmax_xent_run,
};

/* ---- l2_loss */

static enum rc
l2_loss_run(struct kern_call *call)
{
	double sum = 0, d;
	unsigned right = 0;
	size_t r, i, at;
	struct loss l;

	if (loss_bind(call, &l) != RC_OK)
		return call->rc;
	for (r = at = 0; r < l.rows; r++) {
		if ((right = l.labels[r]) >= l.classes)
			break;
		for (i = 0; i < l.classes; i++, at++) {
			d = kern_get(l.logits, at, l.size) - (i == right);
			sum += d * d / 2;
			if (l.grad != NULL)
				kern_put(l.grad, at, l.size, l.grad_scale * d);
		}
	}
	return loss_end(call, &l, r == l.rows, sum);
}

/*
 * l2_loss - loss[0] = scale * sum over r, j of (logits[r,j] - (j == labels[r]))^2 / 2; grad[r,j] =
 * grad_scale * (logits[r,j] - (j == labels[r])).
 *
 * Computed in double. grad may be logits; nothing else overlaps. No rows: the loss is 0.
 * Errors: RC_INVAL; RC_BADDATA a label that is not a class. Checked by: tests/unit/kern/t_kern_loss.c
 */
const struct kernel kernel_l2_loss = {
    .name = "l2_loss",
    .summary = "squared distance from the right class, and its gradient",
    .params = LOSS_PARAMS,
    .run = l2_loss_run,
};

/* ---- argmax */

enum { ARGMAX_INDEX, ARGMAX_LOGITS, ARGMAX_ROWS, ARGMAX_CLASSES, ARGMAX_DTYPE };

/* The first of the largest elements; NaN is larger than any number. classes > 0. */
static size_t
argmax_row(const unsigned char *logits, size_t classes, size_t size)
{
	double top = kern_get(logits, 0, size), x;
	size_t i, best = 0;

	for (i = 1; i < classes && !isnan(top); i++) {
		x = kern_get(logits, i, size);
		if (!(x <= top)) {
			top = x;
			best = i;
		}
	}
	return best;
}

static enum rc
argmax_run(struct kern_call *call)
{
	uint64_t rows = call->v[ARGMAX_ROWS].u, classes = call->v[ARGMAX_CLASSES].u, r;
	size_t size = kern_float(call, ARGMAX_DTYPE);
	uint32_t *index = kern_plain(call, ARGMAX_INDEX, rows, 1, sizeof *index);
	const unsigned char *logits = kern_at(call, ARGMAX_LOGITS, rows, classes, size);

	kern_apart(call, ARGMAX_INDEX, ARGMAX_LOGITS);
	if (rows != 0 && (classes == 0 || classes > UINT32_MAX))
		kern_fail(call, RC_INVAL, "classes: %" PRIu64 " is not in 1..%" PRIu32, classes,
			  UINT32_MAX);
	if (call->rc != RC_OK)
		return call->rc;
	for (r = 0; r < rows; r++)
		index[r] = (uint32_t)argmax_row(logits + r * classes * size, classes, size);
	return RC_OK;
}

/*
 * argmax - index[r] = the first j with the largest logits[r,j]; NaN counts as larger than any
 * number.
 *
 * The areas do not overlap. Errors: RC_INVAL, also rows of no classes.
 * Checked by: tests/unit/kern/t_kern_loss.c
 */
const struct kernel kernel_argmax = {
    .name = "argmax",
    .summary = "column of the largest element of each row",
    .params =
	{
	    [ARGMAX_INDEX] = {"index", KP_ADDR, false, 0, "u32[rows] out"},
	    [ARGMAX_LOGITS] = {"logits", KP_ADDR, false, 0, "[rows,classes] in"},
	    [ARGMAX_ROWS] = {"rows", KP_COUNT, false, 0, "rows of logits"},
	    [ARGMAX_CLASSES] = {"classes", KP_COUNT, false, 0, "columns of logits"},
	    [ARGMAX_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = argmax_run,
};

/* ---- accuracy */

enum { ACC_COUNT, ACC_LOGITS, ACC_LABELS, ACC_ROWS, ACC_CLASSES, ACC_DTYPE };

static enum rc
accuracy_run(struct kern_call *call)
{
	uint64_t rows = call->v[ACC_ROWS].u, classes = call->v[ACC_CLASSES].u, r, right = 0;
	size_t size = kern_float(call, ACC_DTYPE);
	uint64_t *count = kern_at(call, ACC_COUNT, 1, 1, sizeof *count);
	const unsigned char *logits = kern_at(call, ACC_LOGITS, rows, classes, size);
	label *labels = kern_at(call, ACC_LABELS, rows, 1, sizeof *labels);

	kern_apart(call, ACC_COUNT, ACC_LOGITS);
	kern_apart(call, ACC_COUNT, ACC_LABELS);
	check_labels(call, labels, rows, classes);
	if (call->rc != RC_OK)
		return call->rc;
	for (r = 0; r < rows; r++)
		right += argmax_row(logits + r * classes * size, classes, size) == labels[r];
	*count = right;
	return RC_OK;
}

/*
 * accuracy - count[0] = the number of rows whose argmax is their label.
 *
 * count overlaps nothing. Errors: RC_INVAL; RC_BADDATA a label that is not a class.
 * Checked by: tests/unit/kern/t_kern_loss.c
 */
const struct kernel kernel_accuracy = {
    .name = "accuracy",
    .summary = "count the rows whose largest logit is at their label",
    .params =
	{
	    [ACC_COUNT] = {"count", KP_ADDR, false, 0, "u64[1] out: rows that are right"},
	    [ACC_LOGITS] = {"logits", KP_ADDR, false, 0, "[rows,classes] in"},
	    [ACC_LABELS] = {"labels", KP_ADDR, false, 0, "u8[rows] right classes"},
	    [ACC_ROWS] = {"rows", KP_COUNT, false, 0, "rows of logits"},
	    [ACC_CLASSES] = {"classes", KP_COUNT, false, 0, "columns of logits"},
	    [ACC_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = accuracy_run,
};
