/* Kernels that run as loops over a block's threads, and loops of kernels in rounds, give what single threads give. */
#include <climits>
#include <cstring>
#include <vector>

#include "cu.h"

struct point {
	float x, y;

	__device__ point operator+(point o) const { return {x + o.x, y + o.y}; }
};

__global__ void
own_parameters(int *p, int n, point at)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	n += i; /* each thread's own */
	p += i;
	at = at + point{1, 2};
	if (i % 3 == 0)
		return;
	*p = n + (int)(at.x + at.y);
}

__global__ void
in_three(unsigned *p)
{
	unsigned n = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
	unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;

	p[b * blockDim.x * blockDim.y * blockDim.z + n] = b * 1000 + n;
}

template <typename T, typename F>
__global__ void
apply(T *p, int n, F f)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
		p[i] = f(p[i], i);
}

/* Numbers that a thread keeps from step to step; the rest of the kernel has barriers. */
__global__ void
sums(const float *x, float *out, int *odd, int n)
{
	__shared__ float part[1024];
	unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
	unsigned all = blockDim.x * blockDim.y * blockDim.z;
	float sum = 0, last = -1;
	int count = 0;

	for (unsigned i = blockIdx.x * all + t; i < n; i += all * gridDim.x) {
		if (i % 5 == 4)
			continue;
		sum += x[i];
		last = x[i];
		count++;
	}
	part[t] = sum;
	__syncthreads();
	for (unsigned d = 1; d < all; d *= 2) {
		if (t % (2 * d) == 0 && t + d < all)
			part[t] += part[t + d];
		__syncthreads();
	}
	if (t == 0)
		out[blockIdx.x] = part[0];
	if (last >= 0)
		atomicAdd(odd, count);
}

/* The variable wraps: a thread ends there. */
__global__ void
wraps(int *steps)
{
	for (int i = INT_MAX - 2000 + threadIdx.x * 64; i > 0; i += 64 * blockDim.x)
		atomicAdd(&steps[threadIdx.x], 1);
}

__global__ void
bytes(unsigned char *p)
{
	for (unsigned char i = threadIdx.x; i < 250; i += 50)
		p[i] = i + 1;
}

__global__ void
by_while(long *p, long n)
{
	long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
	const long step = (long)blockDim.x * gridDim.x;
	long seen = 0;

	while (i < n) {
		seen += p[i];
		p[i] = seen;
		i += step;
	}
	if (i >= n + step)
		p[0] = -1;
}

/* A loop whose bound is not the same for all threads. */
__global__ void
own_bound(int *p, int n)
{
	int row = threadIdx.x / 8, end = n - row * 10;

	for (int i = threadIdx.x; i < end; i += blockDim.x)
		p[row * n + i] = i;
}

__global__ void
faults(int *p, int n, int bad)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
		int *q = i == bad ? (int *)16 : p + i;

		*q = i;
	}
}

static void
check_sums(dim3 block, int grid, int n)
{
	int all = block.x * block.y * block.z, *odd;
	float *x, *out;

	CU(cudaMallocManaged(&x, (n + 1) * sizeof *x));
	CU(cudaMallocManaged(&out, grid * sizeof *out));
	CU(cudaMallocManaged(&odd, sizeof *odd));
	*odd = 0;
	for (int i = 0; i < n; i++)
		x[i] = i % 11 * 0.25f;
	sums<<<grid, block>>>(x, out, odd, n);
	CU(cudaDeviceSynchronize());
	int count = 0;
	for (int b = 0; b < grid; b++) {
		std::vector<float> part(all);

		for (int t = 0; t < all; t++)
			for (int i = b * all + t; i < n; i += all * grid)
				if (i % 5 != 4) {
					part[t] += x[i];
					count++;
				}
		for (int d = 1; d < all; d *= 2)
			for (int t = 0; t + d < all; t += 2 * d)
				part[t] += part[t + d];
		CHECK(out[b] == part[0]);
	}
	CHECK(*odd == count);
	CU(cudaFree(x));
	CU(cudaFree(out));
	CU(cudaFree(odd));
}

int
main(int argc, char **argv)
{
	int *p;
	unsigned *u;
	long *l;

	if (argc > 1) { /* a fault in a loop has a thread */
		CU(cudaMallocManaged(&p, 100000 * sizeof *p));
		faults<<<4, 64>>>(p, 100000, 70000);
		puts(cudaGetErrorName(cudaDeviceSynchronize()));
		return 0;
	}
	CU(cudaMallocManaged(&p, 1 << 20));
	CU(cudaMallocManaged(&u, 1 << 20));
	CU(cudaMallocManaged(&l, 1 << 20));
	memset(p, 0, 1 << 20);
	own_parameters<<<7, 33>>>(p, 100, point{1, 2});
	CU(cudaDeviceSynchronize());
	for (int i = 0; i < 7 * 33; i++)
		CHECK(p[i] == (i % 3 == 0 ? 0 : 100 + i + 6));
	in_three<<<dim3(2, 3, 4), dim3(5, 6, 7)>>>(u);
	CU(cudaDeviceSynchronize());
	for (unsigned b = 0; b < 24; b++)
		for (unsigned n = 0; n < 210; n++)
			CHECK(u[b * 210 + n] == b * 1000 + n);
	for (int n : {0, 1, 63, 64, 65, 1000, 4096, 65537})
		for (int grid : {1, 3, 8}) {
			for (int i = 0; i < n; i++)
				p[i] = i;
			apply<<<grid, 64>>>(p, n, [] __device__(int v, int i) { return 3 * v + i; });
			CU(cudaDeviceSynchronize());
			for (int i = 0; i < n; i++)
				CHECK(p[i] == 4 * i);
			check_sums(dim3(64), grid, n);
			check_sums(dim3(8, 4, 2), grid, n);
			check_sums(dim3(100), grid, n);
		}
	memset(p, 0, 256);
	wraps<<<1, 3>>>(p);
	CU(cudaDeviceSynchronize());
	for (int t = 0; t < 3; t++) {
		int steps = 0;

		for (long i = (long)INT_MAX - 2000 + t * 64; i <= INT_MAX; i += 192)
			steps++;
		CHECK(p[t] == steps);
	}
	unsigned char *c;
	CU(cudaMallocManaged(&c, 256));
	memset(c, 0, 256);
	bytes<<<1, 50>>>(c);
	CU(cudaDeviceSynchronize());
	for (int i = 0; i < 256; i++)
		CHECK(c[i] == (i < 250 ? i + 1 : 0));
	for (long n : {5L, 256L, 1000L, 9999L}) {
		for (long i = 0; i < n; i++)
			l[i] = i % 7;
		by_while<<<2, 128>>>(l, n);
		CU(cudaDeviceSynchronize());
		for (long t = 0; t < 256; t++) {
			long seen = 0;

			for (long i = t; i < n; i += 256) {
				seen += i % 7;
				CHECK(l[i] == seen);
			}
		}
	}
	memset(p, 0xff, 1 << 20);
	own_bound<<<1, 64>>>(p, 300);
	CU(cudaDeviceSynchronize());
	for (int row = 0; row < 8; row++)
		for (int i = 0; i < 300; i++)
			CHECK(p[row * 300 + i] == (i % 64 / 8 == row && i < 300 - row * 10 ? i : -1));
	puts("as threads");
	return 0;
}
