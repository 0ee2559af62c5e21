/* add and affine against one element at a time. */
#include "kern_test.h"

static bool
add_call(uint64_t y, uint64_t a, uint64_t b, size_t n, enum gpusim_dtype t)
{
	return kt_run("add", ARGS(U("y", y), U("a", a), U("b", b), U("n", n), U("dtype", t))) ==
	       RC_OK;
}

struct sum {
	uint64_t y, a, b;
	size_t n;
};

static bool
add_forward(void *ctx)
{
	struct sum *s = ctx;

	return add_call(s->y, s->a, s->b, s->n, GPUSIM_F64);
}

static void
add(enum gpusim_dtype t)
{
	size_t size = dtype_size(t), n, i;
	double eps = size == 4 ? 0x1p-24 : 0x1p-53, want, past;
	uint64_t a = kt_vector(300, size), b = kt_vector(300, size), y = kt_vector(300, size);
	const char *name = dtype_name(t);
	bool good = true;

	for (n = 0; n < 300; n += 1 + n / 5) {
		past = kt_get(y, n, size);
		good = add_call(y, a, b, n, t) && kt_get(y, n, size) == past && good;
		for (i = 0; i < n; i++) {
			want = kt_get(a, i, size) + kt_get(b, i, size);
			good = good && kt_near("y", i, kt_get(y, i, size), want, eps * fabs(want));
		}
	}
	ok(good, "add %s: within half an ulp, nothing beside it", name);
	good = add_call(y, a, b, 300, t) && add_call(a, a, b, 300, t) &&
	       memcmp(kt_at(a), kt_at(y), 300 * size) == 0;
	good = good && add_call(y, a, b, 300, t) && add_call(b, a, b, 300, t) &&
	       memcmp(kt_at(b), kt_at(y), 300 * size) == 0;
	kt_put(a, 0, size, 3);
	good = good && add_call(a, a, a, 300, t) && kt_get(a, 0, size) == 6;
	ok(good, "add %s: in place, and a vector to itself", name);
	ok(kt_refuses(RC_INVAL, "add",
		      ARGS(U("y", a + size), U("a", a), U("b", b), U("n", 9), U("dtype", t))) &&
	       kt_refuses(RC_INVAL, "add",
			  ARGS(U("y", b + size), U("a", a), U("b", b), U("n", 9), U("dtype", t))),
	   "add %s: refuses a shifted overlap", name);
	ok(kt_sweep("add", NULL, ARGS(U("y", y), U("a", a), U("b", b), U("n", 9), U("dtype", t))),
	   "add %s: refuses bad arguments", name);
}

#define AFFINE(rows_, c_, hw_)                                                              \
	ARGS(U("x", x), U("scale", scale), U("shift", shift), U("rows", rows_), U("c", c_), \
	     U("hw", hw_), U("dtype", t))

static void
affine(enum gpusim_dtype t)
{
	static const size_t shapes[][3] = {{0, 3, 4}, {3, 0, 4}, {3, 4, 0},  {1, 1, 1},
					   {5, 3, 1}, {2, 3, 7}, {3, 2, 33}, {1, 9, 64}};
	size_t size = dtype_size(t), s, i;
	double eps = size == 4 ? 0x1p-23 : 0x1p-52, want[601];
	uint64_t x = kt_vector(601, size), scale = kt_vector(9, size), shift = kt_vector(9, size);
	const char *name = dtype_name(t);
	bool good = true;

	for (s = 0; s < sizeof shapes / sizeof *shapes; s++) {
		size_t rows = shapes[s][0], c = shapes[s][1], hw = shapes[s][2];

		for (i = 0; i < 601; i++) {
			want[i] = kt_get(x, i, size);
			if (i < rows * c * hw)
				want[i] = want[i] * kt_get(scale, i / hw % c, size) +
					  kt_get(shift, i / hw % c, size);
		}
		good = kt_run("affine", AFFINE(rows, c, hw)) == RC_OK && good;
		for (i = 0; i < 601; i++)
			good = good && kt_near("x", i, kt_get(x, i, size), want[i],
					       i < rows * c * hw ? 2 * eps : 0);
	}
	ok(good, "affine %s: a factor and a term for each channel, nothing beside it", name);
	ok(kt_run("affine", AFFINE(UINT64_MAX, 9, 0)) == RC_OK &&
	       kt_run("affine", AFFINE(UINT64_MAX, 0, 9)) == RC_OK,
	   "affine %s: any number of empty rows takes no time", name);
	ok(kt_refuses(RC_INVAL, "affine",
		      ARGS(U("x", x), U("scale", x), U("shift", shift), U("rows", 2), U("c", 2),
			   U("hw", 2), U("dtype", t))) &&
	       kt_refuses(RC_INVAL, "affine",
			  ARGS(U("x", x), U("scale", scale), U("shift", x + 4 * size), U("rows", 2),
			       U("c", 2), U("hw", 2), U("dtype", t))),
	   "affine %s: refuses an overlap", name);
	ok(kt_sweep("affine", NULL, AFFINE(2, 3, 4)), "affine %s: refuses bad arguments", name);
}

int
main(void)
{
	struct sum s = {.n = 40};
	struct kt_slope slope;
	uint64_t dy;

	kt_open();
	add(GPUSIM_F32);
	affine(GPUSIM_F32);
	add(GPUSIM_F64);
	affine(GPUSIM_F64);
	kt_close();
	kt_open();
	s.y = kt_vector(s.n, 8);
	s.a = kt_vector(s.n, 8);
	s.b = kt_vector(s.n, 8);
	dy = kt_vector(s.n, 8);
	slope = (struct kt_slope){add_forward, &s, s.y, dy, s.n};
	ok(kt_gradient("da", &slope, s.a, s.n, dy, 1e-9) &&
	       kt_gradient("db", &slope, s.b, s.n, dy, 1e-9),
	   "add f64: the gradient by either is that of the output, by differences");
	kt_close();
	return tap_done();
}
