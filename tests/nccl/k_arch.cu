/* Code that asks for __CUDA_ARCH__: kernels and functions of a device alone have it, the program and what both run do not. */
#include "cu.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define WIDTH 2
#else
#define WIDTH 1
#endif

__host__ __device__ int
side()
{
#ifdef __CUDA_ARCH__
	return 100;
#else
	return 1;
#endif
}

#if __CUDA_ARCH__ >= 700
__device__ int
newer(int x)
{
	return x * 2;
}
#endif

#ifndef __CUDA_ARCH__
static int
only_host()
{
	return 5;
}
#endif

#if __CUDA_ARCH__ >= 800
__device__ int
branch()
{
	return 8;
}
#else
__device__ int
branch()
{
	return 0;
}
#endif

__device__ int
own()
{
#if !defined(__CUDA_ARCH__)
	return -1;
#elif __CUDA_ARCH__ < 700
	return -2;
#else
	int x = 20;

	return x + WIDTH;
#endif
}

__global__ void
whole(int *out)
{
#if __CUDA_ARCH__ >= 700
	out[0] = newer(21);
	out[1] = own();
	out[2] = side();
	out[3] = WIDTH;
#endif
	out[4] = 1000 * branch() + __LINE__;
#if __CUDA_ARCH__ < 600
	out[5] = 1;
#endif
}

// clang-format off
__global__ void line(int *out) { out[0] = WIDTH; }
__global__ void
brace(int *out)
{ out[1] = WIDTH; }
// clang-format on

int
main()
{
	int *out;

	CU(cudaMallocManaged(&out, 6 * sizeof *out));
	for (int i = 0; i < 6; i++)
		out[i] = 0;
	whole<<<1, 1>>>(out);
	CU(cudaDeviceSynchronize());
	CHECK(out[0] == 42 && out[1] == 22 && out[3] == 2 && out[4] == 8073 && out[5] == 0);
	CHECK(out[2] == 1); /* one function for both sides */
	line<<<1, 1>>>(out);
	brace<<<1, 1>>>(out);
	CU(cudaDeviceSynchronize());
	CHECK(out[0] == 2 && out[1] == 2);
	CHECK(side() == 1 && WIDTH == 1 && only_host() == 5);
	puts("for a device");
}
