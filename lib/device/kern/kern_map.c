/*
 * kern_map.c - sums and maps of whole tensors, element by element: add and affine.
 */
#include "kern/kern_impl.h"

#include "mem/clones.h"

/* ---- add */

enum { ADD_Y, ADD_A, ADD_B, ADD_N, ADD_DTYPE };

#define ADD_LOOP(type)                                                                     \
	HOT_CLONES static void add_##type(type *y, const type *a, const type *b, size_t n) \
	{                                                                                  \
		size_t i;                                                                  \
                                                                                           \
		HOT_LOOP                                                                   \
		for (i = 0; i < n; i++)                                                    \
			y[i] = a[i] + b[i];                                                \
	}
ADD_LOOP(float)
ADD_LOOP(double)
ADD_LOOP(uint64_t)

static enum rc
add_run(struct kern_call *call)
{
	bool whole = call->v[ADD_DTYPE].u == GPUSIM_I64;
	size_t size = whole ? sizeof(uint64_t) : kern_float(call, ADD_DTYPE), n = call->v[ADD_N].u;
	void *y = kern_out(call, ADD_Y, n, 1, size);
	const void *a = kern_at(call, ADD_A, n, 1, size);
	const void *b = kern_at(call, ADD_B, n, 1, size);

	kern_inplace(call, ADD_Y, ADD_A);
	kern_inplace(call, ADD_Y, ADD_B);
	if (call->rc != RC_OK)
		return call->rc;
	if (whole)
		add_uint64_t(y, a, b, n);
	else if (size == sizeof(float))
		add_float(y, a, b, n);
	else
		add_double(y, a, b, n);
	return RC_OK;
}

/*
 * add - y[i] = a[i] + b[i]. y may be a or b. Whole numbers wrap around.
 *
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_map.c
 */
const struct kernel kernel_add = {
    .name = "add",
    .summary = "add two vectors",
    .params =
	{
	    [ADD_Y] = {"y", KP_ADDR, false, 0, "[n] out; may be a or b"},
	    [ADD_A] = {"a", KP_ADDR, false, 0, "[n] in"},
	    [ADD_B] = {"b", KP_ADDR, false, 0, "[n] in"},
	    [ADD_N] = {"n", KP_COUNT, false, 0, "number of elements"},
	    [ADD_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, "f32, f64, f16, bf16 or i64"},
	},
    .run = add_run,
};

/* ---- affine */

enum { AFF_X, AFF_SCALE, AFF_SHIFT, AFF_ROWS, AFF_C, AFF_HW, AFF_DTYPE };

#define AFFINE_LOOP(type)                                                                   \
	HOT_CLONES static void affine_##type(type *x, const type *scale, const type *shift, \
					     size_t rows, size_t c, size_t hw)              \
	{                                                                                   \
		size_t ch, i;                                                               \
		type factor, term;                                                          \
                                                                                            \
		for (; rows > 0; rows--) {                                                  \
			for (ch = 0; ch < c; ch++, x += hw) {                               \
				factor = scale[ch];                                         \
				term = shift[ch];                                           \
				for (i = 0; i < hw; i++)                                    \
					x[i] = x[i] * factor + term;                        \
			}                                                                   \
		}                                                                           \
	}
AFFINE_LOOP(float)
AFFINE_LOOP(double)

static enum rc
affine_run(struct kern_call *call)
{
	uint64_t rows = call->v[AFF_ROWS].u, c = call->v[AFF_C].u, hw = call->v[AFF_HW].u;
	size_t size = kern_float(call, AFF_DTYPE);
	uint64_t cols = kern_product(call, "x", (uint64_t[]){c, hw}, 2);
	void *x = kern_out(call, AFF_X, rows, cols, size);
	const void *scale = kern_plain(call, AFF_SCALE, c, 1, size);
	const void *shift = kern_plain(call, AFF_SHIFT, c, 1, size);

	kern_apart(call, AFF_X, AFF_SCALE);
	kern_apart(call, AFF_X, AFF_SHIFT);
	if (call->rc != RC_OK || cols == 0)
		return call->rc;
	KERN_LOOP(size, affine, x, scale, shift, rows, c, hw);
	return RC_OK;
}

/*
 * affine - x[r,j,i] = x[r,j,i] scale[j] + shift[j]. x overlaps neither.
 *
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_map.c
 */
const struct kernel kernel_affine = {
    .name = "affine",
    .summary = "scale each channel by a number and add a number",
    .params =
	{
	    [AFF_X] = {"x", KP_ADDR, false, 0, "[rows,c,hw] in and out"},
	    [AFF_SCALE] = {"scale", KP_ADDR, false, 0, "[c] factors"},
	    [AFF_SHIFT] = {"shift", KP_ADDR, false, 0, "[c] terms"},
	    [AFF_ROWS] = {"rows", KP_COUNT, false, 0, "images"},
	    [AFF_C] = {"c", KP_COUNT, false, 0, "channels of an image"},
	    [AFF_HW] = {"hw", KP_COUNT, false, 0, "elements of a channel"},
	    [AFF_DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = affine_run,
};
