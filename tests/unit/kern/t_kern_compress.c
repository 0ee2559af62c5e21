/* Kernels that make gradients smaller, against plain loops. */
#define KT_NBYTES (1u << 18)
#include "kern_test.h"

#define N 1000

static double
dot(uint64_t p, size_t n, size_t r, size_t a, size_t b)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += kt_get(p, i * r + a, 4) * kt_get(p, i * r + b, 4);
	return sum;
}

static bool
orthonormal(uint64_t p, size_t n, size_t r)
{
	bool good = true;

	for (size_t a = 0; a < r; a++)
		for (size_t b = 0; b <= a; b++)
			good = good && kt_near("dot", a, dot(p, n, r, a, b), a == b, 1e-6);
	return good;
}

static enum rc
orthogonalize(uint64_t p, size_t n, size_t r)
{
	return kt_run("orthogonalize", ARGS(U("p", p), U("n", n), U("r", r)));
}

/* A vector of the old columns is the sum of its projections on the new ones. */
static bool
spans(uint64_t old, uint64_t new, size_t n, size_t r)
{
	bool good = true;

	for (size_t c = 0; c < r; c++)
		for (size_t i = 0; i < n; i++) {
			double sum = 0;

			for (size_t j = 0; j < r; j++) {
				double along = 0;

				for (size_t k = 0; k < n; k++)
					along +=
					    kt_get(old, k * r + c, 4) * kt_get(new, k * r + j, 4);
				sum += along * kt_get(new, i * r + j, 4);
			}
			good = good && kt_near("sum", i, sum, kt_get(old, i * r + c, 4), 1e-5);
		}
	return good;
}

static void
bases(void)
{
	static const size_t shapes[][2] = {{1, 1}, {2, 2}, {7, 3}, {40, 8}, {9, 9}, {5, 0}};
	bool good = true, known = true;

	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
		size_t n = shapes[s][0], r = shapes[s][1];
		uint64_t p = kt_vector(n * r, 4), old = kt_alloc(n * r * 4);

		memcpy(kt_at(old), kt_at(p), n * r * 4);
		good = good && orthogonalize(p, n, r) == RC_OK && orthonormal(p, n, r) &&
		       spans(old, p, n, r);
		if (r > 1) { /* the second is a multiple of the first; the last is 0 */
			for (size_t i = 0; i < n; i++) {
				kt_put(old, i * r + 1, 4, -3 * kt_get(old, i * r, 4));
				kt_put(old, i * r + r - 1, 4, 0);
			}
			known =
			    known && orthogonalize(old, n, r) == RC_OK && orthonormal(old, n, r);
		}
	}
	ok(good, "an orthonormal basis of the same space");
	ok(known, "dependent columns and zeros become orthonormal, too");
	ok(orthogonalize(kt_vector(6, 4), 2, 3) == RC_INVAL, "more columns than rows are refused");
	ok(kt_sweep("orthogonalize", NULL, ARGS(U("p", kt_vector(12, 4)), U("n", 4), U("r", 3))),
	   "refuses bad arguments");
}

/* Is element i before j, by magnitude and then by index? */
static bool
before(const float *x, size_t i, size_t j)
{
	return fabsf(x[i]) > fabsf(x[j]) || (fabsf(x[i]) == fabsf(x[j]) && i < j);
}

static bool
takes(size_t n, size_t k, bool tied, bool with)
{
	static float was[N];
	uint64_t x = kt_vector(N, 4), also = kt_vector(N, 4), index = kt_alloc(N * 4),
		 value = kt_alloc(N * 4);
	float *at = kt_at(x), *other = kt_at(also);
	const uint32_t *chosen = kt_at(index);
	bool good;
	size_t taken = 0;

	for (size_t i = 0; tied && i < n; i++)
		at[i] = (float)((int)(kt_rnd() % 5) - 2);
	memcpy(was, at, sizeof was);
	good = kt_run("topk", ARGS(U("x", x), U("also", with ? also : 0), U("n", n), U("k", k),
				   U("first", 100), U("index", index), U("value", value))) == RC_OK;
	for (size_t i = 0; i < n; i++) {
		size_t rank = 0;

		for (size_t j = 0; j < n; j++)
			rank += before(was, j, i);
		if (rank >= k) {
			good = good && at[i] == was[i] && other[i] != 0;
			continue;
		}
		good = good && chosen[taken] == i + 100 && kt_get(value, taken, 4) == was[i] &&
		       at[i] == 0 && (other[i] == 0) == with;
		taken++;
	}
	return good && taken == k && at[n] == was[n];
}

static void
largest(void)
{
	static const size_t counts[] = {0, 1, 2, 50, 299, 300};
	uint64_t x = kt_vector(9, 4), y = kt_vector(9, 4), z = kt_vector(9, 4);
	bool good = true;

	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		for (int tied = 0; tied < 2; tied++)
			good = good && takes(300, counts[i], tied, i % 2 == 0);
	ok(good, "the largest magnitudes, in the order of indices; of equal ones the first");
	((float *)kt_at(x))[3] = NAN;
	ok(kt_run("topk", ARGS(U("x", x), U("n", 9), U("k", 1), U("index", y), U("value", z))) ==
		   RC_OK &&
	       *(uint32_t *)kt_at(y) == 3 && isnan(kt_get(z, 0, 4)),
	   "what is not a number is the largest");
	ok(kt_run("topk", ARGS(U("x", x), U("n", 3), U("k", 4), U("index", y), U("value", z))) ==
		   RC_INVAL &&
	       kt_run("topk", ARGS(U("x", x), U("n", 3), U("k", 1), U("first", UINT32_MAX),
				   U("index", y), U("value", z))) == RC_INVAL &&
	       kt_run("topk", ARGS(U("x", x), U("n", 9), U("k", 2), U("index", x),
				   U("value", z))) == RC_INVAL,
	   "refuses too many, an index beyond 32 bits, an overlap");
	kt_any_count = "first";
	ok(kt_sweep("topk", NULL,
		    ARGS(U("x", x), U("also", kt_vector(9, 4)), U("n", 9), U("k", 4), U("first", 7),
			 U("index", y), U("value", z))),
	   "refuses bad arguments");
	kt_any_count = NULL;
}

static enum rc
scatter(uint64_t y, uint64_t src, size_t k, size_t parts)
{
	return kt_run("scatter_add",
		      ARGS(U("y", y), U("src", src), U("n", 6), U("k", k), U("parts", parts)));
}

static void
scatters(void)
{
	static const float values[] = {1, 2, 4, 8}, want[] = {1, 0, 10, 0, 0, 4};
	static const uint32_t where[] = {0, 2, 5, 2};
	uint64_t y = kt_alloc(24), src = kt_alloc(32);
	bool good = true;

	memset(kt_at(y), 0, 24);
	for (size_t p = 0; p < 2; p++) {
		memcpy((char *)kt_at(src) + 16 * p, where + 2 * p, 8);
		memcpy((char *)kt_at(src) + 16 * p + 8, values + 2 * p, 8);
	}
	good = scatter(y, src, 2, 2) == RC_OK;
	for (size_t i = 0; i < 6; i++)
		good = good && kt_get(y, i, 4) == want[i];
	ok(good, "adds pairs, part after part");
	ok(kt_sweep("scatter_add", NULL,
		    ARGS(U("y", y), U("src", src), U("n", 6), U("k", 2), U("parts", 2))),
	   "refuses bad arguments");
	((uint32_t *)kt_at(src))[5] = 6;
	ok(scatter(y, src, 2, 2) == RC_BADDATA && strstr(kt_err.text, "index 6 of part 1"),
	   "and an index past the end, with its part");
}

/* One part by hand: signs and scale, the error, and back. */
static bool
signs(size_t n, size_t part, size_t parts)
{
	uint64_t x = kt_vector(n + 1, 4), error = kt_vector(n + 1, 4), used = kt_vector(n + 1, 4);
	uint64_t dst = kt_alloc(parts * (4 + part / 8)), y = kt_vector(n + 1, 4);
	static float sum[N];
	bool good = true;
	double last = kt_get(y, n, 4);

	for (size_t i = 0; i < n; i += 3)
		kt_put(used, i, 4, 0);
	for (size_t i = 0; i < n; i++)
		sum[i] = (float)kt_get(x, i, 4) + (float)kt_get(error, i, 4);
	good =
	    kt_run("sign_pack", ARGS(U("x", x), U("error", error), U("used", used), U("n", n),
				     U("part", part), U("parts", parts), U("dst", dst))) == RC_OK &&
	    kt_run("sign_unpack", ARGS(U("y", y), U("src", dst), U("used", used), U("n", n),
				       U("part", part), U("parts", parts))) == RC_OK;
	for (size_t p = 0; p < parts; p++) {
		double squares = 0, count = 0, scale;

		for (size_t i = p * part; i < n && i < (p + 1) * part; i++)
			if (i % 3 != 0) {
				squares += (double)sum[i] * (double)sum[i];
				count++;
			}
		scale = count > 0 ? sqrt(squares / count) : 0;
		good = good &&
		       kt_near("scale", p, kt_get(dst + p * (4 + part / 8), 0, 4), scale, 1e-6);
		for (size_t i = p * part; i < n && i < (p + 1) * part; i++) {
			double back = i % 3 == 0 ? 0 : sum[i] < 0 ? -scale : scale;

			good = good && kt_near("y", i, kt_get(y, i, 4), back, 1e-6) &&
			       kt_near("error", i, kt_get(error, i, 4),
				       i % 3 == 0 ? 0 : (double)sum[i] - back, 2e-6);
		}
	}
	return good && kt_get(y, n, 4) == last;
}

static void
packs(void)
{
	uint64_t x = kt_vector(64, 4), e = kt_vector(64, 4), v = kt_vector(64, 4), d = kt_alloc(24),
		 y = kt_vector(64, 4);
	bool good;

	ok(signs(64, 32, 2) && signs(61, 32, 2) && signs(1, 32, 3) && signs(33, 64, 1) &&
	       signs(900, 320, 3) && signs(0, 32, 1),
	   "signs, scales and errors, and back, for whole and partial parts");
	memset(kt_at(d), 0, 24);
	((float *)kt_at(d))[0] = 2; /* all negative */
	((float *)kt_at(d))[2] = 4;
	((uint32_t *)kt_at(d))[3] = 0xfffffff0; /* negative in the first four */
	good = kt_run("sign_unpack", ARGS(U("y", y), U("src", d), U("used", v), U("n", 32),
					  U("part", 32), U("parts", 2), U("mean", 1))) == RC_OK;
	for (size_t i = 0; i < 32; i++)
		good = good && kt_get(y, i, 4) == (i < 4 ? -3 : 1);
	ok(good, "the mean of parts");
	ok(kt_run("sign_pack", ARGS(U("x", x), U("error", e), U("used", v), U("n", 64),
				    U("part", 48), U("parts", 2), U("dst", d))) == RC_INVAL &&
	       kt_run("sign_pack", ARGS(U("x", x), U("error", e), U("used", v), U("n", 64),
					U("part", 32), U("parts", 1), U("dst", d))) == RC_INVAL &&
	       kt_run("sign_pack", ARGS(U("x", x), U("error", x), U("used", v), U("n", 64),
					U("part", 32), U("parts", 2), U("dst", d))) == RC_INVAL &&
	       kt_run("sign_unpack", ARGS(U("y", y), U("src", d), U("used", v), U("n", 33),
					  U("part", 32), U("parts", 2), U("mean", 1))) == RC_INVAL,
	   "refuses parts that are no multiple of 32 or too few, and overlaps");
	ok(kt_sweep("sign_pack", NULL,
		    ARGS(U("x", x), U("error", e), U("used", v), U("n", 64), U("part", 32),
			 U("parts", 2), U("dst", d))) &&
	       kt_sweep("sign_unpack", NULL,
			ARGS(U("y", y), U("src", d), U("used", v), U("n", 64), U("part", 32),
			     U("parts", 2), U("mean", 0))),
	   "refuses bad arguments");
}

static void
steps(void)
{
	uint64_t w = kt_vector(50, 4), m = kt_vector(50, 4), v = kt_vector(50, 4), t = kt_alloc(8),
		 at = kt_alloc(4), grad = kt_vector(50, 4);
	static double want[50], m_was[50], v_was[50];
	bool good;

	*(uint64_t *)kt_at(t) = 6;
	*(float *)kt_at(at) = 0.5f;
	for (size_t i = 0; i < 50; i++) {
		kt_put(v, i, 4, i % 9 ? fabs(kt_get(v, i, 4)) : 0);
		if (i % 9 == 0)
			kt_put(m, i, 4, 0);
		m_was[i] = kt_get(m, i, 4);
		v_was[i] = kt_get(v, i, 4);
		want[i] = kt_get(w, i, 4) * (1 - 0.05 * 0.1) -
			  0.05 * kt_get(m, i, 4) / (1 - pow(0.9, 7)) /
			      (sqrt(kt_get(v, i, 4) / (1 - pow(0.999, 4))) + 1e-8);
	}
	good = kt_run("adam", ARGS(U("w", w), U("grad", grad), U("m", m), U("v", v), U("t", t),
				   U("n", 50), R("lr", 0.1), U("lr_at", at), U("frozen", 4),
				   R("weight_decay", 0.1), U("decoupled", 1))) == RC_OK &&
	       *(uint64_t *)kt_at(t) == 7;
	for (size_t i = 0; i < 50; i++)
		good = good && kt_near("w", i, kt_get(w, i, 4), want[i], 1e-5) &&
		       kt_get(m, i, 4) == m_was[i] && kt_get(v, i, 4) == v_was[i];
	ok(good, "adam with frozen moments");
}

int
main(void)
{
	static void (*const tests[])(void) = {bases, largest, scatters, packs, steps};

	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
		kt_open();
		tests[i]();
		kt_close();
	}
	return tap_done();
}
