/* Patches, tokens and picked tokens against index arithmetic; gradients against the kernels that they belong to. */
#include "kern_test.h"

static const enum gpusim_dtype types[] = {GPUSIM_F32, GPUSIM_F64};

static bool
patches(enum gpusim_dtype t, size_t n, size_t c, size_t h, size_t w, size_t p)
{
	size_t size = dtype_size(t), count = n * c * h * w;
	uint64_t x = kt_vector(count, size), y = kt_vector(count + 1, size);
	double guard = kt_get(y, count, size);
	bool good = kt_run("patches", ARGS(U("y", y), U("x", x), U("n", n), U("c", c), U("h", h),
					   U("w", w), U("size", p), U("dtype", t))) == RC_OK;

	for (size_t i = 0; i < count && good; i++) {
		size_t col = i % w, row = i / w % h, channel = i / w / h % c,
		       picture = i / w / h / c;
		size_t patch = row / p * (w / p) + col / p;
		size_t at = ((picture * (h / p) * (w / p) + patch) * c + channel) * p * p +
			    row % p * p + col % p;

		good = kt_near("y", at, kt_get(y, at, size), kt_get(x, i, size), 0);
	}
	return good && kt_get(y, count, size) == guard;
}

#define TOKENS(n, t, cols, type) U("n", n), U("tokens", t), U("cols", cols), U("dtype", type)

/* tokens, and its gradients, which are sums over the samples. */
static bool
tokens(enum gpusim_dtype type, size_t n, size_t t, size_t cols)
{
	size_t size = dtype_size(type), one = t * cols;
	uint64_t x = kt_vector(n * (one - cols), size), y = kt_vector(n * one + 1, size);
	uint64_t first = kt_vector(cols, size), place = kt_vector(one, size);
	uint64_t dfirst = kt_vector(cols + 1, size), dplace = kt_vector(one + 1, size);
	double guard[] = {kt_get(y, n * one, size), kt_get(dfirst, cols, size),
			  kt_get(dplace, one, size)};
	double eps = size == 4 ? 0x1p-23 : 0x1p-52;
	bool good = kt_run("tokens", ARGS(U("y", y), U("x", x), U("first", first),
					  U("place", place), TOKENS(n, t, cols, type))) == RC_OK &&
		    kt_run("tokens_grad", ARGS(U("dfirst", dfirst), U("dplace", dplace), U("dy", y),
					       TOKENS(n, t, cols, type))) == RC_OK;

	for (size_t i = 0; i < n * one && good; i++) {
		size_t sample = i / one, at = i % one;
		double from = at < cols ? kt_get(first, at, size)
					: kt_get(x, sample * (one - cols) + at - cols, size);

		good = kt_near("y", i, kt_get(y, i, size), from + kt_get(place, at, size), eps);
	}
	for (size_t i = 0; i < one && good; i++) {
		double sum = 0;

		for (size_t k = 0; k < n; k++)
			sum += kt_get(y, k * one + i, size);
		good = kt_near("dplace", i, kt_get(dplace, i, size), sum, eps * (1 + (double)n)) &&
		       (i >= cols || kt_get(dfirst, i, size) == kt_get(dplace, i, size));
	}
	return good && kt_get(y, n * one, size) == guard[0] &&
	       kt_get(dfirst, cols, size) == guard[1] && kt_get(dplace, one, size) == guard[2];
}

#define PICK(first_, count_, n, t, cols, type) \
	U("first", first_), U("count", count_), TOKENS(n, t, cols, type)

static bool
pick(enum gpusim_dtype type, size_t n, size_t t, size_t cols, size_t first, size_t count)
{
	size_t size = dtype_size(type), one = t * cols, part = count * cols;
	uint64_t x = kt_vector(n * one, size), y = kt_vector(n * part + 1, size),
		 dx = kt_vector(n * one + 1, size);
	double guard[] = {kt_get(y, n * part, size), kt_get(dx, n * one, size)};
	bool good =
	    kt_run("pick", ARGS(U("y", y), U("x", x), PICK(first, count, n, t, cols, type))) ==
		RC_OK &&
	    kt_run("pick_grad",
		   ARGS(U("dx", dx), U("dy", y), PICK(first, count, n, t, cols, type))) == RC_OK;

	for (size_t i = 0; i < n * one && good; i++) {
		size_t token = i / cols % t;
		bool in = token >= first && token < first + count;
		double here = kt_get(x, i, size);

		good = kt_near("dx", i, kt_get(dx, i, size), in ? here : 0, 0) &&
		       (!in ||
			kt_near("y", i, kt_get(y, i / one * part + i % one - first * cols, size),
				here, 0));
	}
	return good && kt_get(y, n * part, size) == guard[0] &&
	       kt_get(dx, n * one, size) == guard[1];
}

static void
values(void)
{
	for (size_t i = 0; i < 2; i++) {
		kt_open();
		ok(patches(types[i], 2, 1, 6, 9, 3) && patches(types[i], 3, 3, 4, 4, 1) &&
		       patches(types[i], 1, 2, 8, 8, 8) && patches(types[i], 0, 2, 8, 8, 4),
		   "patches %s", dtype_name(types[i]));
		kt_close();
		kt_open();
		ok(tokens(types[i], 3, 5, 7) && tokens(types[i], 1, 1, 4) &&
		       tokens(types[i], 2, 9, 64) && tokens(types[i], 0, 3, 2),
		   "tokens %s", dtype_name(types[i]));
		kt_close();
		kt_open();
		ok(pick(types[i], 3, 5, 7, 0, 1) && pick(types[i], 2, 4, 3, 1, 3) &&
		       pick(types[i], 2, 4, 3, 2, 1) && pick(types[i], 2, 4, 3, 4, 0),
		   "pick %s", dtype_name(types[i]));
		kt_close();
	}
}

static void
refusals(void)
{
	uint64_t a, b, c, d;

	kt_open();
	a = kt_vector(2 * 36, 4);
	b = kt_vector(2 * 36, 4);
	c = kt_vector(36, 4);
	d = kt_vector(36, 4);
	ok(kt_sweep("patches", NULL,
		    ARGS(U("y", a), U("x", b), U("n", 2), U("c", 1), U("h", 6), U("w", 6),
			 U("size", 3))),
	   "patches: bad arguments");
	ok(kt_refuses(RC_INVAL, "patches",
		      ARGS(U("y", a), U("x", b), U("n", 2), U("c", 1), U("h", 6), U("w", 6),
			   U("size", 4))) &&
	       kt_refuses(RC_INVAL, "patches",
			  ARGS(U("y", a), U("x", b), U("n", 2), U("c", 1), U("h", 6), U("w", 6),
			       U("size", 0))),
	   "patches that do not divide the pictures");
	ok(kt_sweep("tokens", NULL,
		    ARGS(U("y", a), U("x", b), U("first", c), U("place", d), U("n", 2),
			 U("tokens", 6), U("cols", 6))),
	   "tokens: bad arguments");
	ok(kt_sweep("tokens_grad", NULL,
		    ARGS(U("dfirst", c), U("dplace", d), U("dy", a), U("n", 2), U("tokens", 6),
			 U("cols", 6))),
	   "tokens_grad: bad arguments");
	ok(kt_sweep("pick", NULL, ARGS(U("y", b), U("x", a), PICK(1, 2, 2, 6, 6, GPUSIM_F32))),
	   "pick: bad arguments");
	ok(kt_sweep("pick_grad", NULL,
		    ARGS(U("dx", a), U("dy", b), PICK(1, 2, 2, 6, 6, GPUSIM_F32))),
	   "pick_grad: bad arguments");
	ok(kt_refuses(RC_INVAL, "pick",
		      ARGS(U("y", b), U("x", a), PICK(4, 3, 2, 6, 6, GPUSIM_F32))) &&
	       strstr(kt_err.text, "tokens 4 to 7 of 6"),
	   "tokens that a sample does not have");
	kt_close();
}

int
main(void)
{
	values();
	refusals();
	return tap_done();
}
