/* cuda::atomic, cuda::barrier and cuda::pipeline of libcu++, if it is installed, in one block. */
#if __has_include(<cuda/atomic>)
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <new>

#include "cu.h"

#define N 64

__global__ void
barrier(int *out)
{
	__shared__ cuda::barrier<cuda::thread_scope_block> bar;
	__shared__ int sum[N];
	int i = threadIdx.x;

	if (i == 0)
		init(&bar, N);
	__syncthreads();
	for (int round = 0; round < 3; round++) {
		cuda::barrier<cuda::thread_scope_block>::arrival_token token;

		sum[i] = i + round;
		token = bar.arrive();
		bar.wait(std::move(token));
		out[round * N + i] = sum[(i + 1) % N];
		bar.arrive_and_wait();
	}
}

__global__ void
copies(const int *in, int *out)
{
	__shared__ alignas(16) int stage[N];
	cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();

	pipe.producer_acquire();
	cuda::memcpy_async(&stage[threadIdx.x], &in[threadIdx.x], cuda::aligned_size_t<4>(sizeof(int)), pipe);
	pipe.producer_commit();
	pipe.consumer_wait();
	__syncthreads();
	out[threadIdx.x] = stage[N - 1 - threadIdx.x];
	pipe.consumer_release();
}

__global__ void
count(cuda::atomic<int, cuda::thread_scope_device> *n, int *turns)
{
	n->fetch_add(2, cuda::memory_order_relaxed);
	/* In turn: each waits for the one before it. */
	while (cuda::atomic_ref<int, cuda::thread_scope_block>(*turns).load() != (int)threadIdx.x)
		__nanosleep(10);
	cuda::atomic_ref<int, cuda::thread_scope_block>(*turns).fetch_add(1);
}

int
main()
{
	int *out, *in, *turns;
	cuda::atomic<int, cuda::thread_scope_device> *n;

	CU(cudaMallocManaged(&out, 3 * N * sizeof *out));
	CU(cudaMallocManaged(&in, N * sizeof *in));
	CU(cudaMallocManaged(&turns, sizeof *turns));
	CU(cudaMallocManaged(&n, sizeof *n));
	barrier<<<1, N>>>(out);
	CU(cudaDeviceSynchronize());
	for (int i = 0; i < 3 * N; i++)
		CHECK(out[i] == (i + 1) % N + i / N);
	for (int i = 0; i < N; i++)
		in[i] = i * i;
	copies<<<1, N>>>(in, out);
	CU(cudaDeviceSynchronize());
	for (int i = 0; i < N; i++)
		CHECK(out[i] == (N - 1 - i) * (N - 1 - i));
	new (n) cuda::atomic<int, cuda::thread_scope_device>(5);
	*turns = 0;
	count<<<1, N>>>(n, turns);
	CU(cudaDeviceSynchronize());
	CHECK(n->load() == 5 + 2 * N && *turns == N);
	puts("waited");
}

#else
#include <stdio.h>
int
main()
{
	puts("no libcu++-dev");
}
#endif
