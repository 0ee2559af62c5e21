/*
 * kern_cast.c - the kernel that converts between element types.
 */
#include "kern/kern_impl.h"

enum { DST, SRC, N, FROM, TO, SCALE };

static enum rc
cast_run(struct kern_call *call)
{
	size_t from_size = kern_type(call, FROM), to_size = kern_type(call, TO);
	enum gpusim_dtype from = (enum gpusim_dtype)call->v[FROM].u,
			  to = (enum gpusim_dtype)call->v[TO].u;
	uint64_t n = call->v[N].u;
	void *dst = kern_at(call, DST, n, 1, to_size);
	const void *src = kern_at(call, SRC, n, 1, from_size);
	struct kern_cast cast;

	kern_apart(call, DST, SRC);
	if (call->rc != RC_OK)
		return call->rc;
	kern_cast_init(&cast, to, from, call->v[SCALE].f);
	kern_cast(&cast, dst, src, n);
	return RC_OK;
}

/*
 * cast - dst[i] = scale src[i] in another type. The areas do not overlap.
 *
 * Rounds once, to nearest even (with a scale: the product is a double, and rounds again). A number
 * beyond an integer type becomes its nearest element, NaN becomes 0; beyond a float type, infinity.
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_cast.c
 */
const struct kernel kernel_cast = {
    .name = "cast",
    .summary = "convert a vector to another type",
    .params =
	{
	    [DST] = {"dst", KP_ADDR, false, 0, "[n] of type to, out"},
	    [SRC] = {"src", KP_ADDR, false, 0, "[n] of type from, in"},
	    [N] = {"n", KP_COUNT, false, 0, "number of elements"},
	    [FROM] = {"from", KP_DTYPE, false, 0, "type of src"},
	    [TO] = {"to", KP_DTYPE, false, 0, "type of dst"},
	    [SCALE] = {"scale", KP_REAL, true, 1, "factor, e.g. 1/255 for pixels"},
	},
    .run = cast_run,
};
