/* Names, sizes, and the short floats against a slow reference in exact arithmetic. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/redop.h"
#include "gpu_sim.pb-c.h"
#include "mem/halfvec.h"

#include "chance.h"
#include "tap.h"

/* A format: its exponent's and its fraction's bits. most: the largest number's bits, where what is larger
 * becomes that; else what is larger becomes infinity. */
struct format {
	const char *name;
	int nexp, nfrac;
	uint16_t most;
	float (*widen)(uint16_t);
	uint16_t (*narrow)(float);
};

#define BYTE(name)                                \
	static float widen_##name(uint16_t h)     \
	{                                         \
		return name##_to_f32((uint8_t)h); \
	}                                         \
	static uint16_t narrow_##name(float f)    \
	{                                         \
		return name##_from_f32(f);        \
	}
BYTE(f8e4m3)
BYTE(f8e5m2)

static const struct format formats[] = {
    {"f16", 5, 10, 0, f16_to_f32, f16_from_f32},
    {"bf16", 8, 7, 0, bf16_to_f32, bf16_from_f32},
    {"f8e4m3", 4, 3, 0x7e, widen_f8e4m3, narrow_f8e4m3},
    {"f8e5m2", 5, 2, 0x7b, widen_f8e5m2, narrow_f8e5m2},
};

static unsigned
sign_of(const struct format *f)
{
	return 1u << (f->nexp + f->nfrac);
}

/* One above the largest number's bits. */
static uint16_t
end_of(const struct format *f)
{
	return (uint16_t)(f->most ? f->most + 1 : ((1 << f->nexp) - 1) << f->nfrac);
}

static uint32_t
bits_of(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return u;
}

/* The definition of the format, with ldexp. */
static double
value(const struct format *f, uint16_t h)
{
	int bias = (1 << (f->nexp - 1)) - 1, exp = h >> f->nfrac & ((1 << f->nexp) - 1);
	int frac = h & ((1 << f->nfrac) - 1);
	double v;

	if (f->most == 0x7e ? (h & 0x7f) == 0x7f : exp == (1 << f->nexp) - 1)
		v = frac ? (double)NAN : (double)INFINITY;
	else
		v = ldexp(frac + (exp ? 1 << f->nfrac : 0), (exp ? exp : 1) - bias - f->nfrac);
	return h & sign_of(f) ? -v : v;
}

/* Nearest even by search among all finite magnitudes: the largest not above |x|, or its successor.
 */
static uint16_t
nearest(const struct format *f, float x)
{
	const uint16_t inf = end_of(f);
	uint16_t lo = 0, hi = inf, mid, sign = signbit(x) ? (uint16_t)sign_of(f) : 0;
	double a = fabs((double)x), half, below;

	if (isinf(x) || (f->most && a >= value(f, f->most)))
		return (f->most ? f->most : inf) | sign;
	while (hi - lo > 1) {
		mid = (uint16_t)((lo + hi) / 2);
		if (value(f, mid) <= a)
			lo = mid;
		else
			hi = mid;
	}
	/* Infinity stands where the next number would: one step above the largest. */
	below = value(f, lo);
	half = (hi == inf ? below - value(f, lo - 1) : value(f, hi) - below) / 2;
	if (a - below > half || (a - below == half && lo & 1))
		lo = hi;
	return lo | sign;
}

static void
test_every_pattern(const struct format *f)
{
	unsigned h, bad = 0, first = 0;
	double want;
	float got;
	bool good;

	for (h = 0; h < 2 * sign_of(f); h++) {
		want = value(f, (uint16_t)h);
		got = f->widen((uint16_t)h);
		if (isnan(want))
			good = isnan(got) && isnan(f->widen(f->narrow(got)));
		else if (isinf(want) && f->most)
			good = (double)got == want;
		else
			good = (double)got == want && !signbit(got) == !signbit(want) &&
			       f->narrow(got) == h;
		if (!good && bad++ == 0)
			first = h;
	}
	ok(bad == 0, "%s: every bit pattern has its value and comes back", f->name);
	if (bad)
		printf("# %u wrong, first %04x\n", bad, first);
}

/* Around every value and every midpoint, a step either way. */
static void
test_rounding(const struct format *f)
{
	const uint16_t inf = end_of(f);
	unsigned h, bad = 0;
	float first = 0, x, at[6];
	int i;

	for (h = 0; h < inf; h++) {
		at[1] = (float)value(f, (uint16_t)h);
		x = h + 1 < inf ? (float)value(f, (uint16_t)(h + 1)) : INFINITY;
		at[4] = isinf(x) ? at[1] + (at[1] - (float)value(f, (uint16_t)(h - 1))) / 2
				 : at[1] + (x - at[1]) / 2;
		at[0] = nextafterf(at[1], -INFINITY);
		at[2] = nextafterf(at[1], INFINITY);
		at[3] = nextafterf(at[4], -INFINITY);
		at[5] = nextafterf(at[4], INFINITY);
		for (i = 0; i < 12; i++) {
			x = i < 6 ? at[i] : -at[i - 6];
			if (f->narrow(x) != nearest(f, x) && bad++ == 0)
				first = x;
		}
	}
	ok(bad == 0, "%s: rounds to nearest even around every value and midpoint", f->name);
	if (bad)
		printf("# %u wrong, first %a: %04x, not %04x\n", bad, (double)first,
		       f->narrow(first), nearest(f, first));
}

static void
test_random(const struct format *f)
{
	uint64_t s = 88172645463325252ull;
	unsigned i, bad = 0;
	uint32_t u;
	float x, first = 0;

	for (i = 0; i < 200000; i++) {
		u = (uint32_t)(xorshift(&s) >> 20);
		memcpy(&x, &u, sizeof x);
		if ((isnan(x) ? !isnan(f->widen(f->narrow(x))) : f->narrow(x) != nearest(f, x)) &&
		    bad++ == 0)
			first = x;
	}
	ok(bad == 0, "%s: rounds random f32 as the reference, NaN stays NaN", f->name);
	if (bad)
		printf("# %u wrong, first %a\n", bad, (double)first);
	x = f->widen(f->narrow(3.4028235e38f));
	if (f->most)
		ok((double)x == value(f, f->most) && f->narrow(-INFINITY) == (f->most | sign_of(f)),
		   "%s: what is larger than the largest number becomes that", f->name);
	else
		ok(isinf(x), "%s: overflow is infinity", f->name);
}

/* The vector form, at odd addresses and lengths, bit for bit (its NaN payloads too). */
static void
test_halfvec(void)
{
	static unsigned char src[2 * 65536 + 1], dst[2 * 65536 + 1];
	static float wide[65536];
	unsigned h, bad_widen = 0, bad_narrow = 0;
	uint16_t v;

	for (h = 0; h < 65536; h++) {
		v = (uint16_t)h;
		memcpy(src + 1 + 2 * h, &v, 2);
	}
	halfvec_widen(wide, src + 1, 65533);
	for (h = 65533; h < 65536; h++)
		wide[h] = f16_to_f32((uint16_t)h);
	for (h = 0; h < 65536; h++)
		if (isnan(f16_to_f32((uint16_t)h))
			? !isnan(wide[h])
			: bits_of(wide[h]) != bits_of(f16_to_f32((uint16_t)h)))
			bad_widen++;
	for (h = 0; h < 65536; h++)
		wide[h] = wide[h] * 1.0003f;
	halfvec_narrow(dst + 1, wide, 65533);
	for (h = 0; h < 65533; h++) {
		memcpy(&v, dst + 1 + 2 * h, 2);
		bad_narrow += v != f16_from_f32(wide[h]);
	}
	bad_narrow += dst[1 + 2 * 65533] != 0;
	ok(bad_widen == 0, "halfvec_widen is f16_to_f32 on each element");
	ok(bad_narrow == 0, "halfvec_narrow is f16_from_f32 on each element");
}

static void
test_names(void)
{
	static const size_t sizes[] = {8, 4, 2, 2, 1, 1, 4, 4, 8, 8, 1, 1};
	enum gpusim_dtype t = GPUSIM_U8;
	enum gpusim_redop op = GPUSIM_MAX;
	struct err err = {0};
	bool good = true;
	int i;

	for (i = 0; i < GPUSIM_NDTYPES; i++)
		good = good && dtype_size((enum gpusim_dtype)i) == sizes[i] &&
		       dtype_parse(dtype_name((enum gpusim_dtype)i), &t, &err) == RC_OK &&
		       (int)t == i && dtype_is_float(t) == (i <= GPUSIM_BF16 || i >= GPUSIM_F8E4M3);
	ok(good, "each type's name leads back to it, with its size");
	for (good = true, i = 0; i < GPUSIM_NREDOPS; i++)
		good = good && redop_parse(redop_name((enum gpusim_redop)i), &op, &err) == RC_OK &&
		       (int)op == i;
	ok(good, "each operation's name leads back to it");
	ok(gpu_sim__data_type__descriptor.n_values == GPUSIM_NDTYPES &&
	       gpu_sim__reduce_op__descriptor.n_values == GPUSIM_NREDOPS,
	   "gpu_sim.proto has these types and operations and no others");
	ok(dtype_parse("float", &t, &err) == RC_OK && t == GPUSIM_F32 &&
	       dtype_parse("bfloat16", &t, &err) == RC_OK && t == GPUSIM_BF16 &&
	       dtype_parse("fp8_e4m3", &t, &err) == RC_OK && t == GPUSIM_F8E4M3 &&
	       dtype_parse("e5m2", &t, &err) == RC_OK && t == GPUSIM_F8E5M2 &&
	       dtype_parse("uint8", &t, &err) == RC_OK && t == GPUSIM_U8,
	   "other names are known");
	ok(dtype_parse("f31", &t, &err) == RC_INVAL && t == GPUSIM_U8 &&
	       strstr(err.text, "'f31'") && strstr(err.text, "bf16"),
	   "a wrong type name is quoted and the right ones listed: %s", err.text);
	ok(redop_parse("", &op, &err) == RC_INVAL && strstr(err.text, "prod"),
	   "a wrong operation likewise: %s", err.text);
	ok(dtype_size(GPUSIM_NDTYPES) == 0 && dtype_size((enum gpusim_dtype) - 1) == 0 &&
	       strcmp(dtype_name((enum gpusim_dtype)99), "?") == 0 &&
	       strcmp(redop_name((enum gpusim_redop)99), "?") == 0 &&
	       !dtype_is_float((enum gpusim_dtype)99),
	   "a number that is no type has size 0 and name ?");
}

/* Bits of integers are and-ed, or-ed, xor-ed; those of floats are refused with both names. */
static void
test_takes(void)
{
	struct err err = {0};
	bool good = true;

	for (int t = 0; t < GPUSIM_NDTYPES; t++)
		for (int op = 0; op < GPUSIM_NREDOPS; op++)
			good =
			    good && redop_takes((enum gpusim_redop)op, (enum gpusim_dtype)t) ==
					!(redops[op].whole && dtype_is_float((enum gpusim_dtype)t));
	for (int op = GPUSIM_BAND; op <= GPUSIM_BXOR; op++)
		good = good && redops[op].whole;
	ok(good && !redops[GPUSIM_SUM].whole && !redop_takes(GPUSIM_NREDOPS, GPUSIM_I8) &&
	       !redop_takes(GPUSIM_SUM, GPUSIM_NDTYPES),
	   "operations of bits take integers only");
	ok(redop_check(GPUSIM_BXOR, GPUSIM_U8, &err) == RC_OK &&
	       redop_check(GPUSIM_BAND, GPUSIM_F8E5M2, &err) == RC_INVAL &&
	       strcmp(err.text, "band is for integers, not for f8e5m2") == 0,
	   "a float is refused: %s", err.text);
}

int
main(void)
{
	size_t i;

	for (i = 0; i < sizeof formats / sizeof formats[0]; i++) {
		test_every_pattern(&formats[i]);
		test_rounding(&formats[i]);
		test_random(&formats[i]);
	}
	test_halfvec();
	test_names();
	test_takes();
	return tap_done();
}
