/*
 * What roundings explain. Reductions in random orders are right, of every type, redop, number of elements
 * and magnitude, with zeros of both signs, subnormals, infinities and NaNs among them; and what is outside
 * of the bounds is wrong, by an oracle that tries every number of a short type, or the neighbours of the
 * bounds.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/redop.h"
#include "mem/rounding.h"

#include "reduce_test.h"
#include "tap.h"

#define MOST   33
#define ROUNDS 3000

/* Magnitudes as far apart as `spread` powers of two around `middle`. */
static union number
draw(enum gpusim_dtype t, int middle, unsigned spread, unsigned odd)
{
	static const double odds[] = {0.0, -0.0, INFINITY, -INFINITY, NAN};
	unsigned char element[8];
	double v = ldexp((double)(int64_t)rnd(), middle - 62 + (int)(rnd() % spread));

	if (odd && rnd() % odd == 0)
		v = odds[rnd() % 5];
	number_put(t, element, (union number){.real = v});
	return number_get(t, element);
}

/* By a random tree. */
static void
reduce_somehow(enum gpusim_dtype t, enum gpusim_redop redop, const union number *x, uint32_t n,
	       unsigned char out[8])
{
	union number v[MOST];
	uint32_t left = n;

	memcpy(v, x, n * sizeof *v);
	while (left > 1) {
		uint32_t a = (uint32_t)(rnd() % left), b = (uint32_t)(rnd() % (left - 1));
		union number y;

		b += b >= a;
		y = number_fold(t, redop, v[a], v[b]);
		v[a < b ? a : b] = y;
		v[a < b ? b : a] = v[--left];
	}
	number_put(t, out, number_finish(t, redop, v[0], n));
}

static void
test_right(enum gpusim_dtype t, enum gpusim_redop redop)
{
	const int top = t == GPUSIM_F64 ? 1022 : t == GPUSIM_F32 || t == GPUSIM_BF16 ? 126 : 14;
	union number x[MOST];
	unsigned bad = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint32_t n = 1 + (uint32_t)(rnd() % MOST);
		int middle = (int)(rnd() % 3) - 1;
		unsigned odd = rnd() % 4 ? 0 : 40, spread = 1 + (unsigned)(rnd() % 30);
		unsigned char got[8];

		for (uint32_t k = 0; k < n; k++)
			x[k] = draw(t, middle * top - (int)spread / 2, spread, odd);
		for (unsigned k = 0; k < 3; k++) {
			reduce_somehow(t, redop, x, n, got);
			bad += !rounding_explains(t, redop, x, n, got);
		}
	}
	ok(bad == 0, "%s %s: any order is right", dtype_name(t), redop_name(redop));
}

/* The nearest number of a short type, ties to even: of all that there are. */
static double
nearest(enum gpusim_dtype t, double v)
{
	double best = 0, off = INFINITY;
	uint32_t last = 1;

	for (uint32_t bits = 0; bits < 1u << (8 * dtype_size(t)); bits++) {
		double y = number_get(t, &bits).real;

		if (!isfinite(y) || fabs(y - v) > off || (fabs(y - v) == off && (last & 1) == 0))
			continue;
		best = y;
		off = fabs(y - v);
		last = bits;
	}
	return best;
}

/* Of 8 bits: exactly the numbers between the nearest ones of the interval's ends, all 256 tried. */
static void
test_short(enum gpusim_dtype t, bool mean)
{
	unsigned missed = 0, accused = 0, wrong = 0;

	for (unsigned i = 0; i < 300; i++) {
		uint32_t n = 3 + (uint32_t)(rnd() % 6);
		double s = 0, sum = 0, e, lo, hi;
		union number x[MOST];

		for (uint32_t k = 0; k < n; k++) {
			x[k] = draw(t, 0, 1 + (unsigned)(rnd() % 6), 0);
			s += x[k].real;
			sum += fabs(x[k].real);
		}
		e = (n - 1) * 0x1p-24 * sum;
		lo = nearest(t, (s - e) / (mean ? n : 1));
		hi = nearest(t, (s + e) / (mean ? n : 1));
		for (unsigned bits = 0; bits < 256; bits++) {
			double y = number_get(t, &bits).real;
			bool right = y >= lo && y <= hi && (y != 0 || !signbit(y) || s - e < 0),
			     said =
				 rounding_explains(t, mean ? GPUSIM_AVG : GPUSIM_SUM, x, n, &bits);

			missed += said && !right;
			accused += right && !said && lo == hi && y != 0;
			wrong += !right;
		}
	}
	ok(missed == 0 && accused == 0 && wrong > 70000,
	   "%s %s: of all numbers those that are rounded once (%u, %u)", dtype_name(t),
	   mean ? "avg" : "sum", missed, accused);
}

/* Of the wider ones: the bound's own numbers are right, and the next outside is wrong. */
static void
test_edges(enum gpusim_dtype t, enum gpusim_redop redop)
{
	unsigned bad = 0, tried = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint32_t n = 3 + (uint32_t)(rnd() % 14);
		long double s = redop == GPUSIM_PROD, sum = 0, e;
		union number x[MOST], got;
		unsigned char element[8];

		for (uint32_t k = 0; k < n; k++) {
			x[k] = draw(t, 0, 2, 0);
			if (k < 2) /* so that something is rounded */
				x[k].real = k ? 1.5 : 0.5 + (t == GPUSIM_F64 ? 0x1p-53 : 0x1p-24);
			if (redop == GPUSIM_PROD)
				s *= x[k].real;
			else
				s += x[k].real;
			sum += fabs(x[k].real);
		}
		e = (n - 1) * (t == GPUSIM_F64 ? 0x1p-53L : 0x1p-24L) *
		    (redop == GPUSIM_PROD ? fabsl(s) : sum);
		for (int side = -1; side <= 1; side += 2)
			for (int by = 0; by < 2; by++) {
				long double to = s + side * e * (by ? 1.02L : 0.98L);

				got.real = (double)to;
				number_put(t, element, got);
				got = number_get(t, element);
				if (by ? fabsl(got.real - s) <= e * 1.01L
				       : fabsl(got.real - s) > e * 0.999L)
					continue;
				tried++;
				bad += rounding_explains(t, redop, x, n, element) == (by == 1);
			}
	}
	ok(bad == 0 && tried > ROUNDS, "%s %s: the bound is where it is said to be (%u of %u)",
	   dtype_name(t), redop_name(redop), bad, tried);
}

/* What cannot be: by hand. */
static void
test_wrong(void)
{
	static const struct {
		enum gpusim_dtype t;
		enum gpusim_redop redop;
		double x[3], got;
		bool right;
	} c[] = {
	    {GPUSIM_F32, GPUSIM_SUM, {1, 2, 3}, 6.5, false},
	    {GPUSIM_F32, GPUSIM_SUM, {1, 2, 0x1p-22}, 3 + 0x1p-22, true},
	    {GPUSIM_F32, GPUSIM_SUM, {1, 2, 0x1p-22}, 3, false}, /* nothing is rounded */
	    {GPUSIM_F32, GPUSIM_SUM, {1, 2, 0x1p-23}, 3, true},
	    {GPUSIM_F8E5M2, GPUSIM_SUM, {1, 2, 1.5}, 4, true}, /* 4.5, to even */
	    {GPUSIM_F8E5M2, GPUSIM_SUM, {1, 2, 1.5}, 5, false},
	    {GPUSIM_F32, GPUSIM_PROD, {3, 5, 7}, 105, true},
	    {GPUSIM_F32, GPUSIM_PROD, {3, 5, 7}, 105 + 0x1p-17, false},
	    {GPUSIM_F32, GPUSIM_SUM, {1, 2, INFINITY}, INFINITY, true},
	    {GPUSIM_F32, GPUSIM_SUM, {1, 2, INFINITY}, 3, false},
	    {GPUSIM_F32, GPUSIM_SUM, {1, 2, INFINITY}, (double)NAN, false},
	    {GPUSIM_F32, GPUSIM_SUM, {-INFINITY, 2, INFINITY}, (double)NAN, true},
	    {GPUSIM_F32, GPUSIM_SUM, {-INFINITY, 2, INFINITY}, INFINITY, false},
	    {GPUSIM_F32, GPUSIM_SUM, {1, (double)NAN, 2}, 3, false},
	    {GPUSIM_F32, GPUSIM_SUM, {3e38, 3e38, -3e38}, INFINITY, true},
	    {GPUSIM_F32, GPUSIM_SUM, {3e38, 3e38, -3e38}, 3e38, true},
	    {GPUSIM_F32, GPUSIM_SUM, {3e38, 3e38, -3e38}, 3.1e38, false},
	    {GPUSIM_F32, GPUSIM_SUM, {3e38, 3e38, -3e38}, -INFINITY, false},
	    {GPUSIM_F32, GPUSIM_SUM, {3e38, 3e38, 1}, 3e38, false},
	    {GPUSIM_F32, GPUSIM_SUM, {-0.0, -0.0, -0.0}, -0.0, true},
	    {GPUSIM_F32, GPUSIM_SUM, {-0.0, -0.0, -0.0}, 0.0, false},
	    {GPUSIM_F32, GPUSIM_SUM, {-0.0, 0.0, -0.0}, -0.0, false},
	    {GPUSIM_F32, GPUSIM_SUM, {0x1p-149, 0x1p-149, 0x1p-149}, 0x1p-148, false},
	    {GPUSIM_F32, GPUSIM_PROD, {1e30, 1e30, 1e-30}, INFINITY, true},
	    {GPUSIM_F32, GPUSIM_PROD, {1e30, 1e30, 1e-30}, -INFINITY, false},
	    {GPUSIM_F32, GPUSIM_PROD, {1e30, 1e30, -1e-30}, 1e30, false},
	    {GPUSIM_F32, GPUSIM_PROD, {1e-30, 1e-30, 1e30}, 0.0, true},
	    {GPUSIM_F32, GPUSIM_PROD, {1e-30, 1e-30, 1e30}, 1e-14, false},
	    {GPUSIM_F32, GPUSIM_PROD, {1e-30, 1e-30, 1e30}, -0.0, false},
	    {GPUSIM_F32, GPUSIM_PROD, {0, INFINITY, 1}, (double)NAN, true},
	    {GPUSIM_F32, GPUSIM_PROD, {0, INFINITY, 1}, 0, false},
	    {GPUSIM_F32, GPUSIM_PROD, {-0.0, 5, 1}, 0, false},
	    {GPUSIM_F32, GPUSIM_MIN, {1, -0.0, 0.0}, -0.0, true},
	    {GPUSIM_F32, GPUSIM_MIN, {1, -0.0, 0.0}, 0.0, false},
	    {GPUSIM_F32, GPUSIM_MAX, {1, INFINITY, (double)NAN}, (double)NAN, true},
	    {GPUSIM_F32, GPUSIM_MAX, {1, INFINITY, (double)NAN}, INFINITY, false},
	    {GPUSIM_F8E5M2, GPUSIM_MAX, {1, INFINITY, 2}, INFINITY, true},
	    {GPUSIM_F8E5M2, GPUSIM_MAX, {1, INFINITY, 2}, 57344, false},
	    {GPUSIM_F8E5M2, GPUSIM_SUM, {1, INFINITY, 2}, 57344, true},
	    {GPUSIM_F8E5M2, GPUSIM_SUM, {1, INFINITY, 2}, INFINITY, false},
	    {GPUSIM_F8E5M2, GPUSIM_AVG, {57344, 57344, 57344}, 57344, true},
	    {GPUSIM_F8E4M3, GPUSIM_SUM, {448, 448, 448}, 448, true},
	    {GPUSIM_F8E4M3, GPUSIM_SUM, {448, 448, 448}, 416, false},
	    {GPUSIM_F8E4M3, GPUSIM_AVG, {448, 448, 448}, 416, false},
	    {GPUSIM_F8E4M3, GPUSIM_PREMULSUM, {1, 2, 3}, 6.5, false},
	};

	for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
		union number x[3];
		unsigned char got[8];

		for (int k = 0; k < 3; k++)
			x[k].real = c[i].t == GPUSIM_F32 ? (float)c[i].x[k] : c[i].x[k];
		number_put(c[i].t, got, (union number){.real = c[i].got});
		ok(rounding_explains(c[i].t, c[i].redop, x, 3, got) == c[i].right,
		   "%s %s of %g %g %g: %g is %s", dtype_name(c[i].t), redop_name(c[i].redop),
		   c[i].x[0], c[i].x[1], c[i].x[2], c[i].got, c[i].right ? "right" : "wrong");
	}
}

int
main(void)
{
	for (int t = 0; t < GPUSIM_NDTYPES; t++)
		for (int redop = 0; redop < GPUSIM_NREDOPS; redop++)
			if (dtype_is_float((enum gpusim_dtype)t) &&
			    redop_takes((enum gpusim_redop)redop, (enum gpusim_dtype)t))
				test_right((enum gpusim_dtype)t, (enum gpusim_redop)redop);
	for (int mean = 0; mean < 2; mean++) {
		test_short(GPUSIM_F8E4M3, mean);
		test_short(GPUSIM_F8E5M2, mean);
	}
	test_edges(GPUSIM_F32, GPUSIM_SUM);
	test_edges(GPUSIM_F32, GPUSIM_PROD);
	test_edges(GPUSIM_F64, GPUSIM_SUM);
	test_edges(GPUSIM_F64, GPUSIM_PROD);
	test_wrong();
	return tap_done();
}
