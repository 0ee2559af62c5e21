/* maxpool2d and its gradient against one window at a time, and against differences. */
#define KT_NBYTES (256u << 10)
#include "kern_test.h"

struct shape {
	size_t n, c, h, w, size, stride;
};

static const struct shape shapes[] = {
    {0, 3, 4, 4, 2, 2}, {3, 0, 4, 4, 2, 2}, {1, 1, 1, 1, 1, 1},	  {2, 3, 4, 6, 2, 2},
    {2, 2, 5, 7, 2, 2}, {1, 2, 2, 3, 2, 2}, {1, 2, 35, 71, 2, 2}, {2, 2, 7, 7, 3, 2},
    {2, 1, 5, 5, 3, 3}, {1, 3, 5, 4, 2, 1}, {2, 2, 6, 6, 4, 4},	  {1, 2, 6, 9, 2, 5},
    {1, 1, 4, 4, 4, 0}, {2, 2, 9, 6, 3, 0},
};
#define NSHAPES (sizeof shapes / sizeof *shapes)

struct pool {
	struct shape s;
	size_t step, oh, ow, nx, ny, size;
	uint64_t x, y, index, dx, dy;
	enum gpusim_dtype t;
};

static struct pool
pool_new(const struct shape *s, enum gpusim_dtype t)
{
	struct pool p = {.s = *s, .t = t, .size = dtype_size(t)};

	p.step = s->stride ? s->stride : s->size;
	p.oh = (s->h - s->size) / p.step + 1;
	p.ow = (s->w - s->size) / p.step + 1;
	p.nx = s->n * s->c * s->h * s->w;
	p.ny = s->n * s->c * p.oh * p.ow;
	p.x = kt_vector(p.nx, p.size);
	p.dx = kt_vector(p.nx + 1, p.size);
	p.y = kt_vector(p.ny + 1, p.size);
	p.dy = kt_vector(p.ny, p.size);
	p.index = kt_alloc((p.ny + 1) * 4);
	return p;
}

#define SHAPE(p)                                                                        \
	U("n", (p)->s.n), U("c", (p)->s.c), U("h", (p)->s.h), U("w", (p)->s.w),         \
	    U("size", (p)->s.size), U("stride", (p)->s.stride), U("index", (p)->index), \
	    U("dtype", (p)->t)

static bool
forward(void *ctx)
{
	struct pool *p = ctx;

	return kt_run("maxpool2d", ARGS(U("x", p->x), U("y", p->y), SHAPE(p))) == RC_OK;
}

static bool
backward(const struct pool *p, unsigned add)
{
	return kt_run("maxpool2d_grad",
		      ARGS(U("dx", p->dx), U("dy", p->dy), U("add", add), SHAPE(p))) == RC_OK;
}

/* The first of the largest of one window of plane q; NaN is larger than any number. */
static size_t
best_of(const struct pool *p, size_t q, size_t oy, size_t ox)
{
	size_t r, c, at, best = SIZE_MAX;
	double x, top = 0;

	for (r = oy * p->step; r < oy * p->step + p->s.size; r++) {
		for (c = ox * p->step; c < ox * p->step + p->s.size; c++) {
			at = r * p->s.w + c;
			x = kt_get(p->x, q * p->s.h * p->s.w + at, p->size);
			if (best == SIZE_MAX || (!isnan(top) && (isnan(x) || x > top))) {
				best = at;
				top = x;
			}
		}
	}
	return best;
}

/* y and index, and what is added to dx, which is `want` before. */
static bool
same(const struct pool *p, double *want)
{
	size_t q, oy, ox, out = 0, best;
	bool good = true;

	for (q = 0; q < p->s.n * p->s.c; q++) {
		for (oy = 0; oy < p->oh; oy++) {
			for (ox = 0; ox < p->ow; ox++, out++) {
				best = best_of(p, q, oy, ox);
				good = good &&
				       kt_near("index", out, ((uint32_t *)kt_at(p->index))[out],
					       (double)best, 0);
				best += q * p->s.h * p->s.w;
				good = good && kt_near("y", out, kt_get(p->y, out, p->size),
						       kt_get(p->x, best, p->size), 0);
				want[best] += kt_get(p->dy, out, p->size);
			}
		}
	}
	return good;
}

static bool
check(const struct shape *s, enum gpusim_dtype t, unsigned salt)
{
	struct pool p = pool_new(s, t);
	double *want = calloc(p.nx + 1, 8), eps = p.size == 4 ? 0x1p-20 : 0x1p-49,
	       guard[] = {kt_get(p.y, p.ny, p.size), kt_get(p.dx, p.nx, p.size)};
	uint32_t *index = kt_at(p.index), past = index[p.ny];
	bool good;
	size_t i;

	for (i = 0; salt && i < p.nx; i++) { /* few values: many equal ones, and NaN */
		uint64_t r = kt_rnd() % 8;

		kt_put(p.x, i, p.size,
		       r == 0	? (double)NAN
		       : r == 1 ? (double)-INFINITY
				: (double)(r / 2) - 2);
	}
	good = forward(&p) && same(&p, want) && backward(&p, 0);
	for (i = 0; i < p.nx; i++)
		good = good && kt_near("dx", i, kt_get(p.dx, i, p.size), want[i], eps);
	good = good && backward(&p, 1);
	for (i = 0; i < p.nx; i++)
		good = good && kt_near("dx+", i, kt_get(p.dx, i, p.size), 2 * want[i], 4 * eps);
	good = good && index[p.ny] == past && kt_get(p.y, p.ny, p.size) == guard[0] &&
	       kt_get(p.dx, p.nx, p.size) == guard[1];
	if (!good)
		printf("# n %zu c %zu h %zu w %zu size %zu stride %zu: %s\n", s->n, s->c, s->h,
		       s->w, s->size, s->stride, kt_err.text);
	free(want);
	return good;
}

static bool
differences(const struct shape *s)
{
	struct pool p;
	struct kt_slope slope;
	bool good;
	size_t i;

	kt_open();
	p = pool_new(s, GPUSIM_F64);
	for (i = 0; i < p.nx; i++) /* no two so near that a difference could swap them */
		kt_put(p.x, i, 8, (double)((i * 7919 + 13) % 8191) / 64);
	slope = (struct kt_slope){forward, &p, p.y, p.dy, p.ny};
	good = forward(&p) && backward(&p, 0) && kt_gradient("dx", &slope, p.x, p.nx, p.dx, 1e-8);
	kt_close();
	return good;
}

static bool
refuses_shape(const struct pool *good, struct shape s, const char *word)
{
	struct pool p = *good;

	p.s = s;
	return kt_refuses(RC_INVAL, "maxpool2d", ARGS(U("x", p.x), U("y", p.y), SHAPE(&p))) &&
	       strstr(kt_err.text, word) != NULL &&
	       kt_refuses(RC_INVAL, "maxpool2d_grad",
			  ARGS(U("dx", p.dx), U("dy", p.dy), SHAPE(&p)));
}

static void
refusals(enum gpusim_dtype t)
{
	struct pool v = pool_new(&(struct shape){2, 2, 4, 5, 2, 2}, t), *p = &v;
	uint32_t *index = kt_at(v.index);
	const char *name = dtype_name(t);
	bool good = true;
	size_t i;

	ok(refuses_shape(p, (struct shape){1, 1, 2, 9, 3, 1}, "larger than the image") &&
	       refuses_shape(p, (struct shape){0, 1, 9, 2, 3, 1}, "larger than the image") &&
	       refuses_shape(p, (struct shape){1, 1, 0, 0, 1, 1}, "larger than the image") &&
	       refuses_shape(p, (struct shape){1, 1, 4, 4, 0, 1}, "size: 0") &&
	       refuses_shape(p, (struct shape){1, 1, 4, 4, 2, 1025}, "stride: 1025") &&
	       refuses_shape(p, (struct shape){0, 1, 65536, 65536, 2, 2}, "plane"),
	   "maxpool2d %s: refuses what is no shape", name);
	ok(kt_refuses(RC_INVAL, "maxpool2d", ARGS(U("x", v.x), U("y", v.x), SHAPE(p))) &&
	       kt_refuses(RC_INVAL, "maxpool2d", ARGS(U("x", v.x), U("y", v.index), SHAPE(p))) &&
	       kt_refuses(RC_INVAL, "maxpool2d", ARGS(U("x", v.index), U("y", v.y), SHAPE(p))) &&
	       kt_refuses(RC_INVAL, "maxpool2d_grad",
			  ARGS(U("dx", v.dy), U("dy", v.dy), SHAPE(p))) &&
	       kt_refuses(RC_INVAL, "maxpool2d_grad",
			  ARGS(U("dx", v.index), U("dy", v.dy), SHAPE(p))),
	   "maxpool2d and gradient %s: refuse overlaps", name);
	for (i = 0; i < v.ny; i++) {
		good = forward(&v) && good;
		index[i] = i % 2 ? UINT32_MAX : 20;
		good = kt_refuses(RC_BADDATA, "maxpool2d_grad",
				  ARGS(U("dx", v.dx), U("dy", v.dy), SHAPE(p))) &&
		       good;
	}
	ok(good && strstr(kt_err.text, "index[15] is 4294967295") != NULL,
	   "maxpool2d_grad %s: names an index outside its plane, and writes nothing", name);
	ok(forward(&v) && kt_sweep("maxpool2d", NULL, ARGS(U("x", v.x), U("y", v.y), SHAPE(p))) &&
	       kt_sweep("maxpool2d_grad", NULL,
			ARGS(U("dx", v.dx), U("dy", v.dy), U("add", 0), SHAPE(p))),
	   "maxpool2d and gradient %s: refuse bad arguments", name);
}

int
main(void)
{
	static const enum gpusim_dtype types[] = {GPUSIM_F32, GPUSIM_F64};
	bool good, special, slopes = true;
	size_t i, s;

	for (i = 0; i < 2; i++) {
		good = special = true;
		for (s = 0; s < NSHAPES; s++) {
			kt_open();
			good = check(&shapes[s], types[i], 0) && good;
			special = check(&shapes[s], types[i], 1) && special;
			kt_close();
		}
		ok(good, "maxpool2d and gradient %s: one window at a time, nothing beside it",
		   dtype_name(types[i]));
		ok(special, "maxpool2d and gradient %s: the first of equal ones, and NaN",
		   dtype_name(types[i]));
		kt_open();
		refusals(types[i]);
		kt_close();
	}
	for (s = 0; s < NSHAPES; s++)
		slopes = differences(&shapes[s]) && slopes;
	ok(slopes, "maxpool2d_grad f64: agrees with differences of maxpool2d");
	return tap_done();
}
