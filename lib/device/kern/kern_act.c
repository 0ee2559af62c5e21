/*
 * kern_act.c - activations: relu, and the smooth ones sigmoid and tanh.
 *
 * Sigmoid and tanh are computed in double and rounded once, with the same bits on every processor.
 */
#include "kern/kern_impl.h"

#include <math.h>

#include "kern/kern_exp.h"
#include "mem/clones.h"

/* y[i] = fn(x[i]); y may be x. */
#define MAP(name, type, fn) MAP_AS(name, type, double, fn)
#define MAP_AS(name, type, real, fn)                                           \
	HOT_CLONES static void name##_##type(type *y, const type *x, size_t n) \
	{                                                                      \
		size_t i;                                                      \
                                                                               \
		HOT_LOOP                                                       \
		for (i = 0; i < n; i++)                                        \
			y[i] = (type)fn((real)x[i]);                           \
	}

/* dx[i] = dy[i] slope(y[i]); dx may be dy or y. */
#define MAP_GRAD(name, type, slope)                                                             \
	HOT_CLONES static void name##_##type(type *dx, const type *dy, const type *y, size_t n) \
	{                                                                                       \
		size_t i;                                                                       \
                                                                                                \
		HOT_LOOP                                                                        \
		for (i = 0; i < n; i++)                                                         \
			dx[i] = dy[i] * slope(y[i]);                                            \
	}

/* The parameters of an activation, and of a gradient, which takes `y`. */
enum { ACT_Y, ACT_X, ACT_N, ACT_DTYPE };
enum { GRAD_DX, GRAD_DY, GRAD_Y, GRAD_N, GRAD_DTYPE };

#define ACT_PARAMS                                                                \
	{                                                                         \
		[ACT_Y] = {"y", KP_ADDR, false, 0, "[n] out; may be x"},          \
		[ACT_X] = {"x", KP_ADDR, false, 0, "[n] in"},                     \
		[ACT_N] = {"n", KP_COUNT, false, 0, "number of elements"},        \
		[ACT_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS}, \
	}

#define GRAD_PARAMS(place, y, what)                                                  \
	{                                                                            \
		[GRAD_DX] = {"dx", KP_ADDR, false, 0, "[n] out; may be " place},     \
		[GRAD_DY] = {"dy", KP_ADDR, false, 0, "[n] gradient of the output"}, \
		[GRAD_Y] = {y, KP_ADDR, false, 0, "[n] " what},                      \
		[GRAD_N] = {"n", KP_COUNT, false, 0, "number of elements"},          \
		[GRAD_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},   \
	}

/* An activation: the arguments checked, then the loop of their type. */
static enum rc
act_run(struct kern_call *call, void (*f32)(float *y, const float *x, size_t n),
	void (*f64)(double *y, const double *x, size_t n))
{
	size_t n = call->v[ACT_N].u, size = kern_float(call, ACT_DTYPE);
	void *y = kern_out(call, ACT_Y, n, 1, size);
	const void *x = kern_at(call, ACT_X, n, 1, size);

	kern_inplace(call, ACT_Y, ACT_X);
	if (call->rc != RC_OK)
		return call->rc;
	if (size == sizeof(float))
		f32(y, x, n);
	else
		f64(y, x, n);
	return RC_OK;
}

/* Likewise of a gradient. */
static enum rc
grad_run(struct kern_call *call, void (*f32)(float *dx, const float *dy, const float *y, size_t n),
	 void (*f64)(double *dx, const double *dy, const double *y, size_t n))
{
	size_t n = call->v[GRAD_N].u, size = kern_float(call, GRAD_DTYPE);
	void *dx = kern_out(call, GRAD_DX, n, 1, size);
	const void *dy = kern_at(call, GRAD_DY, n, 1, size);
	const void *y = kern_at(call, GRAD_Y, n, 1, size);

	kern_inplace(call, GRAD_DX, GRAD_DY);
	kern_inplace(call, GRAD_DX, GRAD_Y);
	if (call->rc != RC_OK)
		return call->rc;
	if (size == sizeof(float))
		f32(dx, dy, y, n);
	else
		f64(dx, dy, y, n);
	return RC_OK;
}

#define RUN(name, run)                                         \
	static enum rc name##_run(struct kern_call *call)      \
	{                                                      \
		return run(call, name##_float, name##_double); \
	}

/* ---- relu */

/* Written so that NaN, which is not <= 0, stays. */
#define RELU_LOOP(type)                                                      \
	HOT_CLONES static void relu_##type(type *y, const type *x, size_t n) \
	{                                                                    \
		size_t i;                                                    \
                                                                             \
		HOT_LOOP                                                     \
		for (i = 0; i < n; i++)                                      \
			y[i] = x[i] <= 0 ? 0 : x[i];                         \
	}
RELU_LOOP(float)
RELU_LOOP(double)
RUN(relu, act_run)

/*
 * relu - y[i] = max(x[i], 0); NaN stays NaN. y may be x.
 *
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_nn.c
 */
const struct kernel kernel_relu = {
    .name = "relu",
    .summary = "rectify: y = max(x, 0)",
    .params = ACT_PARAMS,
    .run = relu_run,
};

#define RELU_GRAD_LOOP(type)                                                                       \
	HOT_CLONES static void relu_grad_##type(type *dx, const type *dy, const type *x, size_t n) \
	{                                                                                          \
		size_t i;                                                                          \
		type d;                                                                            \
                                                                                                   \
		HOT_LOOP                                                                           \
		for (i = 0; i < n; i++) {                                                          \
			d = dy[i];                                                                 \
			dx[i] = x[i] > 0 ? d : 0;                                                  \
		}                                                                                  \
	}
RELU_GRAD_LOOP(float)
RELU_GRAD_LOOP(double)
RUN(relu_grad, grad_run)

/*
 * relu_grad - dx[i] = dy[i] where x[i] > 0, else 0. dx may be dy or x.
 *
 * relu's output serves as x too: it is positive where the input was.
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_nn.c
 */
const struct kernel kernel_relu_grad = {
    .name = "relu_grad",
    .summary = "gradient of relu",
    .params = GRAD_PARAMS("dy or x", "x", "relu's input or output"),
    .run = relu_grad_run,
};

/* ---- sigmoid */

/* Both halves from e^-|x|, which does not overflow. */
static ALWAYS_INLINE double
sigmoid(double x)
{
	double e = exp_negative(x > 0 ? -x : x);

	return (x > 0 ? 1 : e) / (1 + e);
}

MAP(sigmoid, float, sigmoid)
MAP(sigmoid, double, sigmoid)
RUN(sigmoid, act_run)

/*
 * sigmoid - y[i] = 1 / (1 + e^-x[i]); NaN stays NaN. y may be x.
 *
 * Within 4 * 2^-53 of the exact value, relative to it, and one rounding to f32; 0 below -708.
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_act.c
 */
const struct kernel kernel_sigmoid = {
    .name = "sigmoid",
    .summary = "y = 1 / (1 + exp(-x))",
    .params = ACT_PARAMS,
    .run = sigmoid_run,
};

#define SIGMOID_SLOPE(y) ((y) * (1 - (y)))
MAP_GRAD(sigmoid_grad, float, SIGMOID_SLOPE)
MAP_GRAD(sigmoid_grad, double, SIGMOID_SLOPE)
RUN(sigmoid_grad, grad_run)

/*
 * sigmoid_grad - dx[i] = dy[i] y[i] (1 - y[i]), where y is sigmoid's output. dx may be dy or y.
 *
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_act.c
 */
const struct kernel kernel_sigmoid_grad = {
    .name = "sigmoid_grad",
    .summary = "gradient of sigmoid",
    .params = GRAD_PARAMS("dy or y", "y", "sigmoid's output"),
    .run = sigmoid_grad_run,
};

/* ---- tanh */

/* From e^-2|x| - 1, which is accurate where tanh is nearly x. */
static ALWAYS_INLINE double
hyperbolic(double x)
{
	double e = expm1_negative(-2 * fabs(x));

	return copysign(e / (2 + e), x);
}

MAP(tanh, float, hyperbolic)
MAP(tanh, double, hyperbolic)
RUN(tanh, act_run)

/*
 * tanh - y[i] = tanh(x[i]); NaN stays NaN, and -0. y may be x.
 *
 * Within 6 * 2^-53 of the exact value, relative to it, and one rounding to f32.
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_act.c
 */
const struct kernel kernel_tanh = {
    .name = "tanh",
    .summary = "y = tanh(x)",
    .params = ACT_PARAMS,
    .run = tanh_run,
};

#define TANH_SLOPE(y) (1 - (y) * (y))
MAP_GRAD(tanh_grad, float, TANH_SLOPE)
MAP_GRAD(tanh_grad, double, TANH_SLOPE)
RUN(tanh_grad, grad_run)

/*
 * tanh_grad - dx[i] = dy[i] (1 - y[i]^2), where y is tanh's output. dx may be dy or y.
 *
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_act.c
 */
const struct kernel kernel_tanh_grad = {
    .name = "tanh_grad",
    .summary = "gradient of tanh",
    .params = GRAD_PARAMS("dy or y", "y", "tanh's output"),
    .run = tanh_grad_run,
};

/* ---- gelu */

/* The normal distribution's function at x, and its density: of f64 as exact as erfc; of f32 within 2e-7, by formula
 * 7.1.26 of Abramowitz and Stegun, which vectorises. */
static ALWAYS_INLINE float
normal_near(float x, float *density)
{
	static const float a[] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f,
				  0.254829592f};
	float z = fabsf(x) * 0x1.6a09e6p-1f, t = 1 / (1 + 0.3275911f * z), sum = 0;
	float e = exp_negative_float(-z * z);

	for (size_t i = 0; i < sizeof a / sizeof a[0]; i++)
		sum = sum * t + a[i];
	*density = e * 0x1.988454p-2f;
	sum *= t * e / 2;
	return x > 0 ? 1 - sum : sum;
}

static double
normal(double x, double *density)
{
	*density = exp(-x * x / 2) * 0x1.9884533d43651p-2;
	return erfc(-x * 0x1.6a09e667f3bcdp-1) / 2;
}

static ALWAYS_INLINE float
gelu_near(float x)
{
	float density;

	return x * normal_near(x, &density);
}

static double
gelu_exact(double x)
{
	double density;

	return x * normal(x, &density);
}

MAP_AS(gelu, float, float, gelu_near)
MAP(gelu, double, gelu_exact)
RUN(gelu, act_run)

/*
 * gelu - y[i] = x[i] Phi(x[i]), with the normal distribution's function Phi; NaN stays NaN. y may be x.
 *
 * f32 within 2^-21 max(1, |x|). Source: Hendrycks & Gimpel, arXiv:1606.08415.
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_act.c
 */
const struct kernel kernel_gelu = {
    .name = "gelu",
    .summary = "y = x Phi(x), of the normal distribution",
    .params = ACT_PARAMS,
    .run = gelu_run,
};

static ALWAYS_INLINE float
gelu_slope_near(float x)
{
	float density, p = normal_near(x, &density);

	return p + x * density;
}

static double
gelu_slope_exact(double x)
{
	double density, p = normal(x, &density);

	return p + x * density;
}

MAP_GRAD(gelu_grad, float, gelu_slope_near)
MAP_GRAD(gelu_grad, double, gelu_slope_exact)
RUN(gelu_grad, grad_run)

/*
 * gelu_grad - dx[i] = dy[i] (Phi(x[i]) + x[i] phi(x[i])), where x is gelu's input. dx may be dy or x.
 *
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_act.c
 */
const struct kernel kernel_gelu_grad = {
    .name = "gelu_grad",
    .summary = "gradient of gelu",
    .params = GRAD_PARAMS("dy or x", "x", "gelu's input"),
    .run = gelu_grad_run,
};
