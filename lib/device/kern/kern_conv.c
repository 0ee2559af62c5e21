/*
 * kern_conv.c - convolutions and their gradients, as products of patches by the BLAS.
 *
 * An image is one product with its patches. Where scratch has room for several images, their patches are
 * side by side and make one product, which is faster for small planes: the weights are read once for all
 * of them. The planes of y are then side by side as well, after the patches.
 */
#include "kern/kern_impl.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "kern/blas.h"
#include "kern/kern_channel.h"
#include "kern/kern_patch.h"
#include "mem/clones.h"

#define MAX_REACH   1024 /* limit of size, stride and pad */
#define MAX_COLUMNS 1024 /* of a product of several images: more do not help */

struct conv {
	struct conv_shape s;
	size_t n, k;
	size_t image, patch, plane; /* elements: c h w, c size^2, oh ow */
	size_t group;		    /* images a product, at least 1 */
	size_t bytes;		    /* an element */
	bool single;		    /* products by one thread */
};

/* The shape's arguments, in this order in each of the three kernels. */
enum { SHAPE_N, SHAPE_C, SHAPE_H, SHAPE_W, SHAPE_K, SHAPE_SIZE, SHAPE_STRIDE, SHAPE_PAD };

static void
check_range(struct kern_call *c, unsigned param, uint64_t min, uint64_t max)
{
	uint64_t u = c->v[param].u;

	if (u < min || u > max)
		kern_fail(c, RC_INVAL, "%s: %" PRIu64 " is not in %" PRIu64 " to %" PRIu64,
			  c->k->params[param].name, u, min, max);
}

/* Output elements along an axis; fails when the kernel is larger than the padded image. */
static uint64_t
reach(struct kern_call *c, unsigned shape, unsigned axis)
{
	uint64_t size = c->v[shape + SHAPE_SIZE].u, stride = c->v[shape + SHAPE_STRIDE].u,
		 padded = c->v[axis].u + 2 * c->v[shape + SHAPE_PAD].u;

	if (c->rc != RC_OK)
		return 0;
	if (size > padded) {
		kern_fail(c, RC_INVAL,
			  "size: %" PRIu64 " is larger than the image, whose %s is %" PRIu64
			  " with its padding",
			  size, c->k->params[axis].name, padded);
		return 0;
	}
	return (padded - size) / stride + 1;
}

/* The images per product, for scratch of this many elements: equal numbers, except perhaps in the last
 * product. */
static size_t
group_of(const struct conv *c, uint64_t room)
{
	size_t most = room / c->plane / (c->patch + c->k), products;

	if (most > MAX_COLUMNS / c->plane)
		most = MAX_COLUMNS / c->plane;
	if (most <= 1 || c->n == 0)
		return 1;
	products = (c->n - 1) / most + 1;
	return (c->n - 1) / products + 1;
}

/* Reads and checks the shape's arguments, the first of which is number `shape`. */
static struct conv
conv_read(struct kern_call *c, unsigned shape, unsigned images, unsigned single, size_t bytes)
{
	const union kernel_value *v = c->v;
	uint64_t oh, ow, size = v[shape + SHAPE_SIZE].u, room;
	struct conv r = {.bytes = bytes, .group = 1, .single = v[single].u};
	unsigned i;

	check_range(c, shape + SHAPE_SIZE, 1, MAX_REACH);
	check_range(c, shape + SHAPE_STRIDE, 1, MAX_REACH);
	check_range(c, shape + SHAPE_PAD, 0, MAX_REACH);
	for (i = SHAPE_C; i <= SHAPE_K; i++)
		check_range(c, shape + i, 1, INT_MAX);
	check_range(c, images, 1, INT_MAX);
	oh = reach(c, shape, shape + SHAPE_H);
	ow = reach(c, shape, shape + SHAPE_W);
	if (c->rc != RC_OK)
		return r;
	r.s = (struct conv_shape){v[shape + SHAPE_C].u,
				  v[shape + SHAPE_H].u,
				  v[shape + SHAPE_W].u,
				  size,
				  v[shape + SHAPE_STRIDE].u,
				  v[shape + SHAPE_PAD].u,
				  oh,
				  ow};
	r.n = v[shape + SHAPE_N].u;
	r.k = v[shape + SHAPE_K].u;
	r.image = kern_product(c, "x", (uint64_t[]){r.s.c, r.s.h, r.s.w}, 3);
	r.patch = r.s.c * size * size; /* at most 2^51 */
	r.plane = kern_product(c, "y", (uint64_t[]){oh, ow}, 2);
	room = kern_product(c, "scratch", (uint64_t[]){v[images].u, r.patch, r.plane}, 3);
	kern_product(c, "y", (uint64_t[]){r.k, r.plane, bytes}, 3);
	if (c->rc == RC_OK && (r.patch > INT_MAX || r.plane > INT_MAX))
		kern_fail(c, RC_INVAL, "more than %d elements in a plane or a patch", INT_MAX);
	if (c->rc != RC_OK)
		return r;
	r.group = group_of(&r, room);
	return r;
}

/* The patches of an image are the image itself. */
static bool
conv_is_plain(const struct conv *c)
{
	return c->s.size == 1 && c->s.stride == 1 && c->s.pad == 0;
}

/* One product: its images, and where their patches and planes are. */
struct batch {
	size_t first, count, columns;
	unsigned char *patches, *planes;
};

/* The images from `first` on that are one product. */
static struct batch
batch_at(const struct conv *c, void *scratch, size_t first)
{
	struct batch b = {.first = first, .count = c->n - first, .patches = scratch};

	if (b.count > c->group)
		b.count = c->group;
	b.columns = b.count * c->plane;
	b.planes = b.patches + c->patch * b.columns * c->bytes;
	return b;
}

/* The patches of a batch's images. */
static const void *
batch_unfold(const struct conv *c, const struct batch *b, const unsigned char *x)
{
	size_t i;

	x += b->first * c->image * c->bytes;
	if (b->count == 1 && conv_is_plain(c))
		return x;
	for (i = 0; i < b->count; i++)
		conv_unfold(&c->s, b->patches + i * c->plane * c->bytes, b->columns,
			    x + i * c->image * c->bytes, c->bytes);
	return b->patches;
}

/* dy of a batch's images as [k, columns]. */
static const void *
batch_planes(const struct conv *c, const struct batch *b, const unsigned char *dy)
{
	size_t i, k, row = c->plane * c->bytes;

	dy += b->first * c->k * row;
	if (b->count == 1)
		return dy;
	for (i = 0; i < b->count; i++) {
		for (k = 0; k < c->k; k++, dy += row)
			memcpy(b->planes + (k * b->count + i) * row, dy, row);
	}
	return b->planes;
}

/* ---- conv2d */

enum {
	CONV_X,
	CONV_WEIGHT,
	CONV_BIAS,
	CONV_Y,
	CONV_SCRATCH,
	CONV_SHAPE,
	CONV_N = CONV_SHAPE,
	CONV_C,
	CONV_H,
	CONV_W,
	CONV_K,
	CONV_SIZE,
	CONV_STRIDE,
	CONV_PAD,
	CONV_IMAGES,
	CONV_SINGLE,
	CONV_DTYPE,
};

/* y[i] = x[i] + bias for a plane; x may be y. */
#define PLANE_BIAS(type)                                                                      \
	HOT_CLONES static void plane_bias_##type(type *y, const type *x, type bias, size_t n) \
	{                                                                                     \
		size_t i;                                                                     \
                                                                                              \
		HOT_LOOP                                                                      \
		for (i = 0; i < n; i++)                                                       \
			y[i] = x[i] + bias;                                                   \
	}
PLANE_BIAS(float)
PLANE_BIAS(double)

/* Move the planes of a batch to y, unless they are there, and add the bias (or NULL). */
static void
batch_store(const struct conv *c, const struct batch *b, unsigned char *y, const void *bias)
{
	size_t i, k, row = c->plane * c->bytes;
	const unsigned char *from;

	if (b->count == 1 && bias == NULL)
		return;
	for (i = 0; i < b->count; i++) {
		for (k = 0; k < c->k; k++, y += row) {
			from = b->count == 1 ? y : b->planes + (k * b->count + i) * row;
			if (bias == NULL)
				memcpy(y, from, row);
			else if (c->bytes == sizeof(float))
				plane_bias_float((float *)y, (const float *)from,
						 ((const float *)bias)[k], c->plane);
			else
				plane_bias_double((double *)y, (const double *)from,
						  ((const double *)bias)[k], c->plane);
		}
	}
}

static void
conv_forward(const struct conv *c, unsigned char *y, const void *x, const void *weight,
	     const void *bias, void *scratch)
{
	size_t at;

	for (at = 0; at < c->n; at += c->group) {
		struct batch b = batch_at(c, scratch, at);
		unsigned char *out = y + at * c->k * c->plane * c->bytes;

		blas_multiply(&(struct blas_product){.m = c->k,
						     .n = b.columns,
						     .k = c->patch,
						     .size = c->bytes,
						     .single = c->single,
						     .alpha = 1,
						     .a = weight,
						     .b = batch_unfold(c, &b, x),
						     .c = b.count == 1 ? out : b.planes});
		batch_store(c, &b, out, bias);
	}
}

static enum rc
conv2d_run(struct kern_call *call)
{
	static const unsigned areas[] = {CONV_X, CONV_WEIGHT, CONV_BIAS, CONV_Y, CONV_SCRATCH};
	size_t size = kern_float(call, CONV_DTYPE), n = sizeof areas / sizeof areas[0];
	struct conv c = conv_read(call, CONV_SHAPE, CONV_IMAGES, CONV_SINGLE, size);
	const void *x = kern_at(call, CONV_X, c.n, c.image, size), *bias = NULL;
	const void *weight = kern_at(call, CONV_WEIGHT, c.k, c.patch, size);
	void *y = kern_out(call, CONV_Y, c.n, c.k * c.plane, size);
	void *scratch =
	    kern_at(call, CONV_SCRATCH, call->v[CONV_IMAGES].u, c.patch * c.plane, size);

	if (call->v[CONV_BIAS].u != 0)
		bias = kern_at(call, CONV_BIAS, c.k, 1, size);
	kern_apart_from(call, CONV_Y, areas, n);
	kern_apart_from(call, CONV_SCRATCH, areas, n);
	if (call->rc != RC_OK)
		return call->rc;
	conv_forward(&c, y, x, weight, bias, scratch);
	return RC_OK;
}

/*
 * conv2d - y[i,o,oy,ox] = bias[o] + sum over j, ky, kx of weight[o,j,ky,kx] x[i,j,iy,ix] with iy =
 * oy stride + ky - pad, ix = ox stride + kx - pad; x is 0 beyond its edges.
 *
 * oh = (h + 2 pad - size) / stride + 1, rounded down, and ow likewise. Neither y nor scratch
 * overlaps anything. The contents of scratch are undefined afterwards.
 * Errors: RC_INVAL, also for a kernel larger than the padded image. Checked by:
 * tests/unit/kern/t_kern_conv.c
 */
const struct kernel kernel_conv2d = {
    .name = "conv2d",
    .summary = "convolve images, with zeros around them",
    .params =
	{
	    [CONV_X] = {"x", KP_ADDR, false, 0, "[n,c,h,w] in"},
	    [CONV_WEIGHT] = {"weight", KP_ADDR, false, 0, "[k,c,size,size] in"},
	    [CONV_BIAS] = {"bias", KP_ADDR, true, 0, "[k] in"},
	    [CONV_Y] = {"y", KP_ADDR, false, 0, "[n,k,oh,ow] out"},
	    [CONV_SCRATCH] = {"scratch", KP_ADDR, false, 0,
			      "[scratch_images,c*size*size*oh*ow] for its own use"},
	    [CONV_N] = {"n", KP_COUNT, false, 0, "images"},
	    [CONV_C] = {"c", KP_COUNT, false, 0, "channels of x"},
	    [CONV_H] = {"h", KP_COUNT, false, 0, "rows of x"},
	    [CONV_W] = {"w", KP_COUNT, false, 0, "columns of x"},
	    [CONV_K] = {"k", KP_COUNT, false, 0, "channels of y"},
	    [CONV_SIZE] = {"size", KP_COUNT, false, 0, "rows and columns of a kernel, to 1024"},
	    [CONV_STRIDE] = {"stride", KP_COUNT, true, 1, "step from place to place, to 1024"},
	    [CONV_PAD] = {"pad", KP_COUNT, true, 0, "zeros beyond each edge, to 1024"},
	    [CONV_IMAGES] = {"scratch_images", KP_COUNT, true, 1, "images that scratch is for"},
	    [CONV_SINGLE] = {"single", KP_FLAG, true, 0, "products by one thread, as of gemm"},
	    [CONV_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = conv2d_run,
};

/* ---- conv2d_grad_x */

enum {
	GX_DX,
	GX_DY,
	GX_WEIGHT,
	GX_SCRATCH,
	GX_SHAPE,
	GX_N = GX_SHAPE,
	GX_C,
	GX_H,
	GX_W,
	GX_K,
	GX_SIZE,
	GX_STRIDE,
	GX_PAD,
	GX_ADD,
	GX_IMAGES,
	GX_SINGLE,
	GX_DTYPE,
};

/* Patches of dx = weight^T dy, then folded. */
static void
conv_grad_x(const struct conv *c, unsigned char *dx, const void *dy, const void *weight,
	    unsigned char *scratch, bool add)
{
	bool plain = conv_is_plain(c) && c->group == 1;
	size_t at, i;

	if (!add && !plain)
		memset(dx, 0, c->n * c->image * c->bytes);
	for (at = 0; at < c->n; at += c->group) {
		struct batch b = batch_at(c, scratch, at);

		blas_multiply(
		    &(struct blas_product){.m = c->patch,
					   .n = b.columns,
					   .k = c->k,
					   .size = c->bytes,
					   .single = c->single,
					   .ta = true,
					   .alpha = 1,
					   .beta = plain && add ? 1 : 0,
					   .a = weight,
					   .b = batch_planes(c, &b, dy),
					   .c = plain ? dx + at * c->image * c->bytes : b.patches});
		for (i = 0; !plain && i < b.count; i++)
			conv_fold(&c->s, dx + (at + i) * c->image * c->bytes,
				  b.patches + i * c->plane * c->bytes, b.columns, c->bytes);
	}
}

static enum rc
conv2d_grad_x_run(struct kern_call *call)
{
	static const unsigned areas[] = {GX_DX, GX_DY, GX_WEIGHT, GX_SCRATCH};
	size_t size = kern_float(call, GX_DTYPE), n = sizeof areas / sizeof areas[0];
	struct conv c = conv_read(call, GX_SHAPE, GX_IMAGES, GX_SINGLE, size);
	void *dx = kern_out(call, GX_DX, c.n, c.image, size);
	const void *dy = kern_at(call, GX_DY, c.n, c.k * c.plane, size);
	const void *weight = kern_at(call, GX_WEIGHT, c.k, c.patch, size);
	void *scratch = kern_at(call, GX_SCRATCH, call->v[GX_IMAGES].u, c.patch * c.plane, size);

	kern_apart_from(call, GX_DX, areas, n);
	kern_apart_from(call, GX_SCRATCH, areas, n);
	if (call->rc != RC_OK)
		return call->rc;
	conv_grad_x(&c, dx, dy, weight, scratch, call->v[GX_ADD].u != 0);
	return RC_OK;
}

/*
 * conv2d_grad_x - the gradient of conv2d's input: dx[i,j,iy,ix] = sum of dy[i,o,oy,ox]
 * weight[o,j,ky,kx] over all that conv2d multiplies x[i,j,iy,ix] with; with `add` it is added.
 *
 * Neither dx nor scratch overlaps anything. Errors as conv2d. Checked by: tests/unit/kern/t_kern_conv.c
 */
const struct kernel kernel_conv2d_grad_x = {
    .name = "conv2d_grad_x",
    .summary = "gradient of conv2d's input",
    .params =
	{
	    [GX_DX] = {"dx", KP_ADDR, false, 0, "[n,c,h,w] out"},
	    [GX_DY] = {"dy", KP_ADDR, false, 0, "[n,k,oh,ow] gradient of the output"},
	    [GX_WEIGHT] = {"weight", KP_ADDR, false, 0, "[k,c,size,size] in"},
	    [GX_SCRATCH] = {"scratch", KP_ADDR, false, 0,
			    "[scratch_images,c*size*size*oh*ow] for its own use"},
	    [GX_N] = {"n", KP_COUNT, false, 0, "images"},
	    [GX_C] = {"c", KP_COUNT, false, 0, "channels of x"},
	    [GX_H] = {"h", KP_COUNT, false, 0, "rows of x"},
	    [GX_W] = {"w", KP_COUNT, false, 0, "columns of x"},
	    [GX_K] = {"k", KP_COUNT, false, 0, "channels of y"},
	    [GX_SIZE] = {"size", KP_COUNT, false, 0, "rows and columns of a kernel, to 1024"},
	    [GX_STRIDE] = {"stride", KP_COUNT, true, 1, "step from place to place, to 1024"},
	    [GX_PAD] = {"pad", KP_COUNT, true, 0, "zeros beyond each edge, to 1024"},
	    [GX_ADD] = {"add", KP_FLAG, true, 0, "add to dx"},
	    [GX_IMAGES] = {"scratch_images", KP_COUNT, true, 1, "images that scratch is for"},
	    [GX_SINGLE] = {"single", KP_FLAG, true, 0, "products by one thread, as of gemm"},
	    [GX_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = conv2d_grad_x_run,
};

/* ---- conv2d_grad_w */

enum {
	GW_DW,
	GW_DB,
	GW_DY,
	GW_X,
	GW_SCRATCH,
	GW_SHAPE,
	GW_N = GW_SHAPE,
	GW_C,
	GW_H,
	GW_W,
	GW_K,
	GW_SIZE,
	GW_STRIDE,
	GW_PAD,
	GW_IMAGES,
	GW_SINGLE,
	GW_DTYPE,
};

/* dw = the sum over the batches of dy patches^T. */
static void
conv_grad_w(const struct conv *c, void *dw, const void *dy, const void *x, void *scratch)
{
	size_t at;

	if (c->n == 0)
		memset(dw, 0, c->k * c->patch * c->bytes);
	for (at = 0; at < c->n; at += c->group) {
		struct batch b = batch_at(c, scratch, at);

		blas_multiply(&(struct blas_product){.m = c->k,
						     .n = c->patch,
						     .k = b.columns,
						     .size = c->bytes,
						     .single = c->single,
						     .tb = true,
						     .alpha = 1,
						     .beta = at > 0,
						     .a = batch_planes(c, &b, dy),
						     .b = batch_unfold(c, &b, x),
						     .c = dw});
	}
}

static enum rc
conv2d_grad_w_run(struct kern_call *call)
{
	static const unsigned areas[] = {GW_DW, GW_DB, GW_DY, GW_X, GW_SCRATCH};
	size_t size = kern_float(call, GW_DTYPE), n = sizeof areas / sizeof areas[0], k;
	struct conv c = conv_read(call, GW_SHAPE, GW_IMAGES, GW_SINGLE, size);
	void *dw = kern_out(call, GW_DW, c.k, c.patch, size), *db = NULL;
	const void *dy = kern_at(call, GW_DY, c.n, c.k * c.plane, size);
	const void *x = kern_at(call, GW_X, c.n, c.image, size);
	void *scratch = kern_at(call, GW_SCRATCH, call->v[GW_IMAGES].u, c.patch * c.plane, size);

	if (call->v[GW_DB].u != 0)
		db = kern_out(call, GW_DB, c.k, 1, size);
	kern_apart_from(call, GW_DW, areas, n);
	kern_apart_from(call, GW_DB, areas, n);
	kern_apart_from(call, GW_SCRATCH, areas, n);
	if (call->rc != RC_OK)
		return call->rc;
	conv_grad_w(&c, dw, dy, x, scratch);
	for (k = 0; db != NULL && k < c.k; k++)
		kern_put(db, k, size,
			 channel_sum(&(struct channel){dy, NULL, c.n, c.k, k, c.plane, size}));
	return RC_OK;
}

/*
 * conv2d_grad_w - the gradients of conv2d's weights and bias: sums over the images, zeros where
 * there are none. db is summed in double.
 *
 * dw, db and scratch overlap nothing. Errors as conv2d. Checked by: tests/unit/kern/t_kern_conv.c
 */
const struct kernel kernel_conv2d_grad_w = {
    .name = "conv2d_grad_w",
    .summary = "gradients of conv2d's weights and bias",
    .params =
	{
	    [GW_DW] = {"dw", KP_ADDR, false, 0, "[k,c,size,size] out"},
	    [GW_DB] = {"db", KP_ADDR, true, 0, "[k] out"},
	    [GW_DY] = {"dy", KP_ADDR, false, 0, "[n,k,oh,ow] gradient of the output"},
	    [GW_X] = {"x", KP_ADDR, false, 0, "[n,c,h,w] in"},
	    [GW_SCRATCH] = {"scratch", KP_ADDR, false, 0,
			    "[scratch_images,c*size*size*oh*ow] for its own use"},
	    [GW_N] = {"n", KP_COUNT, false, 0, "images"},
	    [GW_C] = {"c", KP_COUNT, false, 0, "channels of x"},
	    [GW_H] = {"h", KP_COUNT, false, 0, "rows of x"},
	    [GW_W] = {"w", KP_COUNT, false, 0, "columns of x"},
	    [GW_K] = {"k", KP_COUNT, false, 0, "channels of y"},
	    [GW_SIZE] = {"size", KP_COUNT, false, 0, "rows and columns of a kernel, to 1024"},
	    [GW_STRIDE] = {"stride", KP_COUNT, true, 1, "step from place to place, to 1024"},
	    [GW_PAD] = {"pad", KP_COUNT, true, 0, "zeros beyond each edge, to 1024"},
	    [GW_IMAGES] = {"scratch_images", KP_COUNT, true, 1, "images that scratch is for"},
	    [GW_SINGLE] = {"single", KP_FLAG, true, 0, "products by one thread, as of gemm"},
	    [GW_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = conv2d_grad_w_run,
};
