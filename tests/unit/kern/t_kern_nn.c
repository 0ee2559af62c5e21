/* bias_add, bias_grad, relu, relu_grad against one element at a time; the fused ones against these.
 */
#define KT_NBYTES (128u << 10)
#include "kern_test.h"

static const struct {
	unsigned rows, cols;
} shapes[] = {{0, 0},  {0, 5},	{5, 0},	 {1, 1},   {3, 2},
	      {1, 17}, {17, 1}, {9, 31}, {4, 256}, {3, 600}};
#define NSHAPES (sizeof shapes / sizeof *shapes)

static void
bias(enum gpusim_dtype t)
{
	size_t size = dtype_size(t), i, r, c, rows, cols, s;
	double eps = size == 4 ? 0x1p-24 : 0x1p-53, want[1801], sum, abs;
	uint64_t x = kt_vector(1801, size), b = kt_vector(601, size);
	const char *name = dtype_name(t);
	bool add = true, grad = true;

	for (s = 0; s < NSHAPES; s++) {
		rows = shapes[s].rows;
		cols = shapes[s].cols;
		for (i = 0; i < 1801; i++)
			want[i] =
			    kt_get(x, i, size) + (i < rows * cols ? kt_get(b, i % cols, size) : 0);
		add = kt_run("bias_add", ARGS(U("x", x), U("bias", b), U("rows", rows),
					      U("cols", cols), U("dtype", t))) == RC_OK &&
		      add;
		for (i = 0; i < 1801; i++)
			add = add && kt_near("x", i, kt_get(x, i, size), want[i],
					     i < rows * cols ? eps * fabs(want[i]) : 0);

		kt_put(b, cols, size, 77);
		grad = kt_run("bias_grad", ARGS(U("db", b), U("dy", x), U("rows", rows),
						U("cols", cols), U("dtype", t))) == RC_OK &&
		       kt_get(b, cols, size) == 77 && grad;
		for (c = 0; c < cols; c++) {
			for (sum = abs = 0, r = 0; r < rows; r++) {
				sum += kt_get(x, r * cols + c, size);
				abs += fabs(kt_get(x, r * cols + c, size));
			}
			grad = grad && kt_near("db", c, kt_get(b, c, size), sum, eps * abs);
		}
	}
	ok(add, "bias_add %s: within half an ulp, nothing beside it", name);
	ok(grad, "bias_grad %s: rounded once, nothing beside it; no rows give zeros", name);
	ok(kt_run("bias_add", ARGS(U("x", x), U("bias", b), U("rows", UINT64_MAX), U("cols", 0))) ==
	       RC_OK,
	   "bias_add %s: any number of empty rows takes no time", name);
	ok(kt_refuses(
	       RC_INVAL, "bias_add",
	       ARGS(U("x", x), U("bias", x + size), U("rows", 2), U("cols", 2), U("dtype", t))) &&
	       kt_refuses(RC_INVAL, "bias_grad",
			  ARGS(U("dy", x), U("db", x), U("rows", 2), U("cols", 2), U("dtype", t))),
	   "bias_add, bias_grad %s: refuse an overlap", name);
	ok(kt_sweep("bias_add", NULL,
		    ARGS(U("x", x), U("bias", b), U("rows", 3), U("cols", 4), U("dtype", t))) &&
	       kt_sweep("bias_grad", NULL,
			ARGS(U("dy", x), U("db", b), U("rows", 3), U("cols", 4), U("dtype", t))),
	   "bias_add, bias_grad %s: refuse bad arguments", name);
}

static bool
relu_call(uint64_t y, uint64_t x, size_t n, enum gpusim_dtype t)
{
	return kt_run("relu", ARGS(U("y", y), U("x", x), U("n", n), U("dtype", t))) == RC_OK;
}

static bool
grad_call(uint64_t dx, uint64_t dy, uint64_t x, size_t n, enum gpusim_dtype t)
{
	return kt_run("relu_grad",
		      ARGS(U("dx", dx), U("dy", dy), U("x", x), U("n", n), U("dtype", t))) == RC_OK;
}

static void
relu(enum gpusim_dtype t)
{
	size_t size = dtype_size(t), i, n;
	uint64_t x = kt_vector(100, size), y = kt_vector(100, size), dy = kt_vector(100, size),
		 dx = kt_vector(100, size);
	const double special[] = {(double)NAN, (double)INFINITY, (double)-INFINITY, -0.0, 0.0,
				  1e-40};
	const char *name = dtype_name(t);
	bool good = true, grad = true;
	double v, old, h = 0x1p-10, up, down;

	for (i = 0; i < 6; i++)
		kt_put(x, i * 3, size, special[i]);
	for (n = 0; n < 100; n += 1 + n / 8) {
		old = kt_get(y, n, size);
		good = relu_call(y, x, n, t) && kt_near("y", n, kt_get(y, n, size), old, 0) && good;
		old = kt_get(dx, n, size);
		grad = grad_call(dx, dy, x, n, t) &&
		       kt_near("dx", n, kt_get(dx, n, size), old, 0) && grad;
		for (i = 0; i < n; i++) {
			v = kt_get(x, i, size);
			good = good &&
			       kt_near("y", i, kt_get(y, i, size), isnan(v) ? v : fmax(v, 0), 0);
			grad = grad && kt_near("dx", i, kt_get(dx, i, size),
					       v > 0 ? kt_get(dy, i, size) : 0, 0);
		}
	}
	ok(good && isnan(kt_get(y, 0, size)), "relu %s: max(x, 0), NaN stays, nothing beside it",
	   name);
	ok(grad, "relu_grad %s: dy where x > 0, nothing beside it", name);

	for (i = 0; i < 100; i++)
		kt_put(x, i, size, kt_real());
	good = grad_call(dx, dy, x, 100, t) && relu_call(y, x, 100, t);
	for (i = 0; i < 100; i++) { /* d/dx of dy . relu(x) by differences, away from the corner */
		v = kt_get(x, i, size);
		if (fabs(v) < 2 * h)
			continue;
		kt_put(x, i, size, v + h);
		good = good && relu_call(y, x, 100, t);
		up = kt_get(y, i, size);
		kt_put(x, i, size, v - h);
		good = good && relu_call(y, x, 100, t);
		down = kt_get(y, i, size);
		kt_put(x, i, size, v);
		good = good && kt_near("dx", i, kt_get(dx, i, size),
				       kt_get(dy, i, size) * (up - down) / (2 * h), 1e-3);
	}
	ok(good, "relu_grad %s: agrees with differences of relu", name);

	good = relu_call(y, x, 100, t) && grad_call(dx, dy, y, 100, t);
	good = good && relu_call(x, x, 100, t) && grad_call(dy, dy, x, 100, t);
	good = good && memcmp(kt_at(x), kt_at(y), 100 * size) == 0 &&
	       memcmp(kt_at(dx), kt_at(dy), 100 * size) == 0;
	good = good && grad_call(x, dy, x, 100, t) && memcmp(kt_at(x), kt_at(dx), 100 * size) == 0;
	ok(good, "relu, relu_grad %s: in place, and from the output", name);
	ok(kt_refuses(RC_INVAL, "relu",
		      ARGS(U("y", x + size), U("x", x), U("n", 9), U("dtype", t))) &&
	       kt_refuses(
		   RC_INVAL, "relu_grad",
		   ARGS(U("dx", x + size), U("dy", dy), U("x", x), U("n", 9), U("dtype", t))) &&
	       kt_refuses(
		   RC_INVAL, "relu_grad",
		   ARGS(U("dx", dy + size), U("dy", dy), U("x", x), U("n", 9), U("dtype", t))),
	   "relu, relu_grad %s: refuse a shifted overlap", name);
	ok(kt_sweep("relu", NULL, ARGS(U("y", y), U("x", x), U("n", 9), U("dtype", t))) &&
	       kt_sweep("relu_grad", NULL,
			ARGS(U("dx", dx), U("dy", dy), U("x", x), U("n", 9), U("dtype", t))),
	   "relu, relu_grad %s: refuse bad arguments", name);
}

/* y = x, a vector of n. */
static void
copy_vector(uint64_t y, uint64_t x, size_t n, size_t size)
{
	memcpy(kt_at(y), kt_at(x), n * size);
}

static void
bias_relu(enum gpusim_dtype t)
{
	size_t size = dtype_size(t), s, rows, cols;
	uint64_t x = kt_vector(1801, size), b = kt_vector(601, size), want = kt_alloc(1801 * size);
	const char *name = dtype_name(t);
	bool good = true;

	kt_put(x, 1, size, (double)NAN);
	for (s = 0; s < NSHAPES; s++) {
		rows = shapes[s].rows;
		cols = shapes[s].cols;
		kt_put(x, 0, size, -kt_get(b, 0, size));
		copy_vector(want, x, 1801, size);
		good = kt_run("bias_add", ARGS(U("x", want), U("bias", b), U("rows", rows),
					       U("cols", cols), U("dtype", t))) == RC_OK &&
		       relu_call(want, want, rows * cols, t) &&
		       kt_run("bias_relu", ARGS(U("x", x), U("bias", b), U("rows", rows),
						U("cols", cols), U("dtype", t))) == RC_OK &&
		       memcmp(kt_at(x), kt_at(want), 1801 * size) == 0 && good;
	}
	ok(good && isnan(kt_get(x, 1, size)), "bias_relu %s: bias_add, then relu; NaN stays", name);
	ok(kt_run("bias_relu",
		  ARGS(U("x", x), U("bias", b), U("rows", UINT64_MAX), U("cols", 0))) == RC_OK,
	   "bias_relu %s: any number of empty rows takes no time", name);
	ok(kt_refuses(
	       RC_INVAL, "bias_relu",
	       ARGS(U("x", x), U("bias", x + size), U("rows", 2), U("cols", 2), U("dtype", t))),
	   "bias_relu %s: refuses an overlap", name);
	ok(kt_sweep("bias_relu", NULL,
		    ARGS(U("x", x), U("bias", b), U("rows", 3), U("cols", 4), U("dtype", t))),
	   "bias_relu %s: refuses bad arguments", name);
}

#define FUSED(dx_, db_, dy_, y_)                                                    \
	ARGS(U("dx", dx_), U("db", db_), U("dy", dy_), U("y", y_), U("rows", rows), \
	     U("cols", cols), U("dtype", t))

static void
bias_relu_grad(enum gpusim_dtype t)
{
	size_t size = dtype_size(t), s, rows, cols;
	uint64_t y = kt_vector(1801, size), dy = kt_vector(1801, size), dx = kt_vector(1801, size),
		 db = kt_vector(601, size), want = kt_alloc(1801 * size),
		 want_db = kt_alloc(601 * size);
	const char *name = dtype_name(t);
	bool good = true, over = true;

	kt_put(y, 1, size, (double)NAN);
	kt_put(y, 2, size, 0);
	for (s = 0; s < NSHAPES; s++) {
		rows = shapes[s].rows;
		cols = shapes[s].cols;
		copy_vector(want, dx, 1801, size);
		copy_vector(want_db, db, 601, size);
		good = grad_call(want, dy, y, rows * cols, t) &&
		       kt_run("bias_grad", ARGS(U("db", want_db), U("dy", want), U("rows", rows),
						U("cols", cols), U("dtype", t))) == RC_OK &&
		       kt_run("bias_relu_grad", FUSED(dx, db, dy, y)) == RC_OK &&
		       memcmp(kt_at(dx), kt_at(want), 1801 * size) == 0 &&
		       memcmp(kt_at(db), kt_at(want_db), 601 * size) == 0 && good;
	}
	ok(good, "bias_relu_grad %s: relu_grad, then bias_grad", name);
	copy_vector(dx, dy, 1801, size);
	over = kt_run("bias_relu_grad", FUSED(dx, db, dx, y)) == RC_OK &&
	       memcmp(kt_at(dx), kt_at(want), rows * cols * size) == 0;
	over = over && kt_run("bias_relu_grad", FUSED(y, db, dy, y)) == RC_OK &&
	       memcmp(kt_at(y), kt_at(want), rows * cols * size) == 0;
	ok(over, "bias_relu_grad %s: in place of dy, and of y", name);
	rows = 3;
	cols = 4;
	ok(kt_refuses(RC_INVAL, "bias_relu_grad", FUSED(dy + size, db, dy, y)) &&
	       kt_refuses(RC_INVAL, "bias_relu_grad", FUSED(y + size, db, dy, y)) &&
	       kt_refuses(RC_INVAL, "bias_relu_grad", FUSED(dx, dx, dy, y)) &&
	       kt_refuses(RC_INVAL, "bias_relu_grad", FUSED(dx, dy, dy, y)) &&
	       kt_refuses(RC_INVAL, "bias_relu_grad", FUSED(dx, y, dy, y)),
	   "bias_relu_grad %s: refuses other overlaps", name);
	ok(kt_sweep("bias_relu_grad", NULL, FUSED(dx, db, dy, y)),
	   "bias_relu_grad %s: refuses bad arguments", name);
}

int
main(void)
{
	kt_open();
	bias_relu(GPUSIM_F32);
	bias_relu_grad(GPUSIM_F32);
	kt_close();
	kt_open();
	bias_relu(GPUSIM_F64);
	kt_close();
	kt_open();
	bias_relu_grad(GPUSIM_F64);
	kt_close();
	kt_open();
	bias(GPUSIM_F32);
	bias(GPUSIM_F64);
	relu(GPUSIM_F32);
	relu(GPUSIM_F64);
	kt_close();
	return tap_done();
}
