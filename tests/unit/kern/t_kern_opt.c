/* sgd and adam against PyTorch's formulas, a scalar at a time in double, and against sums done by
 * hand. */
#include "kern_test.h"

#define N     67
#define STEPS 6

struct state {
	uint64_t w, grad, m, v, t;
	size_t size;
	enum gpusim_dtype type;
	double tolerance; /* of a weight of size about 1, after STEPS steps */
};

static struct state
state_new(enum gpusim_dtype type)
{
	size_t size = dtype_size(type);
	struct state s = {
	    .w = kt_vector(N + 1, size),
	    .grad = kt_vector(N + 1, size),
	    .m = kt_alloc((N + 1) * size),
	    .v = kt_alloc((N + 1) * size),
	    .t = kt_alloc(8),
	    .size = size,
	    .type = type,
	    .tolerance = size == 4 ? 4e-6 : 1e-14,
	};

	memset(kt_at(s.m), 0, (N + 1) * size);
	memset(kt_at(s.v), 0, (N + 1) * size);
	memset(kt_at(s.t), 0, 8);
	return s;
}

static void
new_gradient(const struct state *s)
{
	size_t i;

	for (i = 0; i < N; i++)
		kt_put(s->grad, i, s->size, kt_real());
}

static bool
same(const struct state *s, const char *what, uint64_t addr, const double *want)
{
	bool good = true;
	size_t i;

	for (i = 0; i < N; i++)
		good = good && kt_near(what, i, kt_get(addr, i, s->size), want[i], s->tolerance);
	return good;
}

#define SGD(s) U("w", (s)->w), U("grad", (s)->grad), U("n", N), U("dtype", (s)->type), R("lr", 0.1)

/* torch.optim.SGD's _single_tensor_sgd, dampening 0. */
static bool
sgd_case(enum gpusim_dtype type, double momentum, double decay, unsigned nesterov)
{
	struct state s = state_new(type);
	double w[N], buf[N], g, guard = kt_get(s.w, N, s.size);
	bool good = true;
	size_t i;
	int step;

	for (i = 0; i < N; i++)
		w[i] = kt_get(s.w, i, s.size);
	for (step = 0; step < STEPS; step++) {
		new_gradient(&s);
		for (i = 0; i < N; i++) {
			g = kt_get(s.grad, i, s.size);
			if (decay != 0)
				g = g + decay * w[i];
			if (momentum != 0) {
				buf[i] = step == 0 ? g : momentum * buf[i] + g;
				g = nesterov ? g + momentum * buf[i] : buf[i];
			}
			w[i] = w[i] - 0.1 * g;
		}
		good = kt_run("sgd", ARGS(SGD(&s), U("v", momentum != 0 ? s.v : 0),
					  R("momentum", momentum), R("weight_decay", decay),
					  U("nesterov", nesterov))) == RC_OK &&
		       same(&s, "w", s.w, w) && good;
		if (momentum != 0)
			good = same(&s, "v", s.v, buf) && good;
	}
	if (kt_get(s.w, N, s.size) != guard || kt_get(s.v, N, s.size) != 0)
		good = false;
	return good;
}

static void
sgd(enum gpusim_dtype type)
{
	struct state s;
	const char *name = dtype_name(type);
	double *v;

	ok(sgd_case(type, 0, 0, 0), "sgd %s: plain", name);
	ok(sgd_case(type, 0, 0.01, 0), "sgd %s: weight decay", name);
	ok(sgd_case(type, 0.9, 0, 0), "sgd %s: momentum", name);
	ok(sgd_case(type, 0.9, 0.01, 0), "sgd %s: momentum and weight decay", name);
	ok(sgd_case(type, 0.9, 0.01, 1), "sgd %s: nesterov", name);

	s = state_new(type);
	ok(kt_refuses(RC_INVAL, "sgd", ARGS(SGD(&s), R("momentum", 0.9))),
	   "sgd %s: momentum wants a velocity", name);
	ok(kt_refuses(RC_INVAL, "sgd", ARGS(SGD(&s), U("v", s.v), U("nesterov", 1))),
	   "sgd %s: nesterov needs a momentum", name);
	v = kt_at(s.v);
	memset(v, 0x7f, 8);
	ok(kt_run("sgd", ARGS(SGD(&s), U("v", s.v))) == RC_OK &&
	       memcmp(v, "\x7f\x7f\x7f\x7f", 4) == 0,
	   "sgd %s: without momentum the velocity is not touched", name);
	ok(kt_refuses(RC_INVAL, "sgd", ARGS(SGD(&s), U("v", s.w + s.size), R("momentum", 0.9))) &&
	       kt_refuses(
		   RC_INVAL, "sgd",
		   ARGS(U("w", s.w), U("grad", s.w), U("n", N), R("lr", 0.1), U("dtype", type))),
	   "sgd %s: refuses an overlap", name);
	memset(v, 0, 8);
	ok(kt_sweep("sgd", NULL, ARGS(SGD(&s), U("v", s.v), R("momentum", 0.9), U("nesterov", 0))),
	   "sgd %s: refuses bad arguments", name);
}

/* w = 1, grad = 0.5 always, lr 0.1, momentum 0.5, decay 0.2: every number is a short decimal. */
static void
sgd_by_hand(void)
{
	/* d = .7,	v = .7,		w = .93
	 * d = .686,	v = 1.036,	w = .8264
	 * d = .66528,	v = 1.18328,	w = .708072 */
	static const double plain[] = {0.93, 0.8264, 0.708072};
	/* d = .7,	v = .7,		w = 1 - .1 (.7 + .35) = .895
	 * d = .679,	v = 1.029,	w = .895 - .1 (.679 + .5145) = .77565
	 * d = .65513,	v = 1.16963,	w = .77565 - .1 (.65513 + .584815) = .6516555 */
	static const double ahead[] = {0.895, 0.77565, 0.6516555};
	struct state s = state_new(GPUSIM_F64);
	bool good = true;
	unsigned nesterov, i;

	for (nesterov = 0; nesterov < 2; nesterov++) {
		kt_put(s.w, 0, 8, 1);
		kt_put(s.grad, 0, 8, 0.5);
		kt_put(s.v, 0, 8, 0);
		for (i = 0; i < 3; i++)
			good = kt_run("sgd", ARGS(U("w", s.w), U("grad", s.grad), U("v", s.v),
						  U("n", 1), U("dtype", GPUSIM_F64), R("lr", 0.1),
						  R("momentum", 0.5), R("weight_decay", 0.2),
						  U("nesterov", nesterov))) == RC_OK &&
			       kt_near("w", i, kt_get(s.w, 0, 8), nesterov ? ahead[i] : plain[i],
				       1e-15) &&
			       good;
	}
	ok(good, "sgd: three steps by hand, with and without nesterov");
}

/* A velocity that fades: slow as long as it is subnormal, so it is not; the caller's arithmetic is
 * left as it was. */
static void
subnormals(enum gpusim_dtype type)
{
	struct state s = state_new(type);
	double tiny = type == GPUSIM_F32 ? 1e-40 : 1e-310, w = kt_get(s.w, 0, s.size);
	volatile double small = 0x1p-1022;
	bool flushes = false;

#if defined(__SSE2__) || defined(__aarch64__)
	flushes = true;
#endif
	memset(kt_at(s.grad), 0, N * s.size);
	kt_put(s.v, 0, s.size, tiny);
	ok(kt_run("sgd", ARGS(SGD(&s), U("v", s.v), R("momentum", 0.9))) == RC_OK &&
	       (kt_get(s.v, 0, s.size) == 0) == flushes && kt_get(s.w, 0, s.size) == w,
	   "sgd %s: a subnormal velocity is 0", dtype_name(type));
	ok(kt_run("adam", ARGS(U("w", s.w), U("grad", s.grad), U("m", s.v), U("v", s.m),
			       U("t", s.t), U("n", 1), U("dtype", type))) == RC_OK &&
	       small / 4 > 0,
	   "sgd, adam %s: elsewhere subnormals stay", dtype_name(type));
}

#define ADAM(s)                                                                               \
	U("w", (s)->w), U("grad", (s)->grad), U("m", (s)->m), U("v", (s)->v), U("t", (s)->t), \
	    U("n", N), U("dtype", (s)->type)

/* torch.optim's _single_tensor_adam, neither amsgrad nor capturable. */
static bool
adam_case(enum gpusim_dtype type, double lr, double b1, double b2, double eps, double decay,
	  unsigned decoupled)
{
	struct state s = state_new(type);
	double w[N], avg[N] = {0}, sq[N] = {0}, g, bias1, bias2, denom,
		     guard = kt_get(s.w, N, s.size);
	bool good = true;
	size_t i;
	int step;

	for (i = 0; i < N; i++)
		w[i] = kt_get(s.w, i, s.size);
	for (step = 1; step <= STEPS; step++) {
		new_gradient(&s);
		bias1 = 1 - pow(b1, step);
		bias2 = 1 - pow(b2, step);
		for (i = 0; i < N; i++) {
			g = kt_get(s.grad, i, s.size);
			if (decoupled)
				w[i] *= 1 - lr * decay;
			else
				g += decay * w[i];
			avg[i] += (g - avg[i]) * (1 - b1);
			sq[i] = sq[i] * b2 + g * g * (1 - b2);
			denom = sqrt(sq[i]) / sqrt(bias2) + eps;
			w[i] -= lr / bias1 * avg[i] / denom;
		}
		good = kt_run("adam", ARGS(ADAM(&s), R("lr", lr), R("beta1", b1), R("beta2", b2),
					   R("eps", eps), R("weight_decay", decay),
					   U("decoupled", decoupled))) == RC_OK &&
		       same(&s, "w", s.w, w) && same(&s, "m", s.m, avg) && same(&s, "v", s.v, sq) &&
		       good;
	}
	return good && *(uint64_t *)kt_at(s.t) == STEPS && kt_get(s.w, N, s.size) == guard &&
	       kt_get(s.m, N, s.size) == 0 && kt_get(s.v, N, s.size) == 0;
}

static void
adam(enum gpusim_dtype type)
{
	const char *name = dtype_name(type);
	struct state s = state_new(type);
	double w[N], want;
	bool good;
	size_t i;

	ok(adam_case(type, 1e-3, 0.9, 0.999, 1e-8, 0, 0), "adam %s: the defaults' numbers", name);
	ok(adam_case(type, 0.05, 0.8, 0.95, 1e-3, 0, 0), "adam %s: others", name);
	ok(adam_case(type, 0.05, 0.9, 0.99, 1e-8, 0.1, 0), "adam %s: L2 weight decay", name);
	ok(adam_case(type, 0.05, 0.9, 0.99, 1e-8, 0.1, 1), "adam %s: decoupled weight decay", name);
	ok(adam_case(type, 0.05, 0, 0, 1e-8, 0, 0), "adam %s: betas of 0", name);

	/* In the first step m and v are corrected to g and g^2: whatever the betas, w moves by lr g
	 * / |g|. */
	new_gradient(&s);
	for (i = 0; i < N; i++)
		w[i] = kt_get(s.w, i, s.size);
	good = kt_run("adam", ARGS(ADAM(&s))) == RC_OK;
	for (i = 0; i < N; i++) {
		want = w[i] - copysign(1e-3, kt_get(s.grad, i, s.size));
		good = good && kt_near("w", i, kt_get(s.w, i, s.size), want, 1e-6);
	}
	ok(good, "adam %s: by default the first step is 0.001 against the gradient's sign", name);

	ok(kt_refuses(RC_INVAL, "adam", ARGS(ADAM(&s), R("beta1", 1.0))) &&
	       kt_refuses(RC_INVAL, "adam", ARGS(ADAM(&s), R("beta2", -0.1))) &&
	       kt_refuses(RC_INVAL, "adam", ARGS(ADAM(&s), R("beta2", (double)NAN))),
	   "adam %s: refuses a beta outside [0, 1)", name);
	ok(kt_refuses(RC_INVAL, "adam",
		      ARGS(U("w", s.w), U("grad", s.grad), U("m", s.m), U("v", s.m), U("t", s.t),
			   U("n", N), U("dtype", type))) &&
	       kt_refuses(RC_INVAL, "adam",
			  ARGS(U("w", s.w), U("grad", s.grad), U("m", s.m), U("v", s.v),
			       U("t", s.w + 8), U("n", N), U("dtype", type))),
	   "adam %s: refuses an overlap", name);
	ok(kt_sweep("adam", NULL, ARGS(ADAM(&s), U("decoupled", 0))),
	   "adam %s: refuses bad arguments and does not count the step", name);
	*(uint64_t *)kt_at(s.t) = UINT64_MAX;
	ok(kt_run("adam", ARGS(ADAM(&s))) == RC_OK && *(uint64_t *)kt_at(s.t) == UINT64_MAX &&
	       isfinite(kt_get(s.w, 0, s.size)),
	   "adam %s: the counter stops at its end", name);
}

/* A second state with the contents of the first, but for the velocities, which are 0. */
static struct state
state_copy(const struct state *s)
{
	struct state copy = state_new(s->type);

	memcpy(kt_at(copy.w), kt_at(s->w), N * s->size);
	memcpy(kt_at(copy.grad), kt_at(s->grad), N * s->size);
	return copy;
}

/* lr_at is a factor of lr: a quarter of 0.1 is 0.025 in every bit. */
static void
rate(enum gpusim_dtype type)
{
	struct state a = state_new(type), b = state_copy(&a);
	uint64_t at = kt_alloc(4);
	size_t nbytes = N * a.size;
	bool good;

	*(float *)kt_at(at) = 0.25f;
	good = kt_run("sgd", ARGS(U("w", a.w), U("grad", a.grad), U("n", N), U("dtype", type),
				  R("lr", 0.1), U("lr_at", at))) == RC_OK &&
	       kt_run("sgd", ARGS(U("w", b.w), U("grad", b.grad), U("n", N), U("dtype", type),
				  R("lr", 0.025))) == RC_OK &&
	       memcmp(kt_at(a.w), kt_at(b.w), nbytes) == 0;
	ok(good, "sgd %s: lr_at is a factor of lr", dtype_name(type));
	good = kt_run("adam", ARGS(ADAM(&a), R("lr", 0.1), U("lr_at", at), U("decoupled", 1),
				   R("weight_decay", 0.5))) == RC_OK &&
	       kt_run("adam", ARGS(ADAM(&b), R("lr", 0.025), U("decoupled", 1),
				   R("weight_decay", 0.5))) == RC_OK &&
	       memcmp(kt_at(a.w), kt_at(b.w), nbytes) == 0;
	ok(good, "adam %s: lr_at is a factor of lr, and of the decoupled decay", dtype_name(type));
	ok(kt_refuses(RC_INVAL, "sgd", ARGS(SGD(&a), U("lr_at", a.w))) &&
	       kt_refuses(RC_INVAL, "sgd",
			  ARGS(SGD(&a), U("v", a.v), R("momentum", 0.9), U("lr_at", a.v))) &&
	       kt_refuses(RC_INVAL, "adam", ARGS(ADAM(&a), U("lr_at", a.t))) &&
	       kt_refuses(RC_INVAL, "adam", ARGS(ADAM(&a), U("lr_at", a.m + nbytes - 4))),
	   "sgd, adam %s: refuse to write where lr_at is", dtype_name(type));
	ok(kt_sweep("sgd", NULL, ARGS(SGD(&a), U("lr_at", at))) &&
	       kt_sweep("adam", NULL, ARGS(ADAM(&a), U("lr_at", at))),
	   "sgd, adam %s: refuse a bad lr_at", dtype_name(type));
}

int
main(void)
{
	kt_open();
	rate(GPUSIM_F32);
	rate(GPUSIM_F64);
	kt_close();
	kt_open();
	sgd_by_hand();
	sgd(GPUSIM_F32);
	sgd(GPUSIM_F64);
	subnormals(GPUSIM_F32);
	subnormals(GPUSIM_F64);
	kt_close();
	kt_open();
	adam(GPUSIM_F32);
	adam(GPUSIM_F64);
	kt_close();
	return tap_done();
}
