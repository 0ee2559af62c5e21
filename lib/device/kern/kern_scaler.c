/*
 * kern_scaler.c - the norm of a gradient in parts, clipping by it, and dynamic scaling of the loss.
 *
 * Each square of an f32 is exact as a double. It is added as a whole number to sums of 32 of its bits each, so the sum
 * is exact: it does not depend on the order, on how the gradient is cut, or on who adds up what.
 */
#include "kern/kern_impl.h"

#include <float.h>
#include <math.h>

#include "mem/half.h"

#define BINS \
	20 /* bin b counts units of 2^(32 b - ORIGIN): from 2^-350, a square's last bit, to 2^288 */
#define ORIGIN 352  /* 11 bins are fractions */
#define BAD    BINS /* the bin after them counts elements that are infinite or NaN */
#define BLOCK \
	(1u << 30) /* elements until bins are emptied into the next: each adds less than 2^32 */

/* Each bin but the last below 2^32; what was negative never is. */
static void
carry(uint64_t *bin)
{
	for (unsigned b = 0; b + 1 < BINS; b++) {
		bin[b + 1] += bin[b] >> 32;
		bin[b] &= UINT32_MAX;
	}
}

static void
add_squares(uint64_t *bin, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t bits = f64_bits((double)x[i] * (double)x[i]), m, at;
		unsigned __int128 v;

		if (bits == 0)
			continue;
		if ((bits >> 52 & 2047) == 2047) { /* a NaN may have a sign */
			bin[BAD]++;
			continue;
		}
		m = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
		at = (bits >> 52) + ORIGIN - 1023 - 52;
		v = (unsigned __int128)m << at % 32;
		bin[at / 32] += (uint32_t)v;
		bin[at / 32 + 1] += (uint32_t)(v >> 32);
		bin[at / 32 + 2] += (uint32_t)(v >> 64);
	}
}

/* The sum as a double. */
static double
total(const uint64_t *bins)
{
	uint64_t bin[BINS];
	double sum = 0;

	for (unsigned b = 0; b < BINS; b++)
		bin[b] = bins[b];
	carry(bin);
	for (unsigned b = 0; b < BINS; b++)
		sum += ldexp((double)bin[b], (int)(32 * b) - ORIGIN);
	return sum;
}

/* Parameter `param` is f32 or a half. */
static size_t
float_or_half(struct kern_call *c, unsigned param)
{
	if (c->v[param].u == GPUSIM_F64)
		kern_fail(c, RC_INVAL, "%s: must be f32, f16 or bf16, not f64",
			  c->k->params[param].name);
	return kern_float(c, param);
}

/* ---- sum_squares */

enum { SQ_SUM, SQ_X, SQ_N, SQ_ADD, SQ_DTYPE };

static enum rc
sum_squares_run(struct kern_call *call)
{
	uint64_t n = call->v[SQ_N].u, *sum = kern_at(call, SQ_SUM, BINS + 1, 1, sizeof *sum);
	size_t size = float_or_half(call, SQ_DTYPE);
	const float *x = kern_at(call, SQ_X, n, 1, size);

	kern_apart(call, SQ_SUM, SQ_X);
	if (call->rc != RC_OK)
		return call->rc;
	for (unsigned b = 0; b <= BINS && !call->v[SQ_ADD].u; b++)
		sum[b] = 0;
	for (uint64_t at = 0; at < n; at += BLOCK) {
		add_squares(sum, x + at, n - at < BLOCK ? n - at : BLOCK);
		carry(sum);
	}
	return RC_OK;
}

/*
 * sum_squares - the exact sum of x[i]^2 in whole numbers, which all-reduce may add up; with `add` it is added.
 *
 * sum[b], b < 20, counts units of 2^(32 b - 352); sum[20] counts elements that are infinite or NaN, which are not
 * in the others. The sum of up to 2^31 results does not overflow. The areas do not overlap. Errors: RC_INVAL.
 * Checked by: tests/unit/kern/t_kern_scaler.c
 */
const struct kernel kernel_sum_squares = {
    .name = "sum_squares",
    .summary = "exact sum of squares, for a norm that is reduced over devices",
    .params =
	{
	    [SQ_SUM] = {"sum", KP_ADDR, false, 0, "i64[21] out"},
	    [SQ_X] = {"x", KP_ADDR, false, 0, "[n] in"},
	    [SQ_N] = {"n", KP_COUNT, false, 0, "number of elements"},
	    [SQ_ADD] = {"add", KP_FLAG, true, 0, "add to sum"},
	    [SQ_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "f32, f16 or bf16"},
	},
    .run = sum_squares_run,
};

/* ---- grad_scaler */

enum { GS_GATE, GS_SUM, GS_SCALE, GS_COUNTS, GS_CLIP, GS_GROWTH, GS_BACKOFF, GS_INTERVAL };

/* The scale after a step; counts: good steps since it changed, skipped steps. */
static void
rescale(const union kernel_value *v, float *scale, uint32_t *counts, bool bad)
{
	float next;

	if (bad) {
		next = (float)((double)*scale * v[GS_BACKOFF].f);
		*scale = next < FLT_MIN ? FLT_MIN : next;
		counts[0] = 0;
		counts[1] += counts[1] != UINT32_MAX;
	} else if (++counts[0] >= v[GS_INTERVAL].u) {
		next = (float)((double)*scale * v[GS_GROWTH].f);
		*scale = isfinite(next) ? next : *scale;
		counts[0] = 0;
	}
}

static enum rc
grad_scaler_run(struct kern_call *call)
{
	static const unsigned areas[] = {GS_GATE, GS_SUM, GS_SCALE, GS_COUNTS};
	const union kernel_value *v = call->v;
	float *gate = kern_at(call, GS_GATE, 2, 1, sizeof *gate), *scale = NULL;
	const uint64_t *sum = kern_at(call, GS_SUM, BINS + 1, 1, sizeof *sum);
	uint32_t *counts = NULL;
	double factor = 1, norm, by = 1;
	bool bad;

	if (v[GS_SCALE].u) {
		scale = kern_at(call, GS_SCALE, 1, 1, sizeof *scale);
		counts = kern_at(call, GS_COUNTS, 2, 1, sizeof *counts);
	}
	for (unsigned i = 0; i < 4; i++)
		kern_apart_from(call, areas[i], areas, 4);
	if (!(v[GS_CLIP].f >= 0))
		kern_fail(call, RC_INVAL, "clip: %g: must not be negative", v[GS_CLIP].f);
	if (call->rc != RC_OK)
		return call->rc;
	bad = sum[BAD] != 0;
	by = scale ? (double)*scale : 1;
	norm = bad ? NAN : sqrt(total(sum)) / by;
	if (v[GS_CLIP].f > 0 && !(v[GS_CLIP].f / (norm + 1e-6) >= 1))
		factor = v[GS_CLIP].f / (norm + 1e-6);
	gate[0] = scale && bad ? 0 : (float)(factor / by);
	gate[1] = scale && bad;
	if (scale)
		rescale(v, scale, counts, bad);
	return RC_OK;
}

/*
 * grad_scaler - one decision on a step of sgd or adam, by the sum of squares of the whole gradient.
 *
 *	norm = sqrt(sum) / scale, NaN if an element is infinite or NaN
 *	gate[0] = min(1, clip / (norm + 1e-6)) / scale, with clip 0: 1 / scale
 *	gate[1] = 1, so that the step is skipped, if there is a scale and the norm is NaN; else 0
 *
 * A skipped step multiplies the scale by `backoff`, `interval` steps without one by `growth`. Scales stay normal
 * numbers. counts: good steps since the scale changed, then skipped steps; both begin with 0. No areas overlap.
 * Errors: RC_INVAL. Source: torch.nn.utils.clip_grad_norm_, torch.cuda.amp.GradScaler; Micikevicius et al.,
 * arXiv:1710.03740. Checked by: tests/unit/kern/t_kern_scaler.c
 */
const struct kernel kernel_grad_scaler = {
    .name = "grad_scaler",
    .summary = "clip a gradient by its norm, unscale it, or skip the step; change the scale",
    .params =
	{
	    [GS_GATE] = {"gate", KP_ADDR, false, 0, "f32[2] out: factor; 1 to skip the step"},
	    [GS_SUM] = {"sum", KP_ADDR, false, 0, "i64[21] sum_squares's, or their sum"},
	    [GS_SCALE] = {"scale", KP_ADDR, true, 0, "f32[1] of the loss, in and out"},
	    [GS_COUNTS] = {"counts", KP_ADDR, true, 0, "u32[2] in and out; with scale"},
	    [GS_CLIP] = {"clip", KP_REAL, true, 0, "largest norm; 0: any"},
	    [GS_GROWTH] = {"growth", KP_REAL, true, 2, "factor of scale"},
	    [GS_BACKOFF] = {"backoff", KP_REAL, true, 0.5, "factor of scale"},
	    [GS_INTERVAL] = {"interval", KP_COUNT, true, 2000, "good steps until it grows"},
	},
    .run = grad_scaler_run,
};
