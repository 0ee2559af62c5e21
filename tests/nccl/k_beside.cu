/*
 * A collective begins after the kernels that were launched before it, in other streams too, as their blocks do on a
 * GPU; kernels behind another collective do not hold it up for ever.
 */
#include <nccl.h>

#include "cu.h"

#define DEVICES 2
#define N	4096

__global__ void
slow(float *p, float v)
{
	volatile float x = 0;

	for (int i = 0; i < 20000000; i++)
		x = x + 1;
	for (int i = 0; i < N; i++)
		p[i] = v;
}

#define NC(call) CHECK((call) == ncclSuccess)

int
main()
{
	ncclComm_t comm[DEVICES];
	cudaStream_t a[DEVICES], b[DEVICES];
	float *p[DEVICES], *q[DEVICES], host[N];

	NC(ncclCommInitAll(comm, DEVICES, NULL));
	for (int i = 0; i < DEVICES; i++) {
		CU(cudaSetDevice(i));
		CU(cudaStreamCreate(&a[i]));
		CU(cudaStreamCreate(&b[i]));
		CU(cudaMalloc(&p[i], sizeof host));
		CU(cudaMalloc(&q[i], sizeof host));
		CU(cudaMemset(p[i], 0, sizeof host));
	}
	for (int i = 0; i < DEVICES; i++) {
		CU(cudaSetDevice(i));
		slow<<<1, 1, 0, a[i]>>>(p[i], 0);
		slow<<<1, 1, 0, a[i]>>>(p[i], 1 + i);
	}
	NC(ncclGroupStart());
	for (int i = 0; i < DEVICES; i++)
		NC(ncclAllReduce(p[i], q[i], N, ncclFloat, ncclSum, comm[i], b[i]));
	NC(ncclGroupEnd());
	for (int i = 0; i < DEVICES; i++) {
		CU(cudaSetDevice(i));
		CU(cudaStreamSynchronize(b[i]));
		CU(cudaMemcpy(host, q[i], sizeof host, cudaMemcpyDeviceToHost));
		CHECK(host[0] == 3 && host[N - 1] == 3);
	}
	/* A kernel behind a broadcast, and a collective of the other stream behind both. */
	for (int root = 0; root < DEVICES; root++) {
		NC(ncclGroupStart());
		for (int i = 0; i < DEVICES; i++)
			NC(ncclBroadcast(q[i], q[i], N, ncclFloat, root, comm[i], a[i]));
		NC(ncclGroupEnd());
		for (int i = 0; i < DEVICES; i++) {
			CU(cudaSetDevice(i));
			slow<<<1, 1, 0, a[i]>>>(p[i], 7);
		}
		NC(ncclGroupStart());
		for (int i = 0; i < DEVICES; i++)
			NC(ncclAllReduce(q[i], q[i], N, ncclFloat, ncclMax, comm[i], b[i]));
		NC(ncclGroupEnd());
	}
	for (int i = 0; i < DEVICES; i++) {
		CU(cudaSetDevice(i));
		CU(cudaDeviceSynchronize());
	}
	puts("all is well");
	return 0;
}
