/*
 * kern_opt.c - optimiser steps: PyTorch's SGD, Adam and AdamW on one flat vector of weights.
 */
#include "kern/kern_impl.h"

#include <math.h>

#include "kern/kern_flush.h"
#include "mem/clones.h"

/* The gradient of n weights: of their type, or of halves where they are f32. Called after all others of their type. */
static const void *
gradient(struct kern_call *c, unsigned param, uint64_t n, enum gpusim_dtype type, unsigned of,
	 size_t size)
{
	uint64_t t = c->v[of].u;

	if (t != GPUSIM_NDTYPES && t != type) {
		if (type != GPUSIM_F32 || (t != GPUSIM_F16 && t != GPUSIM_BF16))
			kern_fail(c, RC_INVAL,
				  "grad_dtype: must be that of w, or f16 or bf16 with f32");
		size = kern_float(c, of);
	}
	return kern_at(c, param, n, 1, size);
}

/* What grad_scaler says at the address in `param`; false: skip the step. */
static bool
passes(struct kern_call *c, unsigned param, const unsigned *written, size_t nwritten,
       double *factor)
{
	const float *gate;

	*factor = 1;
	if (c->v[param].u == 0)
		return true;
	gate = kern_plain(c, param, 2, 1, sizeof *gate);
	for (size_t i = 0; i < nwritten; i++)
		kern_apart(c, written[i], param);
	if (c->rc != RC_OK)
		return false;
	*factor = (double)gate[0];
	return gate[1] == 0;
}

#define GRADIENT_PARAMS(gate, dtype)                                                            \
	[gate] = {"gate", KP_ADDR, true, 0, "f32[2] grad_scaler's: factor of grad; 1 to skip"}, \
	[dtype] = {"grad_dtype", KP_DTYPE, true, GPUSIM_NDTYPES,                                \
		   "type of grad: f16 or bf16 with f32; not given: dtype"}

/* ---- sgd */

enum {
	SGD_W,
	SGD_GRAD,
	SGD_V,
	SGD_N,
	SGD_LR,
	SGD_LR_AT,
	SGD_MOMENTUM,
	SGD_DECAY,
	SGD_NESTEROV,
	SGD_DTYPE,
	SGD_GATE,
	SGD_GRAD_DTYPE,
};

#define SGD_LOOPS(type)                                                                       \
	HOT_CLONES static void sgd_##type(type *w, const type *g, type *v, size_t n, type lr, \
					  type mu, type decay, type by, bool nesterov)        \
	{                                                                                     \
		size_t i;                                                                     \
		type d;                                                                       \
                                                                                              \
		if (v == NULL) {                                                              \
			HOT_LOOP                                                              \
			for (i = 0; i < n; i++)                                               \
				w[i] -= lr * (by * g[i] + decay * w[i]);                      \
		} else if (nesterov) {                                                        \
			HOT_LOOP                                                              \
			for (i = 0; i < n; i++) {                                             \
				d = by * g[i] + decay * w[i];                                 \
				v[i] = mu * v[i] + d;                                         \
				w[i] -= lr * (d + mu * v[i]);                                 \
			}                                                                     \
		} else {                                                                      \
			HOT_LOOP                                                              \
			for (i = 0; i < n; i++) {                                             \
				v[i] = mu * v[i] + (by * g[i] + decay * w[i]);                \
				w[i] -= lr * v[i];                                            \
			}                                                                     \
		}                                                                             \
	}
SGD_LOOPS(float)
SGD_LOOPS(double)

static enum rc
sgd_run(struct kern_call *call)
{
	static const unsigned written[] = {SGD_W, SGD_V};
	uint64_t n = call->v[SGD_N].u;
	size_t size = kern_float(call, SGD_DTYPE);
	double lr = call->v[SGD_LR].f, mu = call->v[SGD_MOMENTUM].f, decay = call->v[SGD_DECAY].f;
	bool nesterov = call->v[SGD_NESTEROV].u != 0, steps;
	flush_state before;
	void *w = kern_out(call, SGD_W, n, 1, size);
	void *velocity = mu != 0 ? kern_out(call, SGD_V, n, 1, size) : NULL;
	const void *g = gradient(call, SGD_GRAD, n, call->v[SGD_DTYPE].u, SGD_GRAD_DTYPE, size);
	double by;

	if (mu != 0) {
		kern_apart(call, SGD_W, SGD_V);
		kern_apart(call, SGD_GRAD, SGD_V);
	} else if (nesterov) {
		kern_fail(call, RC_INVAL, "nesterov needs a momentum");
	}
	kern_apart(call, SGD_W, SGD_GRAD);
	lr *= kern_factor(call, SGD_LR_AT, written, sizeof written / sizeof written[0]);
	steps = passes(call, SGD_GATE, written, sizeof written / sizeof written[0], &by);
	if (call->rc != RC_OK || !steps)
		return call->rc;
	before = flush_begin();
	if (size == sizeof(float))
		sgd_float(w, g, velocity, n, (float)lr, (float)mu, (float)decay, (float)by,
			  nesterov);
	else
		sgd_double(w, g, velocity, n, lr, mu, decay, by, nesterov);
	flush_end(before);
	return RC_OK;
}

/*
 * sgd - one step of stochastic gradient descent.
 *
 *	d = grad + weight_decay w; v = momentum v + d; w -= lr v (nesterov: lr (d + momentum v))
 *
 * lr is multiplied by the number at lr_at, grad by that at gate, see grad_scaler. v begins as zeros; with
 * momentum 0 it is neither needed nor touched. Subnormals count as 0. No areas overlap.
 * Errors: RC_INVAL. Source: torch.optim.SGD with dampening 0. Checked by: tests/unit/kern/t_kern_opt.c
 */
const struct kernel kernel_sgd = {
    .name = "sgd",
    .summary = "gradient descent step with momentum and weight decay",
    .params =
	{
	    [SGD_W] = {"w", KP_ADDR, false, 0, "[n] weights, in and out"},
	    [SGD_GRAD] = {"grad", KP_ADDR, false, 0, "[n] gradient"},
	    [SGD_V] = {"v", KP_ADDR, true, 0, "[n] velocity, in and out; for momentum only"},
	    [SGD_N] = {"n", KP_COUNT, false, 0, "number of weights"},
	    [SGD_LR] = {"lr", KP_REAL, false, 0, "learning rate"},
	    [SGD_LR_AT] = {"lr_at", KP_ADDR, true, 0, "f32[1] a further factor of lr"},
	    [SGD_MOMENTUM] = {"momentum", KP_REAL, true, 0, "factor of the old velocity"},
	    [SGD_DECAY] = {"weight_decay", KP_REAL, true, 0, "added to grad, times w"},
	    [SGD_NESTEROV] = {"nesterov", KP_FLAG, true, 0, "look ahead along the velocity"},
	    [SGD_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	    GRADIENT_PARAMS(SGD_GATE, SGD_GRAD_DTYPE),
	},
    .run = sgd_run,
};

/* ---- adam */

enum {
	ADAM_W,
	ADAM_GRAD,
	ADAM_M,
	ADAM_V,
	ADAM_T,
	ADAM_N,
	ADAM_LR,
	ADAM_LR_AT,
	ADAM_BETA1,
	ADAM_BETA2,
	ADAM_EPS,
	ADAM_DECAY,
	ADAM_DECOUPLED,
	ADAM_FROZEN,
	ADAM_DTYPE,
	ADAM_GATE,
	ADAM_GRAD_DTYPE,
};

/* keep: the factor of w in decoupled decay. l2: coupled decay, times w added to the gradient. */
#define ADAM_LOOP(type, sqrt)                                                                      \
	HOT_CLONES static void adam_##type(type *w, const type *grad, type *m, type *v, size_t n,  \
					   type step, type b1, type c1, type b2, type c2,          \
					   type root_bias2, type eps, type keep, type l2, type by) \
	{                                                                                          \
		size_t i;                                                                          \
		type g, old;                                                                       \
                                                                                                   \
		HOT_LOOP                                                                           \
		for (i = 0; i < n; i++) {                                                          \
			old = w[i] * keep;                                                         \
			g = by * grad[i] + l2 * w[i];                                              \
			m[i] = b1 * m[i] + c1 * g;                                                 \
			v[i] = b2 * v[i] + c2 * g * g;                                             \
			w[i] = old - step * m[i] / (sqrt(v[i]) / root_bias2 + eps);                \
		}                                                                                  \
	}
ADAM_LOOP(float, sqrtf)
ADAM_LOOP(double, sqrt)

static enum rc
adam_run(struct kern_call *call)
{
	static const unsigned areas[] = {ADAM_W, ADAM_M, ADAM_V, ADAM_T, ADAM_GRAD};
	const union kernel_value *a = call->v;
	uint64_t n = a[ADAM_N].u, *t, now;
	size_t size = kern_float(call, ADAM_DTYPE), i, j;
	double lr = a[ADAM_LR].f, b1 = a[ADAM_BETA1].f, b2 = a[ADAM_BETA2].f, eps = a[ADAM_EPS].f;
	double decay = a[ADAM_DECAY].f, keep = 1, l2 = 0, step, root, by;
	bool steps;
	flush_state before;
	void *w, *m, *v;
	const void *g;

	w = kern_out(call, ADAM_W, n, 1, size);
	m = kern_out(call, ADAM_M, n, 1, size);
	v = kern_out(call, ADAM_V, n, 1, size);
	t = kern_at(call, ADAM_T, 1, 1, sizeof *t);
	g = gradient(call, ADAM_GRAD, n, a[ADAM_DTYPE].u, ADAM_GRAD_DTYPE, size);
	for (i = 0; i < sizeof areas / sizeof areas[0]; i++) {
		for (j = 0; j < i; j++)
			kern_apart(call, areas[j], areas[i]);
	}
	lr *= kern_factor(call, ADAM_LR_AT, areas, 4);
	steps = passes(call, ADAM_GATE, areas, 4, &by);
	if (!(b1 >= 0 && b1 < 1 && b2 >= 0 && b2 < 1))
		kern_fail(call, RC_INVAL, "beta1 %g and beta2 %g are not in [0, 1)", b1, b2);
	if (call->rc != RC_OK || !steps)
		return call->rc;

	now = *t == UINT64_MAX ? *t : *t + 1;
	step = lr / (1 - pow(b1, (double)now));
	root = sqrt(1 - pow(b2, (double)(a[ADAM_FROZEN].u ? a[ADAM_FROZEN].u : now)));
	if (a[ADAM_FROZEN].u) /* both moments stay as they are */
		b1 = b2 = 1;
	if (a[ADAM_DECOUPLED].u)
		keep = 1 - lr * decay;
	else
		l2 = decay;
	before = flush_begin();
	if (size == sizeof(float))
		adam_float(w, g, m, v, n, (float)step, (float)b1, (float)(1 - b1), (float)b2,
			   (float)(1 - b2), (float)root, (float)eps, (float)keep, (float)l2,
			   (float)by);
	else
		adam_double(w, g, m, v, n, step, b1, 1 - b1, b2, 1 - b2, root, eps, keep, l2, by);
	flush_end(before);
	*t = now;
	return RC_OK;
}

/*
 * adam - one step of Adam, or of AdamW with `decoupled`.
 *
 * lr is multiplied by the number at lr_at, grad by that at gate, see grad_scaler. m, v and t begin as
 * zeros. t counts the steps in device memory, so that a replayed graph needs no new argument; each
 * launch in a step needs a counter of its own. With frozen, m and v stay as they are, and v's bias is
 * corrected as after so many steps: 1-bit Adam. Subnormals count as 0. No areas overlap.
 * Errors: RC_INVAL. Source: Kingma & Ba, arXiv:1412.6980; Loshchilov & Hutter, arXiv:1711.05101;
 * torch.optim.Adam and AdamW; Tang et al., arXiv:2102.02888.
 * Checked by: tests/unit/kern/t_kern_opt.c, t_kern_compress.c
 */
const struct kernel kernel_adam = {
    .name = "adam",
    .summary = "Adam step, or AdamW",
    .params =
	{
	    [ADAM_W] = {"w", KP_ADDR, false, 0, "[n] weights, in and out"},
	    [ADAM_GRAD] = {"grad", KP_ADDR, false, 0, "[n] gradient"},
	    [ADAM_M] = {"m", KP_ADDR, false, 0, "[n] first moment, in and out"},
	    [ADAM_V] = {"v", KP_ADDR, false, 0, "[n] second moment, in and out"},
	    [ADAM_T] = {"t", KP_ADDR, false, 0, "u64[1] steps done, in and out"},
	    [ADAM_N] = {"n", KP_COUNT, false, 0, "number of weights"},
	    [ADAM_LR] = {"lr", KP_REAL, true, 1e-3, "learning rate"},
	    [ADAM_LR_AT] = {"lr_at", KP_ADDR, true, 0, "f32[1] a further factor of lr"},
	    [ADAM_BETA1] = {"beta1", KP_REAL, true, 0.9, "decay of the first moment"},
	    [ADAM_BETA2] = {"beta2", KP_REAL, true, 0.999, "decay of the second moment"},
	    [ADAM_EPS] = {"eps", KP_REAL, true, 1e-8, "added to the divisor"},
	    [ADAM_DECAY] = {"weight_decay", KP_REAL, true, 0, "pull of w towards 0"},
	    [ADAM_DECOUPLED] = {"decoupled", KP_FLAG, true, 0, "decay as AdamW, not as L2"},
	    [ADAM_FROZEN] = {"frozen", KP_COUNT, true, 0, "steps that v has; m is this step's"},
	    [ADAM_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	    GRADIENT_PARAMS(ADAM_GATE, ADAM_GRAD_DTYPE),
	},
    .run = adam_run,
};
