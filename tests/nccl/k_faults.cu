/*
 * Kernels that fail: k_faults null|low|host|overflow|stuck|assert|trap|stack|killed. Each ends with
 * CUDA's error and a message; nothing hangs, and later calls on the device fail.
 */
#include <assert.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cu.h"

__global__ void
touch(int *p)
{
	p[threadIdx.x] = 1;
}

__global__ void
overflow(int *p)
{
	extern __shared__ int s[];

	s[4096] = 1;
	p[0] = s[0];
}

__global__ void
stuck()
{
	if (threadIdx.x % 2)
		__syncthreads();
	else
		__syncwarp();
}

__global__ void
asserts(int n)
{
	assert(threadIdx.x < n);
}

__global__ void
traps()
{
	__trap();
}

__global__ void
deep(volatile int *p, int n)
{
	volatile char big[64 << 10];

	big[n] = 1;
	p[0] = big[n];
	if (n) {
		void (*again)(volatile int *, int) = deep;
		again(p, n - 1);
	}
}

__global__ void
dies()
{
	raise(SIGKILL);
}

__global__ void
fine(int *p)
{
	*p = 1;
}

static const struct {
	const char *name;
	cudaError_t e;
} ways[] = {
    {"null", cudaErrorIllegalAddress}, {"low", cudaErrorIllegalAddress},	{"host", cudaErrorIllegalAddress},
    {"overflow", cudaErrorIllegalAddress}, {"stuck", cudaErrorLaunchFailure},
    {"assert", cudaErrorAssert},	{"trap", cudaErrorLaunchFailure},
    {"stack", cudaErrorIllegalAddress}, {"killed", cudaErrorLaunchFailure},
};

int
main(int argc, char **argv)
{
	int *p, way = 0, h = 0;
	cudaError_t e;

	CHECK(argc == 2);
	while (strcmp(ways[way].name, argv[1]))
		way++;
	CU(cudaMalloc(&p, 4096));
	fine<<<1, 1>>>(p);
	CU(cudaDeviceSynchronize());
	switch (way) {
	case 0:
		touch<<<1, 8>>>(nullptr);
		break;
	case 1:
		touch<<<1, 8>>>((int *)16);
		break;
	case 2:
		touch<<<1, 1>>>(&h);
		break;
	case 3:
		overflow<<<1, 1, 4096>>>(p);
		break;
	case 4:
		stuck<<<1, 8>>>();
		break;
	case 5:
		asserts<<<2, 8>>>(5);
		break;
	case 6:
		traps<<<1, 1>>>();
		break;
	case 7:
		deep<<<1, 1>>>(p, 20);
		break;
	default:
		dies<<<1, 1>>>();
	}
	for (int i = 0; i < 600; i++)
		fine<<<1, 1>>>(p);
	e = cudaDeviceSynchronize();
	if (e != ways[way].e) {
		fprintf(stderr, "%s, not %s\n", cudaGetErrorName(e), cudaGetErrorName(ways[way].e));
		return 1;
	}
	CHECK(cudaMemcpy(&h, p, 4, cudaMemcpyDeviceToHost) != cudaSuccess);
	/* A reset is a new beginning. */
	CU(cudaDeviceReset());
	CU(cudaMalloc(&p, 4096));
	CU(cudaMemset(p, 0, 4096));
	fine<<<1, 1>>>(p);
	CU(cudaMemcpy(&h, p, 4, cudaMemcpyDeviceToHost));
	CHECK(h == 1);
	puts(cudaGetErrorName(e));
	return 0;
}
