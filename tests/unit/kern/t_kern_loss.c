/* The losses, argmax and accuracy against one row at a time, and the gradients against differences.
 */
#include "kern_test.h"

#define ROWS	7
#define CLASSES 10

struct net {
	uint64_t logits, labels, loss, grad, index, count;
	size_t size;
	enum gpusim_dtype t;
};

static struct net
net_new(enum gpusim_dtype t)
{
	size_t size = dtype_size(t), i;
	struct net x = {
	    .logits = kt_vector(ROWS * CLASSES + 1, size),
	    .labels = kt_alloc(ROWS),
	    .loss = kt_vector(1, size),
	    .grad = kt_vector(ROWS * CLASSES + 1, size),
	    .index = kt_alloc(ROWS * 4),
	    .count = kt_alloc(8),
	    .size = size,
	    .t = t,
	};

	for (i = 0; i < ROWS; i++)
		((uint8_t *)kt_at(x.labels))[i] = (uint8_t)(i * 3 % CLASSES);
	return x;
}

#define XENT(x)                                                                   \
	U("logits", (x)->logits), U("labels", (x)->labels), U("loss", (x)->loss), \
	    U("dtype", (x)->t), U("classes", CLASSES)

/* The loss and the gradient of one row in double. */
static double
reference(const struct net *x, size_t row, double *grad)
{
	unsigned label = ((uint8_t *)kt_at(x->labels))[row];
	double z[CLASSES], top = (double)-INFINITY, sum = 0;
	size_t j;

	for (j = 0; j < CLASSES; j++)
		top = fmax(top, z[j] = kt_get(x->logits, row * CLASSES + j, x->size));
	for (j = 0; j < CLASSES; j++)
		sum += exp(z[j] - top);
	for (j = 0; j < CLASSES; j++)
		grad[j] = exp(z[j] - top) / sum - (j == label);
	return log(sum) + top - z[label];
}

static bool
agrees(const struct net *x, size_t rows, double scale, double grad_scale)
{
	double eps = x->size == 4 ? 0x1p-22 : 0x1p-50, want[ROWS][CLASSES], sum = 0;
	bool good;
	size_t r, j;

	for (r = 0; r < rows; r++)
		sum += reference(x, r, want[r]);
	good =
	    kt_near("loss", 0, kt_get(x->loss, 0, x->size), scale * sum, eps * fabs(scale * sum));
	for (r = 0; r < rows; r++) {
		for (j = 0; j < CLASSES; j++)
			good = good && kt_near("grad", r * CLASSES + j,
					       kt_get(x->grad, r * CLASSES + j, x->size),
					       grad_scale * want[r][j], eps * fabs(grad_scale));
	}
	return good;
}

static void
xent(const struct net *x)
{
	const char *name = dtype_name(x->t);
	unsigned char logits[(ROWS * CLASSES + 1) * 8];
	double up, down, z, h = 0x1p-12, old = kt_get(x->grad, ROWS * CLASSES, x->size);
	bool good = true;
	size_t i, rows;

	for (rows = 0; rows <= ROWS; rows++)
		good = kt_run("softmax_xent", ARGS(XENT(x), U("grad", x->grad), U("rows", rows))) ==
			   RC_OK &&
		       agrees(x, rows, 1, 1) && good;
	ok(good && kt_get(x->grad, ROWS * CLASSES, x->size) == old,
	   "softmax_xent %s: loss and gradient, 0..%d rows", name, ROWS);
	good = kt_run("softmax_xent", ARGS(XENT(x), U("grad", x->grad), U("rows", ROWS),
					   R("scale", 0.25))) == RC_OK &&
	       agrees(x, ROWS, 0.25, 0.25);
	ok(good, "softmax_xent %s: scale holds for both", name);
	good = kt_run("softmax_xent", ARGS(XENT(x), U("grad", x->grad), U("rows", ROWS),
					   R("grad_scale", 1.0 / ROWS))) == RC_OK &&
	       agrees(x, ROWS, 1, 1.0 / ROWS);
	ok(good, "softmax_xent %s: the sum of the losses with the mean's gradient", name);
	old = kt_get(x->grad, 3, x->size);
	ok(kt_run("softmax_xent", ARGS(XENT(x), U("rows", ROWS), R("scale", 2.0))) == RC_OK &&
	       kt_get(x->grad, 3, x->size) == old && agrees(x, ROWS, 2, 1.0 / ROWS),
	   "softmax_xent %s: without a gradient", name);

	if (x->t == GPUSIM_F64) {
		good = kt_run("softmax_xent", ARGS(XENT(x), U("grad", x->grad), U("rows", ROWS))) ==
		       RC_OK;
		for (i = 0; i < ROWS * CLASSES; i++) {
			z = kt_get(x->logits, i, 8);
			kt_put(x->logits, i, 8, z + h);
			good =
			    good && kt_run("softmax_xent", ARGS(XENT(x), U("rows", ROWS))) == RC_OK;
			up = kt_get(x->loss, 0, 8);
			kt_put(x->logits, i, 8, z - h);
			good =
			    good && kt_run("softmax_xent", ARGS(XENT(x), U("rows", ROWS))) == RC_OK;
			down = kt_get(x->loss, 0, 8);
			kt_put(x->logits, i, 8, z);
			good = good && kt_near("grad", i, kt_get(x->grad, i, 8),
					       (up - down) / (2 * h), 1e-7);
		}
		ok(good,
		   "softmax_xent f64: the gradient agrees with differences of the loss to 1e-7");
	}

	memcpy(logits, kt_at(x->logits), (ROWS * CLASSES + 1) * x->size);
	good =
	    kt_run("softmax_xent", ARGS(XENT(x), U("grad", x->grad), U("rows", ROWS))) == RC_OK &&
	    kt_run("softmax_xent", ARGS(XENT(x), U("grad", x->logits), U("rows", ROWS))) == RC_OK &&
	    memcmp(kt_at(x->logits), kt_at(x->grad), ROWS * CLASSES * x->size) == 0;
	memcpy(kt_at(x->logits), logits, (ROWS * CLASSES + 1) * x->size);
	ok(good, "softmax_xent %s: the gradient over the logits", name);

	for (i = 0; i < CLASSES; i++) { /* label of row 0 is 0, of row 1 is 3 */
		kt_put(x->logits, i, x->size, i == 0 ? 30000 : -30000);
		kt_put(x->logits, CLASSES + i, x->size, i == 0 ? 1000 : 0);
	}
	good = kt_run("softmax_xent", ARGS(XENT(x), U("grad", x->grad), U("rows", 2))) == RC_OK &&
	       agrees(x, 2, 1, 1) && kt_near("loss", 0, kt_get(x->loss, 0, x->size), 1000, 1e-3);
	kt_put(x->logits, 0, x->size, (double)NAN);
	good = good && kt_run("softmax_xent", ARGS(XENT(x), U("rows", 1))) == RC_OK &&
	       isnan(kt_get(x->loss, 0, x->size));
	kt_put(x->logits, 0, x->size, 0);
	kt_put(x->logits, 5, x->size, (double)NAN);
	good = good && kt_run("softmax_xent", ARGS(XENT(x), U("rows", 1))) == RC_OK &&
	       isnan(kt_get(x->loss, 0, x->size));
	memcpy(kt_at(x->logits), logits, (ROWS * CLASSES + 1) * x->size);
	ok(good, "softmax_xent %s: huge logits do not overflow; NaN shows in the loss", name);

	ok(kt_refuses(RC_INVAL, "softmax_xent",
		      ARGS(XENT(x), U("rows", ROWS), U("grad", x->logits + x->size))) &&
	       kt_refuses(RC_INVAL, "softmax_xent",
			  ARGS(XENT(x), U("rows", ROWS), U("grad", x->loss))),
	   "softmax_xent %s: refuses an overlap", name);
	ok(kt_sweep("softmax_xent", "labels", ARGS(XENT(x), U("grad", x->grad), U("rows", ROWS))),
	   "softmax_xent %s: refuses bad arguments", name);
}

/* ---- l2_loss */

static double
distance(const struct net *x, size_t i)
{
	unsigned label = ((uint8_t *)kt_at(x->labels))[i / CLASSES];

	return kt_get(x->logits, i, x->size) - (i % CLASSES == label);
}

static bool
l2_agrees(const struct net *x, size_t rows, double scale, double grad_scale)
{
	double eps = x->size == 4 ? 0x1p-22 : 0x1p-50, sum = 0, d;
	bool good = true;
	size_t i;

	for (i = 0; i < rows * CLASSES; i++) {
		d = distance(x, i);
		sum += d * d / 2;
		good = good && kt_near("grad", i, kt_get(x->grad, i, x->size), grad_scale * d,
				       eps * fabs(grad_scale));
	}
	return good && kt_near("loss", 0, kt_get(x->loss, 0, x->size), scale * sum,
			       eps * fabs(scale * sum));
}

static bool
l2_forward(void *ctx)
{
	const struct net *x = ctx;

	return kt_run("l2_loss", ARGS(XENT(x), U("rows", ROWS))) == RC_OK;
}

static void
l2_slope(const struct net *x)
{
	uint64_t one = kt_alloc(8);
	struct kt_slope s = {l2_forward, (void *)(uintptr_t)x, x->loss, one, 1};

	kt_put(one, 0, 8, 1);
	ok(kt_run("l2_loss", ARGS(XENT(x), U("grad", x->grad), U("rows", ROWS))) == RC_OK &&
	       kt_gradient("grad", &s, x->logits, ROWS * CLASSES, x->grad, 1e-8),
	   "l2_loss f64: the gradient agrees with differences of the loss to 1e-8");
}

static void
l2(const struct net *x)
{
	const char *name = dtype_name(x->t);
	uint8_t *labels = kt_at(x->labels);
	unsigned char logits[ROWS * CLASSES * 8];
	double old = kt_get(x->grad, ROWS * CLASSES, x->size);
	bool good = true;
	size_t rows;

	for (rows = 0; rows <= ROWS; rows++)
		good = kt_run("l2_loss", ARGS(XENT(x), U("grad", x->grad), U("rows", rows),
					      R("scale", 0.25))) == RC_OK &&
		       l2_agrees(x, rows, 0.25, 0.25) && good;
	ok(good && kt_get(x->grad, ROWS * CLASSES, x->size) == old,
	   "l2_loss %s: loss and gradient, 0..%d rows", name, ROWS);
	good = kt_run("l2_loss", ARGS(XENT(x), U("grad", x->grad), U("rows", ROWS),
				      R("grad_scale", 1.0 / ROWS))) == RC_OK &&
	       l2_agrees(x, ROWS, 1, 1.0 / ROWS);
	ok(good && kt_run("l2_loss", ARGS(XENT(x), U("rows", ROWS), R("scale", 2.0))) == RC_OK &&
	       l2_agrees(x, ROWS, 2, 1.0 / ROWS),
	   "l2_loss %s: factors of its own for each, and without a gradient", name);
	memcpy(logits, kt_at(x->logits), ROWS * CLASSES * x->size);
	good = kt_run("l2_loss", ARGS(XENT(x), U("grad", x->grad), U("rows", ROWS))) == RC_OK &&
	       kt_run("l2_loss", ARGS(XENT(x), U("grad", x->logits), U("rows", ROWS))) == RC_OK &&
	       memcmp(kt_at(x->logits), kt_at(x->grad), ROWS * CLASSES * x->size) == 0;
	memcpy(kt_at(x->logits), logits, ROWS * CLASSES * x->size);
	ok(good, "l2_loss %s: the gradient over the logits", name);
	ok(kt_refuses(RC_INVAL, "l2_loss",
		      ARGS(XENT(x), U("rows", ROWS), U("grad", x->logits + x->size))) &&
	       kt_refuses(RC_INVAL, "l2_loss", ARGS(XENT(x), U("rows", ROWS), U("grad", x->loss))),
	   "l2_loss %s: refuses an overlap", name);
	labels[ROWS - 1] = CLASSES;
	ok(kt_refuses(RC_BADDATA, "l2_loss", ARGS(XENT(x), U("rows", ROWS), U("grad", x->grad))),
	   "l2_loss %s: refuses a label that is no class", name);
	labels[ROWS - 1] = 1;
	ok(kt_sweep("l2_loss", "labels", ARGS(XENT(x), U("grad", x->grad), U("rows", ROWS))),
	   "l2_loss %s: refuses bad arguments", name);
}

/* One row of many classes, whose exponentials go from 1 down to nothing. */
static void
wide(enum gpusim_dtype t)
{
	enum { WIDE = 777 };
	size_t size = dtype_size(t), j;
	uint64_t logits = kt_alloc(WIDE * size), grad = kt_alloc(WIDE * size), label = kt_alloc(1),
		 loss = kt_alloc(8);
	double sum = 0, want, got, eps = size == 4 ? 0x1p-23 : 0x1p-51;
	bool good;

	*(uint8_t *)kt_at(label) = 200;
	for (j = 0; j < WIDE; j++) {
		kt_put(logits, j, size, -(double)(j * 613 % WIDE) * 1.37 + 5);
		sum += exp(kt_get(logits, j, size) - 5);
	}
	kt_put(logits, 776, size, (double)-INFINITY);
	sum -= exp(-(double)(776 * 613 % WIDE) * 1.37);
	good = kt_run("softmax_xent",
		      ARGS(U("logits", logits), U("labels", label), U("loss", loss), U("rows", 1),
			   U("classes", WIDE), U("grad", grad), U("dtype", t))) == RC_OK;
	for (j = 0; j < WIDE; j++) {
		want = exp(kt_get(logits, j, size) - 5) / sum - (j == 200);
		got = kt_get(grad, j, size);
		if (fabs(want) < (size == 4 ? 1e-37 : 1e-300)) /* subnormals are not kept */
			good = good && kt_near("grad", j, got, want, 1e-37);
		else
			good = good && kt_near("grad", j, got, want, 4 * eps * fabs(want));
	}
	want = log(sum) + 5 - kt_get(logits, 200, size);
	good = good && kt_near("loss", 0, kt_get(loss, 0, size), want, 4 * eps * want);
	ok(good && kt_get(grad, 776, size) == 0,
	   "softmax_xent %s: %d classes, to a relative error of a few ulps", dtype_name(t), WIDE);
}

static void
labels(const struct net *x)
{
	const char *name = dtype_name(x->t);
	uint8_t *l = kt_at(x->labels), keep = l[4];
	bool good = true;
	unsigned bad;

	for (bad = CLASSES; bad < 256; bad += 245) {
		l[4] = (uint8_t)bad;
		good = kt_refuses(RC_BADDATA, "softmax_xent",
				  ARGS(XENT(x), U("grad", x->grad), U("rows", ROWS))) &&
		       strstr(kt_err.text, "row 4") != NULL && good;
		good = kt_refuses(RC_BADDATA, "accuracy",
				  ARGS(U("logits", x->logits), U("labels", x->labels),
				       U("count", x->count), U("rows", ROWS), U("classes", CLASSES),
				       U("dtype", x->t))) &&
		       strstr(kt_err.text, "row 4") != NULL && good;
	}
	l[4] = keep;
	ok(good, "softmax_xent, accuracy %s: a label that is no class is named by row", name);
	ok(kt_refuses(RC_BADDATA, "softmax_xent",
		      ARGS(U("logits", x->logits), U("labels", x->labels), U("loss", x->loss),
			   U("rows", 2), U("classes", 0), U("dtype", x->t))),
	   "softmax_xent %s: no classes, no right label", name);
}

static void
argmax(const struct net *x)
{
	const char *name = dtype_name(x->t);
	uint32_t *index = kt_at(x->index);
	uint64_t *count = kt_at(x->count);
	uint8_t *l = kt_at(x->labels);
	size_t r, j, best, right = 0;
	bool good;

	for (j = 0; j < CLASSES; j++) /* rows 0..2: ties, all -inf, NaN after the largest */
		kt_put(x->logits, j, x->size, j == 4 || j == 7 ? 9 : -1);
	for (j = 0; j < CLASSES; j++)
		kt_put(x->logits, CLASSES + j, x->size, (double)-INFINITY);
	kt_put(x->logits, 2 * CLASSES + 1, x->size, (double)INFINITY);
	kt_put(x->logits, 2 * CLASSES + 6, x->size, (double)NAN);
	kt_put(x->logits, 2 * CLASSES + 8, x->size, (double)NAN);
#define ROWSOF(x_) \
	U("logits", (x_)->logits), U("rows", ROWS), U("classes", CLASSES), U("dtype", (x_)->t)
	good = kt_run("argmax", ARGS(ROWSOF(x), U("index", x->index))) == RC_OK && index[0] == 4 &&
	       index[1] == 0 && index[2] == 6;
	ok(good, "argmax %s: the first of equals; NaN is the largest", name);
	for (r = 3; r < ROWS; r++) {
		for (best = 0, j = 1; j < CLASSES; j++) {
			if (kt_get(x->logits, r * CLASSES + j, x->size) >
			    kt_get(x->logits, r * CLASSES + best, x->size))
				best = j;
		}
		good = good && index[r] == best;
	}
	ok(good, "argmax %s: the largest", name);
	for (r = 0; r < ROWS; r++) {
		l[r] = (uint8_t)(r % 3 == 1 ? (index[r] + 1) % CLASSES : index[r]);
		right += l[r] == index[r];
	}
	ok(kt_run("accuracy", ARGS(ROWSOF(x), U("labels", x->labels), U("count", x->count))) ==
		   RC_OK &&
	       *count == right && right > 0 && right < ROWS,
	   "accuracy %s: counts the right rows", name);
	ok(kt_run("accuracy", ARGS(U("logits", x->logits), U("rows", 0), U("classes", CLASSES),
				   U("labels", x->labels), U("count", x->count))) == RC_OK &&
	       *count == 0,
	   "accuracy %s: no rows, none right", name);
	ok(kt_refuses(
	       RC_INVAL, "argmax",
	       ARGS(U("logits", x->logits), U("index", x->index), U("rows", 2), U("classes", 0))),
	   "argmax %s: refuses rows of nothing", name);
	ok(kt_sweep("argmax", NULL, ARGS(ROWSOF(x), U("index", x->index))) &&
	       kt_sweep("accuracy", "labels",
			ARGS(ROWSOF(x), U("labels", x->labels), U("count", x->count))),
	   "argmax, accuracy %s: refuse bad arguments", name);
}

int
main(void)
{
	static const enum gpusim_dtype types[] = {GPUSIM_F32, GPUSIM_F64};
	struct net x;
	unsigned i;

	for (i = 0; i < 2; i++) {
		kt_open();
		x = net_new(types[i]);
		xent(&x);
		labels(&x);
		argmax(&x);
		kt_close();
		kt_open();
		x = net_new(types[i]);
		l2(&x);
		if (types[i] == GPUSIM_F64)
			l2_slope(&x);
		kt_close();
		kt_open();
		wide(types[i]);
		kt_close();
	}
	return tap_done();
}
