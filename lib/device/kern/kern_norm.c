/*
 * kern_norm.c - batch normalisation, in steps with sums between them, so that the sums of several
 * devices can be added before they are used.
 */
#include "kern/kern_impl.h"

#include <math.h>

#include "kern/kern_channel.h"
#include "mem/clones.h"

/* Elements of an image, 0 after a failure. */
static uint64_t
image_of(struct kern_call *c, unsigned channels, unsigned hw)
{
	return kern_product(c, "x", (uint64_t[]){c->v[channels].u, c->v[hw].u}, 2);
}

/* 1 / sqrt(variance + eps) of channel ch. */
static double
inverse_deviation(const void *moments, size_t c, size_t ch, size_t size, double eps)
{
	return 1 / sqrt(kern_get(moments, c + ch, size) + eps);
}

/* ---- batchnorm_sums */

enum { SUMS_SUMS, SUMS_X, SUMS_N, SUMS_C, SUMS_HW, SUMS_DTYPE };

static enum rc
batchnorm_sums_run(struct kern_call *call)
{
	uint64_t n = call->v[SUMS_N].u, c = call->v[SUMS_C].u, hw = call->v[SUMS_HW].u, ch;
	size_t size = kern_float(call, SUMS_DTYPE);
	double *sums = kern_at(call, SUMS_SUMS, 2, c, sizeof *sums), sum[2];
	const void *x = kern_at(call, SUMS_X, n, image_of(call, SUMS_C, SUMS_HW), size);

	kern_apart(call, SUMS_SUMS, SUMS_X);
	if (call->rc != RC_OK)
		return call->rc;
	for (ch = 0; ch < c; ch++) {
		channel_squares(&(struct channel){x, NULL, hw == 0 ? 0 : n, c, ch, hw, size}, sum);
		sums[ch] = sum[0];
		sums[c + ch] = sum[1];
	}
	return RC_OK;
}

/*
 * batchnorm_sums - sums[0,j] = sum of x[:,j,:], sums[1,j] = sum of its squares, in double.
 *
 * sums overlaps nothing. Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_norm.c
 */
const struct kernel kernel_batchnorm_sums = {
    .name = "batchnorm_sums",
    .summary = "sums and sums of squares of each channel",
    .params =
	{
	    [SUMS_SUMS] = {"sums", KP_ADDR, false, 0, "f64[2,c] out"},
	    [SUMS_X] = {"x", KP_ADDR, false, 0, "[n,c,hw] in"},
	    [SUMS_N] = {"n", KP_COUNT, false, 0, "images"},
	    [SUMS_C] = {"c", KP_COUNT, false, 0, "channels"},
	    [SUMS_HW] = {"hw", KP_COUNT, false, 0, "elements of a channel of an image"},
	    [SUMS_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = batchnorm_sums_run,
};

/* ---- batchnorm_moments */

enum { MOM_MOMENTS, MOM_SUMS, MOM_C, MOM_COUNT, MOM_DTYPE };

static enum rc
batchnorm_moments_run(struct kern_call *call)
{
	uint64_t c = call->v[MOM_C].u, ch;
	size_t size = kern_float(call, MOM_DTYPE);
	void *moments = kern_out(call, MOM_MOMENTS, 2, c, size);
	const double *sums = kern_at(call, MOM_SUMS, 2, c, sizeof *sums);
	double count = (double)call->v[MOM_COUNT].u, mean, variance;

	kern_apart(call, MOM_MOMENTS, MOM_SUMS);
	if (call->rc != RC_OK)
		return call->rc;
	for (ch = 0; ch < c; ch++) {
		mean = count > 0 ? sums[ch] / count : 0;
		variance = count > 0 ? sums[c + ch] / count - mean * mean : 0;
		kern_put(moments, ch, size, mean);
		kern_put(moments, c + ch, size, variance < 0 ? 0 : variance);
	}
	return RC_OK;
}

/*
 * batchnorm_moments - moments[0,j] = mean = sums[0,j] / count, moments[1,j] = sums[1,j] / count -
 * mean^2, not below 0: the biased variance. A count of 0 gives zeros.
 *
 * The areas do not overlap. Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_norm.c
 */
const struct kernel kernel_batchnorm_moments = {
    .name = "batchnorm_moments",
    .summary = "means and variances from sums",
    .params =
	{
	    [MOM_MOMENTS] = {"moments", KP_ADDR, false, 0, "[2,c] out: means, variances"},
	    [MOM_SUMS] = {"sums", KP_ADDR, false, 0, "f64[2,c] batchnorm_sums's, or their sum"},
	    [MOM_C] = {"c", KP_COUNT, false, 0, "channels"},
	    [MOM_COUNT] = {"count", KP_COUNT, false, 0, "elements in a channel's sums"},
	    [MOM_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = batchnorm_moments_run,
};

/* ---- batchnorm */

enum {
	BN_Y,
	BN_X,
	BN_MOMENTS,
	BN_GAMMA,
	BN_BETA,
	BN_N,
	BN_C,
	BN_HW,
	BN_EPS,
	BN_DTYPE,
};

/* y[i] = (x[i] - mean) factor + term; y may be x. */
#define NORMALISE(type)                                                                      \
	HOT_CLONES static void normalise_##type(type *y, const type *x, size_t n, type mean, \
						type factor, type term)                      \
	{                                                                                    \
		size_t i;                                                                    \
                                                                                             \
		HOT_LOOP                                                                     \
		for (i = 0; i < n; i++)                                                      \
			y[i] = (x[i] - mean) * factor + term;                                \
	}
NORMALISE(float)
NORMALISE(double)

static enum rc
batchnorm_run(struct kern_call *call)
{
	static const unsigned areas[] = {BN_X, BN_MOMENTS, BN_GAMMA, BN_BETA};
	uint64_t n = call->v[BN_N].u, c = call->v[BN_C].u, hw = call->v[BN_HW].u, i, ch;
	size_t size = kern_float(call, BN_DTYPE);
	uint64_t image = image_of(call, BN_C, BN_HW);
	unsigned char *y = kern_out(call, BN_Y, n, image, size);
	const unsigned char *x = kern_at(call, BN_X, n, image, size);
	const void *moments = kern_at(call, BN_MOMENTS, 2, c, size);
	const void *gamma = kern_at(call, BN_GAMMA, c, 1, size);
	const void *beta = kern_at(call, BN_BETA, c, 1, size);
	double mean, factor, term;

	kern_inplace(call, BN_Y, BN_X);
	kern_apart_from(call, BN_Y, areas + 1, 3);
	if (call->rc != RC_OK || image == 0)
		return call->rc;
	for (i = 0; i < n * c; i++, x += hw * size, y += hw * size) {
		ch = i % c;
		mean = kern_get(moments, ch, size);
		factor = kern_get(gamma, ch, size) *
			 inverse_deviation(moments, c, ch, size, call->v[BN_EPS].f);
		term = kern_get(beta, ch, size);
		if (size == sizeof(float))
			normalise_float((float *)y, (const float *)x, hw, (float)mean,
					(float)factor, (float)term);
		else
			normalise_double((double *)y, (const double *)x, hw, mean, factor, term);
	}
	return RC_OK;
}

/*
 * batchnorm - y[i,j,p] = gamma[j] (x[i,j,p] - mean[j]) / sqrt(variance[j] + eps) + beta[j], with the
 * moments of the batch, or those gathered in training. y may be x, and overlaps nothing
 * else.
 *
 * Errors: RC_INVAL. Source: Ioffe & Szegedy, arXiv:1502.03167. Checked by: tests/unit/kern/t_kern_norm.c
 */
const struct kernel kernel_batchnorm = {
    .name = "batchnorm",
    .summary = "normalise each channel, then scale and shift it",
    .params =
	{
	    [BN_Y] = {"y", KP_ADDR, false, 0, "[n,c,hw] out; may be x"},
	    [BN_X] = {"x", KP_ADDR, false, 0, "[n,c,hw] in"},
	    [BN_MOMENTS] = {"moments", KP_ADDR, false, 0, "[2,c] means, variances"},
	    [BN_GAMMA] = {"gamma", KP_ADDR, false, 0, "[c] factors"},
	    [BN_BETA] = {"beta", KP_ADDR, false, 0, "[c] terms"},
	    [BN_N] = {"n", KP_COUNT, false, 0, "images"},
	    [BN_C] = {"c", KP_COUNT, false, 0, "channels"},
	    [BN_HW] = {"hw", KP_COUNT, false, 0, "elements of a channel of an image"},
	    [BN_EPS] = {"eps", KP_REAL, true, 1e-5, "added to the variances"},
	    [BN_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = batchnorm_run,
};

/* ---- batchnorm_grad_sums */

enum {
	BGS_SUMS,
	BGS_DGAMMA,
	BGS_DBETA,
	BGS_DY,
	BGS_X,
	BGS_MOMENTS,
	BGS_N,
	BGS_C,
	BGS_HW,
	BGS_EPS,
	BGS_DTYPE,
};

static enum rc
batchnorm_grad_sums_run(struct kern_call *call)
{
	static const unsigned areas[] = {BGS_SUMS, BGS_DGAMMA, BGS_DBETA,
					 BGS_DY,   BGS_X,      BGS_MOMENTS};
	uint64_t n = call->v[BGS_N].u, c = call->v[BGS_C].u, hw = call->v[BGS_HW].u, ch;
	size_t size = kern_float(call, BGS_DTYPE), nareas = sizeof areas / sizeof areas[0], i;
	uint64_t image = image_of(call, BGS_C, BGS_HW);
	double *sums = kern_at(call, BGS_SUMS, 2, c, sizeof *sums), sum[2];
	const void *dy = kern_at(call, BGS_DY, n, image, size);
	const void *x = kern_at(call, BGS_X, n, image, size);
	const void *moments = kern_at(call, BGS_MOMENTS, 2, c, size);
	void *dgamma = call->v[BGS_DGAMMA].u != 0 ? kern_out(call, BGS_DGAMMA, c, 1, size) : NULL;
	void *dbeta = call->v[BGS_DBETA].u != 0 ? kern_out(call, BGS_DBETA, c, 1, size) : NULL;

	for (i = BGS_SUMS; i <= BGS_DBETA; i++)
		kern_apart_from(call, (unsigned)i, areas, nareas);
	if (call->rc != RC_OK)
		return call->rc;
	for (ch = 0; ch < c; ch++) {
		channel_products(&(struct channel){x, dy, hw == 0 ? 0 : n, c, ch, hw, size},
				 kern_get(moments, ch, size),
				 inverse_deviation(moments, c, ch, size, call->v[BGS_EPS].f), sum);
		sums[ch] = sum[0];
		sums[c + ch] = sum[1];
		if (dbeta != NULL)
			kern_put(dbeta, ch, size, sum[0]);
		if (dgamma != NULL)
			kern_put(dgamma, ch, size, sum[1]);
	}
	return RC_OK;
}

/*
 * batchnorm_grad_sums - sums[0,j] = dbeta[j] = sum of dy[:,j,:], sums[1,j] = dgamma[j] = sum of dy
 * (x - mean) / sqrt(variance + eps), in double.
 *
 * Outputs overlap nothing. Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_norm.c
 */
const struct kernel kernel_batchnorm_grad_sums = {
    .name = "batchnorm_grad_sums",
    .summary = "gradients of batchnorm's factors and terms",
    .params =
	{
	    [BGS_SUMS] = {"sums", KP_ADDR, false, 0, "f64[2,c] out"},
	    [BGS_DGAMMA] = {"dgamma", KP_ADDR, true, 0, "[c] out"},
	    [BGS_DBETA] = {"dbeta", KP_ADDR, true, 0, "[c] out"},
	    [BGS_DY] = {"dy", KP_ADDR, false, 0, "[n,c,hw] gradient of the output"},
	    [BGS_X] = {"x", KP_ADDR, false, 0, "[n,c,hw] batchnorm's input"},
	    [BGS_MOMENTS] = {"moments", KP_ADDR, false, 0, "[2,c] means, variances"},
	    [BGS_N] = {"n", KP_COUNT, false, 0, "images"},
	    [BGS_C] = {"c", KP_COUNT, false, 0, "channels"},
	    [BGS_HW] = {"hw", KP_COUNT, false, 0, "elements of a channel of an image"},
	    [BGS_EPS] = {"eps", KP_REAL, true, 1e-5, "added to the variances"},
	    [BGS_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = batchnorm_grad_sums_run,
};

/* ---- batchnorm_grad */

enum {
	BG_DX,
	BG_DY,
	BG_X,
	BG_MOMENTS,
	BG_GAMMA,
	BG_SUMS,
	BG_COUNT,
	BG_N,
	BG_C,
	BG_HW,
	BG_EPS,
	BG_ADD,
	BG_DTYPE,
};

/* dx[i] (+)= factor (dy[i] - term - (x[i] - mean) slope); dx may be dy. */
#define NORMALISE_GRAD(type)                                                                      \
	HOT_CLONES static void normalise_grad_##type(type *dx, const type *dy, const type *x,     \
						     size_t n, type mean, type factor, type term, \
						     type slope, bool add)                        \
	{                                                                                         \
		size_t i;                                                                         \
                                                                                                  \
		if (add) {                                                                        \
			HOT_LOOP                                                                  \
			for (i = 0; i < n; i++)                                                   \
				dx[i] += factor * (dy[i] - term - (x[i] - mean) * slope);         \
		} else {                                                                          \
			HOT_LOOP                                                                  \
			for (i = 0; i < n; i++)                                                   \
				dx[i] = factor * (dy[i] - term - (x[i] - mean) * slope);          \
		}                                                                                 \
	}
NORMALISE_GRAD(float)
NORMALISE_GRAD(double)

/* batchnorm_grad's checked arguments. */
struct grad {
	unsigned char *dx;
	const unsigned char *dy, *x;
	const void *moments, *gamma;
	const double *sums;
	size_t n, c, hw, size;
	double count, eps;
	bool add;
};

static void
grad_planes(struct grad g)
{
	double deviation, factor, term, slope, mean;
	size_t i, ch, step = g.hw * g.size;

	for (i = 0; i < g.n * g.c; i++, g.dx += step, g.dy += step, g.x += step) {
		ch = i % g.c;
		mean = kern_get(g.moments, ch, g.size);
		deviation = inverse_deviation(g.moments, g.c, ch, g.size, g.eps);
		factor = kern_get(g.gamma, ch, g.size) * deviation;
		term = g.count > 0 ? g.sums[ch] / g.count : 0;
		slope = g.count > 0 ? g.sums[g.c + ch] / g.count * deviation : 0;
		if (g.size == sizeof(float))
			normalise_grad_float((float *)g.dx, (const float *)g.dy, (const float *)g.x,
					     g.hw, (float)mean, (float)factor, (float)term,
					     (float)slope, g.add);
		else
			normalise_grad_double((double *)g.dx, (const double *)g.dy,
					      (const double *)g.x, g.hw, mean, factor, term, slope,
					      g.add);
	}
}

static enum rc
batchnorm_grad_run(struct kern_call *call)
{
	static const unsigned areas[] = {BG_X, BG_MOMENTS, BG_GAMMA, BG_SUMS};
	size_t size = kern_float(call, BG_DTYPE);
	uint64_t n = call->v[BG_N].u, c = call->v[BG_C].u, image = image_of(call, BG_C, BG_HW);
	struct grad g = {.dx = kern_out(call, BG_DX, n, image, size),
			 .dy = kern_at(call, BG_DY, n, image, size),
			 .x = kern_at(call, BG_X, n, image, size),
			 .moments = kern_at(call, BG_MOMENTS, 2, c, size),
			 .gamma = kern_at(call, BG_GAMMA, c, 1, size),
			 .sums = kern_at(call, BG_SUMS, 2, c, sizeof(double)),
			 .n = n,
			 .c = c,
			 .hw = call->v[BG_HW].u,
			 .size = size,
			 .count = (double)call->v[BG_COUNT].u,
			 .eps = call->v[BG_EPS].f,
			 .add = call->v[BG_ADD].u != 0};

	if (g.add)
		kern_apart(call, BG_DX, BG_DY);
	else
		kern_inplace(call, BG_DX, BG_DY);
	kern_apart_from(call, BG_DX, areas, sizeof areas / sizeof areas[0]);
	if (call->rc != RC_OK || image == 0)
		return call->rc;
	grad_planes(g);
	return RC_OK;
}

/*
 * batchnorm_grad - the gradient of batchnorm's input, with xhat = (x - mean) / sqrt(variance + eps):
 * dx[i,j,p] = gamma[j] / sqrt(variance[j] + eps) (dy[i,j,p] - sums[0,j] / count - xhat[i,j,p]
 * sums[1,j] / count); with `add` it is added.
 *
 * With a count of 0 the terms with the sums are left out: the moments then do not depend on x. dx
 * may be dy without `add`, and overlaps nothing else.
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_norm.c
 */
const struct kernel kernel_batchnorm_grad = {
    .name = "batchnorm_grad",
    .summary = "gradient of batchnorm's input",
    .params =
	{
	    [BG_DX] = {"dx", KP_ADDR, false, 0, "[n,c,hw] out; may be dy without add"},
	    [BG_DY] = {"dy", KP_ADDR, false, 0, "[n,c,hw] gradient of the output"},
	    [BG_X] = {"x", KP_ADDR, false, 0, "[n,c,hw] batchnorm's input"},
	    [BG_MOMENTS] = {"moments", KP_ADDR, false, 0, "[2,c] means, variances"},
	    [BG_GAMMA] = {"gamma", KP_ADDR, false, 0, "[c] factors"},
	    [BG_SUMS] = {"sums", KP_ADDR, false, 0, "f64[2,c] batchnorm_grad_sums's, or their sum"},
	    [BG_COUNT] = {"count", KP_COUNT, false, 0, "elements in a channel's sums"},
	    [BG_N] = {"n", KP_COUNT, false, 0, "images"},
	    [BG_C] = {"c", KP_COUNT, false, 0, "channels"},
	    [BG_HW] = {"hw", KP_COUNT, false, 0, "elements of a channel of an image"},
	    [BG_EPS] = {"eps", KP_REAL, true, 1e-5, "added to the variances"},
	    [BG_ADD] = {"add", KP_FLAG, true, 0, "add to dx"},
	    [BG_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = batchnorm_grad_run,
};
