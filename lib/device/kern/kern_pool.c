/*
 * kern_pool.c - the maximum of each window of an image, and its gradient.
 */
#include "kern/kern_impl.h"

#include <inttypes.h>
#include <string.h>

#include "mem/clones.h"

#define MAX_REACH 1024 /* limit of size and stride */

struct pool {
	size_t planes, h, w, size, stride, oh, ow;
};

/* The shape's arguments, in this order in both kernels. */
enum { SHAPE_N, SHAPE_C, SHAPE_H, SHAPE_W, SHAPE_SIZE, SHAPE_STRIDE };

/* Reads and checks the shape's arguments, the first of which is number `shape`. */
static struct pool
pool_read(struct kern_call *c, unsigned shape)
{
	const union kernel_value *v = c->v + shape;
	uint64_t h = v[SHAPE_H].u, w = v[SHAPE_W].u, size = v[SHAPE_SIZE].u,
		 stride = v[SHAPE_STRIDE].u != 0 ? v[SHAPE_STRIDE].u : size, plane;
	struct pool p = {0};

	if (size < 1 || size > MAX_REACH)
		kern_fail(c, RC_INVAL, "size: %" PRIu64 " is not in 1 to %d", size, MAX_REACH);
	if (stride > MAX_REACH)
		kern_fail(c, RC_INVAL, "stride: %" PRIu64 " is not in 0 to %d", stride, MAX_REACH);
	if (size > h || size > w)
		kern_fail(c, RC_INVAL,
			  "size: %" PRIu64 " is larger than the image of %" PRIu64 " x %" PRIu64,
			  size, h, w);
	plane = kern_product(c, "x", (uint64_t[]){h, w}, 2);
	if (plane > UINT32_MAX)
		kern_fail(c, RC_INVAL, "x: a plane has more than %" PRIu32 " elements", UINT32_MAX);
	p.planes = kern_product(c, "x", (uint64_t[]){v[SHAPE_N].u, v[SHAPE_C].u}, 2);
	if (c->rc != RC_OK)
		return p;
	p.h = h;
	p.w = w;
	p.size = size;
	p.stride = stride;
	p.oh = (h - size) / stride + 1;
	p.ow = (w - size) / stride + 1;
	return p;
}

/* ---- maxpool2d */

enum {
	POOL_X,
	POOL_Y,
	POOL_INDEX,
	POOL_SHAPE,
	POOL_N = POOL_SHAPE,
	POOL_C,
	POOL_H,
	POOL_W,
	POOL_SIZE,
	POOL_STRIDE,
	POOL_DTYPE,
};

/* x becomes the maximum at place i: it is larger or NaN, and the maximum is not NaN. */
#define BETTER(x, top) (!((x) <= (top)) && (top) == (top))

/* One row of the result of windows of 2 x 2 that touch: four candidates, no branch. */
#define POOL_PAIRS(type)                                                                     \
	HOT_CLONES static void pool_pairs_##type(type *restrict y, uint32_t *restrict index, \
						 const type *restrict x, size_t w, size_t n, \
						 uint32_t at)                                \
	{                                                                                    \
		uint32_t below = (uint32_t)w, best;                                          \
		const type *restrict under = x + w;                                          \
		type a, b;                                                                   \
		size_t i;                                                                    \
                                                                                             \
		for (i = 0; i < n; i++) {                                                    \
			a = x[2 * i];                                                        \
			best = 0;                                                            \
			b = x[2 * i + 1];                                                    \
			best = BETTER(b, a) ? 1 : best;                                      \
			a = BETTER(b, a) ? b : a;                                            \
			b = under[2 * i];                                                    \
			best = BETTER(b, a) ? below : best;                                  \
			a = BETTER(b, a) ? b : a;                                            \
			b = under[2 * i + 1];                                                \
			best = BETTER(b, a) ? below + 1 : best;                              \
			a = BETTER(b, a) ? b : a;                                            \
			y[i] = a;                                                            \
			index[i] = at + 2 * (uint32_t)i + best;                              \
		}                                                                            \
	}
POOL_PAIRS(float)
POOL_PAIRS(double)

/* One element of the result, of the window whose first element is x[at]. */
#define POOL_WINDOW(type)                                                                      \
	static void pool_window_##type(const struct pool *p, type *y, uint32_t *index,         \
				       const type *x, size_t at)                               \
	{                                                                                      \
		size_t r, i, best = at;                                                        \
                                                                                               \
		for (r = 0; r < p->size; r++, at += p->w) {                                    \
			for (i = at; i < at + p->size; i++)                                    \
				best = BETTER(x[i], x[best]) ? i : best;                       \
		}                                                                              \
		*y = x[best];                                                                  \
		*index = (uint32_t)best;                                                       \
	}                                                                                      \
                                                                                               \
	static void pool_##type(const struct pool *p, type *y, uint32_t *index, const type *x) \
	{                                                                                      \
		size_t plane, oy, ox, at;                                                      \
                                                                                               \
		for (plane = 0; plane < p->planes; plane++, x += p->h * p->w) {                \
			for (oy = 0; oy < p->oh; oy++, y += p->ow, index += p->ow) {           \
				at = oy * p->stride * p->w;                                    \
				if (p->size == 2 && p->stride == 2) {                          \
					pool_pairs_##type(y, index, x + at, p->w, p->ow,       \
							  (uint32_t)at);                       \
					continue;                                              \
				}                                                              \
				for (ox = 0; ox < p->ow; ox++)                                 \
					pool_window_##type(p, y + ox, index + ox, x,           \
							   at + ox * p->stride);               \
			}                                                                      \
		}                                                                              \
	}
POOL_WINDOW(float)
POOL_WINDOW(double)

static enum rc
maxpool2d_run(struct kern_call *call)
{
	size_t size = kern_float(call, POOL_DTYPE);
	struct pool p = pool_read(call, POOL_SHAPE);
	const void *x = kern_at(call, POOL_X, p.planes, p.h * p.w, size);
	void *y = kern_out(call, POOL_Y, p.planes, p.oh * p.ow, size);
	uint32_t *index = kern_plain(call, POOL_INDEX, p.planes, p.oh * p.ow, sizeof *index);

	kern_apart(call, POOL_Y, POOL_X);
	kern_apart(call, POOL_Y, POOL_INDEX);
	kern_apart(call, POOL_X, POOL_INDEX);
	if (call->rc != RC_OK)
		return call->rc;
	KERN_LOOP(size, pool, &p, y, index, x);
	return RC_OK;
}

/*
 * maxpool2d - y = the largest element of each window of size x size, and where in its plane it lies:
 * the first of the largest. NaN is larger than any number.
 *
 * oh = (h - size) / stride + 1, rounded down, and ow likewise. No areas overlap.
 * Errors: RC_INVAL, also for a window larger than the image. Checked by: tests/unit/kern/t_kern_pool.c
 */
const struct kernel kernel_maxpool2d = {
    .name = "maxpool2d",
    .summary = "largest element of each window of an image",
    .params =
	{
	    [POOL_X] = {"x", KP_ADDR, false, 0, "[n,c,h,w] in"},
	    [POOL_Y] = {"y", KP_ADDR, false, 0, "[n,c,oh,ow] out"},
	    [POOL_INDEX] = {"index", KP_ADDR, false, 0, "u32[n,c,oh,ow] out: place in the plane"},
	    [POOL_N] = {"n", KP_COUNT, false, 0, "images"},
	    [POOL_C] = {"c", KP_COUNT, false, 0, "channels"},
	    [POOL_H] = {"h", KP_COUNT, false, 0, "rows of x"},
	    [POOL_W] = {"w", KP_COUNT, false, 0, "columns of x"},
	    [POOL_SIZE] = {"size", KP_COUNT, false, 0, "rows and columns of a window, to 1024"},
	    [POOL_STRIDE] = {"stride", KP_COUNT, true, 0, "step from window to window; 0: size"},
	    [POOL_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = maxpool2d_run,
};

/* ---- maxpool2d_grad */

enum {
	PG_DX,
	PG_DY,
	PG_INDEX,
	PG_SHAPE,
	PG_N = PG_SHAPE,
	PG_C,
	PG_H,
	PG_W,
	PG_SIZE,
	PG_STRIDE,
	PG_ADD,
	PG_DTYPE,
};

/* Volatile: another thread may write it meanwhile, and the checked value must be the used one. */
typedef const volatile uint32_t place;

/* Fails when an index lies outside its plane. */
static void
check_index(struct kern_call *c, place *index, size_t n, size_t plane)
{
	uint32_t at;
	size_t i;

	for (i = 0; c->rc == RC_OK && i < n; i++) {
		if ((at = index[i]) >= plane)
			kern_fail(c, RC_BADDATA,
				  "index[%zu] is %" PRIu32 ", outside a plane of %zu elements", i,
				  at, plane);
	}
}

/* dx += dy at the places. False: a place has changed since it was checked. */
#define POOL_GRAD(type)                                                                            \
	static bool pool_grad_##type(const struct pool *p, type *dx, const type *dy, place *index) \
	{                                                                                          \
		size_t plane = p->h * p->w, out = p->oh * p->ow, i, j;                             \
		uint32_t at;                                                                       \
                                                                                                   \
		for (i = 0; i < p->planes; i++, dx += plane, dy += out, index += out) {            \
			for (j = 0; j < out; j++) {                                                \
				if ((at = index[j]) >= plane)                                      \
					return false;                                              \
				dx[at] += dy[j];                                                   \
			}                                                                          \
		}                                                                                  \
		return true;                                                                       \
	}
POOL_GRAD(float)
POOL_GRAD(double)

static enum rc
maxpool2d_grad_run(struct kern_call *call)
{
	size_t size = kern_float(call, PG_DTYPE);
	struct pool p = pool_read(call, PG_SHAPE);
	void *dx = kern_out(call, PG_DX, p.planes, p.h * p.w, size);
	const void *dy = kern_at(call, PG_DY, p.planes, p.oh * p.ow, size);
	place *index = kern_plain(call, PG_INDEX, p.planes, p.oh * p.ow, sizeof *index);
	bool steady;

	kern_apart(call, PG_DX, PG_DY);
	kern_apart(call, PG_DX, PG_INDEX);
	check_index(call, index, p.planes * p.oh * p.ow, p.h * p.w);
	if (call->rc != RC_OK)
		return call->rc;
	if (call->v[PG_ADD].u == 0)
		memset(dx, 0, p.planes * p.h * p.w * size);
	if (size == sizeof(float))
		steady = pool_grad_float(&p, dx, dy, index);
	else
		steady = pool_grad_double(&p, dx, dy, index);
	if (!steady)
		return kern_fail(call, RC_BADDATA, "index changed during the kernel");
	return RC_OK;
}

/*
 * maxpool2d_grad - dx = 0, or what it is with `add`; then dy is added where maxpool2d found its
 * maximum.
 *
 * dx overlaps nothing. Errors: RC_INVAL; RC_BADDATA an index outside its plane.
 * Checked by: tests/unit/kern/t_kern_pool.c
 */
const struct kernel kernel_maxpool2d_grad = {
    .name = "maxpool2d_grad",
    .summary = "gradient of maxpool2d",
    .params =
	{
	    [PG_DX] = {"dx", KP_ADDR, false, 0, "[n,c,h,w] out"},
	    [PG_DY] = {"dy", KP_ADDR, false, 0, "[n,c,oh,ow] gradient of the output"},
	    [PG_INDEX] = {"index", KP_ADDR, false, 0, "u32[n,c,oh,ow] maxpool2d's"},
	    [PG_N] = {"n", KP_COUNT, false, 0, "images"},
	    [PG_C] = {"c", KP_COUNT, false, 0, "channels"},
	    [PG_H] = {"h", KP_COUNT, false, 0, "rows of x"},
	    [PG_W] = {"w", KP_COUNT, false, 0, "columns of x"},
	    [PG_SIZE] = {"size", KP_COUNT, false, 0, "rows and columns of a window, to 1024"},
	    [PG_STRIDE] = {"stride", KP_COUNT, true, 0, "step from window to window; 0: size"},
	    [PG_ADD] = {"add", KP_FLAG, true, 0, "add to dx"},
	    [PG_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = maxpool2d_grad_run,
};
