/* gemm against three loops in double. */
#define KT_NBYTES (2u << 20)
#include "kern_test.h"

#include <limits.h>

#include "kern/blas.h"

static const struct {
	unsigned m, n, k;
} shapes[] = {{1, 1, 1}, {2, 3, 4}, {1, 7, 5},	 {7, 1, 5},
	      {5, 7, 1}, {8, 8, 8}, {17, 13, 9}, {33, 20, 31}};
#define NSHAPES (sizeof shapes / sizeof *shapes)

static const double factors[][2] = {{1, 0}, {1, 1}, {-0.5, 0}, {2, -0.25}, {0, 0.5}, {0, 0}};
#define NFACTORS (sizeof factors / sizeof *factors)

struct matrices {
	uint64_t a, b, c;
	size_t size;
	enum gpusim_dtype t;
};

static enum rc
gemm(const struct matrices *x, uint64_t m, uint64_t n, uint64_t k, double alpha, double beta,
     unsigned ta, unsigned tb)
{
	return kt_run("gemm", ARGS(U("m", m), U("n", n), U("k", k), U("a", x->a), U("b", x->b),
				   U("c", x->c), R("alpha", alpha), R("beta", beta), U("ta", ta),
				   U("tb", tb), U("dtype", x->t)));
}

/*
 * One shape with all transposes and factors. Tolerance: (k + 4) eps times the sum of the absolute
 * values of all terms, the bound of a dot product in any order.
 */
static bool
shape(const struct matrices *x, unsigned m, unsigned n, unsigned k)
{
	double eps = x->size == 4 ? 0x1p-23 : 0x1p-52, want[33 * 33], bound[33 * 33], p, beta,
	       alpha;
	unsigned ta, tb, f, i, j, l;

	for (f = 0; f < NFACTORS * 4; f++) {
		ta = f & 1;
		tb = f >> 1 & 1;
		alpha = factors[f / 4][0];
		beta = factors[f / 4][1];
		for (i = 0; i < m * n; i++)
			kt_put(x->c, i, x->size, beta == 0 ? (double)NAN : kt_real());
		for (i = 0; i < m; i++) {
			for (j = 0; j < n; j++) {
				double c = beta == 0 ? 0 : beta * kt_get(x->c, i * n + j, x->size);
				double abs = fabs(c);

				for (l = 0; l < k; l++) {
					p = alpha *
					    kt_get(x->a, ta ? l * m + i : i * k + l, x->size) *
					    kt_get(x->b, tb ? j * k + l : l * n + j, x->size);
					c += p;
					abs += fabs(p);
				}
				want[i * n + j] = c;
				bound[i * n + j] = (k + 4) * eps * abs;
			}
		}
		if (gemm(x, m, n, k, alpha, beta, ta, tb) != RC_OK)
			return false;
		for (i = 0; i < m * n; i++) {
			if (!kt_near("c", i, kt_get(x->c, i, x->size), want[i], bound[i])) {
				printf("# m %u n %u k %u alpha %g beta %g ta %u tb %u\n", m, n, k,
				       alpha, beta, ta, tb);
				return false;
			}
		}
	}
	return true;
}

/* Beyond what OpenBLAS calls small; most are cut into strips in one way or another. Integers up to
 * 8 in absolute value, so that every sum is exact in whatever order. */
static void
large(void)
{
	static const unsigned sizes[][3] = {{64, 128, 784}, {32, 130, 400}, {16, 700, 112},
					    {65, 128, 784}, {128, 784, 64}, {250, 130, 100}};
	uint64_t a = kt_alloc(65 * 784 * 4), b = kt_alloc(128 * 784 * 4),
		 c = kt_alloc(128 * 784 * 4);
	float *pa = kt_at(a), *pb = kt_at(b), *pc = kt_at(c), sum;
	bool good = true;
	unsigned s, i, j, l, how;

	for (i = 0; i < 65 * 784; i++)
		pa[i] = (float)(kt_rnd() % 17) - 8;
	for (i = 0; i < 128 * 784; i++)
		pb[i] = (float)(kt_rnd() % 17) - 8;
	for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		unsigned m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];

		for (how = 0; how < 8; how++) {
			unsigned ta = how & 1, tb = how >> 1 & 1, beta = how >> 2;

			for (i = 0; i < m * n; i++)
				pc[i] = beta ? (float)(i % 7) : NAN;
			good = kt_run("gemm", ARGS(U("m", m), U("n", n), U("k", k), U("a", a),
						   U("b", b), U("c", c), U("ta", ta), U("tb", tb),
						   R("alpha", 0.5), R("beta", beta))) == RC_OK &&
			       good;
			for (i = 0; good && i < m; i++)
				for (j = 0; good && j < n; j++) {
					for (sum = 0, l = 0; l < k; l++)
						sum += pa[ta ? l * m + i : i * k + l] *
						       pb[tb ? j * k + l : l * n + j];
					sum = sum / 2 + (beta ? (float)((i * n + j) % 7) : 0);
					good = kt_near("c", i * n + j, pc[i * n + j], sum, 0);
				}
		}
	}
	ok(good, "gemm f32: large products, exact on whole numbers; beta 0 does not read c");
	ok(blas_strip(false, true, 64, 10, 784) == 10 &&
	       blas_strip(true, true, 64, 128, 784) == 128 &&
	       blas_strip(false, true, 61, 128, 784) == 128 &&
	       blas_strip(false, true, 64, 128, 783) == 128 &&
	       blas_strip(false, false, 64, 128, 784) == 128 &&
	       blas_strip(true, false, 512, 784, 64) == 784 &&
	       blas_strip(false, true, 64, 4096, 65536) == 4096 &&
	       blas_strip(true, false, SIZE_MAX / 2, 4096, 4) == 4096,
	   "gemm f32: whole products where strips do not pay");
}

static void
type(enum gpusim_dtype t)
{
	struct matrices x = {.t = t, .size = dtype_size(t)};
	const char *name = dtype_name(t);
	bool good = true;
	unsigned i;

	x.a = kt_vector(33 * 33, x.size);
	x.b = kt_vector(33 * 33, x.size);
	x.c = kt_vector(33 * 33, x.size);
	for (i = 0; i < NSHAPES; i++)
		good = shape(&x, shapes[i].m, shapes[i].n, shapes[i].k) && good;
	ok(good, "gemm %s: shapes, transposes, factors; beta 0 does not read c", name);

	for (i = 0; i < 6; i++)
		kt_put(x.c, i, x.size, i + 1);
	kt_put(x.c, 6, x.size, 77);
	good = gemm(&x, 2, 3, 0, 5, 0.5, 0, 0) == RC_OK;
	for (i = 0; i < 6; i++)
		good = good && kt_near("c", i, kt_get(x.c, i, x.size), (i + 1) * 0.5, 0);
	good = good && kt_get(x.c, 6, x.size) == 77;
	kt_put(x.c, 2, x.size, (double)NAN);
	good = good && gemm(&x, 2, 3, 0, 5, 0, 1, 1) == RC_OK;
	for (i = 0; i < 6; i++)
		good = good && kt_near("c", i, kt_get(x.c, i, x.size), 0, 0);
	ok(good, "gemm %s: k = 0 leaves beta c, and zero for beta 0", name);

	kt_put(x.c, 0, x.size, 42);
	ok(gemm(&x, 0, 3, 4, 1, 0, 0, 0) == RC_OK && gemm(&x, 3, 0, 4, 1, 0, 1, 1) == RC_OK &&
	       gemm(&x, 0, 0, 0, 1, 0, 0, 0) == RC_OK && kt_get(x.c, 0, x.size) == 42,
	   "gemm %s: m = 0 or n = 0 writes nothing", name);

	good = true;
	for (i = 0; i < 3; i++) {
		uint64_t d[3] = {0, 0, 0}; /* the areas are empty: only the bound on one is wrong */

		d[i] = (uint64_t)INT_MAX + 1;
		good = kt_refuses(RC_INVAL, "gemm",
				  ARGS(U("m", d[0]), U("n", d[1]), U("k", d[2]), U("a", x.a),
				       U("b", x.b), U("c", x.c), U("dtype", t))) &&
		       good;
	}
	ok(good, "gemm %s: refuses what a BLAS cannot count", name);

#define ABC(a_, b_, c_) \
	ARGS(U("m", 3), U("n", 4), U("k", 5), U("a", a_), U("b", b_), U("c", c_), U("dtype", t))
	ok(kt_refuses(RC_INVAL, "gemm", ABC(x.c, x.b, x.c)) &&
	       kt_refuses(RC_INVAL, "gemm", ABC(x.a, x.c + 11 * x.size, x.c)) &&
	       kt_run("gemm", ABC(x.c + 12 * x.size, x.c + 12 * x.size, x.c)) == RC_OK,
	   "gemm %s: refuses c over a or b; a may be b", name);
	ok(kt_sweep("gemm", NULL,
		    ARGS(U("m", 3), U("n", 4), U("k", 5), U("a", x.a), U("b", x.b), U("c", x.c),
			 U("ta", 1), U("tb", 0), U("dtype", t))),
	   "gemm %s: refuses bad arguments", name);
}

/* With the kernels that a device uses on this processor. */
static void
reload_blas(char **argv)
{
	const char *core = getenv("OPENBLAS_CORETYPE") ? NULL : blas_better_core();

	if (core && setenv("OPENBLAS_CORETYPE", core, 1) == 0)
		execv("/proc/self/exe", argv);
}

int
main(int argc, char **argv)
{
	uint64_t a;

	(void)argc;
	reload_blas(argv);
	ok(getenv("OPENBLAS_CORETYPE") != NULL || blas_better_core() == NULL,
	   "OpenBLAS uses what the processor has");
	kt_open();
	large();
	kt_close();
	kt_open();
	type(GPUSIM_F32);
	kt_close();
	kt_open();
	type(GPUSIM_F64);
	a = kt_alloc(64);
	ok(kt_refuses(RC_INVAL, "gemm",
		      ARGS(U("m", 1), U("n", 1), U("k", 1), U("a", a), U("b", a + 8),
			   U("c", a + 16), U("dtype", GPUSIM_F8E4M3))),
	   "gemm: refuses types other than floats of 16 bits or more");
	kt_close();
	return tap_done();
}
