/* fixed_add: exact sums in any order, and elements that do not fit are named. */
#define KT_NBYTES (1u << 20)
#include "kern_test.h"

#define N 3000

static enum rc
fix(uint64_t sum, uint64_t src, size_t n, double scale, bool add, enum gpusim_dtype t)
{
	return kt_run("fixed_add", ARGS(U("sum", sum), U("src", src), U("n", n), R("scale", scale),
					U("add", add), U("dtype", t)));
}

static int64_t
unit(uint64_t sum, size_t i)
{
	return ((int64_t *)kt_at(sum))[i];
}

static void
rounds(enum gpusim_dtype t)
{
	static const double scales[] = {1, 3, 0x1p20, 0x1p32 * 7};
	size_t size = dtype_size(t), s, n, i;
	uint64_t src = kt_vector(N, size), sum = kt_alloc((N + 1) * 8);
	bool good = true;

	for (s = 0; s < sizeof scales / sizeof *scales; s++)
		for (n = 0; n < N; n += 1 + n / 2) {
			((int64_t *)kt_at(sum))[n] = 99;
			good = good && fix(sum, src, n, scales[s], false, t) == RC_OK &&
			       fix(sum, src, n, scales[s], true, t) == RC_OK && unit(sum, n) == 99;
			for (i = 0; i < n; i++)
				good = good &&
				       unit(sum, i) == 2 * llrint(kt_get(src, i, size) * scales[s]);
		}
	ok(good, "%s: rounded to nearest even, added, nothing beside it", dtype_name(t));
}

/* Six vectors of very different sizes, in all orders. */
static void
in_any_order(void)
{
	uint64_t src[6], sum = kt_alloc(N * 8), back = kt_alloc(N * 4);
	static int64_t want[N];
	unsigned order[6] = {0, 1, 2, 3, 4, 5}, rounds = 40, k, j, was;
	bool good = true;

	for (k = 0; k < 6; k++) {
		src[k] = kt_vector(N, 4);
		for (size_t i = 0; i < N; i++)
			kt_put(src[k], i, 4, ldexp(kt_get(src[k], i, 4), 15 - 6 * (int)k));
	}
	for (unsigned round = 0; round < rounds; round++) {
		for (k = 5; k > 0; k--) {
			j = (unsigned)(kt_rnd() % (k + 1));
			was = order[k];
			order[k] = order[j];
			order[j] = was;
		}
		for (k = 0; k < 6; k++)
			good =
			    good && fix(sum, src[order[k]], N, 0x1p32, k > 0, GPUSIM_F32) == RC_OK;
		if (round == 0)
			memcpy(want, kt_at(sum), sizeof want);
		good = good && memcmp(want, kt_at(sum), sizeof want) == 0;
	}
	ok(good, "the same sum in any order");
	good = kt_run("cast", ARGS(U("dst", back), U("src", sum), U("n", N), U("from", GPUSIM_I64),
				   U("to", GPUSIM_F32), R("scale", 0x1p-32))) == RC_OK;
	for (size_t i = 0; i < N; i++)
		good = good && kt_get(back, i, 4) == (float)((double)want[i] * 0x1p-32);
	ok(good, "cast gives the sum back, rounded once");
	for (size_t i = 0; i < N; i++)
		((int64_t *)kt_at(sum))[i] = INT64_MAX - (int64_t)i;
	good = kt_run("add", ARGS(U("y", sum), U("a", sum), U("b", sum), U("n", N),
				  U("dtype", GPUSIM_I64))) == RC_OK;
	for (size_t i = 0; i < N; i++)
		good = good && unit(sum, i) == -2 - 2 * (int64_t)i;
	ok(good, "add of i64 wraps around");
}

/* Whether an element is refused at each place, and named. */
static bool
refused(double x, const char *text)
{
	static const size_t places[] = {0, 1, 7, 1023, 1024, 2047, N - 1};
	uint64_t src = kt_vector(N, 4), sum = kt_alloc(N * 8);
	char named[32];
	bool good = true;

	for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
		double was = kt_get(src, places[p], 4);

		kt_put(src, places[p], 4, x);
		snprintf(named, sizeof named, "src[%zu] is ", places[p]);
		good = good && fix(sum, src, N, 0x1p32, true, GPUSIM_F32) == RC_BADDATA &&
		       strstr(kt_err.text, named) && strstr(kt_err.text, text);
		kt_put(src, places[p], 4, was);
	}
	return good;
}

static void
refuses(void)
{
	uint64_t src = kt_vector(9, 4), sum = kt_alloc(9 * 8);

	ok(refused(0x1p18, "its magnitude must be below 262144") && refused(-1e30, "must be below"),
	   "an element beyond the limit is named, with the limit");
	ok(refused(NAN, "not a number") && refused(INFINITY, "infinite") &&
	       refused(-INFINITY, "infinite"),
	   "an element that is not finite is named");
	kt_put(src, 0, 4, 0x1.fffffep17);
	kt_put(src, 1, 4, -0x1.fffffep17);
	ok(fix(sum, src, 9, 0x1p32, false, GPUSIM_F32) == RC_OK &&
	       unit(sum, 0) == (INT64_C(1) << 50) - (1 << 26) && unit(sum, 1) == -unit(sum, 0),
	   "the largest elements fit");
	ok(fix(sum, src, 9, 0, false, GPUSIM_F32) == RC_INVAL &&
	       fix(sum, src, 9, -1, false, GPUSIM_F32) == RC_INVAL &&
	       fix(sum, src, 9, NAN, false, GPUSIM_F32) == RC_INVAL &&
	       fix(sum, src, 9, INFINITY, false, GPUSIM_F32) == RC_INVAL &&
	       fix(src, src, 4, 1, false, GPUSIM_F32) == RC_INVAL,
	   "refuses a scale that is none, and an overlap");
	ok(kt_sweep("fixed_add", NULL,
		    ARGS(U("sum", sum), U("src", src), U("n", 9), R("scale", 1.0),
			 U("dtype", GPUSIM_F32))),
	   "refuses bad arguments");
}

int
main(void)
{
	kt_open();
	rounds(GPUSIM_F32);
	kt_close();
	kt_open();
	rounds(GPUSIM_F64);
	kt_close();
	kt_open();
	in_any_order();
	kt_close();
	kt_open();
	refuses();
	kt_close();
	return tap_done();
}
