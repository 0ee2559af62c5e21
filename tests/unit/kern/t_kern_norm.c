/* Batch normalisation against loops in long double, its gradient against differences, and a batch
 * that is split over two ranks against the whole. */
#define KT_NBYTES (256u << 10)
#include "kern_test.h"

#define EPS 1e-5

struct shape {
	size_t n, c, hw;
};

static const struct shape shapes[] = {{0, 3, 4},  {3, 0, 4},  {3, 2, 0},  {1, 1, 1},
				      {2, 1, 1},  {5, 3, 1},  {4, 2, 15}, {3, 5, 16},
				      {2, 3, 17}, {1, 2, 35}, {7, 3, 9},  {2, 2, 300}};
#define NSHAPES (sizeof shapes / sizeof *shapes)

struct norm {
	struct shape s;
	size_t nx, size;
	uint64_t x, y, dx, dy, sums, gsums, moments, gamma, beta, dgamma, dbeta;
	enum gpusim_dtype t;
};

static struct norm
norm_new(const struct shape *s, enum gpusim_dtype t)
{
	struct norm v = {.s = *s, .t = t, .size = dtype_size(t), .nx = s->n * s->c * s->hw};

	v.x = kt_vector(v.nx, v.size);
	v.y = kt_vector(v.nx + 1, v.size);
	v.dx = kt_vector(v.nx + 1, v.size);
	v.dy = kt_vector(v.nx, v.size);
	v.sums = kt_vector(2 * s->c + 1, 8);
	v.gsums = kt_vector(2 * s->c + 1, 8);
	v.moments = kt_vector(2 * s->c + 1, v.size);
	v.gamma = kt_vector(s->c, v.size);
	v.beta = kt_vector(s->c, v.size);
	v.dgamma = kt_vector(s->c + 1, v.size);
	v.dbeta = kt_vector(s->c + 1, v.size);
	return v;
}

#define SHAPE(v) U("n", (v)->s.n), U("c", (v)->s.c), U("hw", (v)->s.hw), U("dtype", (v)->t)
#define SUMS(v)	 U("sums", (v)->sums), U("x", (v)->x), SHAPE(v)
#define MOMENTS(v, count_)                                                                      \
	U("moments", (v)->moments), U("sums", (v)->sums), U("c", (v)->s.c), U("count", count_), \
	    U("dtype", (v)->t)
#define NORM(v)                                                                             \
	U("y", (v)->y), U("x", (v)->x), U("moments", (v)->moments), U("gamma", (v)->gamma), \
	    U("beta", (v)->beta), SHAPE(v)
#define GRAD_SUMS(v)                                                                               \
	U("sums", (v)->gsums), U("dgamma", (v)->dgamma), U("dbeta", (v)->dbeta), U("dy", (v)->dy), \
	    U("x", (v)->x), U("moments", (v)->moments), SHAPE(v)
#define GRAD(v, count_, add_)                                                                  \
	U("dx", (v)->dx), U("dy", (v)->dy), U("x", (v)->x), U("moments", (v)->moments),        \
	    U("gamma", (v)->gamma), U("sums", (v)->gsums), U("count", count_), U("add", add_), \
	    SHAPE(v)

static bool
moments(const struct norm *v, uint64_t count)
{
	return kt_run("batchnorm_sums", ARGS(SUMS(v))) == RC_OK &&
	       kt_run("batchnorm_moments", ARGS(MOMENTS(v, count))) == RC_OK;
}

static bool
forward(void *ctx)
{
	struct norm *v = ctx;

	return moments(v, v->s.n * v->s.hw) && kt_run("batchnorm", ARGS(NORM(v))) == RC_OK;
}

static bool
backward(const struct norm *v, unsigned add)
{
	return kt_run("batchnorm_grad_sums", ARGS(GRAD_SUMS(v))) == RC_OK &&
	       kt_run("batchnorm_grad", ARGS(GRAD(v, v->s.n * v->s.hw, add))) == RC_OK;
}

/* What one channel has to become. */
struct channel {
	long double sum, squares, mean, variance, deviation, dsum, dproduct;
};

static long double
element(const struct norm *v, uint64_t addr, size_t i, size_t ch, size_t p)
{
	return kt_get(addr, (i * v->s.c + ch) * v->s.hw + p, v->size);
}

static struct channel
reference(const struct norm *v, size_t ch)
{
	long double count = v->s.n * v->s.hw, x, dy;
	struct channel r = {0};
	size_t i, p;

	for (i = 0; i < v->s.n; i++) {
		for (p = 0; p < v->s.hw; p++) {
			x = element(v, v->x, i, ch, p);
			r.sum += x;
			r.squares += x * x;
		}
	}
	if (count > 0) {
		r.mean = r.sum / count;
		r.variance = r.squares / count - r.mean * r.mean;
	}
	r.deviation = 1 / sqrtl(r.variance + EPS);
	for (i = 0; i < v->s.n; i++) {
		for (p = 0; p < v->s.hw; p++) {
			dy = element(v, v->dy, i, ch, p);
			r.dsum += dy;
			r.dproduct += dy * (element(v, v->x, i, ch, p) - r.mean) * r.deviation;
		}
	}
	return r;
}

/* The planes of channel ch, of y and of dx, which has been added `times` times. */
static bool
planes(const struct norm *v, size_t ch, const struct channel *r, double scale)
{
	long double count = v->s.n * v->s.hw, gamma = kt_get(v->gamma, ch, v->size), x, want;
	double eps = v->size == 4 ? 0x1p-20 : 0x1p-48, far = eps * (double)r->deviation;
	bool good = true;
	size_t i, p;

	for (i = 0; i < v->s.n; i++) {
		for (p = 0; p < v->s.hw; p++) {
			x = (element(v, v->x, i, ch, p) - r->mean) * r->deviation;
			want = gamma * x + kt_get(v->beta, ch, v->size);
			good = good && kt_near("y", p, (double)element(v, v->y, i, ch, p),
					       (double)want, 2 * far + eps);
			want = gamma * r->deviation *
			       (element(v, v->dy, i, ch, p) - r->dsum / count -
				x * r->dproduct / count);
			good = good &&
			       kt_near("dx", p, (double)element(v, v->dx, i, ch, p),
				       scale * (double)want, 4 * far * (1 + (double)r->deviation));
		}
	}
	return good;
}

static bool
channel_same(const struct norm *v, size_t ch, double scale)
{
	struct channel r = reference(v, ch);
	double eps = v->size == 4 ? 0x1p-22 : 0x1p-48, sum_eps = 0x1p-42, far = (double)r.deviation;
	size_t c = v->s.c;

	if (v->size == 4) /* its moments are rounded before they are used */
		sum_eps = 0x1p-10;
	return kt_near("sum", ch, kt_get(v->sums, ch, 8), (double)r.sum, 0x1p-44) &&
	       kt_near("squares", ch, kt_get(v->sums, c + ch, 8), (double)r.squares, 0x1p-44) &&
	       kt_near("mean", ch, kt_get(v->moments, ch, v->size), (double)r.mean, eps) &&
	       kt_near("variance", ch, kt_get(v->moments, c + ch, v->size), (double)r.variance,
		       eps) &&
	       kt_near("sum dy", ch, kt_get(v->gsums, ch, 8), (double)r.dsum, 0x1p-44) &&
	       kt_near("sum dy x", ch, kt_get(v->gsums, c + ch, 8), (double)r.dproduct,
		       sum_eps * (1 + far * far / 1e5)) &&
	       kt_near("dbeta", ch, kt_get(v->dbeta, ch, v->size), kt_get(v->gsums, ch, 8),
		       eps * 100) &&
	       kt_near("dgamma", ch, kt_get(v->dgamma, ch, v->size), kt_get(v->gsums, c + ch, 8),
		       eps * 100) &&
	       planes(v, ch, &r, scale);
}

static bool
check(const struct shape *s, enum gpusim_dtype t)
{
	struct norm v = norm_new(s, t);
	const uint64_t ends[] = {v.y, v.dx, v.moments, v.dgamma, v.dbeta};
	const size_t at[] = {v.nx, v.nx, 2 * s->c, s->c, s->c};
	double guard[5], sums = kt_get(v.sums, 2 * s->c, 8), gsums = kt_get(v.gsums, 2 * s->c, 8);
	bool good;
	size_t i, ch;

	for (i = 0; i < 5; i++)
		guard[i] = kt_get(ends[i], at[i], v.size);
	good = forward(&v) && backward(&v, 0);
	for (ch = 0; ch < s->c; ch++)
		good = good && channel_same(&v, ch, 1);
	good = good && backward(&v, 1);
	for (ch = 0; ch < s->c; ch++)
		good = good && channel_same(&v, ch, 2);
	for (i = 0; i < 5; i++)
		good = good && kt_get(ends[i], at[i], v.size) == guard[i];
	good = good && kt_get(v.sums, 2 * s->c, 8) == sums && kt_get(v.gsums, 2 * s->c, 8) == gsums;
	if (!good)
		printf("# n %zu c %zu hw %zu: %s\n", s->n, s->c, s->hw, kt_err.text);
	return good;
}

/* dx in place of dy and y in place of x are the same bits as apart. */
static bool
in_place(enum gpusim_dtype t)
{
	struct norm v = norm_new(&(struct shape){3, 2, 21}, t), w;
	bool good = forward(&v) && backward(&v, 0);

	w = v;
	w.dx = v.dy;
	good = good && kt_run("batchnorm_grad", ARGS(GRAD(&w, 63, 0))) == RC_OK &&
	       memcmp(kt_at(w.dx), kt_at(v.dx), v.nx * v.size) == 0;
	w = v;
	w.y = v.x;
	return good && kt_run("batchnorm", ARGS(NORM(&w))) == RC_OK &&
	       memcmp(kt_at(w.y), kt_at(v.y), v.nx * v.size) == 0;
}

static bool
differences(const struct shape *s)
{
	struct norm v;
	struct kt_slope slope;
	bool good;

	kt_open();
	v = norm_new(s, GPUSIM_F64);
	slope = (struct kt_slope){forward, &v, v.y, v.dy, v.nx};
	good = forward(&v) && backward(&v, 0) && kt_gradient("dx", &slope, v.x, v.nx, v.dx, 1e-6) &&
	       kt_gradient("dgamma", &slope, v.gamma, s->c, v.dgamma, 1e-7) &&
	       kt_gradient("dbeta", &slope, v.beta, s->c, v.dbeta, 1e-7);
	kt_close();
	return good;
}

/* Moments that are not of x: dx is dy times a factor. */
static bool
frozen_forward(void *ctx)
{
	struct norm *v = ctx;

	return kt_run("batchnorm", ARGS(NORM(v))) == RC_OK;
}

static bool
frozen(void)
{
	struct norm v = norm_new(&(struct shape){2, 3, 5}, GPUSIM_F64);
	struct kt_slope slope = {frozen_forward, &v, v.y, v.dy, v.nx};
	size_t ch;

	for (ch = 0; ch < v.s.c; ch++)
		kt_put(v.moments, v.s.c + ch, 8, 0.5 + (double)ch);
	return kt_run("batchnorm_grad_sums", ARGS(GRAD_SUMS(&v))) == RC_OK &&
	       kt_run("batchnorm_grad", ARGS(GRAD(&v, 0, 0))) == RC_OK &&
	       kt_gradient("dx", &slope, v.x, v.nx, v.dx, 1e-7) &&
	       kt_gradient("dgamma", &slope, v.gamma, v.s.c, v.dgamma, 1e-7);
}

/* The images of a batch from `first` on, as a rank has them. */
static struct norm
part(const struct norm *whole, size_t first, size_t n)
{
	struct norm v = norm_new(&(struct shape){n, whole->s.c, whole->s.hw}, whole->t);
	size_t at = first * whole->s.c * whole->s.hw * v.size;

	memcpy(kt_at(v.x), kt_at(whole->x + at), v.nx * v.size);
	memcpy(kt_at(v.dy), kt_at(whole->dy + at), v.nx * v.size);
	memcpy(kt_at(v.gamma), kt_at(whole->gamma), v.s.c * v.size);
	memcpy(kt_at(v.beta), kt_at(whole->beta), v.s.c * v.size);
	return v;
}

/* An all-reduce over the two: both have the sum of both. */
static void
sum_up(uint64_t a, uint64_t b, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		kt_put(a, i, 8, kt_get(a, i, 8) + kt_get(b, i, 8));
		kt_put(b, i, 8, kt_get(a, i, 8));
	}
}

static bool
part_same(const struct norm *v, const struct norm *whole, size_t first)
{
	size_t at = first * v->s.c * v->s.hw, i;
	double eps = v->size == 4 ? 0x1p-20 : 0x1p-48;
	bool good = true;

	for (i = 0; i < v->nx; i++)
		good = good &&
		       kt_near("y", i, kt_get(v->y, i, v->size), kt_get(whole->y, at + i, v->size),
			       eps) &&
		       kt_near("dx", i, kt_get(v->dx, i, v->size),
			       kt_get(whole->dx, at + i, v->size), eps);
	return good;
}

static bool
two_ranks(enum gpusim_dtype t, size_t mine)
{
	struct norm whole = norm_new(&(struct shape){9, 4, 25}, t), r[2];
	uint64_t count = whole.s.n * whole.s.hw;
	bool good = forward(&whole) && backward(&whole, 0);
	size_t i;

	r[0] = part(&whole, 0, mine);
	r[1] = part(&whole, mine, whole.s.n - mine);
	for (i = 0; i < 2; i++)
		good = good && kt_run("batchnorm_sums", ARGS(SUMS(&r[i]))) == RC_OK;
	sum_up(r[0].sums, r[1].sums, 2 * whole.s.c);
	for (i = 0; i < 2; i++)
		good = good && kt_run("batchnorm_moments", ARGS(MOMENTS(&r[i], count))) == RC_OK &&
		       kt_run("batchnorm", ARGS(NORM(&r[i]))) == RC_OK &&
		       kt_run("batchnorm_grad_sums", ARGS(GRAD_SUMS(&r[i]))) == RC_OK;
	sum_up(r[0].gsums, r[1].gsums, 2 * whole.s.c);
	for (i = 0; i < 2; i++)
		good = good && kt_run("batchnorm_grad", ARGS(GRAD(&r[i], count, 0))) == RC_OK;
	for (i = 0; i < whole.s.c; i++) /* the ranks' gradients are summed like any other */
		good = good && kt_near("dgamma", i,
				       kt_get(r[0].dgamma, i, whole.size) +
					   kt_get(r[1].dgamma, i, whole.size),
				       kt_get(whole.dgamma, i, whole.size),
				       whole.size == 4 ? 0x1p-16 : 0x1p-44);
	return good && part_same(&r[0], &whole, 0) && part_same(&r[1], &whole, mine);
}

/* Where the variance is nothing but rounding it is not negative; no elements give zeros. */
static bool
degenerate(enum gpusim_dtype t)
{
	struct norm v = norm_new(&(struct shape){3, 2, 33}, t);
	bool good;
	size_t i;

	for (i = 0; i < v.nx; i++)
		kt_put(v.x, i, v.size, 1e3 / 3);
	good = forward(&v);
	for (i = 0; i < 2; i++)
		good = good && kt_get(v.moments, 2 + i, v.size) >= 0 &&
		       kt_get(v.moments, 2 + i, v.size) < 1e-6;
	for (i = 0; i < v.nx; i++)
		good = good && isfinite(kt_get(v.y, i, v.size));
	kt_put(v.sums, 2, 8, -1e-9);
	good = good && kt_run("batchnorm_moments", ARGS(MOMENTS(&v, 1))) == RC_OK &&
	       kt_get(v.moments, 2, v.size) == 0;
	good = good && kt_run("batchnorm_moments", ARGS(MOMENTS(&v, 0))) == RC_OK;
	for (i = 0; i < 4; i++)
		good = good && kt_get(v.moments, i, v.size) == 0;
	return good;
}

static void
overlaps(enum gpusim_dtype t)
{
	struct norm v = norm_new(&(struct shape){2, 2, 4}, t), w;
	const uint64_t grad[] = {v.x, v.moments, v.gamma, v.gsums, v.dy + v.size};
	const uint64_t norm[] = {v.x + v.size, v.moments, v.gamma, v.beta};
	const uint64_t gsums[] = {v.dy, v.x, v.moments, v.dbeta};
	bool good;
	size_t i;

	w = v;
	w.sums = v.x;
	good = kt_refuses(RC_INVAL, "batchnorm_sums", ARGS(SUMS(&w)));
	w.sums = v.moments;
	good = kt_refuses(RC_INVAL, "batchnorm_moments", ARGS(MOMENTS(&w, 3))) && good;
	for (i = 0; i < 4; i++) {
		w = v;
		w.y = norm[i];
		good = kt_refuses(RC_INVAL, "batchnorm", ARGS(NORM(&w))) && good;
		w = v;
		w.gsums = gsums[i];
		good = kt_refuses(RC_INVAL, "batchnorm_grad_sums", ARGS(GRAD_SUMS(&w))) && good;
		w = v;
		w.dgamma = gsums[i];
		good = kt_refuses(RC_INVAL, "batchnorm_grad_sums", ARGS(GRAD_SUMS(&w))) && good;
	}
	for (i = 0; i < 5; i++) {
		w = v;
		w.dx = grad[i];
		good = kt_refuses(RC_INVAL, "batchnorm_grad", ARGS(GRAD(&w, 8, 0))) && good;
	}
	w.dx = v.dy;
	good = kt_refuses(RC_INVAL, "batchnorm_grad", ARGS(GRAD(&w, 8, 1))) && good;
	ok(good, "batchnorm_* %s: refuse overlaps", dtype_name(t));
	kt_any_count = "count";
	ok(kt_sweep("batchnorm_sums", NULL, ARGS(SUMS(&v))) &&
	       kt_sweep("batchnorm_moments", NULL, ARGS(MOMENTS(&v, 8))) &&
	       kt_sweep("batchnorm", NULL, ARGS(NORM(&v), R("eps", EPS))) &&
	       kt_sweep("batchnorm_grad_sums", NULL, ARGS(GRAD_SUMS(&v), R("eps", EPS))) &&
	       kt_sweep("batchnorm_grad", NULL, ARGS(GRAD(&v, 8, 0), R("eps", EPS))),
	   "batchnorm_* %s: refuse bad arguments", dtype_name(t));
}

int
main(void)
{
	static const enum gpusim_dtype types[] = {GPUSIM_F32, GPUSIM_F64};
	bool good, split;
	size_t i, s;

	for (i = 0; i < 2; i++) {
		good = split = true;
		for (s = 0; s < NSHAPES; s++) {
			kt_open();
			good = check(&shapes[s], types[i]) && good;
			kt_close();
		}
		ok(good, "batchnorm_* %s: as the formulas say, nothing beside it",
		   dtype_name(types[i]));
		for (s = 0; s <= 9; s += 3) {
			kt_open();
			split = two_ranks(types[i], s) && split;
			kt_close();
		}
		ok(split, "batchnorm_* %s: of two ranks with added sums, as of one",
		   dtype_name(types[i]));
		kt_open();
		ok(in_place(types[i]), "batchnorm, batchnorm_grad %s: in place",
		   dtype_name(types[i]));
		ok(degenerate(types[i]), "batchnorm_moments %s: no variance, no elements",
		   dtype_name(types[i]));
		overlaps(types[i]);
		kt_close();
	}
	good = differences(&(struct shape){3, 2, 5}) && differences(&(struct shape){8, 3, 1}) &&
	       differences(&(struct shape){1, 2, 18});
	ok(good, "batchnorm_grad f64: agrees with differences, by x, gamma and beta");
	kt_open();
	ok(frozen(), "batchnorm_grad f64: with a count of 0 the moments are constants");
	kt_close();
	return tap_done();
}
