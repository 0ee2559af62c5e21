/*
 * kern_gemm.c - matrix products, by the BLAS.
 */
#include "kern/kern_impl.h"

#include <limits.h>
#include <string.h>

#include "kern/blas.h"

enum { M, N, K, A, B, C, ALPHA, BETA, TA, TB, SINGLE, DTYPE };

/* c = beta c, all that is left of a product with k = 0. A zero beta does not read c. */
static void
scale_matrix(void *c, size_t n, size_t size, double beta)
{
	size_t i;

	if (beta == 0)
		memset(c, 0, n * size);
	for (i = 0; beta != 0 && i < n; i++)
		kern_put(c, i, size,
			 size == sizeof(float) ? (float)beta * kern_get(c, i, size)
					       : beta * kern_get(c, i, size));
}

static enum rc
gemm_run(struct kern_call *call)
{
	uint64_t m = call->v[M].u, n = call->v[N].u, k = call->v[K].u;
	size_t size = kern_float(call, DTYPE);
	void *a, *b, *c;

	if (m > INT_MAX || n > INT_MAX || k > INT_MAX)
		kern_fail(call, RC_INVAL, "m, n and k must be at most %d", INT_MAX);
	a = kern_at(call, A, m, k, size);
	b = kern_at(call, B, k, n, size);
	c = kern_out(call, C, m, n, size);
	kern_apart(call, A, C);
	kern_apart(call, B, C);
	if (call->rc != RC_OK || m == 0 || n == 0)
		return call->rc;

	if (k == 0)
		scale_matrix(c, m * n, size, call->v[BETA].f);
	else
		blas_multiply(&(struct blas_product){.m = m,
						     .n = n,
						     .k = k,
						     .size = size,
						     .ta = call->v[TA].u,
						     .tb = call->v[TB].u,
						     .single = call->v[SINGLE].u,
						     .alpha = call->v[ALPHA].f,
						     .beta = call->v[BETA].f,
						     .a = a,
						     .b = b,
						     .c = c});
	return RC_OK;
}

/*
 * gemm - c[m,n] = alpha op(a) op(b) + beta c, where op(a) is [m,k] and op(b) is [k,n].
 *
 * With single, one thread computes it, so the bits depend on the arguments alone. c overlaps neither a nor b.
 * beta 0 does not read c, alpha 0 does not read a or b.
 * Errors: RC_INVAL. Checked by: tests/unit/kern/t_kern_gemm.c
 */
const struct kernel kernel_gemm = {
    .name = "gemm",
    .summary = "matrix product c = alpha op(a) op(b) + beta c",
    .params =
	{
	    [M] = {"m", KP_COUNT, false, 0, "rows of c and op(a)"},
	    [N] = {"n", KP_COUNT, false, 0, "columns of c and op(b)"},
	    [K] = {"k", KP_COUNT, false, 0, "columns of op(a), rows of op(b)"},
	    [A] = {"a", KP_ADDR, false, 0, "[m,k], or [k,m] with ta"},
	    [B] = {"b", KP_ADDR, false, 0, "[k,n], or [n,k] with tb"},
	    [C] = {"c", KP_ADDR, false, 0, "[m,n], in and out"},
	    [ALPHA] = {"alpha", KP_REAL, true, 1, "factor of the product"},
	    [BETA] = {"beta", KP_REAL, true, 0, "factor of the old c"},
	    [TA] = {"ta", KP_FLAG, true, 0, "transpose a"},
	    [TB] = {"tb", KP_FLAG, true, 0, "transpose b"},
	    [SINGLE] = {"single", KP_FLAG, true, 0, "by one thread: bits do not depend on threads"},
	    [DTYPE] = {"dtype", KP_DTYPE, true, GPUSIM_F32, KERN_FLOATS},
	},
    .run = gemm_run,
};
