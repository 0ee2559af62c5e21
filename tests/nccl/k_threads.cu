/* Threads of a block and a grid together: barriers, shared memory, warps, atomics, variables, PTX by name. */
#include <string.h>

#include "cu.h"

__device__ int counter = 5;
__device__ unsigned long long total;
__constant__ float coef[4] = {1, 2, 3, 4};
static __device__ int pairs[3][2] = {{1, 2}, {3, 4}, {5, 6}};

extern __shared__ int everywhere[];

template <typename T, int N>
__global__ void
reduce(T *out, const T *in)
{
	__shared__ T part[N];
	extern __shared__ __align__(16) unsigned char raw[];
	T *also = (T *)raw;

	part[threadIdx.x] = also[N - 1 - threadIdx.x] = in[blockIdx.x * N + threadIdx.x];
	__syncthreads();
	if (part[threadIdx.x] != also[N - 1 - threadIdx.x] || (void *)everywhere != (void *)raw)
		__trap();
#pragma unroll
	for (int d = N / 2; d > 0; d /= 2) {
		if (threadIdx.x < d)
			part[threadIdx.x] += part[threadIdx.x + d];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		out[blockIdx.x] = part[0];
}

__global__ void
warps(int *bad)
{
	const unsigned all = 0xffffffff;
	int lane = threadIdx.x % 32, v = lane;
	double w = lane;
	unsigned m;

	for (int d = 16; d; d /= 2) {
		v += __shfl_down_sync(all, v, d);
		w += __shfl_xor_sync(all, w, d);
	}
	if ((lane == 0 && v != 496) || w != 496)
		atomicAdd(bad, 1);
	if (__shfl_sync(all, lane, 5, 8) != (lane & ~7) + 5 ||
	    __shfl_up_sync(all, lane, 1) != (lane ? lane - 1 : 0))
		atomicAdd(bad, 1);
	if (__ballot_sync(all, lane % 3 == 0) != 0x49249249 || !__any_sync(all, lane == 7) ||
	    __all_sync(all, lane == 7) || __reduce_max_sync(all, -lane) != 0)
		atomicAdd(bad, 1);
	if (lane < 10) {
		m = __activemask();
		if (m != 0x3ff)
			atomicAdd(bad, 1);
		if (lane == __ffs(m) - 1)
			atomicAdd(&counter, __popc(m));
	}
	__syncwarp();
	if (__syncthreads_count(threadIdx.x < 40) != 40 || __syncthreads_or(threadIdx.x == 99) ||
	    !__syncthreads_and(threadIdx.x < 64))
		atomicAdd(bad, 1);
}

__global__ void
atomics(unsigned *u, float *f, int *i)
{
	atomicAdd(f, 0.5f);
	atomicMax(i, (int)threadIdx.x);
	atomicMin(i + 1, -(int)blockIdx.x);
	atomicInc(u, 9);
	atomicCAS(u + 1, threadIdx.x, threadIdx.x + 1);
	atomicOr(u + 2, 1u << threadIdx.x % 32);
	asm volatile("red.global.add.u64 [%0],%1;" ::"l"(&total), "l"(2ull) : "memory");
}

/* The last block sums up. */
__global__ void
last_block(int *parts, int *out)
{
	__shared__ bool last;

	if (threadIdx.x == 0) {
		parts[blockIdx.x] = blockIdx.x;
		__threadfence();
		last = atomicAdd(&counter, 1) == gridDim.x - 1;
	}
	__syncthreads();
	if (last)
		atomicAdd(out, parts[threadIdx.x]);
}

__global__ void
constants(float *out)
{
	out[threadIdx.x] = coef[threadIdx.x] + pairs[2][1];
}

int
main(void)
{
	int h[1024], *p, *r, c, zero[64] = {};
	float k[4] = {10, 20, 30, 40}, f[4], *q;
	unsigned *u;
	unsigned long long t;
	void *at;

	CU(cudaMalloc(&p, sizeof h));
	CU(cudaMallocManaged(&r, 64 * sizeof *r));
	CU(cudaMalloc(&q, 64));
	CU(cudaMallocHost(&u, 64));
	for (int i = 0; i < 1024; i++)
		h[i] = i;
	CU(cudaMemcpy(p, h, sizeof h, cudaMemcpyDefault));
	reduce<int, 256><<<4, 256, 1024>>>(r, p);
	CU(cudaDeviceSynchronize());
	for (int b = 0; b < 4; b++)
		CHECK(r[b] == 256 * 255 / 2 + 65536 * b);

	r[0] = 0;
	warps<<<1, 64>>>(r);
	CU(cudaDeviceSynchronize());
	CHECK(r[0] == 0);
	CU(cudaMemcpyFromSymbol(&c, counter, sizeof c));
	CHECK(c == 5 + 20);

	memset(u, 0, 64);
	CU(cudaMemset(q, 0, 64));
	r[0] = r[1] = 0;
	atomics<<<7, 100>>>(u, q, r);
	CU(cudaMemcpy(f, q, 4, cudaMemcpyDefault));
	CU(cudaMemcpyFromSymbol(&t, total, sizeof t));
	CHECK(f[0] == 350 && r[0] == 99 && r[1] == -6 && u[0] == 0 && u[1] == 100 &&
	      u[2] == 0xffffffff && t == 1400);

	c = 0;
	CU(cudaMemcpyToSymbol(counter, &c, sizeof c));
	r[0] = 0;
	last_block<<<64, 64>>>(p, r);
	CU(cudaDeviceSynchronize());
	CHECK(r[0] == 64 * 63 / 2);

	CU(cudaMemcpyToSymbol(coef, k, 2 * sizeof *k, 2 * sizeof *k));
	constants<<<1, 4>>>(q);
	CU(cudaMemcpy(f, q, sizeof f, cudaMemcpyDefault));
	CHECK(f[0] == 7 && f[1] == 8 && f[2] == 16 && f[3] == 26);
	CU(cudaGetSymbolAddress(&at, pairs));
	CU(cudaMemcpy(h, at, 24, cudaMemcpyDeviceToHost));
	CHECK(h[0] == 1 && h[5] == 6);
	CHECK(cudaMemcpyToSymbol(zero, &c, sizeof c) == cudaErrorInvalidSymbol);
	cudaGetLastError();

	/* A reset restores the variables' initial values. */
	CU(cudaDeviceReset());
	CU(cudaMemcpyFromSymbol(&c, counter, sizeof c));
	CHECK(c == 5);
	puts("together");
	return 0;
}
