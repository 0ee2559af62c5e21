/*
 * Design notes. Exact values are computed in long double, which has 11 digits more than f64 on x86-64 and
 * 60 on arm64; its own rounding is added to the bounds. An interval's ends are then moved inwards to
 * possible partial results. From there to the type all steps are monotone, so the results are those between
 * the results of the ends.
 */
#include "mem/rounding.h"

#include <float.h>
#include <math.h>

#include "mem/dtype.h"
#include "mem/redop.h"

/* Properties of the partial results' type. */
struct kind {
	bool wide;		       /* f64, not f32 */
	long double unit, most, least; /* rounding, largest number, smallest with all digits */
};

/* Possible values of the last partial result: from lo to hi, or special values. */
struct reach {
	double lo, hi;
	bool finite, above, below, nan; /* above, below: infinite */
};

/* The nearest possible partial result to x, towards `to`; may be x. */
static double
inside(const struct kind *k, long double x, double to)
{
	double d = k->wide ? (double)x : (double)(float)x;

	if (to > 0 ? d >= x : d <= x)
		return d;
	return k->wide ? nextafter(d, to) : (double)nextafterf((float)d, (float)to);
}

/* The number is an odd whole one times a power of two: that power, and the binary digits of the odd one. */
static long double
grain(double v, int *digits)
{
	int e, zeros = __builtin_ctzll((uint64_t)ldexp(frexp(fabs(v), &e), DBL_MANT_DIG));

	*digits = DBL_MANT_DIG - zeros;
	return ldexpl(1, e - *digits);
}

static struct reach
sums(const struct kind *k, const union number x[], uint32_t n)
{
	long double s = -0.0L, up = 0, down = 0, least = INFINITY, e;
	bool nan = false, above = false, below = false;
	int digits;

	for (uint32_t i = 0; i < n; i++) {
		double v = x[i].real;

		nan |= isnan(v);
		above |= isinf(v) && v > 0;
		below |= isinf(v) && v < 0;
		if (!isfinite(v))
			continue;
		if (v != 0)
			least = fminl(least, grain(v, &digits));
		s += v;
		up += v > 0 ? v : 0;
		down -= v < 0 ? v : 0;
	}
	e = (n - 1) * (k->unit + 2 * LDBL_EPSILON) * (up + down);
	if ((up + down) * k->unit <= least) /* every sum is exact */
		e = 0;
	return (struct reach){
	    .lo = inside(k, s - e, INFINITY),
	    .hi = inside(k, e > 0 ? s + e : s, -INFINITY),
	    .finite = !nan && !above && !below,
	    .above = !nan && !below && (above || up + e > k->most),
	    .below = !nan && !above && (below || down + e > k->most),
	    .nan = nan || ((above || up + e > k->most) && (below || down + e > k->most))};
}

/* Partial results are between `down`, of the factors below 1, and `up`, of those above. */
static struct reach
products(const struct kind *k, const union number x[], uint32_t n)
{
	long double p = 1, up = 1, down = 1, g = (n - 1) * (k->unit + 2 * LDBL_EPSILON), lost, lo,
		    hi;
	bool nan = false, zero = false, inf = false, negative = false, over, under;
	int digits, all = 0;
	struct reach r;

	for (uint32_t i = 0; i < n; i++) {
		double v = fabs(x[i].real);

		negative ^= signbit(x[i].real) != 0;
		nan |= isnan(v);
		zero |= v == 0;
		inf |= isinf(v);
		if (v == 0 || !isfinite(v))
			continue;
		grain(v, &digits);
		all += digits > 1 && all <= DBL_MANT_DIG ? digits : 0;
		p *= v;
		up *= v > 1 ? v : 1;
		down *= v < 1 ? v : 1;
	}
	g /= 1 - g;
	over = up * (1 + g) > k->most;
	under = down * (1 - g) < k->least;
	/* Half of the last place of the smallest numbers, each time, times the later factors. */
	lost = under ? (n - 1) * k->least * k->unit * (1 + g) * up : 0;
	if (ldexpl(k->unit, all) <= 1 && !under) /* every product is exact */
		g = 0;
	lo = p * (1 - g) - lost;
	hi = p * (1 + g) + lost;
	r = (struct reach){.lo = zero || !(lo > 0) ? 0 : inside(k, lo, INFINITY),
			   .hi = zero ? 0 : inside(k, hi, -INFINITY),
			   .finite = !nan && !inf,
			   .above = !nan && !zero && (inf || over),
			   .nan = nan || ((zero || under) && (inf || over))};
	if (negative)
		return (struct reach){-r.hi, -r.lo, r.finite, false, r.above, r.nan};
	return r;
}

/* The result from the last partial result. */
static double
result(enum gpusim_dtype t, enum gpusim_redop redop, double x, uint32_t n)
{
	unsigned char element[8];

	number_put(t, element, number_finish(t, redop, (union number){.real = x}, n));
	return number_get(t, element).real;
}

/* -0 is less than +0. */
static bool
at_most(double a, double b)
{
	return a < b || (a == b && signbit(a) >= signbit(b));
}

bool
rounding_explains(enum gpusim_dtype t, enum gpusim_redop redop, const union number x[], uint32_t n,
		  const void *got)
{
	static const struct kind f32 = {false, 0x1p-24L, FLT_MAX, FLT_MIN},
				 f64 = {true, 0x1p-53L, DBL_MAX, DBL_MIN};
	const struct kind *k = t == GPUSIM_F64 ? &f64 : &f32;
	double g = number_get(t, got).real, want;
	union number all = x[0];
	struct reach r;

	if (n < 3 || !redops[redop].rounds) {
		for (uint32_t i = 1; i < n; i++)
			all = number_fold(t, redop, all, x[i]);
		want = result(t, redop, all.real, n);
		return (isnan(g) && isnan(want)) || (at_most(g, want) && at_most(want, g));
	}
	r = redop == GPUSIM_PROD ? products(k, x, n) : sums(k, x, n);
	return (isnan(g) && r.nan) || (r.above && g == result(t, redop, INFINITY, n)) ||
	       (r.below && g == result(t, redop, -INFINITY, n)) ||
	       (r.finite && at_most(result(t, redop, r.lo, n), g) &&
		at_most(g, result(t, redop, r.hi, n)));
}
