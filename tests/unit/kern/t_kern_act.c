/* sigmoid and tanh against long double, their gradients against differences. */
#define KT_NBYTES (1u << 20)
#include "kern_test.h"

#define NELEM 20000

/* The bound that the kernels promise, in units of 2^-53. */
static const struct activation {
	const char *name, *grad;
	double ulps;
} activations[] = {{"sigmoid", "sigmoid_grad", 4}, {"tanh", "tanh_grad", 6}};
#define NACT (sizeof activations / sizeof *activations)

struct vectors {
	const struct activation *a;
	uint64_t x, y, dx, dy;
	size_t n;
	enum gpusim_dtype t;
};

static bool
forward(void *ctx)
{
	struct vectors *v = ctx;

	return kt_run(v->a->name,
		      ARGS(U("y", v->y), U("x", v->x), U("n", v->n), U("dtype", v->t))) == RC_OK;
}

static bool
backward(const struct vectors *v, uint64_t dx, uint64_t dy, uint64_t y)
{
	return kt_run(v->a->grad, ARGS(U("dx", dx), U("dy", dy), U("y", y), U("n", v->n),
				       U("dtype", v->t))) == RC_OK;
}

static long double
exact(const struct vectors *v, long double x)
{
	return v->a == &activations[1] ? tanhl(x) : 1 / (1 + expl(-x));
}

/* Numbers of all sizes, both signs. */
static void
make(const struct vectors *v)
{
	static const double special[] = {
	    0,	0x1p-30, 0x1p-1000, 1e-40, 0.5, 20,    36.7,
	    88, 700,	 710,	    745.2, 1e5, 1e300, (double)INFINITY};
	const size_t nspecial = sizeof special / sizeof *special;
	size_t size = dtype_size(v->t), i;
	double x;

	for (i = 0; i < v->n; i++) {
		x = i % 3 == 0	 ? kt_real()
		    : i % 3 == 1 ? kt_real() * 40
				 : ldexp(kt_real(), (int)(kt_rnd() % 40) - 35);
		if (i < 2 * nspecial)
			x = i % 2 ? -special[i / 2] : special[i / 2];
		kt_put(v->x, i, size, x);
	}
}

static bool
accurate(const struct vectors *v)
{
	size_t size = dtype_size(v->t), i;
	double x, y, bound, worst = 0, want;
	long double e;
	bool good = forward((void *)(uintptr_t)v);

	for (i = 0; good && i < v->n; i++) {
		x = kt_get(v->x, i, size);
		y = kt_get(v->y, i, size);
		e = exact(v, x);
		want = (double)e;
		bound = fabs(want) * v->a->ulps * 0x1p-53 + 1e-307;
		if (size == 4)
			bound += fabs(want) * 0x1p-24 + 0x1p-149;
		if (fabs(want) > 1e-300 && size == 8)
			worst = fmax(worst, (double)(fabsl(y - e) / fabsl(e)));
		good = kt_near("y", i, y, want, bound) && signbit(y) == signbit(want);
	}
	printf("# %s %s: worst error %.2f * 2^-53\n", v->a->name, dtype_name(v->t), worst * 0x1p53);
	return good;
}

static bool
gradient(const struct vectors *v)
{
	size_t size = dtype_size(v->t), i;
	double eps = size == 4 ? 0x1p-21 : 0x1p-50, y, slope, dy;
	bool good = backward(v, v->dx, v->dy, v->y);

	for (i = 0; good && i < v->n; i++) {
		y = kt_get(v->y, i, size);
		dy = kt_get(v->dy, i, size);
		slope = v->a == &activations[1] ? 1 - y * y : y * (1 - y);
		good = kt_near("dx", i, kt_get(v->dx, i, size), dy * slope, eps);
	}
	return good;
}

/* Awkward lengths, nothing beside them; and in place. */
static bool
lengths(struct vectors v)
{
	size_t size = dtype_size(v.t), i, n = v.n;
	double y, dx;
	bool good = true;

	for (v.n = 0; good && v.n < 70; v.n += 1 + v.n / 9) {
		y = kt_get(v.y, v.n, size);
		dx = kt_get(v.dx, v.n, size);
		good = forward(&v) && backward(&v, v.dx, v.dy, v.y) &&
		       kt_near("y", v.n, kt_get(v.y, v.n, size), y, 0) &&
		       kt_near("dx", v.n, kt_get(v.dx, v.n, size), dx, 0);
	}
	v.n = n;
	good = good && forward(&v) && backward(&v, v.dx, v.dy, v.y);
	for (i = 0; good && i < 70; i++) { /* an element has the same bits wherever it lies */
		struct vectors one = v;

		one.x = v.x + i * size;
		one.y = v.y + i * size;
		one.n = 1;
		y = kt_get(v.y, i, size);
		good = forward(&one) && kt_near("y", i, kt_get(v.y, i, size), y, 0);
	}
	good = good && backward(&v, v.dy, v.dy, v.y) &&
	       memcmp(kt_at(v.dy), kt_at(v.dx), n * size) == 0;
	v.dx = v.y;
	v.y = v.x;
	good = good && forward(&v) && memcmp(kt_at(v.x), kt_at(v.dx), n * size) == 0;
	return good;
}

static void
check(const struct activation *a, enum gpusim_dtype t)
{
	size_t size = dtype_size(t), h;
	struct vectors v = {.a = a, .t = t, .n = NELEM};
	uint64_t copy;

	v.x = kt_vector(NELEM, size);
	v.y = kt_vector(NELEM, size);
	v.dx = kt_vector(NELEM, size);
	v.dy = kt_vector(NELEM, size);
	make(&v);
	ok(accurate(&v), "%s %s: within %g * 2^-53, and a rounding", a->name, dtype_name(t),
	   a->ulps);
	ok(gradient(&v), "%s %s: the slope at y times dy", a->grad, dtype_name(t));
	copy = v.x;
	ok(kt_refuses(RC_INVAL, a->name,
		      ARGS(U("y", copy + size), U("x", copy), U("n", 9), U("dtype", t))) &&
	       kt_refuses(RC_INVAL, a->grad,
			  ARGS(U("dx", v.y + size), U("dy", v.dy), U("y", v.y), U("n", 9),
			       U("dtype", t))) &&
	       kt_refuses(RC_INVAL, a->grad,
			  ARGS(U("dx", v.dy + size), U("dy", v.dy), U("y", v.y), U("n", 9),
			       U("dtype", t))),
	   "%s, %s %s: refuse a shifted overlap", a->name, a->grad, dtype_name(t));
	ok(lengths(v), "%s, %s %s: any length, any place, and in place", a->name, a->grad,
	   dtype_name(t));
	kt_put(v.x, 0, size, (double)NAN);
	v.n = 1;
	h = forward(&v) && isnan(kt_get(v.y, 0, size));
	ok(h, "%s %s: NaN stays NaN", a->name, dtype_name(t));
	ok(kt_sweep(a->name, NULL, ARGS(U("y", v.y), U("x", v.x), U("n", 9), U("dtype", t))) &&
	       kt_sweep(a->grad, NULL,
			ARGS(U("dx", v.dx), U("dy", v.dy), U("y", v.y), U("n", 9), U("dtype", t))),
	   "%s, %s %s: refuse bad arguments", a->name, a->grad, dtype_name(t));
}

static void
differences(const struct activation *a)
{
	struct vectors v = {.a = a, .t = GPUSIM_F64, .n = 100};
	struct kt_slope s;
	size_t i;

	kt_open();
	v.x = kt_vector(v.n, 8);
	v.y = kt_vector(v.n, 8);
	v.dx = kt_vector(v.n, 8);
	v.dy = kt_vector(v.n, 8);
	for (i = 0; i < v.n; i++)
		kt_put(v.x, i, 8, kt_real() * (double)(1 + i % 9));
	s = (struct kt_slope){forward, &v, v.y, v.dy, v.n};
	ok(forward(&v) && backward(&v, v.dx, v.dy, v.y) &&
	       kt_gradient("dx", &s, v.x, v.n, v.dx, 1e-8),
	   "%s f64: agrees with differences of %s", a->grad, a->name);
	kt_close();
}

/* ---- gelu, whose gradient takes the input */

static bool
gelu_forward(void *ctx)
{
	struct vectors *v = ctx;

	return kt_run("gelu", ARGS(U("y", v->y), U("x", v->x), U("n", v->n), U("dtype", v->t))) ==
	       RC_OK;
}

static bool
gelu_backward(const struct vectors *v)
{
	return kt_run("gelu_grad", ARGS(U("dx", v->dx), U("dy", v->dy), U("x", v->x), U("n", v->n),
					U("dtype", v->t))) == RC_OK;
}

/* Against long double; the f32's error is one of the formula's, relative to the largest numbers near it. */
static bool
gelu_accurate(const struct vectors *v)
{
	size_t size = dtype_size(v->t);
	bool good = gelu_forward((void *)(uintptr_t)v) && gelu_backward(v);

	for (size_t i = 0; i < v->n && good; i++) {
		long double x = kt_get(v->x, i, size), phi = expl(-x * x / 2) / sqrtl(8 * atanl(1));
		long double p = erfcl(-x / sqrtl(2)) / 2, y = x * p, slope = p + x * phi;
		double eps = size == 4 ? 0x1p-21 * (1 + fabs((double)x))
				       : 0x1p-50 * (1 + (double)fabsl(x * y));
		double dy = kt_get(v->dy, i, size);

		if (isinf(x)) /* -inf has no limit here: as in PyTorch */
			y = slope = x > 0 ? x : (long double)NAN;
		good =
		    kt_near("y", i, kt_get(v->y, i, size), (double)y, eps) &&
		    (isinf(x) || kt_near("dx", i, kt_get(v->dx, i, size), dy * (double)slope, eps));
	}
	return good;
}

static void
gelu(enum gpusim_dtype t)
{
	size_t size = dtype_size(t), n = 5000;
	struct vectors v = {.t = t, .n = n};
	struct kt_slope s;
	double one;
	bool good;

	kt_open();
	v.x = kt_vector(n, size);
	v.y = kt_vector(n + 1, size);
	v.dx = kt_vector(n + 1, size);
	v.dy = kt_vector(n, size);
	make(&v);
	ok(gelu_accurate(&v), "gelu, gelu_grad %s", dtype_name(t));
	one = kt_get(v.y, 13, size);
	v.x += 13 * size;
	v.n = 1;
	ok(gelu_forward(&v) && kt_get(v.y, 0, size) == one,
	   "an element has the same bits anywhere");
	kt_put(v.x, 0, size, (double)NAN);
	good = gelu_forward(&v) && isnan(kt_get(v.y, 0, size)) && gelu_backward(&v);
	ok(good && isnan(kt_get(v.dx, 0, size)), "gelu %s: NaN stays NaN", dtype_name(t));
	v.n = 100;
	for (size_t i = 0; i < v.n; i++)
		kt_put(v.x, i, size, kt_real() * 4);
	s = (struct kt_slope){gelu_forward, &v, v.y, v.dy, v.n};
	if (t == GPUSIM_F64)
		ok(gelu_backward(&v) && kt_gradient("dx", &s, v.x, v.n, v.dx, 1e-8),
		   "gelu_grad agrees with differences of gelu");
	ok(kt_sweep("gelu", NULL, ARGS(U("y", v.y), U("x", v.x), U("n", 9), U("dtype", t))) &&
	       kt_sweep("gelu_grad", NULL,
			ARGS(U("dx", v.dx), U("dy", v.dy), U("x", v.x), U("n", 9), U("dtype", t))),
	   "gelu, gelu_grad %s: bad arguments", dtype_name(t));
	kt_close();
}

int
main(void)
{
	size_t i;

	for (i = 0; i < NACT; i++) {
		kt_open();
		check(&activations[i], GPUSIM_F32);
		kt_close();
		kt_open();
		check(&activations[i], GPUSIM_F64);
		kt_close();
		differences(&activations[i]);
	}
	gelu(GPUSIM_F32);
	gelu(GPUSIM_F64);
	return tap_done();
}
