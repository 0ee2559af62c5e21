/*
 * kern_loss.c - the end of a classifier: softmax cross-entropy, argmax, accuracy.
 */
#include "dev/kern_impl.h"

#include <inttypes.h>
#include <math.h>

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
 * The loss of one row; grad (or NULL) may be the logits. `l` < classes.
 *
 * Shifted by the largest logit, every exponential is at most 1 and one of them is 1.
 */
static inline double
xent_row(void *grad, const void *logits, size_t classes, size_t size, unsigned l, double grad_scale)
{
	double top = kern_get(logits, 0, size), right = kern_get(logits, l, size), sum = 0, e;
	size_t i;

	for (i = 1; i < classes; i++)
		top = kern_get(logits, i, size) > top ? kern_get(logits, i, size) : top;
	for (i = 0; i < classes; i++) {
		e = exp(kern_get(logits, i, size) - top);
		sum += e;
		if (grad != NULL)
			kern_put(grad, i, size, e);
	}
	if (grad != NULL) {
		for (i = 0; i < classes; i++) {
			e = kern_get(grad, i, size) / sum;
			kern_put(grad, i, size, grad_scale * (i == l ? e - 1 : e));
		}
	}
	return log(sum) - (right - top);
}

/* Sum of the losses in *sum. False: a label has changed since it was checked. */
static inline bool
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
	/* Two calls with a constant size: the compiler makes a loop for each type. */
	if (size == sizeof(float))
		steady =
		    xent_rows(grad, logits, labels, rows, classes, sizeof(float), grad_scale, &sum);
	else
		steady = xent_rows(grad, logits, labels, rows, classes, sizeof(double), grad_scale,
				   &sum);
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
