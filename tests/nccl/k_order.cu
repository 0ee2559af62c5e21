/* Kernels in order with copies, memsets and each other; every form of a launch; templates, lambdas,
 * function pointers. */
#include <string.h>

#include "cu.h"

#define N 5000

template <typename T, int step = 1>
__global__ void __launch_bounds__(256)
add(T *p, int n, T a = 1)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		p[i] += a * step;
}

template <>
__global__ void
add<char, 7>(char *p, int, char)
{
	p[0] = 77;
}

template <class F>
__global__ void
each(F f, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		f(i);
}

namespace
{
struct big {
	double v[100];
	short s;
};

template <typename... T>
__global__ void
pack(double *out, big b, T... t)
{
	*out = b.v[99] + b.s + (0 + ... + t);
}
} // namespace

__global__ void
index(unsigned *out)
{
	unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
	unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;

	out[b * blockDim.x * blockDim.y * blockDim.z + t] = b * 1000 + t;
}

__global__ void
divide(int *out, int a, int b, unsigned c)
{
	out[0] = a / b;
	out[1] = a % b;
	out[2] = (int)((unsigned)a / c);
}

#define LAUNCH(kernel, ...) kernel<<<(N + 255) / 256, 256, 0, s>>>(__VA_ARGS__)

static int h[N];

static void
check(const int *p, int want)
{
	CU(cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		CHECK(h[i] == want);
}

int
main(void)
{
	int *p, n = N, a = 5, bits;
	unsigned *q, *u = (unsigned *)h;
	double *d, sum;
	big b = {};
	cudaStream_t s;
	void *args[] = {&p, &n, &a};
	void (*f)(int *, int, int) = add<int>;
	const void *lost = (const void *)&add<int, 3>;
	cudaFuncAttributes attr;

	CU(cudaMalloc(&p, N * sizeof *p));
	CU(cudaMalloc(&q, N * sizeof *q));
	CU(cudaMalloc(&d, 8));
	CU(cudaStreamCreate(&s));
	CU(cudaMemsetAsync(p, 0, N * sizeof *p, s));
	LAUNCH(add, p, N, 2);
	LAUNCH((add<int, 10>), p, N, 1);
	f<<<3, 64, 0, s>>>(p, N, 1);
	CU(cudaLaunchKernel(lost, dim3(2), dim3(128), args, 0, s));
	check(p, 2 + 10 + 1 + 15);
	for (int i = 0; i < 1000; i++)
		add<<<1, 32, 0, s>>>(p, 32, 1);
	CU(cudaMemcpyAsync(h, p, sizeof h, cudaMemcpyDeviceToHost, s));
	CU(cudaStreamSynchronize(s));
	CHECK(h[0] == 1028 && h[31] == 1028 && h[32] == 28);

	bits = 3;
	each<<<N / 100, 100>>>([=] __device__(int i) { p[i] = i << bits; }, N);
	CU(cudaGetLastError());
	CU(cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		CHECK(h[i] == i << 3);

	b.v[99] = 0.5;
	b.s = 3;
	pack<<<1, 1>>>(d, b, (char)1, 2.25f, 4ll);
	CU(cudaMemcpy(&sum, d, 8, cudaMemcpyDefault));
	CHECK(sum == 0.5 + 3 + 1 + 2.25 + 4);
	(a ? pack<<<1, 1>>>(d, b) : pack<<<1, 1>>>(d, b, 1));
	CU(cudaMemcpy(&sum, d, 8, cudaMemcpyDefault));
	CHECK(sum == 3.5);

	index<<<dim3(2, 3, 4), dim3(5, 6, 2)>>>(q);
	CU(cudaMemcpy(u, q, 24 * 60 * 4, cudaMemcpyDefault));
	for (unsigned i = 0; i < 24 * 60; i++)
		CHECK(u[i] == i / 60 * 1000 + i % 60);

	add<char, 7><<<1, 1>>>((char *)p, 1, 1);
	divide<<<1, 1>>>(p + 1, 13, 0, 0);
	CU(cudaMemcpy(h, p, 16, cudaMemcpyDefault));
	CHECK(*(char *)h == 77);
#ifdef __x86_64__
	CHECK(h[1] == -1 && h[2] == 13 && h[3] == -1);
#endif

	/* Invalid launches. */
	add<<<0, 1>>>(p, 1, 1);
	CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
	add<<<1, 1025>>>(p, 1, 1);
	CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
	add<<<1, 1, 100 << 10>>>(p, 1, 1);
	CHECK(cudaGetLastError() == cudaErrorInvalidValue);
	CU(cudaFuncSetAttribute(add<int>, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
	add<<<1, 1, 100 << 10>>>(p, 1, 1);
	CU(cudaGetLastError());
	CHECK(cudaLaunchKernel((void *)main, dim3(1), dim3(1), args, 0, s) ==
	      cudaErrorInvalidDeviceFunction);
	cudaGetLastError();
	CU(cudaFuncGetAttributes(&attr, add<int>));
	CHECK(attr.maxThreadsPerBlock == 1024 && attr.maxDynamicSharedSizeBytes == 100 << 10);
	CU(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, add<int>, 256, 0));
	CHECK(n == 4);
	CU(cudaDeviceSynchronize());
	puts("in order");
	return 0;
}
