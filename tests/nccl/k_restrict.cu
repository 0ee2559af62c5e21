/* Kernels whose parameters are restricted pointers, in all spellings: plain, forward declared, templates, packs, members. */
#include "cu.h"

__global__ void plain(float *__restrict__ a, const float *__restrict b);
__global__ void declared_without(float *a);
extern "C" __global__ void in_c(float *const __restrict__ a);
template <class T, int N> __global__ void forward(T *__restrict__ a, T v);

__global__ void
plain(float *__restrict__ a, const float *__restrict b)
{
	*a += *b;
}

__global__ void
declared_without(float *__restrict__ a)
{
	*a += 10;
}

extern "C" __global__ void
in_c(float *const __restrict__ a)
{
	*a += 100;
}

template <class T, int N>
__global__ void
forward(T *__restrict__ a, T v)
{
	*a += v * N;
}

template <class T>
__global__ __launch_bounds__(32) void
both(const T *__restrict__ const in, T *__restrict__)
{
	const_cast<T &>(*in) += 10000;
}

template <class... T>
__global__ void
pack(float *__restrict__ a, T *__restrict__... more)
{
	*a += (0 + ... + *more);
}

template <class T> using handle = T *__restrict__;

__global__ void
alias(handle<float> a, float *__restrict__ unused[])
{
	(void)unused;
	*a += 0.5f;
}

int
main()
{
	float *x;
	void (*pointer)(float *) = declared_without;

	CU(cudaMallocManaged(&x, 2 * sizeof *x));
	x[0] = 0;
	x[1] = 1;
	plain<<<1, 1>>>(x, x + 1);
	pointer<<<1, 1>>>(x);
	in_c<<<1, 1>>>(x);
	forward<float, 1000><<<1, 1>>>(x, 1.f);
	both<<<1, 1>>>(x, x + 1);
	pack<<<1, 1>>>(x, x + 1, x + 1);
	alias<<<1, 1>>>(x, nullptr);
	CU(cudaDeviceSynchronize());
	CHECK(x[0] == 11113.5f);
	puts("unaliased");
}
