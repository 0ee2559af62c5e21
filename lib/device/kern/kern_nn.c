/*
 * kern_nn.c - biases and rectifiers, between a network's matrix products.
 */
#include "kern/kern_impl.h"

#include "mem/clones.h"

#define BLOCK 256

/* ---- bias_add, bias_relu */

enum { BIAS_X, BIAS_BIAS, BIAS_ROWS, BIAS_COLS, BIAS_DTYPE };

/* Both kernels: x[i] = expr of the sum y, row by row. */
#define BIAS_LOOP(name, type, expr)                                                               \
	HOT_CLONES static void name##_##type(type *x, const type *bias, size_t rows, size_t cols) \
	{                                                                                         \
		for (; rows > 0; rows--, x += cols) {                                             \
			HOT_LOOP                                                                  \
			for (size_t i = 0; i < cols; i++) {                                       \
				type y = x[i] + bias[i];                                          \
                                                                                                  \
				x[i] = (expr);                                                    \
			}                                                                         \
		}                                                                                 \
	}
BIAS_LOOP(bias_add, float, y)
BIAS_LOOP(bias_add, double, y)
/* NaN, which is not <= 0, stays. */
BIAS_LOOP(bias_relu, float, y <= 0 ? 0 : y)
BIAS_LOOP(bias_relu, double, y <= 0 ? 0 : y)

static enum rc
bias_run(struct kern_call *call, void (*f32)(float *x, const float *bias, size_t rows, size_t cols),
	 void (*f64)(double *x, const double *bias, size_t rows, size_t cols))
{
	uint64_t rows = call->v[BIAS_ROWS].u, cols = call->v[BIAS_COLS].u;
	size_t size = kern_float(call, BIAS_DTYPE);
	void *x = kern_out(call, BIAS_X, rows, cols, size);
	const void *bias = kern_at(call, BIAS_BIAS, cols, 1, size);

	kern_apart(call, BIAS_X, BIAS_BIAS);
	if (call->rc != RC_OK || cols == 0)
		return call->rc;
	if (size == sizeof(float))
		f32(x, bias, rows, cols);
	else
		f64(x, bias, rows, cols);
	return RC_OK;
}

#define BIAS_PARAMS                                                                \
	{                                                                          \
		[BIAS_X] = {"x", KP_ADDR, false, 0, "[rows,cols] in and out"},     \
		[BIAS_BIAS] = {"bias", KP_ADDR, false, 0, "[cols] in"},            \
		[BIAS_ROWS] = {"rows", KP_COUNT, false, 0, "rows of x"},           \
		[BIAS_COLS] = {"cols", KP_COUNT, false, 0, "columns of x"},        \
		[BIAS_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS}, \
	}

static enum rc
bias_add_run(struct kern_call *call)
{
	return bias_run(call, bias_add_float, bias_add_double);
}

/*
 * bias_add - x[r,c] += bias[c]. The areas do not overlap.
 *
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_nn.c
 */
const struct kernel kernel_bias_add = {
    .name = "bias_add",
    .summary = "add a vector to each row",
    .params = BIAS_PARAMS,
    .run = bias_add_run,
};

static enum rc
bias_relu_run(struct kern_call *call)
{
	return bias_run(call, bias_relu_float, bias_relu_double);
}

/*
 * bias_relu - x[r,c] = max(x[r,c] + bias[c], 0); NaN stays NaN. The areas do not overlap.
 *
 * bias_add and relu in one pass. Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_nn.c
 */
const struct kernel kernel_bias_relu = {
    .name = "bias_relu",
    .summary = "add a vector to each row, then rectify",
    .params = BIAS_PARAMS,
    .run = bias_relu_run,
};

/* ---- bias_grad */

enum { BGRAD_DB, BGRAD_DY, BGRAD_ROWS, BGRAD_COLS, BGRAD_DTYPE };

/* Sums in double, a block of columns at a time, so that memory is read along the rows. */
#define BIAS_GRAD_LOOP(type)                                                           \
	HOT_CLONES static void bias_grad_##type(type *db, const type *dy, size_t rows, \
						size_t cols)                           \
	{                                                                              \
		size_t at, r, i, n;                                                    \
		double sum[BLOCK];                                                     \
                                                                                       \
		for (at = 0; at < cols; at += n) {                                     \
			n = cols - at < BLOCK ? cols - at : BLOCK;                     \
			for (i = 0; i < n; i++)                                        \
				sum[i] = 0;                                            \
			for (r = 0; r < rows; r++) {                                   \
				for (i = 0; i < n; i++)                                \
					sum[i] += (double)dy[r * cols + at + i];       \
			}                                                              \
			for (i = 0; i < n; i++)                                        \
				db[at + i] = (type)sum[i];                             \
		}                                                                      \
	}
BIAS_GRAD_LOOP(float)
BIAS_GRAD_LOOP(double)

static enum rc
bias_grad_run(struct kern_call *call)
{
	uint64_t rows = call->v[BGRAD_ROWS].u, cols = call->v[BGRAD_COLS].u;
	size_t size = kern_float(call, BGRAD_DTYPE);
	void *db = kern_out(call, BGRAD_DB, cols, 1, size);
	const void *dy = kern_at(call, BGRAD_DY, rows, cols, size);

	kern_apart(call, BGRAD_DB, BGRAD_DY);
	if (call->rc != RC_OK)
		return call->rc;
	KERN_LOOP(size, bias_grad, db, dy, rows, cols);
	return RC_OK;
}

/*
 * bias_grad - db[c] = sum over r of dy[r,c], summed in double. The areas do not overlap.
 *
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_nn.c
 */
const struct kernel kernel_bias_grad = {
    .name = "bias_grad",
    .summary = "sum the rows: the gradient of bias_add",
    .params =
	{
	    [BGRAD_DB] = {"db", KP_ADDR, false, 0, "[cols] out"},
	    [BGRAD_DY] = {"dy", KP_ADDR, false, 0, "[rows,cols] in"},
	    [BGRAD_ROWS] = {"rows", KP_COUNT, false, 0, "rows of dy"},
	    [BGRAD_COLS] = {"cols", KP_COUNT, false, 0, "columns of dy"},
	    [BGRAD_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = bias_grad_run,
};

/* ---- bias_relu_grad */

enum { BRGRAD_DX, BRGRAD_DB, BRGRAD_DY, BRGRAD_Y, BRGRAD_ROWS, BRGRAD_COLS, BRGRAD_DTYPE };

/* As bias_grad, on each row right after relu_grad has written it. */
#define BIAS_RELU_GRAD_LOOP(type)                                                             \
	HOT_CLONES static void bias_relu_grad_##type(type *dx, type *db, const type *dy,      \
						     const type *y, size_t rows, size_t cols) \
	{                                                                                     \
		size_t at, r, i, n, first;                                                    \
		double sum[BLOCK];                                                            \
		type d;                                                                       \
                                                                                              \
		for (at = 0; at < cols; at += n) {                                            \
			n = cols - at < BLOCK ? cols - at : BLOCK;                            \
			for (i = 0; i < n; i++)                                               \
				sum[i] = 0;                                                   \
			for (r = 0; r < rows; r++) {                                          \
				first = r * cols + at;                                        \
				HOT_LOOP                                                      \
				for (i = 0; i < n; i++) {                                     \
					d = dy[first + i];                                    \
					dx[first + i] = y[first + i] > 0 ? d : 0;             \
				}                                                             \
				for (i = 0; i < n; i++)                                       \
					sum[i] += (double)dx[first + i];                      \
			}                                                                     \
			for (i = 0; i < n; i++)                                               \
				db[at + i] = (type)sum[i];                                    \
		}                                                                             \
	}
BIAS_RELU_GRAD_LOOP(float)
BIAS_RELU_GRAD_LOOP(double)

static enum rc
bias_relu_grad_run(struct kern_call *call)
{
	uint64_t rows = call->v[BRGRAD_ROWS].u, cols = call->v[BRGRAD_COLS].u;
	size_t size = kern_float(call, BRGRAD_DTYPE);
	void *dx = kern_out(call, BRGRAD_DX, rows, cols, size);
	void *db = kern_out(call, BRGRAD_DB, cols, 1, size);
	const void *dy = kern_at(call, BRGRAD_DY, rows, cols, size);
	const void *y = kern_at(call, BRGRAD_Y, rows, cols, size);

	kern_inplace(call, BRGRAD_DX, BRGRAD_DY);
	kern_inplace(call, BRGRAD_DX, BRGRAD_Y);
	kern_apart(call, BRGRAD_DB, BRGRAD_DX);
	kern_apart(call, BRGRAD_DB, BRGRAD_DY);
	kern_apart(call, BRGRAD_DB, BRGRAD_Y);
	if (call->rc != RC_OK)
		return call->rc;
	KERN_LOOP(size, bias_relu_grad, dx, db, dy, y, rows, cols);
	return RC_OK;
}

/*
 * bias_relu_grad - dx[r,c] = dy[r,c] where y[r,c] > 0, else 0; db[c] = sum over r of dx[r,c],
 * summed in double. dx may be dy or y; db overlaps nothing.
 *
 * relu_grad and bias_grad in one pass. Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_nn.c
 */
const struct kernel kernel_bias_relu_grad = {
    .name = "bias_relu_grad",
    .summary = "gradients of bias_relu",
    .params =
	{
	    [BRGRAD_DX] = {"dx", KP_ADDR, false, 0, "[rows,cols] out; may be dy or y"},
	    [BRGRAD_DB] = {"db", KP_ADDR, false, 0, "[cols] out"},
	    [BRGRAD_DY] = {"dy", KP_ADDR, false, 0, "[rows,cols] gradient of the output"},
	    [BRGRAD_Y] = {"y", KP_ADDR, false, 0, "[rows,cols] bias_relu's output"},
	    [BRGRAD_ROWS] = {"rows", KP_COUNT, false, 0, "rows of dy"},
	    [BRGRAD_COLS] = {"cols", KP_COUNT, false, 0, "columns of dy"},
	    [BRGRAD_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = bias_relu_grad_run,
};
