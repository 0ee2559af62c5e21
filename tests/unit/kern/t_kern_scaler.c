/* Exact sums of squares; the decision on a step, against PyTorch's rules; steps that it gates. */
#include "kern_test.h"

#include "kern/kern_impl.h"

#define SUM 21

static double
norm_of(uint64_t sum)
{
	uint64_t gate = kt_alloc(8);

	kt_run("grad_scaler", ARGS(U("gate", gate), U("sum", sum), R("clip", 0x1p-30)));
	return 0x1p-30 / kt_get(gate, 0, 4) - 1e-6;
}

static void
squares(void)
{
	enum { N = 1000 };
	uint64_t x = kt_vector(N, 4), whole = kt_alloc(SUM * 8), parts = kt_alloc(SUM * 8);
	double sum = 0;
	bool good = true;

	for (size_t i = 0; i < N; i++) {
		kt_put(x, i, 4, ldexp(kt_real(), (int)(kt_rnd() % 40) - 20));
		sum += kt_get(x, i, 4) * kt_get(x, i, 4);
	}
	ok(kt_run("sum_squares", ARGS(U("sum", whole), U("x", x), U("n", N))) == RC_OK &&
	       kt_near("norm", 0, norm_of(whole), sqrt(sum), 1e-6 * sqrt(sum)),
	   "the norm of numbers of all sizes");
	for (size_t end = N, add = 0; end > 0; add = 1) {
		size_t n = end < 77 ? end : 77;

		end -= n;
		good = good && kt_run("sum_squares", ARGS(U("sum", parts), U("x", x + 4 * end),
							  U("n", n), U("add", add))) == RC_OK;
	}
	ok(good && memcmp(kt_at(whole), kt_at(parts), SUM * 8) == 0,
	   "in parts, backward: the same integers");
	for (int e = -149; e < 128; e++) {
		const uint64_t *bin = kt_at(whole);
		double got = 0;

		kt_put(x, 0, 4, ldexp(e < -140 ? 1 : 1.75, e));
		sum = kt_get(x, 0, 4) * kt_get(x, 0, 4);
		good = good &&
		       kt_run("sum_squares", ARGS(U("sum", whole), U("x", x), U("n", 1))) == RC_OK;
		for (int b = 0; b < SUM - 1; b++)
			got += ldexp((double)bin[b], 32 * b - 352);
		good = good && kt_near("square", 0, got, sum, 0) && bin[SUM - 1] == 0;
	}
	ok(good, "one number of each size: the square is exact");
	kt_put(x, 0, 4, INFINITY);
	kt_put(x, 1, 4, -(double)NAN);
	ok(kt_run("sum_squares", ARGS(U("sum", whole), U("x", x), U("n", 5))) == RC_OK &&
	       ((uint64_t *)kt_at(whole))[SUM - 1] == 2,
	   "what is not finite is counted");
	ok(kt_sweep("sum_squares", NULL, ARGS(U("sum", whole), U("x", x), U("n", 9))) &&
	       kt_refuses(RC_INVAL, "sum_squares",
			  ARGS(U("sum", whole), U("x", x), U("n", 9), U("dtype", GPUSIM_F64))),
	   "sum_squares: bad arguments");
}

/* Memory of grad_scaler. */
struct scaler {
	uint64_t gate, sum, scale, counts, x;
};

/* One decision on a gradient of two elements. */
static bool
decide(const struct scaler *s, double a, double b, double clip)
{
	kt_put(s->x, 0, 4, a);
	kt_put(s->x, 1, 4, b);
	return kt_run("sum_squares", ARGS(U("sum", s->sum), U("x", s->x), U("n", 2))) == RC_OK &&
	       kt_run("grad_scaler",
		      ARGS(U("gate", s->gate), U("sum", s->sum), U("scale", s->scale),
			   U("counts", s->counts), R("clip", clip), U("interval", 3))) == RC_OK;
}

static bool
is(const struct scaler *s, double factor, bool skips, double scale, uint32_t good, uint32_t skipped)
{
	const uint32_t *counts = kt_at(s->counts);

	return kt_near("factor", 0, kt_get(s->gate, 0, 4), factor, 1e-7 * fabs(factor)) &&
	       kt_near("skip", 0, kt_get(s->gate, 1, 4), skips, 0) &&
	       kt_near("scale", 0, kt_get(s->scale, 0, 4), scale, 0) && counts[0] == good &&
	       counts[1] == skipped;
}

static void
decisions(void)
{
	const struct scaler s = {kt_alloc(8), kt_alloc(SUM * 8), kt_alloc(4), kt_alloc(8),
				 kt_alloc(8)};

	kt_put(s.scale, 0, 4, 65536);
	memset(kt_at(s.counts), 0, 8);
	ok(decide(&s, 3 * 65536., 4 * 65536., 0) && is(&s, 1 / 65536., false, 65536, 1, 0),
	   "a good step is unscaled");
	ok(decide(&s, 3 * 65536., 4 * 65536., 2) &&
	       is(&s, 2 / (5 + 1e-6) / 65536, false, 65536, 2, 0),
	   "and clipped by the unscaled norm");
	ok(decide(&s, 3 * 65536., 4 * 65536., 6) && is(&s, 1 / 65536., false, 131072, 0, 0),
	   "a norm below the bound is left; after three good steps the scale is doubled");
	ok(decide(&s, 1, INFINITY, 2) && is(&s, 0, true, 65536, 0, 1) && decide(&s, 1, 1, 0) &&
	       decide(&s, (double)NAN, 1, 0) && is(&s, 0, true, 32768, 0, 2),
	   "infinity and NaN: the step is skipped, the scale halved, and it counts anew");
	kt_put(s.scale, 0, 4, 0x1p127);
	ok(decide(&s, 1, 1, 0) && decide(&s, 1, 1, 0) && decide(&s, 1, 1, 0) &&
	       kt_get(s.scale, 0, 4) == 0x1p127,
	   "the scale does not become infinite");
	kt_put(s.scale, 0, 4, 0x1p-126);
	ok(decide(&s, INFINITY, 1, 0) && kt_get(s.scale, 0, 4) == 0x1p-126, "nor 0");
	ok(kt_run("grad_scaler", ARGS(U("gate", s.gate), U("sum", s.sum), R("clip", 1.0))) ==
		   RC_OK &&
	       isnan(kt_get(s.gate, 0, 4)) && kt_get(s.gate, 1, 4) == 0,
	   "without a scale NaN goes on, as in PyTorch");
	kt_any_count = "interval";
	ok(kt_sweep("grad_scaler", NULL,
		    ARGS(U("gate", s.gate), U("sum", s.sum), U("scale", s.scale),
			 U("counts", s.counts), U("interval", 3))),
	   "grad_scaler: bad arguments");
	ok(kt_refuses(RC_INVAL, "grad_scaler",
		      ARGS(U("gate", s.gate), U("sum", s.sum), R("clip", -1.0))) &&
	       kt_refuses(RC_INVAL, "grad_scaler",
			  ARGS(U("gate", s.gate), U("sum", s.sum), R("clip", (double)NAN))),
	   "grad_scaler: a bound that is none");
}

/* A gated step of half gradients equals a plain one of the scaled gradient; a skipped one does nothing. */
static void
gated(const char *name)
{
	enum { N = 33 };
	bool adam = strcmp(name, "adam") == 0;
	uint64_t w[2], m[2], v[2], t[2], half = kt_alloc(N * 2), grad = kt_alloc(N * 4);
	uint64_t gate = kt_alloc(8), at;
	const uint16_t *h = kt_at(half);
	struct kern_cast widen;
	bool good = true;

	kern_cast_init(&widen, GPUSIM_F32, GPUSIM_F16, 1);
	for (size_t i = 0; i < N; i++) {
		double x = kt_real();

		kern_narrow(GPUSIM_F16, (uint16_t *)kt_at(half) + i, &x, 1);
	}
	kern_cast(&widen, kt_at(grad), h, N);
	for (size_t i = 0; i < N; i++)
		kt_put(grad, i, 4, kt_get(grad, i, 4) / 4);
	for (unsigned k = 0; k < 2; k++) {
		w[k] = kt_alloc(4 * N * 3);
		m[k] = w[k] + (uint64_t)N * 4;
		v[k] = m[k] + (uint64_t)N * 4;
		t[k] = kt_alloc(8);
		memset(kt_at(w[k]), 0, (size_t)4 * N * 3);
		memset(kt_at(t[k]), 0, 8);
	}
	for (unsigned step = 0; step < 4 && good; step++) {
		kt_put(gate, 0, 4, 0.25);
		kt_put(gate, 1, 4, step == 2);
		for (unsigned k = 0; k < 2; k++) {
			struct kernel_arg args[10];
			size_t n = 0;

			if (k == 1 && step == 2)
				continue;
			at = k ? grad : half;
			args[n++] = U("w", w[k]);
			args[n++] = U("grad", at);
			args[n++] = U("v", v[k]);
			args[n++] = U("n", N);
			args[n++] = R("lr", 0.1);
			args[n++] = adam ? U("m", m[k]) : R("momentum", 0.9);
			if (adam)
				args[n++] = U("t", t[k]);
			if (k == 0) {
				args[n++] = U("gate", gate);
				args[n++] = U("grad_dtype", GPUSIM_F16);
			}
			good = good && kt_run(name, args, n) == RC_OK;
		}
	}
	ok(good && memcmp(kt_at(w[0]), kt_at(w[1]), (size_t)4 * N * 3) == 0 &&
	       memcmp(kt_at(t[0]), kt_at(t[1]), 8) == 0,
	   "%s: half gradients, a factor, and a step that is skipped", name);
	ok(kt_refuses(RC_INVAL, name,
		      ARGS(U("w", w[0]), U("grad", half), U("v", v[0]), U("n", N), R("lr", 0.1),
			   U("grad_dtype", GPUSIM_F64), U("gate", gate),
			   adam ? U("t", t[0]) : R("momentum", 0.5),
			   adam ? U("m", m[0]) : R("weight_decay", 0.0))),
	   "%s: gradients of another type", name);
}

int
main(void)
{
	kt_open();
	squares();
	kt_close();
	kt_open();
	decisions();
	kt_close();
	kt_open();
	gated("sgd");
	gated("adam");
	kt_close();
	return tap_done();
}
