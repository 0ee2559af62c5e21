/*
 * k_grid [stuck] - blocks of a grid that wait for each other: by a cooperative launch's barrier, and by a
 * count that each of them reads until all have come. stuck: more blocks than can run at once.
 */
#include <cooperative_groups.h>
#include <cstring>

#include "cu.h"

namespace cg = cooperative_groups;

__device__ int come;

__global__ void
together(int *v, int n, int *bad)
{
	__shared__ int own;
	cg::grid_group g = cg::this_grid();
	int i = g.thread_rank();

	for (int r = 0; r < 5; r++) {
		if (threadIdx.x == 0)
			own = r + blockIdx.x;
		v[i] = r * 100000 + i;
		g.sync();
		if (v[(i + 97) % n] != r * 100000 + (i + 97) % n || own != r + blockIdx.x)
			atomicAdd(bad, 1);
		g.sync();
	}
}

/* A thread that leaves early is not waited for. */
__global__ void
leaving(int *bad)
{
	if (blockIdx.x == 1)
		return;
	cg::this_grid().sync();
	atomicAdd(bad, 1);
}

__global__ void
faulty(int *p)
{
	if (blockIdx.x == 2)
		*(volatile int *)8 = 1;
	cg::this_grid().sync();
	*p = 1;
}

__global__ void
by_hand(int *out)
{
	__shared__ int first;

	__syncthreads();
	if (threadIdx.x == 0) {
		first = atomicAdd(&come, 1);
		while (*(volatile int *)&come < (int)gridDim.x)
			;
	}
	__syncthreads();
	out[blockIdx.x * blockDim.x + threadIdx.x] = first >= 0;
}

int
main(int argc, char **argv)
{
	int *v, *bad, blocks = 0, sms = 0, zero = 0, yes = 0;

	CU(cudaMallocManaged(&v, 1 << 20));
	CU(cudaMallocManaged(&bad, sizeof *bad));
	CU(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
	if (argc > 1) {
		/* So few run at once that a busy machine starts them all. */
		const size_t shared = 40 << 10;

		CU(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, by_hand, 32, shared));
		printf("%d\n", blocks * sms);
		by_hand<<<blocks * sms + 1, 32, shared>>>(v);
		puts(cudaGetErrorName(cudaDeviceSynchronize()));
		return 0;
	}
	CU(cudaDeviceGetAttribute(&yes, cudaDevAttrCooperativeLaunch, 0));
	CU(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, together, 256, 0));
	CHECK(yes == 1 && blocks * sms >= 8);
	for (int grid : {1, 2, 7, blocks * sms}) {
		int n = grid * 256;
		void *args[] = {&v, &n, &bad};

		*bad = 0;
		CU(cudaLaunchCooperativeKernel((void *)together, grid, 256, args, 0, 0));
		CU(cudaDeviceSynchronize());
		CHECK(*bad == 0);
	}
	int n = 256 * (blocks * sms + 1);
	void *args[] = {&v, &n, &bad}, *one[] = {&bad};
	CHECK(cudaLaunchCooperativeKernel((void *)together, blocks * sms + 1, 256, args, 0, 0) ==
	      cudaErrorCooperativeLaunchTooLarge);
	cudaGetLastError();
	*bad = 0;
	CU(cudaLaunchCooperativeKernel((void *)leaving, 4, 32, one, 0, 0));
	CU(cudaDeviceSynchronize());
	CHECK(*bad == 96);

	memset(v, 0, 1 << 20);
	by_hand<<<40, 64>>>(v);
	CU(cudaDeviceSynchronize());
	for (int i = 0; i < 40 * 64; i++)
		CHECK(v[i] == 1);
	CU(cudaMemcpyToSymbol(come, &zero, sizeof zero));

	/* A barrier of the grid in an ordinary launch, and a block that fails while others wait for it. */
	together<<<2, 32>>>(v, 64, bad);
	CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
	CU(cudaDeviceReset());
	CU(cudaMallocManaged(&v, 64));
	void *p[] = {&v};
	CU(cudaLaunchCooperativeKernel((void *)faulty, 4, 32, p, 0, 0));
	CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
	puts("all blocks");
	return 0;
}
