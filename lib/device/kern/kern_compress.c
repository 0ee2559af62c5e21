/*
 * kern_compress.c - gradients in fewer bytes: an orthogonal basis, the largest elements, signs. f32 alone.
 *
 * One thread computes each, in a fixed order, so ranks with the same inputs have the same bits.
 */
#include "kern/kern_impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "mem/clones.h"

/* ---- orthogonalize */

enum { ORTH_P, ORTH_N, ORTH_R };

/* A column whose rest after projection is below this part of it is taken as dependent. */
#define DEPENDENT 1e-5

static double
column_norm(const float *p, size_t n, size_t r, size_t c)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)p[i * r + c] * (double)p[i * r + c];
	return sqrt(sum);
}

/* Subtract the columns before c, twice, because of rounding; returns the norm of what is left. */
static double
project(float *p, size_t n, size_t r, size_t c)
{
	for (size_t k = 0; k < 2 * c; k++) {
		size_t j = k % c;
		double dot = 0;

		for (size_t i = 0; i < n; i++)
			dot += (double)p[i * r + j] * (double)p[i * r + c];
		for (size_t i = 0; i < n; i++)
			p[i * r + c] -= (float)(dot * (double)p[i * r + j]);
	}
	return column_norm(p, n, r, c);
}

/* Some unit vector has a rest of at least sqrt(1 - c/n). */
static double
replace(float *p, size_t n, size_t r, size_t c)
{
	double norm = 0;

	for (size_t unit = 0; unit < n && !(norm * norm >= 0.5 / (double)n); unit++) {
		for (size_t i = 0; i < n; i++)
			p[i * r + c] = i == unit;
		norm = project(p, n, r, c);
	}
	return norm;
}

static enum rc
orthogonalize_run(struct kern_call *call)
{
	size_t n = call->v[ORTH_N].u, r = call->v[ORTH_R].u;
	float *p = kern_at(call, ORTH_P, n, r, sizeof *p);

	if (r > n)
		kern_fail(call, RC_INVAL, "r: %zu columns of %zu rows cannot be orthogonal", r, n);
	for (size_t c = 0; call->rc == RC_OK && c < r; c++) {
		double before = column_norm(p, n, r, c), norm = project(p, n, r, c);

		if (!(norm > DEPENDENT * before))
			norm = replace(p, n, r, c);
		for (size_t i = 0; i < n; i++)
			p[i * r + c] = (float)((double)p[i * r + c] / norm);
	}
	return call->rc;
}

/*
 * orthogonalize - make the columns of p orthogonal and of length 1, by Gram-Schmidt, in place.
 *
 * A column that depends on those before it, as one of zeros, becomes the first unit vector that does not,
 * orthogonalized: otherwise PowerSGD would never again use it. Errors: RC_INVAL, also r > n.
 * Source: Vogels et al., arXiv:1905.13727, algorithm 1. Checked by: tests/unit/kern/t_kern_compress.c
 */
const struct kernel kernel_orthogonalize = {
    .name = "orthogonalize",
    .summary = "make the columns of a matrix orthonormal, by Gram-Schmidt",
    .params =
	{
	    [ORTH_P] = {"p", KP_ADDR, false, 0, "f32[n,r] in and out"},
	    [ORTH_N] = {"n", KP_COUNT, false, 0, "rows"},
	    [ORTH_R] = {"r", KP_COUNT, false, 0, "columns, at most n"},
	},
    .run = orthogonalize_run,
};

/* ---- topk */

enum { TOPK_X, TOPK_ALSO, TOPK_N, TOPK_K, TOPK_FIRST, TOPK_INDEX, TOPK_VALUE };

#define DIGIT_BITS 11 /* of a magnitude's 31; NaN is larger than all numbers */
#define DIGITS	   (1u << DIGIT_BITS)

static uint32_t
magnitude(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits & 0x7fffffffu;
}

/* The k-th largest magnitude, digit by digit; *ties [out]: how many elements equal to it are among the k. */
static uint32_t
threshold(const float *x, size_t n, size_t k, size_t *ties)
{
	uint32_t found = 0;

	for (int shift = 2 * DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
		size_t count[DIGITS] = {0};
		uint32_t digit = DIGITS - 1, m;

		for (size_t i = 0; i < n; i++) {
			m = magnitude(x[i]) >> shift;
			if (m >> DIGIT_BITS == found)
				count[m % DIGITS]++;
		}
		for (; digit > 0 && count[digit] < k; digit--)
			k -= count[digit];
		found = found << DIGIT_BITS | digit;
	}
	*ties = k;
	return found;
}

static enum rc
topk_run(struct kern_call *call)
{
	static const unsigned areas[] = {TOPK_X, TOPK_ALSO, TOPK_INDEX, TOPK_VALUE};
	size_t n = call->v[TOPK_N].u, k = call->v[TOPK_K].u, ties, taken = 0;
	uint64_t first = call->v[TOPK_FIRST].u;
	float *x = kern_at(call, TOPK_X, n, 1, sizeof *x), *also = NULL;
	uint32_t *index = kern_at(call, TOPK_INDEX, k, 1, sizeof *index), least, m;
	float *value = kern_at(call, TOPK_VALUE, k, 1, sizeof *value);

	if (call->v[TOPK_ALSO].u)
		also = kern_at(call, TOPK_ALSO, n, 1, sizeof *also);
	for (size_t i = 0; i < sizeof areas / sizeof areas[0]; i++)
		kern_apart_from(call, areas[i], areas, sizeof areas / sizeof areas[0]);
	if (k > n)
		kern_fail(call, RC_INVAL, "k: %zu of %zu elements", k, n);
	if (first > UINT32_MAX || n > UINT32_MAX - first)
		kern_fail(call, RC_INVAL, "first: an index of 32 bits cannot count so far");
	if (call->rc != RC_OK || k == 0)
		return call->rc;
	least = threshold(x, n, k, &ties);
	for (size_t i = 0; i < n && taken < k; i++) {
		m = magnitude(x[i]);
		if (m < least || (m == least && ties == 0))
			continue;
		ties -= m == least;
		index[taken] = (uint32_t)(first + i);
		value[taken++] = x[i];
		x[i] = 0;
		if (also)
			also[i] = 0;
	}
	return taken == k ? RC_OK : kern_fail(call, RC_BADDATA, "x changed during the kernel");
}

/*
 * topk - move the k elements of x with the largest magnitudes out of it, in the order of their indices.
 *
 * Of equal magnitudes the lower indices are taken. x, and `also` if given, are 0 there afterwards. first is added
 * to the indices. No areas overlap. Errors: RC_INVAL, also k > n.
 * Source: Lin et al., arXiv:1712.01887. Checked by: tests/unit/kern/t_kern_compress.c
 */
const struct kernel kernel_topk = {
    .name = "topk",
    .summary = "move the elements of the largest magnitudes out of a vector",
    .params =
	{
	    [TOPK_X] = {"x", KP_ADDR, false, 0, "f32[n] in and out: 0 where taken"},
	    [TOPK_ALSO] = {"also", KP_ADDR, true, 0, "f32[n] out: 0 where taken"},
	    [TOPK_N] = {"n", KP_COUNT, false, 0, "number of elements"},
	    [TOPK_K] = {"k", KP_COUNT, false, 0, "elements to take, at most n"},
	    [TOPK_FIRST] = {"first", KP_COUNT, true, 0, "added to each index"},
	    [TOPK_INDEX] = {"index", KP_ADDR, false, 0, "u32[k] out, ascending"},
	    [TOPK_VALUE] = {"value", KP_ADDR, false, 0, "f32[k] out"},
	},
    .run = topk_run,
};

/* ---- scatter_add */

enum { SCATTER_Y, SCATTER_SRC, SCATTER_N, SCATTER_K, SCATTER_PARTS };

static enum rc
scatter_add_run(struct kern_call *call)
{
	size_t n = call->v[SCATTER_N].u, k = call->v[SCATTER_K].u, parts = call->v[SCATTER_PARTS].u;
	const uint64_t factors[] = {k, 2};
	float *y = kern_at(call, SCATTER_Y, n, 1, sizeof *y);
	const volatile uint32_t *src =
	    kern_at(call, SCATTER_SRC, parts, kern_product(call, "src", factors, 2), sizeof *src);

	kern_apart(call, SCATTER_Y, SCATTER_SRC);
	for (size_t p = 0; call->rc == RC_OK && p < parts; p++, src += 2 * k)
		for (size_t i = 0; i < k; i++) {
			uint32_t at = src[i], bits = src[k + i];
			float value;

			if (at >= n)
				return kern_fail(call, RC_BADDATA,
						 "index %" PRIu32 " of part %zu: must be less than "
						 "%zu",
						 at, p, n);
			memcpy(&value, &bits, sizeof value);
			y[at] += value;
		}
	return call->rc;
}

/*
 * scatter_add - add pairs of index and value to y, part after part. y does not overlap src.
 *
 * Errors: RC_INVAL; RC_BADDATA an index past y, which then has the pairs before it.
 * Checked by: tests/unit/kern/t_kern_compress.c
 */
const struct kernel kernel_scatter_add = {
    .name = "scatter_add",
    .summary = "add values to the elements that indices name",
    .params =
	{
	    [SCATTER_Y] = {"y", KP_ADDR, false, 0, "f32[n] in and out"},
	    [SCATTER_SRC] = {"src", KP_ADDR, false, 0, "[parts] of u32[k] indices, f32[k] values"},
	    [SCATTER_N] = {"n", KP_COUNT, false, 0, "number of elements of y"},
	    [SCATTER_K] = {"k", KP_COUNT, false, 0, "pairs of a part"},
	    [SCATTER_PARTS] = {"parts", KP_COUNT, true, 1, "number of parts"},
	},
    .run = scatter_add_run,
};

/* ---- sign_pack, sign_unpack */

/* A part: f32 the scale, then a bit an element, 0 for one with a minus sign, lowest bit first. */
static size_t
packed_bytes(struct kern_call *c, unsigned param)
{
	uint64_t part = c->v[param].u;

	if (part == 0 || part % 32 != 0)
		kern_fail(c, RC_INVAL, "part: %" PRIu64 " is not a multiple of 32", part);
	return sizeof(float) + part / 8;
}

/* The elements of part p of n. */
static size_t
part_of(size_t n, size_t part, size_t p)
{
	size_t left = n > p * part ? n - p * part : 0;

	return left < part ? left : part;
}

enum { PACK_X, PACK_ERROR, PACK_USED, PACK_N, PACK_PART, PACK_PARTS, PACK_DST };

#define LANES 8 /* sums side by side, so that the order does not depend on the processor */

/* Add x to the error; returns the magnitude that gives the signs the norm of that. */
HOT_CLONES static float
compensate(const float *x, float *error, const float *used, size_t n)
{
	double sum[LANES] = {0}, all = 0;
	size_t count = 0;

	HOT_LOOP
	for (size_t i = 0; i < n; i++) {
		error[i] = used[i] != 0 ? error[i] + x[i] : 0;
		count += used[i] != 0;
	}
	for (size_t i = 0; i < n; i += LANES)
		for (size_t j = 0; j < LANES && i + j < n; j++)
			sum[j] += (double)error[i + j] * (double)error[i + j];
	for (size_t j = 0; j < LANES; j++)
		all += sum[j];
	return count ? (float)sqrt(all / (double)count) : 0;
}

/* Without branches, which no processor could predict. */
HOT_CLONES static void
pack(float *error, const float *used, size_t n, float scale, unsigned char *bits)
{
	for (size_t i = 0; i < n; i += 8) {
		size_t end = n - i < 8 ? n - i : 8;
		unsigned byte = 0;

		for (size_t j = 0; j < end; j++)
			byte |= (unsigned)!signbit(error[i + j]) << j;
		bits[i / 8] = (unsigned char)byte;
	}
	HOT_LOOP
	for (size_t i = 0; i < n; i++)
		error[i] = used[i] != 0 ? error[i] - copysignf(scale, error[i]) : 0;
}

static enum rc
sign_pack_run(struct kern_call *call)
{
	static const unsigned areas[] = {PACK_X, PACK_ERROR, PACK_USED, PACK_DST};
	size_t n = call->v[PACK_N].u, part = call->v[PACK_PART].u, parts = call->v[PACK_PARTS].u;
	size_t each = packed_bytes(call, PACK_PART);
	const float *x = kern_at(call, PACK_X, n, 1, sizeof *x);
	const float *used = kern_at(call, PACK_USED, n, 1, sizeof *used);
	float *error = kern_at(call, PACK_ERROR, n, 1, sizeof *error);
	uint32_t *dst = kern_at(call, PACK_DST, parts, each / sizeof *dst, sizeof *dst);

	kern_apart_from(call, PACK_ERROR, areas, sizeof areas / sizeof areas[0]);
	kern_apart_from(call, PACK_DST, areas, sizeof areas / sizeof areas[0]);
	if (call->rc == RC_OK && n > parts * part)
		kern_fail(call, RC_INVAL, "n: %zu elements, but %zu parts of %zu", n, parts, part);
	for (size_t p = 0; call->rc == RC_OK && p < parts; p++, dst += each / sizeof *dst) {
		size_t count = part_of(n, part, p), at = count ? p * part : 0;
		float scale = compensate(x + at, error + at, used + at, count);

		memcpy(dst, &scale, sizeof scale);
		memset(dst + 1, 0, part / 8);
		pack(error + at, used + at, count, scale, (unsigned char *)(dst + 1));
	}
	return call->rc;
}

/*
 * sign_pack - the signs of x + error, a bit each, and for each part one scale, the root of the mean square;
 * error becomes what the signs times the scale do not say.
 *
 * Elements where `used` is 0 count as 0 and leave no error. Parts past n have the scale 0. error and dst overlap
 * nothing. Errors: RC_INVAL. Source: Tang et al., arXiv:2102.02888.
 * Checked by: tests/unit/kern/t_kern_compress.c
 */
const struct kernel kernel_sign_pack = {
    .name = "sign_pack",
    .summary = "signs and scales of a vector, with error feedback",
    .params =
	{
	    [PACK_X] = {"x", KP_ADDR, false, 0, "f32[n] in"},
	    [PACK_ERROR] = {"error", KP_ADDR, false, 0, "f32[n] in and out"},
	    [PACK_USED] = {"used", KP_ADDR, false, 0,
			   "f32[n] in: 0 for an element that does not count"},
	    [PACK_N] = {"n", KP_COUNT, false, 0, "number of elements"},
	    [PACK_PART] = {"part", KP_COUNT, false, 0, "elements of a part, a multiple of 32"},
	    [PACK_PARTS] = {"parts", KP_COUNT, true, 1, "parts; parts times part is at least n"},
	    [PACK_DST] = {"dst", KP_ADDR, false, 0, "[parts] of f32 scale, u8[part/8] signs; out"},
	},
    .run = sign_pack_run,
};

enum { UNPACK_Y, UNPACK_SRC, UNPACK_USED, UNPACK_N, UNPACK_PART, UNPACK_PARTS, UNPACK_MEAN };

/* y[0..n) = factor times the part's signs, or that more. */
HOT_CLONES static void
unpack(float *y, const uint32_t *src, const float *used, size_t n, float factor, bool add)
{
	const unsigned char *bits = (const unsigned char *)(src + 1);
	float scale;

	memcpy(&scale, src, sizeof scale);
	scale *= factor;
	for (size_t i = 0; i < n; i++) {
		float e = scale * (float)((bits[i / 8] >> i % 8 & 1) * 2 - 1);

		y[i] = used[i] != 0 ? (add ? y[i] + e : e) : 0;
	}
}

static enum rc
sign_unpack_run(struct kern_call *call)
{
	static const unsigned areas[] = {UNPACK_SRC, UNPACK_USED};
	size_t n = call->v[UNPACK_N].u, part = call->v[UNPACK_PART].u,
	       parts = call->v[UNPACK_PARTS].u;
	bool mean = call->v[UNPACK_MEAN].u != 0;
	size_t each = packed_bytes(call, UNPACK_PART), room = mean ? part : part * parts;
	float *y = kern_at(call, UNPACK_Y, n, 1, sizeof *y);
	const float *used = kern_at(call, UNPACK_USED, n, 1, sizeof *used);
	const uint32_t *src = kern_at(call, UNPACK_SRC, parts, each / sizeof *src, sizeof *src);

	kern_apart_from(call, UNPACK_Y, areas, sizeof areas / sizeof areas[0]);
	if (call->rc == RC_OK && (n > room || parts == 0))
		kern_fail(call, RC_INVAL, "n: %zu elements, but %zu parts of %zu", n, parts, part);
	for (size_t p = 0; call->rc == RC_OK && p < parts; p++, src += each / sizeof *src) {
		size_t count = mean ? n : part_of(n, part, p), at = mean || !count ? 0 : p * part;

		unpack(y + at, src, used + at, count, mean ? 1 / (float)parts : 1, mean && p > 0);
	}
	return call->rc;
}

/*
 * sign_unpack - the elements that sign_pack packed: part after part, or with mean the mean of the parts.
 *
 * Elements where `used` is 0 become 0. y overlaps nothing. Errors: RC_INVAL.
 * Checked by: tests/unit/kern/t_kern_compress.c
 */
const struct kernel kernel_sign_unpack = {
    .name = "sign_unpack",
    .summary = "a vector from its signs and scales, or the mean of several",
    .params =
	{
	    [UNPACK_Y] = {"y", KP_ADDR, false, 0, "f32[n] out"},
	    [UNPACK_SRC] = {"src", KP_ADDR, false, 0, "[parts] of f32 scale, u8[part/8] signs"},
	    [UNPACK_USED] = {"used", KP_ADDR, false, 0, "f32[n] in: y is 0 where this is"},
	    [UNPACK_N] = {"n", KP_COUNT, false, 0, "number of elements of y"},
	    [UNPACK_PART] = {"part", KP_COUNT, false, 0, "elements of a part, a multiple of 32"},
	    [UNPACK_PARTS] = {"parts", KP_COUNT, true, 1, "number of parts"},
	    [UNPACK_MEAN] = {"mean", KP_FLAG, true, 0, "all parts are of the same n elements"},
	},
    .run = sign_unpack_run,
};
