/*
 * kernels SCALE - kernels beside the same loop in C (kernels_loops.c), each the best of five, on data that both have
 * touched before. Prints "NAME KERNEL_US LOOP_US" lines, after it has compared the results. SCALE divides the sizes.
 */
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "kernels_loops.h"

__global__ void
add(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		c[i] = a[i] + b[i];
}

__global__ void
add_strided(const float *a, const float *b, float *c, int n)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
		c[i] = a[i] + b[i];
}

__global__ void
sum_shared(const float *a, float *out, int n)
{
	__shared__ float part[256];
	float sum = 0;

	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
		sum += a[i];
	part[threadIdx.x] = sum;
	__syncthreads();
	for (int d = blockDim.x / 2; d > 0; d /= 2) {
		if (threadIdx.x < d)
			part[threadIdx.x] += part[threadIdx.x + d];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		atomicAdd(out, part[0]);
}

__global__ void
sum_shuffled(const float *a, float *out, int n)
{
	float sum = 0;

	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
		sum += a[i];
	for (int d = 16; d > 0; d /= 2)
		sum += __shfl_down_sync(0xffffffff, sum, d);
	if (threadIdx.x % 32 == 0)
		atomicAdd(out, sum);
}

#define TILE 16

__global__ void
matmul(const float *a, const float *b, float *c, int n)
{
	__shared__ float ta[TILE][TILE], tb[TILE][TILE];
	int x = threadIdx.x, y = threadIdx.y;
	int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
	float sum = 0;

	for (int t = 0; t < n; t += TILE) {
		ta[y][x] = a[row * n + t + x];
		tb[y][x] = b[(t + y) * n + col];
		__syncthreads();
		for (int k = 0; k < TILE; k++)
			sum += ta[y][k] * tb[k][x];
		__syncthreads();
	}
	c[row * n + col] = sum;
}

/* A thread for each row. */
__global__ void
layernorm(float *out, const float *in, const float *weight, const float *bias, int rows, int width)
{
	int row = blockIdx.x * blockDim.x + threadIdx.x;

	if (row < rows)
		loop_layernorm_row(out + row * width, in + row * width, weight, bias, width);
}

__global__ void
softmax(float *out, const float *in, int rows, int width)
{
	int row = blockIdx.x * blockDim.x + threadIdx.x;

	if (row < rows)
		loop_softmax_row(out + row * width, in + row * width, width);
}

__global__ void
empty()
{
}

static void
cu(cudaError_t e)
{
	if (e != cudaSuccess) {
		fprintf(stderr, "kernels: %s\n", cudaGetErrorString(e));
		exit(1);
	}
}

static double
best(const std::function<void()> &f)
{
	double least = INFINITY;

	f();
	for (int i = 0; i < 5; i++) {
		auto begin = std::chrono::steady_clock::now();

		f();
		least = std::fmin(least, std::chrono::duration<double, std::micro>(
					     std::chrono::steady_clock::now() - begin)
					     .count());
	}
	return least;
}

struct arrays {
	float *device[4];
	std::vector<float> host[4];
	size_t n;
};

/* result: how many floats of array 2 both must have; 0: none. */
static void
row(arrays &v, const char *name, size_t result, float tolerance, const std::function<void()> &kernel,
    const std::function<void()> &loop)
{
	std::vector<float> got(v.n);

	cu(cudaMemset(v.device[2], 0, v.n * sizeof(float)));
	kernel();
	loop();
	cu(cudaMemcpy(got.data(), v.device[2], v.n * sizeof(float), cudaMemcpyDefault));
	for (size_t i = 0; i < result; i++)
		if (!(std::fabs(got[i] - v.host[2][i]) <= tolerance * std::fabs(v.host[2][i]))) {
			fprintf(stderr, "kernels: %s: [%zu] is %g, not %g\n", name, i, got[i], v.host[2][i]);
			exit(1);
		}
	double a = best([&] {
		kernel();
		cu(cudaDeviceSynchronize());
	});

	printf("%s %.1f %.1f\n", name, a, best(loop));
}

int
main(int argc, char **argv)
{
	int scale = argc > 1 ? atoi(argv[1]) : 1, n = (4 << 20) / scale, rows = 4096 / scale, width = 768;
	int side = scale > 1 ? 64 : 256, grid = 256;
	arrays v;

	v.n = n;
	for (int k = 0; k < 4; k++) {
		v.host[k].resize(n);
		for (int i = 0; i < n; i++)
			v.host[k][i] = (i * (k + 3) % 17 - 8) * 0.125f;
		cu(cudaMalloc(&v.device[k], n * sizeof(float)));
		cu(cudaMemcpy(v.device[k], v.host[k].data(), n * sizeof(float), cudaMemcpyDefault));
	}
	float **d = v.device, *a = v.host[0].data(), *b = v.host[1].data(), *c = v.host[2].data();
	auto add_loop = [&] { loop_add(a, b, c, n); };
	auto sum_loop = [&] { c[0] = loop_sum(a, n); };

	row(v, "add", n, 0, [&] { add<<<n / 256, 256>>>(d[0], d[1], d[2], n); }, add_loop);
	row(v, "add_strided", n, 0, [&] { add_strided<<<grid, 256>>>(d[0], d[1], d[2], n); }, add_loop);
	auto sum = [&](void (*k)(const float *, float *, int)) {
		cu(cudaMemsetAsync(d[2], 0, sizeof(float)));
		k<<<grid, 256>>>(d[0], d[2], n);
	};
	row(v, "sum_shared", 1, 1e-3f, [&] { sum(sum_shared); }, sum_loop);
	row(v, "sum_shuffled", 1, 1e-3f, [&] { sum(sum_shuffled); }, sum_loop);
	row(v, "matmul", side * side, 1e-4f,
	    [&] { matmul<<<dim3(side / TILE, side / TILE), dim3(TILE, TILE)>>>(d[0], d[1], d[2], side); },
	    [&] { loop_matmul(a, b, c, side); });
	row(v, "layernorm", rows * width, 0,
	    [&] { layernorm<<<(rows + 255) / 256, 256>>>(d[2], d[0], d[1], d[3], rows, width); },
	    [&] { loop_layernorm(c, a, b, v.host[3].data(), rows, width); });
	row(v, "softmax", rows * width, 0, [&] { softmax<<<(rows + 255) / 256, 256>>>(d[2], d[0], rows, width); },
	    [&] { loop_softmax(c, a, rows, width); });
	row(v, "empty", 0, 0, [] { empty<<<1, 32>>>(); }, [] {});
}
