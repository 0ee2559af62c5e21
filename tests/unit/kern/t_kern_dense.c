/* A dense layer put together from gemm, bias_add, bias_grad and relu: its gradients, as a net takes
 * them, against differences of its output. */
#define KT_NBYTES (256u << 10)
#include "kern_test.h"

struct dense {
	size_t n, in, out;
	bool relu;
	uint64_t x, w, b, y, dx, dw, db, dy, dz;
};

static bool
product(uint64_t m, uint64_t n, uint64_t k, uint64_t a, uint64_t b, uint64_t c, unsigned ta,
	unsigned tb)
{
	return kt_run("gemm", ARGS(U("m", m), U("n", n), U("k", k), U("a", a), U("b", b), U("c", c),
				   U("ta", ta), U("tb", tb), U("dtype", GPUSIM_F64))) == RC_OK;
}

/* y = x w + b, and rectified. */
static bool
forward(void *ctx)
{
	struct dense *d = ctx;

	return product(d->n, d->out, d->in, d->x, d->w, d->y, 0, 0) &&
	       kt_run(d->relu ? "bias_relu" : "bias_add",
		      ARGS(U("x", d->y), U("bias", d->b), U("rows", d->n), U("cols", d->out),
			   U("dtype", GPUSIM_F64))) == RC_OK;
}

static bool
backward(const struct dense *d)
{
	uint64_t dz = d->relu ? d->dz : d->dy;
	enum rc rc;

	if (d->relu)
		rc = kt_run("bias_relu_grad",
			    ARGS(U("dx", d->dz), U("db", d->db), U("dy", d->dy), U("y", d->y),
				 U("rows", d->n), U("cols", d->out), U("dtype", GPUSIM_F64)));
	else
		rc = kt_run("bias_grad", ARGS(U("db", d->db), U("dy", d->dy), U("rows", d->n),
					      U("cols", d->out), U("dtype", GPUSIM_F64)));
	return rc == RC_OK && product(d->in, d->out, d->n, d->x, dz, d->dw, 1, 0) &&
	       product(d->n, d->in, d->out, dz, d->w, d->dx, 0, 1);
}

static bool
check(size_t n, size_t in, size_t out, bool relu)
{
	struct dense d = {.n = n, .in = in, .out = out, .relu = relu};
	struct kt_slope s;
	bool good;

	kt_open();
	d.x = kt_vector(n * in, 8);
	d.dx = kt_vector(n * in, 8);
	d.w = kt_vector(in * out, 8);
	d.dw = kt_vector(in * out, 8);
	d.b = kt_vector(out, 8);
	d.db = kt_vector(out, 8);
	d.y = kt_vector(n * out, 8);
	d.dy = kt_vector(n * out, 8);
	d.dz = kt_vector(n * out, 8);
	s = (struct kt_slope){forward, &d, d.y, d.dy, n * out};
	good = forward(&d) && backward(&d) && kt_gradient("dx", &s, d.x, n * in, d.dx, 1e-8) &&
	       kt_gradient("dw", &s, d.w, in * out, d.dw, 1e-8) &&
	       kt_gradient("db", &s, d.b, out, d.db, 1e-8);
	kt_close();
	return good;
}

int
main(void)
{
	bool relu;

	for (relu = false;; relu = true) {
		ok(check(1, 1, 1, relu) && check(5, 7, 3, relu) && check(1, 20, 11, relu) &&
		       check(9, 1, 4, relu),
		   "dense%s f64: gradients by x, w and b agree with differences",
		   relu ? " with relu" : "");
		if (relu)
			break;
	}
	return tap_done();
}
