/* Layer normalisation against loops in long double, and its gradients against differences. */
#define KT_NBYTES (256u << 10)
#include "kern_test.h"

#define EPS 1e-5

struct norm {
	size_t rows, cols, size;
	uint64_t x, y, dx, dy, moments, gamma, beta, dgamma, dbeta;
	enum gpusim_dtype t;
};

static struct norm
norm_new(size_t rows, size_t cols, enum gpusim_dtype t)
{
	size_t size = dtype_size(t), n = rows * cols;
	struct norm v = {.rows = rows, .cols = cols, .size = size, .t = t};

	v.x = kt_vector(n, size);
	v.y = kt_vector(n + 1, size);
	v.dx = kt_vector(n + 1, size);
	v.dy = kt_vector(n, size);
	v.moments = kt_vector(2 * rows + 1, 8);
	v.gamma = kt_vector(cols, size);
	v.beta = kt_vector(cols, size);
	v.dgamma = kt_vector(cols + 1, size);
	v.dbeta = kt_vector(cols + 1, size);
	return v;
}

#define SHAPE(v) U("rows", (v)->rows), U("cols", (v)->cols), U("dtype", (v)->t)
#define NORM(v)                                                                       \
	U("y", (v)->y), U("x", (v)->x), U("gamma", (v)->gamma), U("beta", (v)->beta), \
	    U("moments", (v)->moments), SHAPE(v)
#define PARAMS(v)                                                                           \
	U("dgamma", (v)->dgamma), U("dbeta", (v)->dbeta), U("dy", (v)->dy), U("x", (v)->x), \
	    U("moments", (v)->moments), SHAPE(v)
#define GRAD(v, add_)                                                               \
	U("dx", (v)->dx), U("dy", (v)->dy), U("x", (v)->x), U("gamma", (v)->gamma), \
	    U("moments", (v)->moments), U("add", add_), SHAPE(v)

static bool
forward(void *ctx)
{
	struct norm *v = ctx;

	return kt_run("layernorm", ARGS(NORM(v))) == RC_OK;
}

static bool
backward(const struct norm *v, unsigned add)
{
	return kt_run("layernorm_grad_params", ARGS(PARAMS(v))) == RC_OK &&
	       kt_run("layernorm_grad", ARGS(GRAD(v, add))) == RC_OK;
}

static long double
element(const struct norm *v, uint64_t addr, size_t row, size_t col)
{
	return kt_get(addr, row * v->cols + col, v->size);
}

/* A row's mean and inverse deviation, and the means of g = dy gamma and g xhat. */
struct row {
	long double mean, inverse, g, product;
};

static struct row
reference(const struct norm *v, size_t i)
{
	struct row r = {0};
	long double variance = 0;

	for (size_t j = 0; j < v->cols; j++)
		r.mean += element(v, v->x, i, j) / v->cols;
	for (size_t j = 0; j < v->cols; j++)
		variance += powl(element(v, v->x, i, j) - r.mean, 2) / v->cols;
	r.inverse = 1 / sqrtl(variance + EPS);
	for (size_t j = 0; j < v->cols; j++) {
		long double g = element(v, v->dy, i, j) * element(v, v->gamma, 0, j);

		r.g += g / v->cols;
		r.product += g * (element(v, v->x, i, j) - r.mean) * r.inverse / v->cols;
	}
	return r;
}

/* y and dx, which has been added `times` times. */
static bool
row_same(const struct norm *v, size_t i, unsigned times)
{
	struct row r = reference(v, i);
	double eps = (v->size == 4 ? 0x1p-18 : 0x1p-40) * (1 + (double)r.inverse);
	bool good = true;

	for (size_t j = 0; j < v->cols && good; j++) {
		long double xhat = (element(v, v->x, i, j) - r.mean) * r.inverse;
		long double gamma = element(v, v->gamma, 0, j);
		long double dx =
		    r.inverse * (element(v, v->dy, i, j) * gamma - r.g - xhat * r.product);

		good = kt_near("y", j, (double)element(v, v->y, i, j),
			       (double)(xhat * gamma + element(v, v->beta, 0, j)), eps) &&
		       kt_near("dx", j, (double)element(v, v->dx, i, j), times * (double)dx,
			       eps * (1 + (double)r.inverse));
	}
	return good;
}

static bool
column_same(const struct norm *v, size_t j)
{
	long double dgamma = 0, dbeta = 0;
	double eps = (v->size == 4 ? 0x1p-20 : 0x1p-38) * (1 + (double)v->rows);

	for (size_t i = 0; i < v->rows; i++) {
		struct row r = reference(v, i);

		dgamma += element(v, v->dy, i, j) * (element(v, v->x, i, j) - r.mean) * r.inverse;
		dbeta += element(v, v->dy, i, j);
	}
	return kt_near("dgamma", j, kt_get(v->dgamma, j, v->size), (double)dgamma, eps) &&
	       kt_near("dbeta", j, kt_get(v->dbeta, j, v->size), (double)dbeta, eps);
}

static bool
check(size_t rows, size_t cols, enum gpusim_dtype t)
{
	struct norm v = norm_new(rows, cols, t);
	const uint64_t ends[] = {v.y, v.dx, v.dgamma, v.dbeta};
	const size_t at[] = {rows * cols, rows * cols, cols, cols};
	double guard[4], last = kt_get(v.moments, 2 * rows, 8);
	bool good;

	for (size_t i = 0; i < 4; i++)
		guard[i] = kt_get(ends[i], at[i], v.size);
	good = forward(&v) && backward(&v, 0);
	for (size_t i = 0; i < rows && good; i++)
		good = row_same(&v, i, 1);
	for (size_t j = 0; j < cols && good; j++)
		good = column_same(&v, j);
	good = good && backward(&v, 1);
	for (size_t i = 0; i < rows && good; i++)
		good = row_same(&v, i, 2);
	for (size_t i = 0; i < 4; i++)
		good = good && kt_get(ends[i], at[i], v.size) == guard[i];
	good = good && kt_get(v.moments, 2 * rows, 8) == last;
	if (!good)
		printf("# %zux%zu: %s\n", rows, cols, kt_err.text);
	return good;
}

/* dx in place of dy and y in place of x are the same bits as apart; so is a row by itself. */
static bool
in_place(enum gpusim_dtype t)
{
	struct norm v = norm_new(4, 21, t), w;
	size_t row = v.cols * v.size;
	bool good = forward(&v) && backward(&v, 0);

	w = v;
	w.dx = v.dy;
	good = good && kt_run("layernorm_grad", ARGS(GRAD(&w, 0))) == RC_OK &&
	       memcmp(kt_at(w.dx), kt_at(v.dx), 4 * row) == 0;
	w = v;
	w.rows = 1;
	w.x += 2 * row;
	w.y = kt_alloc(row);
	good = good && forward(&w) && memcmp(kt_at(w.y), kt_at(v.y + 2 * row), row) == 0;
	w = v;
	w.y = v.x;
	return good && forward(&w) && memcmp(kt_at(w.y), kt_at(v.y), 4 * row) == 0;
}

/* All the same in a row: no variance, and nothing that is not finite. */
static bool
constant(enum gpusim_dtype t)
{
	struct norm v = norm_new(2, 33, t);
	bool good;

	for (size_t i = 0; i < v.rows * v.cols; i++)
		kt_put(v.x, i, v.size, 1e3 / 3);
	good = forward(&v) && backward(&v, 0);
	for (size_t i = 0; i < v.rows * v.cols; i++)
		good =
		    good && isfinite(kt_get(v.y, i, v.size)) && isfinite(kt_get(v.dx, i, v.size));
	return good;
}

static bool
differences(size_t rows, size_t cols)
{
	struct norm v = norm_new(rows, cols, GPUSIM_F64);
	struct kt_slope slope = {forward, &v, v.y, v.dy, rows * cols};

	return forward(&v) && backward(&v, 0) &&
	       kt_gradient("dx", &slope, v.x, rows * cols, v.dx, 1e-6) &&
	       kt_gradient("dgamma", &slope, v.gamma, cols, v.dgamma, 1e-7) &&
	       kt_gradient("dbeta", &slope, v.beta, cols, v.dbeta, 1e-7);
}

static void
refusals(enum gpusim_dtype t)
{
	struct norm v = norm_new(3, 4, t), w;
	const uint64_t norm[] = {v.x + v.size, v.gamma, v.beta, v.moments};
	const uint64_t grad[] = {v.x, v.gamma, v.moments, v.dy + v.size};
	const uint64_t params[] = {v.dy, v.x, v.moments, v.dbeta};
	bool good = true;

	for (size_t i = 0; i < 4; i++) {
		w = v;
		w.y = norm[i];
		good = kt_refuses(RC_INVAL, "layernorm", ARGS(NORM(&w))) && good;
		w = v;
		w.dx = grad[i];
		good = kt_refuses(RC_INVAL, "layernorm_grad", ARGS(GRAD(&w, 0))) && good;
		w = v;
		w.dgamma = params[i];
		good = kt_refuses(RC_INVAL, "layernorm_grad_params", ARGS(PARAMS(&w))) && good;
	}
	w = v;
	w.dx = v.dy;
	good = kt_refuses(RC_INVAL, "layernorm_grad", ARGS(GRAD(&w, 1))) && good;
	w = v;
	w.moments = v.gamma;
	ok(kt_refuses(RC_INVAL, "layernorm", ARGS(NORM(&w))) && good,
	   "layernorm* %s: refuse overlaps", dtype_name(t));
	ok(kt_sweep("layernorm", NULL, ARGS(NORM(&v), R("eps", EPS))) &&
	       kt_sweep("layernorm_grad_params", NULL, ARGS(PARAMS(&v))) &&
	       kt_sweep("layernorm_grad", NULL, ARGS(GRAD(&v, 0))),
	   "layernorm* %s: refuse bad arguments", dtype_name(t));
}

int
main(void)
{
	static const enum gpusim_dtype types[] = {GPUSIM_F32, GPUSIM_F64};
	static const size_t shapes[][2] = {{0, 3}, {3, 0}, {1, 1},  {2, 7},
					   {5, 8}, {3, 9}, {4, 64}, {7, 131}};

	for (size_t i = 0; i < 2; i++) {
		bool good = true;

		for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
			kt_open();
			good = check(shapes[s][0], shapes[s][1], types[i]) && good;
			kt_close();
		}
		ok(good, "layernorm* %s: as the formulas say, nothing beside it",
		   dtype_name(types[i]));
		kt_open();
		ok(in_place(types[i]), "layernorm* %s: in place, and a row by itself",
		   dtype_name(types[i]));
		ok(constant(types[i]), "layernorm* %s: no variance", dtype_name(types[i]));
		refusals(types[i]);
		kt_close();
	}
	kt_open();
	ok(differences(3, 5) && differences(4, 17),
	   "layernorm*: gradients are what differences say");
	kt_close();
	return tap_done();
}
