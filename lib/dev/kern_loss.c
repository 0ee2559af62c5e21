/*
 * kern_loss.c - the end of a classifier: softmax cross-entropy, argmax, accuracy.
 */
#include "dev/kern_impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "mem/clones.h"

#define BLOCK 256

/* Into the clones, or it is compiled for the plain processor. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Volatile: somebody may write the labels meanwhile, and what was checked must be what is used. */
typedef const volatile uint8_t label;

/* Fails when a label is no class. */
static void
check_labels(struct kern_call *c, label *labels, uint64_t rows, uint64_t classes)
{
	uint64_t r;
	unsigned l;

	for (r = 0; c->rc == RC_OK && r < rows; r++) {
		if ((l = labels[r]) >= classes)
			kern_fail(c, RC_BADDATA,
				  "labels: row %" PRIu64 " has label %u, not below %" PRIu64
				  " classes",
				  r, l, classes);
	}
}

/* ---- softmax_xent */

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
};

/*
 * e^x for x <= 0, within an ulp or so; 0 below -708, where results become subnormal. A function
 * that the vectoriser can have as often as it likes.
 *
 * x = k ln 2 + r with |r| <= ln 2 / 2: e^r by its series, times 2^k put together from its bits.
 */
static ALWAYS_INLINE double
exp_negative(double x)
{
	static const double coefficient[] = {1 / 6227020800.,
					     1 / 479001600.,
					     1 / 39916800.,
					     1 / 3628800.,
					     1 / 362880.,
					     1 / 40320.,
					     1 / 5040.,
					     1 / 720.,
					     1 / 120.,
					     1 / 24.,
					     1 / 6.,
					     1 / 2.,
					     1.,
					     1.};
	const double shift = 0x1.8p52; /* beyond it a double has no fraction */
	double k = x * 0x1.71547652b82fep0 + shift, r, e = 0, power;
	uint64_t bits;

	memcpy(&bits, &k, sizeof bits);
	bits = (bits + 1023) << 52;
	memcpy(&power, &bits, sizeof power);
	k -= shift;
	r = (x - k * 0x1.62e42fefa3800p-1) - k * 0x1.ef35793c76730p-45;
	for (size_t i = 0; i < sizeof coefficient / sizeof coefficient[0]; i++)
		e = e * r + coefficient[i];
	return x < -708 ? 0 : e * power;
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

static enum rc
softmax_xent_run(const struct devmem *mem, const union kernel_value *v, struct err *err)
{
	struct kern_call call = {.k = &kernel_softmax_xent, .mem = mem, .v = v, .err = err};
	uint64_t rows = v[XENT_ROWS].u, classes = v[XENT_CLASSES].u;
	size_t size = kern_float(&call, XENT_DTYPE);
	const void *logits = kern_at(&call, XENT_LOGITS, rows, classes, size);
	label *labels = kern_at(&call, XENT_LABELS, rows, 1, sizeof *labels);
	void *loss = kern_at(&call, XENT_LOSS, 1, 1, size), *grad = NULL;
	double scale = v[XENT_SCALE].f, grad_scale = v[XENT_GRAD_SCALE].f, sum;
	bool steady;

	if (v[XENT_GRAD].u != 0)
		grad = kern_at(&call, XENT_GRAD, rows, classes, size);
	kern_apart(&call, XENT_LOSS, XENT_LOGITS);
	kern_apart(&call, XENT_LOSS, XENT_LABELS);
	kern_apart(&call, XENT_LOSS, XENT_GRAD);
	kern_apart(&call, XENT_GRAD, XENT_LABELS);
	kern_inplace(&call, XENT_GRAD, XENT_LOGITS);
	check_labels(&call, labels, rows, classes);
	if (call.rc != RC_OK)
		return call.rc;
	if (isnan(grad_scale))
		grad_scale = scale;
	if (size == sizeof(float))
		steady = xent_rows_float(grad, logits, labels, rows, classes, grad_scale, &sum);
	else
		steady = xent_rows_double(grad, logits, labels, rows, classes, grad_scale, &sum);
	if (!steady)
		return kern_fail(&call, RC_BADDATA, "labels have changed meanwhile");
	kern_put(loss, 0, size, scale * sum);
	return RC_OK;
}

/*
 * softmax_xent - loss[0] = scale * sum over r of (log sum_j exp(logits[r,j]) -
 * logits[r,labels[r]]); grad[r,j] = grad_scale * (softmax(logits[r,:])[j] - (j == labels[r])).
 *
 * Computed in double. grad may be logits; nothing else overlaps. No rows: the loss is 0.
 * Errors: RC_INVAL; RC_BADDATA a label that is no class. Checked by: tests/unit/t_kern_loss.c
 */
const struct kernel kernel_softmax_xent = {
    .name = "softmax_xent",
    .summary = "softmax cross-entropy loss and its gradient",
    .params =
	{
	    [XENT_LOGITS] = {"logits", KP_ADDR, false, 0, "[rows,classes] in"},
	    [XENT_LABELS] = {"labels", KP_ADDR, false, 0, "u8[rows] right classes"},
	    [XENT_LOSS] = {"loss", KP_ADDR, false, 0, "[1] out: scale * sum of the rows' losses"},
	    [XENT_ROWS] = {"rows", KP_COUNT, false, 0, "rows of logits"},
	    [XENT_CLASSES] = {"classes", KP_COUNT, false, 0, "columns of logits"},
	    [XENT_GRAD] = {"grad", KP_ADDR, true, 0, "[rows,classes] out; may be logits"},
	    [XENT_SCALE] = {"scale", KP_REAL, true, 1, "factor of the loss, 1/rows for a mean"},
	    [XENT_GRAD_SCALE] = {"grad_scale", KP_REAL, true, NAN, "factor of grad; nan: scale"},
	    [XENT_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "f32 or f64"},
	},
    .run = softmax_xent_run,
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
argmax_run(const struct devmem *mem, const union kernel_value *v, struct err *err)
{
	struct kern_call call = {.k = &kernel_argmax, .mem = mem, .v = v, .err = err};
	uint64_t rows = v[ARGMAX_ROWS].u, classes = v[ARGMAX_CLASSES].u, r;
	size_t size = kern_float(&call, ARGMAX_DTYPE);
	uint32_t *index = kern_at(&call, ARGMAX_INDEX, rows, 1, sizeof *index);
	const unsigned char *logits = kern_at(&call, ARGMAX_LOGITS, rows, classes, size);

	kern_apart(&call, ARGMAX_INDEX, ARGMAX_LOGITS);
	if (rows != 0 && (classes == 0 || classes > UINT32_MAX))
		kern_fail(&call, RC_INVAL, "classes: %" PRIu64 " is not in 1..%" PRIu32, classes,
			  UINT32_MAX);
	if (call.rc != RC_OK)
		return call.rc;
	for (r = 0; r < rows; r++)
		index[r] = (uint32_t)argmax_row(logits + r * classes * size, classes, size);
	return RC_OK;
}

/*
 * argmax - index[r] = the first j with the largest logits[r,j]; NaN counts as larger than any
 * number.
 *
 * The areas do not overlap. Errors: RC_INVAL, also rows of no classes.
 * Checked by: tests/unit/t_kern_loss.c
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
	    [ARGMAX_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "f32 or f64"},
	},
    .run = argmax_run,
};

/* ---- accuracy */

enum { ACC_COUNT, ACC_LOGITS, ACC_LABELS, ACC_ROWS, ACC_CLASSES, ACC_DTYPE };

static enum rc
accuracy_run(const struct devmem *mem, const union kernel_value *v, struct err *err)
{
	struct kern_call call = {.k = &kernel_accuracy, .mem = mem, .v = v, .err = err};
	uint64_t rows = v[ACC_ROWS].u, classes = v[ACC_CLASSES].u, r, right = 0;
	size_t size = kern_float(&call, ACC_DTYPE);
	uint64_t *count = kern_at(&call, ACC_COUNT, 1, 1, sizeof *count);
	const unsigned char *logits = kern_at(&call, ACC_LOGITS, rows, classes, size);
	label *labels = kern_at(&call, ACC_LABELS, rows, 1, sizeof *labels);

	kern_apart(&call, ACC_COUNT, ACC_LOGITS);
	kern_apart(&call, ACC_COUNT, ACC_LABELS);
	check_labels(&call, labels, rows, classes);
	if (call.rc != RC_OK)
		return call.rc;
	for (r = 0; r < rows; r++)
		right += argmax_row(logits + r * classes * size, classes, size) == labels[r];
	*count = right;
	return RC_OK;
}

/*
 * accuracy - count[0] = the number of rows whose argmax is their label.
 *
 * count overlaps nothing. Errors: RC_INVAL; RC_BADDATA a label that is no class.
 * Checked by: tests/unit/t_kern_loss.c
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
	    [ACC_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "f32 or f64"},
	},
    .run = accuracy_run,
};
