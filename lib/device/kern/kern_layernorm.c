/*
 * kern_layernorm.c - layer normalisation: each row of a matrix by its own mean and deviation, independent
 * of the other rows.
 */
#include "kern/kern_impl.h"

#include <math.h>

#include "kern/kern_channel.h"
#include "mem/clones.h"

#define LANES 8
#define BLOCK 64 /* columns that are summed together */

/* ---- layernorm */

enum { LN_Y, LN_X, LN_GAMMA, LN_BETA, LN_MOMENTS, LN_ROWS, LN_COLS, LN_EPS, LN_DTYPE };

/* y[i] = (x[i] - mean) factor gamma[i] + beta[i]; y may be x. */
#define NORMALISE_ROW(type)                                                                   \
	HOT_CLONES static void row_##type(type *y, const type *x, const type *gamma,          \
					  const type *beta, size_t n, type mean, type factor) \
	{                                                                                     \
		size_t i;                                                                     \
                                                                                              \
		HOT_LOOP                                                                      \
		for (i = 0; i < n; i++)                                                       \
			y[i] = (x[i] - mean) * factor * gamma[i] + beta[i];                   \
	}
NORMALISE_ROW(float)
NORMALISE_ROW(double)

/* A row's mean and 1 / sqrt(variance + eps). */
static void
row_moments(const void *x, size_t cols, size_t size, double eps, double out[2])
{
	double sum[2], variance;

	channel_squares(&(struct channel){x, NULL, 1, 1, 0, cols, size}, sum);
	out[0] = sum[0] / (double)cols;
	variance = sum[1] / (double)cols - out[0] * out[0];
	out[1] = 1 / sqrt((variance < 0 ? 0 : variance) + eps);
}

static enum rc
layernorm_run(struct kern_call *call)
{
	static const unsigned areas[] = {LN_Y, LN_X, LN_GAMMA, LN_BETA, LN_MOMENTS};
	uint64_t rows = call->v[LN_ROWS].u, cols = call->v[LN_COLS].u, i;
	size_t size = kern_float(call, LN_DTYPE);
	unsigned char *y = kern_out(call, LN_Y, rows, cols, size);
	const unsigned char *x = kern_at(call, LN_X, rows, cols, size);
	const void *gamma = kern_at(call, LN_GAMMA, cols, 1, size);
	const void *beta = kern_at(call, LN_BETA, cols, 1, size);
	double *moments = kern_at(call, LN_MOMENTS, rows, 2, sizeof *moments);

	kern_inplace(call, LN_Y, LN_X);
	kern_apart_from(call, LN_Y, areas + 2, 3);
	kern_apart_from(call, LN_MOMENTS, areas, sizeof areas / sizeof areas[0]);
	if (call->rc != RC_OK || cols == 0)
		return call->rc;
	for (i = 0; i < rows; i++, x += cols * size, y += cols * size, moments += 2) {
		row_moments(x, cols, size, call->v[LN_EPS].f, moments);
		if (size == sizeof(float))
			row_float((float *)y, (const float *)x, gamma, beta, cols,
				  (float)moments[0], (float)moments[1]);
		else
			row_double((double *)y, (const double *)x, gamma, beta, cols, moments[0],
				   moments[1]);
	}
	return RC_OK;
}

/*
 * layernorm - y[i,j] = gamma[j] (x[i,j] - mean[i]) / sqrt(variance[i] + eps) + beta[j], by the mean and the
 * biased variance of row i. moments[i] = mean[i], 1 / sqrt(variance[i] + eps), for the gradients.
 *
 * y may be x; outputs overlap nothing else. Errors: RC_INVAL.
 * Source: Ba, Kiros & Hinton, arXiv:1607.06450. Checked by: tests/unit/kern/t_kern_layernorm.c
 */
const struct kernel kernel_layernorm = {
    .name = "layernorm",
    .summary = "normalise each row, then scale and shift its columns",
    .params =
	{
	    [LN_Y] = {"y", KP_ADDR, false, 0, "[rows,cols] out; may be x"},
	    [LN_X] = {"x", KP_ADDR, false, 0, "[rows,cols] in"},
	    [LN_GAMMA] = {"gamma", KP_ADDR, false, 0, "[cols] factors"},
	    [LN_BETA] = {"beta", KP_ADDR, false, 0, "[cols] terms"},
	    [LN_MOMENTS] = {"moments", KP_ADDR, false, 0,
			    "f64[rows,2] out: mean, inverse deviation"},
	    [LN_ROWS] = {"rows", KP_COUNT, false, 0, "rows of x"},
	    [LN_COLS] = {"cols", KP_COUNT, false, 0, "columns of x"},
	    [LN_EPS] = {"eps", KP_REAL, true, 1e-5, "added to the variances"},
	    [LN_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = layernorm_run,
};

/* ---- layernorm_grad_params */

enum { LGP_DGAMMA, LGP_DBETA, LGP_DY, LGP_X, LGP_MOMENTS, LGP_ROWS, LGP_COLS, LGP_DTYPE };

/* Sums over the rows of n columns, from the first row down. */
#define COLUMN_SUMS(type)                                                                      \
	HOT_CLONES static void columns_##type(                                                 \
	    const type *dy, const type *x, const double *moments, size_t rows, size_t cols,    \
	    size_t n, double *restrict dgamma, double *restrict dbeta)                         \
	{                                                                                      \
		size_t i, j;                                                                   \
                                                                                               \
		for (i = 0; i < rows; i++, dy += cols, x += cols)                              \
			for (j = 0; j < n; j++) {                                              \
				dgamma[j] += (double)dy[j] * ((double)x[j] - moments[2 * i]) * \
					     moments[2 * i + 1];                               \
				dbeta[j] += (double)dy[j];                                     \
			}                                                                      \
	}
COLUMN_SUMS(float)
COLUMN_SUMS(double)

static enum rc
layernorm_grad_params_run(struct kern_call *call)
{
	static const unsigned areas[] = {LGP_DGAMMA, LGP_DBETA, LGP_DY, LGP_X, LGP_MOMENTS};
	uint64_t rows = call->v[LGP_ROWS].u, cols = call->v[LGP_COLS].u, at, n, j;
	size_t size = kern_float(call, LGP_DTYPE), nareas = sizeof areas / sizeof areas[0];
	void *dgamma = kern_out(call, LGP_DGAMMA, cols, 1, size);
	void *dbeta = kern_out(call, LGP_DBETA, cols, 1, size);
	const void *dy = kern_at(call, LGP_DY, rows, cols, size);
	const void *x = kern_at(call, LGP_X, rows, cols, size);
	const double *moments = kern_at(call, LGP_MOMENTS, rows, 2, sizeof *moments);

	kern_apart_from(call, LGP_DGAMMA, areas, nareas);
	kern_apart_from(call, LGP_DBETA, areas, nareas);
	if (call->rc != RC_OK)
		return call->rc;
	for (at = 0; at < cols; at += n) {
		double factor[BLOCK] = {0}, term[BLOCK] = {0};

		n = cols - at < BLOCK ? cols - at : BLOCK;
		if (size == sizeof(float))
			columns_float((const float *)dy + at, (const float *)x + at, moments, rows,
				      cols, n, factor, term);
		else
			columns_double((const double *)dy + at, (const double *)x + at, moments,
				       rows, cols, n, factor, term);
		for (j = 0; j < n; j++) {
			kern_put(dgamma, at + j, size, factor[j]);
			kern_put(dbeta, at + j, size, term[j]);
		}
	}
	return RC_OK;
}

/*
 * layernorm_grad_params - dgamma[j] = sum of dy[:,j] (x[:,j] - mean) / sqrt(variance + eps), dbeta[j] =
 * sum of dy[:,j], in double, with layernorm's moments.
 *
 * Outputs overlap nothing. Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_layernorm.c
 */
const struct kernel kernel_layernorm_grad_params = {
    .name = "layernorm_grad_params",
    .summary = "gradients of layernorm's factors and terms",
    .params =
	{
	    [LGP_DGAMMA] = {"dgamma", KP_ADDR, false, 0, "[cols] out"},
	    [LGP_DBETA] = {"dbeta", KP_ADDR, false, 0, "[cols] out"},
	    [LGP_DY] = {"dy", KP_ADDR, false, 0, "[rows,cols] gradient of the output"},
	    [LGP_X] = {"x", KP_ADDR, false, 0, "[rows,cols] layernorm's input"},
	    [LGP_MOMENTS] = {"moments", KP_ADDR, false, 0, "f64[rows,2] layernorm's"},
	    [LGP_ROWS] = {"rows", KP_COUNT, false, 0, "rows of x"},
	    [LGP_COLS] = {"cols", KP_COUNT, false, 0, "columns of x"},
	    [LGP_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = layernorm_grad_params_run,
};

/* ---- layernorm_grad */

enum { LG_DX, LG_DY, LG_X, LG_GAMMA, LG_MOMENTS, LG_ROWS, LG_COLS, LG_ADD, LG_DTYPE };

/* Sums of g = dy gamma and of g (x - mean), as LANES sums each. */
#define ROW_SUMS(type)                                                                       \
	HOT_CLONES static void sums_##type(const type *dy, const type *gamma, const type *x, \
					   size_t n, double mean, double *restrict sum,      \
					   double *restrict product)                         \
	{                                                                                    \
		size_t j, l;                                                                 \
                                                                                             \
		for (j = 0; j + LANES <= n; j += LANES)                                      \
			for (l = 0; l < LANES; l++) {                                        \
				double g = (double)dy[j + l] * (double)gamma[j + l];         \
                                                                                             \
				sum[l] += g;                                                 \
				product[l] += g * ((double)x[j + l] - mean);                 \
			}                                                                    \
		for (l = 0; j + l < n; l++) {                                                \
			double g = (double)dy[j + l] * (double)gamma[j + l];                 \
                                                                                             \
			sum[l] += g;                                                         \
			product[l] += g * ((double)x[j + l] - mean);                         \
		}                                                                            \
	}
ROW_SUMS(float)
ROW_SUMS(double)

/* dx[i] (+)= factor (dy[i] gamma[i] - term - (x[i] - mean) slope); dx may be dy. */
#define ROW_GRAD(type)                                                                          \
	HOT_CLONES static void grad_##type(type *dx, const type *dy, const type *gamma,         \
					   const type *x, size_t n, type mean, type factor,     \
					   type term, type slope, bool add)                     \
	{                                                                                       \
		size_t i;                                                                       \
                                                                                                \
		if (add) {                                                                      \
			HOT_LOOP                                                                \
			for (i = 0; i < n; i++)                                                 \
				dx[i] +=                                                        \
				    factor * (dy[i] * gamma[i] - term - (x[i] - mean) * slope); \
		} else {                                                                        \
			HOT_LOOP                                                                \
			for (i = 0; i < n; i++)                                                 \
				dx[i] =                                                         \
				    factor * (dy[i] * gamma[i] - term - (x[i] - mean) * slope); \
		}                                                                               \
	}
ROW_GRAD(float)
ROW_GRAD(double)

/* One row; m: its moments. */
static void
row_grad(void *dx, const void *dy, const void *x, const void *gamma, const double m[2], size_t cols,
	 size_t size, bool add)
{
	double sum[LANES] = {0}, product[LANES] = {0}, term = 0, slope = 0;
	size_t l;

	KERN_LOOP(size, sums, dy, gamma, x, cols, m[0], sum, product);
	for (l = 0; l < LANES; l++) {
		term += sum[l];
		slope += product[l];
	}
	term /= (double)cols;
	slope = slope / (double)cols * m[1] * m[1];
	if (size == sizeof(float))
		grad_float(dx, dy, gamma, x, cols, (float)m[0], (float)m[1], (float)term,
			   (float)slope, add);
	else
		grad_double(dx, dy, gamma, x, cols, m[0], m[1], term, slope, add);
}

static enum rc
layernorm_grad_run(struct kern_call *call)
{
	static const unsigned areas[] = {LG_X, LG_GAMMA, LG_MOMENTS};
	uint64_t rows = call->v[LG_ROWS].u, cols = call->v[LG_COLS].u, i;
	size_t size = kern_float(call, LG_DTYPE);
	unsigned char *dx = kern_out(call, LG_DX, rows, cols, size);
	const unsigned char *dy = kern_at(call, LG_DY, rows, cols, size);
	const unsigned char *x = kern_at(call, LG_X, rows, cols, size);
	const void *gamma = kern_at(call, LG_GAMMA, cols, 1, size);
	const double *moments = kern_at(call, LG_MOMENTS, rows, 2, sizeof *moments);
	bool add = call->v[LG_ADD].u != 0;

	if (add)
		kern_apart(call, LG_DX, LG_DY);
	else
		kern_inplace(call, LG_DX, LG_DY);
	kern_apart_from(call, LG_DX, areas, sizeof areas / sizeof areas[0]);
	if (call->rc != RC_OK || cols == 0)
		return call->rc;
	for (i = 0; i < rows; i++) {
		size_t at = i * cols * size;

		row_grad(dx + at, dy + at, x + at, gamma, moments + 2 * i, cols, size, add);
	}
	return RC_OK;
}

/*
 * layernorm_grad - the gradient of layernorm's input: with g = dy gamma, d = 1 / sqrt(variance + eps) and
 * means over the row, dx = d (g - mean of g - (x - mean) d^2 mean of g (x - mean)); with `add` it is added.
 *
 * dx may be dy without `add`, and overlaps nothing else. Errors: RC_INVAL.
 * Checked by: tests/unit/kern/t_kern_layernorm.c
 */
const struct kernel kernel_layernorm_grad = {
    .name = "layernorm_grad",
    .summary = "gradient of layernorm's input",
    .params =
	{
	    [LG_DX] = {"dx", KP_ADDR, false, 0, "[rows,cols] out; may be dy without add"},
	    [LG_DY] = {"dy", KP_ADDR, false, 0, "[rows,cols] gradient of the output"},
	    [LG_X] = {"x", KP_ADDR, false, 0, "[rows,cols] layernorm's input"},
	    [LG_GAMMA] = {"gamma", KP_ADDR, false, 0, "[cols] factors"},
	    [LG_MOMENTS] = {"moments", KP_ADDR, false, 0, "f64[rows,2] layernorm's"},
	    [LG_ROWS] = {"rows", KP_COUNT, false, 0, "rows of x"},
	    [LG_COLS] = {"cols", KP_COUNT, false, 0, "columns of x"},
	    [LG_ADD] = {"add", KP_FLAG, true, 0, "add to dx"},
	    [LG_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = layernorm_grad_run,
};
