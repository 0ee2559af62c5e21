/*
 * k_stuck RANK - all ranks call an all-reduce; this rank's stream has a kernel before it that never ends. Then the program
 * waits until its standard input ends.
 */
#include <nccl.h>
#include <unistd.h>

#include "cu.h"

#define N (1 << 20)

__global__ void
spin_for_good(volatile int *p)
{
	while (!*p)
		;
}

int
main(int argc, char **argv)
{
	ncclComm_t comm[8];
	int n = 0;
	char c;

	CHECK(argc == 2);
	CU(cudaGetDeviceCount(&n));
	CHECK(n <= 8 && ncclCommInitAll(comm, n, NULL) == ncclSuccess);
	for (int r = 0; r < n; r++) {
		cudaStream_t s;
		int *never;
		float *data;

		CU(cudaSetDevice(r));
		CU(cudaStreamCreate(&s));
		CU(cudaMalloc((void **)&never, sizeof *never));
		CU(cudaMemset(never, 0, sizeof *never));
		CU(cudaMalloc((void **)&data, N * sizeof *data));
		if (r == argv[1][0] - '0')
			spin_for_good<<<1, 1, 0, s>>>(never);
		CHECK(ncclAllReduce(data, data, N, ncclFloat, ncclSum, comm[r], s) == ncclSuccess);
	}
	printf("ready\n");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	_exit(0);
}
