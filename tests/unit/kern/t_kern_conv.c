/* conv2d and its gradients against seven loops, and against differences of conv2d. */
#define KT_NBYTES (4u << 20)
#include "kern_test.h"

struct shape {
	size_t n, c, h, w, k, size, stride, pad;
};

static const struct shape shapes[] = {
    {0, 2, 4, 4, 3, 3, 1, 1},	{1, 1, 1, 1, 1, 1, 1, 0},    {1, 1, 1, 1, 1, 3, 1, 1},
    {2, 1, 1, 1, 2, 3, 2, 2},	{3, 2, 5, 7, 3, 3, 1, 0},    {3, 2, 5, 7, 3, 3, 1, 1},
    {4, 3, 7, 5, 2, 3, 2, 1},	{5, 3, 6, 6, 4, 1, 1, 0},    {5, 2, 6, 5, 3, 1, 2, 0},
    {2, 1, 12, 12, 6, 5, 1, 2}, {2, 6, 14, 14, 16, 5, 1, 0}, {2, 2, 9, 8, 3, 3, 3, 2},
    {7, 4, 4, 4, 5, 3, 1, 1},	{3, 1, 3, 3, 2, 3, 1, 0},    {2, 2, 2, 3, 2, 2, 1, 3},
    {1, 1, 40, 40, 2, 3, 1, 1}, {9, 8, 2, 2, 8, 3, 1, 1},    {3, 1, 2, 9, 1, 1, 5, 1},
    {2, 1, 6, 6, 2, 2, 4, 0},
};
#define NSHAPES (sizeof shapes / sizeof *shapes)

static const size_t rooms[] = {1, 2, 3, 8};
#define NROOMS (sizeof rooms / sizeof *rooms)

struct conv {
	struct shape s;
	size_t oh, ow, nx, ny, nw, images, size;
	uint64_t x, dx, weight, dw, bias, db, y, dy, scratch;
	enum gpusim_dtype t;
};

static size_t
outputs(size_t in, const struct shape *s)
{
	return (in + 2 * s->pad - s->size) / s->stride + 1;
}

static struct conv
conv_new(const struct shape *s, size_t images, enum gpusim_dtype t)
{
	struct conv v = {.s = *s, .images = images, .t = t, .size = dtype_size(t)};

	v.oh = outputs(s->h, s);
	v.ow = outputs(s->w, s);
	v.nx = s->n * s->c * s->h * s->w;
	v.ny = s->n * s->k * v.oh * v.ow;
	v.nw = s->k * s->c * s->size * s->size;
	v.x = kt_vector(v.nx, v.size);
	v.dx = kt_vector(v.nx + 1, v.size);
	v.weight = kt_vector(v.nw, v.size);
	v.dw = kt_vector(v.nw + 1, v.size);
	v.bias = kt_vector(s->k, v.size);
	v.db = kt_vector(s->k + 1, v.size);
	v.y = kt_vector(v.ny + 1, v.size);
	v.dy = kt_vector(v.ny, v.size);
	v.scratch = kt_vector(images * s->c * s->size * s->size * v.oh * v.ow + 1, v.size);
	return v;
}

#define SHAPE(v)                                                                                  \
	U("n", (v)->s.n), U("c", (v)->s.c), U("h", (v)->s.h), U("w", (v)->s.w), U("k", (v)->s.k), \
	    U("size", (v)->s.size), U("stride", (v)->s.stride), U("pad", (v)->s.pad),             \
	    U("scratch", (v)->scratch), U("scratch_images", (v)->images), U("dtype", (v)->t)

static bool
forward(void *ctx)
{
	struct conv *v = ctx;

	return kt_run("conv2d", ARGS(U("x", v->x), U("weight", v->weight), U("bias", v->bias),
				     U("y", v->y), SHAPE(v))) == RC_OK;
}

static bool
grad_x(const struct conv *v, unsigned add)
{
	return kt_run("conv2d_grad_x", ARGS(U("dx", v->dx), U("dy", v->dy), U("weight", v->weight),
					    U("add", add), SHAPE(v))) == RC_OK;
}

static bool
grad_w(const struct conv *v)
{
	return kt_run("conv2d_grad_w", ARGS(U("dw", v->dw), U("db", v->db), U("dy", v->dy),
					    U("x", v->x), SHAPE(v))) == RC_OK;
}

/*
 * All products of an element of x, one of the weights and one of y: y += w x, dx += w dy, dw += x
 * dy; *_abs likewise with absolute values, for the bound of a sum in any order.
 */
struct naive {
	double *y, *y_abs, *dx, *dx_abs, *dw, *dw_abs;
};

static void
window(const struct conv *v, const struct naive *r, size_t i, size_t o, size_t oy, size_t ox)
{
	const struct shape *s = &v->s;
	size_t out = ((i * s->k + o) * v->oh + oy) * v->ow + ox, j, ky, kx, iy, ix, in, at;
	double x, w, dy = kt_get(v->dy, out, v->size);

	for (j = 0; j < s->c; j++) {
		for (ky = 0; ky < s->size; ky++) {
			for (kx = 0; kx < s->size; kx++) {
				iy = oy * s->stride + ky - s->pad; /* wraps beyond the edge */
				ix = ox * s->stride + kx - s->pad;
				if (iy >= s->h || ix >= s->w)
					continue;
				in = ((i * s->c + j) * s->h + iy) * s->w + ix;
				at = ((o * s->c + j) * s->size + ky) * s->size + kx;
				x = kt_get(v->x, in, v->size);
				w = kt_get(v->weight, at, v->size);
				r->y[out] += w * x;
				r->y_abs[out] += fabs(w * x);
				r->dx[in] += w * dy;
				r->dx_abs[in] += fabs(w * dy);
				r->dw[at] += x * dy;
				r->dw_abs[at] += fabs(x * dy);
			}
		}
	}
}

static void
naive(const struct conv *v, const struct naive *r)
{
	size_t i, o, oy, ox;

	for (i = 0; i < v->s.n; i++) {
		for (o = 0; o < v->s.k; o++) {
			for (oy = 0; oy < v->oh; oy++) {
				for (ox = 0; ox < v->ow; ox++)
					window(v, r, i, o, oy, ox);
			}
		}
	}
}

static bool
same(const char *what, const struct conv *v, uint64_t got, const double *want, const double *abs,
     const double *plus, size_t n)
{
	double eps = v->size == 4 ? 0x1p-19 : 0x1p-46;
	bool good = true;
	size_t i;

	for (i = 0; good && i < n; i++)
		good = kt_near(what, i, kt_get(got, i, v->size), want[i] + (plus ? plus[i] : 0),
			       eps * (abs[i] + 2));
	return good;
}

static bool
bias_same(const struct conv *v)
{
	size_t o, i, p, plane = v->oh * v->ow;
	double sum;
	bool good = true;

	for (o = 0; good && o < v->s.k; o++) {
		for (sum = 0, i = 0; i < v->s.n; i++) {
			for (p = 0; p < plane; p++)
				sum += kt_get(v->dy, (i * v->s.k + o) * plane + p, v->size);
		}
		good = kt_near("db", o, kt_get(v->db, o, v->size), sum,
			       (v->size == 4 ? 0x1p-24 : 0x1p-44) * (fabs(sum) + 1));
	}
	return good;
}

/* One shape; y, dx, dw with room for one and for several images. */
static bool
check(const struct shape *s, size_t images, enum gpusim_dtype t)
{
	struct conv v = conv_new(s, images, t);
	size_t i, plane = v.oh * v.ow;
	struct naive r = {calloc(v.ny + 1, 8), calloc(v.ny + 1, 8), calloc(v.nx + 1, 8),
			  calloc(v.nx + 1, 8), calloc(v.nw, 8),	    calloc(v.nw, 8)};
	double *old = calloc(v.nx + 1, 8), *bias = calloc(v.ny + 1, 8);
	double guard[] = {kt_get(v.y, v.ny, v.size), kt_get(v.dx, v.nx, v.size),
			  kt_get(v.dw, v.nw, v.size), kt_get(v.db, s->k, v.size),
			  kt_get(v.scratch, images * v.nw / s->k * plane, v.size)};
	bool good;

	naive(&v, &r);
	for (i = 0; i < v.ny; i++)
		bias[i] = kt_get(v.bias, i / plane % s->k, v.size);
	good = forward(&v) && same("y", &v, v.y, r.y, r.y_abs, bias, v.ny);
	good = good && grad_x(&v, 0) && same("dx", &v, v.dx, r.dx, r.dx_abs, NULL, v.nx);
	for (i = 0; i < v.nx; i++)
		old[i] = kt_get(v.dx, i, v.size);
	good = good && grad_x(&v, 1) && same("dx+", &v, v.dx, r.dx, r.dx_abs, old, v.nx);
	good =
	    good && grad_w(&v) && same("dw", &v, v.dw, r.dw, r.dw_abs, NULL, v.nw) && bias_same(&v);
	good = good && kt_get(v.y, v.ny, v.size) == guard[0] &&
	       kt_get(v.dx, v.nx, v.size) == guard[1] && kt_get(v.dw, v.nw, v.size) == guard[2] &&
	       kt_get(v.db, s->k, v.size) == guard[3] &&
	       kt_get(v.scratch, images * v.nw / s->k * plane, v.size) == guard[4];
	v.bias = 0;
	good = good && forward(&v) && same("y", &v, v.y, r.y, r.y_abs, NULL, v.ny);
	v.db = 0;
	good = good && grad_w(&v);
	if (!good)
		printf("# n %zu c %zu h %zu w %zu k %zu size %zu stride %zu pad %zu, %zu: %s\n",
		       s->n, s->c, s->h, s->w, s->k, s->size, s->stride, s->pad, images,
		       kt_err.text);
	free(r.y);
	free(r.y_abs);
	free(r.dx);
	free(r.dx_abs);
	free(r.dw);
	free(r.dw_abs);
	free(old);
	free(bias);
	return good;
}

static void
all_shapes(enum gpusim_dtype t)
{
	size_t s, i;
	bool good;

	for (i = 0; i < NROOMS; i++) {
		good = true;
		for (s = 0; s < NSHAPES; s++) {
			kt_open();
			good = check(&shapes[s], rooms[i], t) && good;
			kt_close();
		}
		ok(good,
		   "conv2d and gradients %s: the sums of all products, scratch for %zu images, "
		   "nothing beside it",
		   dtype_name(t), rooms[i]);
	}
}

static bool
differences(const struct shape *s, size_t images)
{
	struct conv v;
	struct kt_slope slope;
	bool good;

	kt_open();
	v = conv_new(s, images, GPUSIM_F64);
	slope = (struct kt_slope){forward, &v, v.y, v.dy, v.ny};
	good = grad_x(&v, 0) && grad_w(&v) && kt_gradient("dx", &slope, v.x, v.nx, v.dx, 1e-8) &&
	       kt_gradient("dw", &slope, v.weight, v.nw, v.dw, 1e-8) &&
	       kt_gradient("db", &slope, v.bias, s->k, v.db, 1e-8);
	kt_close();
	return good;
}

/* y twice with other contents of scratch has the same bits. */
static bool
repeats(enum gpusim_dtype t)
{
	struct conv v = conv_new(&(struct shape){5, 3, 9, 9, 7, 3, 1, 1}, 4, t);
	static unsigned char first[3][5 * 7 * 81 * 8];
	bool good = forward(&v) && grad_x(&v, 0) && grad_w(&v);
	size_t i;

	memcpy(first[0], kt_at(v.y), v.ny * v.size);
	memcpy(first[1], kt_at(v.dx), v.nx * v.size);
	memcpy(first[2], kt_at(v.dw), v.nw * v.size);
	for (i = 0; i < 4 * 27 * 81; i++)
		kt_put(v.scratch, i, v.size, (double)NAN);
	return good && forward(&v) && grad_x(&v, 0) && grad_w(&v) &&
	       memcmp(first[0], kt_at(v.y), v.ny * v.size) == 0 &&
	       memcmp(first[1], kt_at(v.dx), v.nx * v.size) == 0 &&
	       memcmp(first[2], kt_at(v.dw), v.nw * v.size) == 0;
}

/* Shapes that are none, in each of the three. */
static bool
refuses_shape(const struct conv *good, struct shape s, const char *word)
{
	struct conv v = *good;

	v.s = s;
	return kt_refuses(RC_INVAL, "conv2d",
			  ARGS(U("x", v.x), U("weight", v.weight), U("y", v.y), SHAPE(&v))) &&
	       strstr(kt_err.text, word) != NULL &&
	       kt_refuses(RC_INVAL, "conv2d_grad_x",
			  ARGS(U("dx", v.dx), U("dy", v.dy), U("weight", v.weight), SHAPE(&v))) &&
	       kt_refuses(RC_INVAL, "conv2d_grad_w",
			  ARGS(U("dw", v.dw), U("dy", v.dy), U("x", v.x), SHAPE(&v)));
}

static void
refusals(enum gpusim_dtype t)
{
	const uint64_t huge = UINT64_C(1) << 31;
	struct conv v = conv_new(&(struct shape){2, 2, 4, 4, 3, 3, 1, 1}, 2, t), *p = &v;
	const char *name = dtype_name(t);

	ok(refuses_shape(p, (struct shape){1, 1, 2, 4, 1, 3, 1, 0}, "larger than the image") &&
	       refuses_shape(p, (struct shape){1, 1, 4, 2, 1, 5, 1, 1}, "larger than the image") &&
	       refuses_shape(p, (struct shape){0, 1, 2, 2, 1, 3, 1, 0}, "larger than the image"),
	   "conv2d %s: refuses a kernel that is larger than the image", name);
	ok(refuses_shape(p, (struct shape){1, 0, 4, 4, 1, 3, 1, 1}, "c: 0") &&
	       refuses_shape(p, (struct shape){1, 1, 0, 4, 1, 3, 1, 2}, "h: 0") &&
	       refuses_shape(p, (struct shape){1, 1, 4, 0, 1, 3, 1, 2}, "w: 0") &&
	       refuses_shape(p, (struct shape){1, 1, 4, 4, 0, 3, 1, 1}, "k: 0") &&
	       refuses_shape(p, (struct shape){1, 1, 4, 4, 1, 0, 1, 1}, "size: 0") &&
	       refuses_shape(p, (struct shape){1, 1, 4, 4, 1, 3, 0, 1}, "stride: 0") &&
	       refuses_shape(p, (struct shape){1, 1, 4, 4, 1, 3, 1, 1025}, "pad: 1025"),
	   "conv2d %s: refuses what is no shape", name);
	ok(refuses_shape(p, (struct shape){0, huge - 1, huge - 1, huge - 1, 1, 3, 1, 1}, "") &&
	       refuses_shape(p, (struct shape){0, 1, huge - 1, huge - 1, huge - 1, 3, 1, 1}, "") &&
	       refuses_shape(p, (struct shape){0, 1, huge, 4, 1, 3, 1, 1}, ""),
	   "conv2d %s: refuses products beyond 64 bits, also for no images", name);
	ok(kt_sweep("conv2d", NULL,
		    ARGS(U("x", v.x), U("weight", v.weight), U("bias", v.bias), U("y", v.y),
			 SHAPE(p))) &&
	       kt_sweep("conv2d_grad_x", NULL,
			ARGS(U("dx", v.dx), U("dy", v.dy), U("weight", v.weight), U("add", 0),
			     SHAPE(p))) &&
	       kt_sweep("conv2d_grad_w", NULL,
			ARGS(U("dw", v.dw), U("db", v.db), U("dy", v.dy), U("x", v.x), SHAPE(p))),
	   "conv2d and gradients %s: refuse bad arguments", name);
}

#define OVERLAP(kernel, ...) kt_refuses(RC_INVAL, kernel, ARGS(__VA_ARGS__, SHAPE(p)))

static void
overlaps(enum gpusim_dtype t)
{
	struct conv v = conv_new(&(struct shape){2, 2, 4, 4, 3, 3, 1, 1}, 2, t), s = v, *p = &v;
	const char *name = dtype_name(t);
	const uint64_t inputs[] = {v.x, v.weight, v.bias}, grads[] = {v.dy, v.weight},
		       weights[] = {v.dy, v.x, v.db};
	bool good = true;
	size_t i;

	for (i = 0; i < 3; i++) {
		good = OVERLAP("conv2d", U("x", v.x), U("weight", v.weight), U("bias", v.bias),
			       U("y", inputs[i])) &&
		       good;
		good = OVERLAP("conv2d_grad_w", U("dw", weights[i]), U("db", v.db), U("dy", v.dy),
			       U("x", v.x)) &&
		       good;
	}
	for (i = 0; i < 2; i++)
		good = OVERLAP("conv2d_grad_x", U("dx", grads[i]), U("dy", v.dy),
			       U("weight", v.weight)) &&
		       good;
	good = OVERLAP("conv2d_grad_w", U("dw", v.dw), U("db", v.x), U("dy", v.dy), U("x", v.x)) &&
	       OVERLAP("conv2d_grad_w", U("dw", v.dw), U("db", v.dy), U("dy", v.dy), U("x", v.x)) &&
	       good;
	p = &s;
	s.scratch = v.x;
	good = OVERLAP("conv2d", U("x", v.x), U("weight", v.weight), U("y", v.y)) &&
	       OVERLAP("conv2d_grad_w", U("dw", v.dw), U("dy", v.dy), U("x", v.x)) && good;
	s.scratch = v.dy;
	good = OVERLAP("conv2d", U("x", v.x), U("weight", v.weight), U("y", v.dy)) &&
	       OVERLAP("conv2d_grad_x", U("dx", v.dx), U("dy", v.dy), U("weight", v.weight)) &&
	       OVERLAP("conv2d_grad_w", U("dw", v.dw), U("dy", v.dy), U("x", v.x)) && good;
	ok(good, "conv2d and gradients %s: refuse overlaps", name);
}

int
main(void)
{
	static const enum gpusim_dtype types[] = {GPUSIM_F32, GPUSIM_F64};
	bool good = true;
	size_t i;

	for (i = 0; i < 2; i++) {
		all_shapes(types[i]);
		kt_open();
		ok(repeats(types[i]), "conv2d %s: the same bits again, whatever is in scratch",
		   dtype_name(types[i]));
		kt_close();
		kt_open();
		refusals(types[i]);
		overlaps(types[i]);
		kt_close();
	}
	for (i = 0; i < NSHAPES; i++) {
		if (shapes[i].w <= 9)
			good = differences(&shapes[i], 1) && differences(&shapes[i], 4) && good;
	}
	ok(good, "conv2d f64: gradients are those of differences, by x, weight and bias");
	return tap_done();
}
