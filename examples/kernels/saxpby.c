/*
 * saxpby.c - an example of your own kernel: y = alpha x + beta y, in f32.
 *
 *	gpuctl run -n 1 --kernels build/examples/saxpby.so -- \
 *	    gpuctl launch 0 saxpby y=0x10000 x=0x20000 n=3 alpha=2 beta=-1
 */
#include <gpusim_kernel.h>

#include <stdio.h>

enum { Y, X, N, ALPHA, BETA };

static const struct gpusim_kernel_param params[] = {
    [Y] = {"y", GPUSIM_KERNEL_ADDR, 0, 0, "[n] in and out"},
    [X] = {"x", GPUSIM_KERNEL_ADDR, 0, 0, "[n] in; may be y"},
    [N] = {"n", GPUSIM_KERNEL_COUNT, 0, 0, "number of elements"},
    [ALPHA] = {"alpha", GPUSIM_KERNEL_REAL, 1, 1, "factor of x"},
    [BETA] = {"beta", GPUSIM_KERNEL_REAL, 1, 1, "factor of y"},
    {NULL, GPUSIM_KERNEL_END, 0, 0, NULL},
};

static int
run(const struct gpusim_kernel_memory *mem, const union gpusim_kernel_value *v, char *why,
    size_t nwhy)
{
	uint64_t n = v[N].u, i;
	float alpha = (float)v[ALPHA].f, beta = (float)v[BETA].f;
	float *y = gpusim_kernel_at(mem, "y", v[Y].u, n, sizeof *y, why, nwhy), *x;

	if (y == NULL)
		return GPUSIM_KERNEL_INVAL;
	x = gpusim_kernel_at(mem, "x", v[X].u, n, sizeof *x, why, nwhy);
	if (x == NULL)
		return GPUSIM_KERNEL_INVAL;
	if (x != y && x < y + n && y < x + n) {
		snprintf(why, nwhy, "x and y overlap");
		return GPUSIM_KERNEL_INVAL;
	}
	for (i = 0; i < n; i++)
		y[i] = alpha * x[i] + beta * y[i];
	return GPUSIM_KERNEL_OK;
}

static const struct gpusim_kernel kernels[] = {
    {"saxpby", "y = alpha x + beta y", params, run},
};

const struct gpusim_kernel_table gpusim_kernels = {GPUSIM_KERNEL_ABI,
						   sizeof kernels / sizeof kernels[0], kernels};
