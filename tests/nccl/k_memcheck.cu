/* Wrong uses of memory: k_memcheck WAY. Each is one finding of gpuctl run --nccl --memcheck; "clean" has none. */
#include <string.h>
#include <unistd.h>

#include "cu.h"
#include "nccl.h"

__global__ void
put(int *p, int at)
{
	p[at] = 1;
}

__global__ void
scale(float *p, int n)
{
	for (int i = 0; i < n; i++)
		p[i] = p[i] * 2 + 1;
}

static ncclComm_t
one_rank()
{
	ncclComm_t comm;
	int dev = 0;

	CHECK(ncclCommInitAll(&comm, 1, &dev) == ncclSuccess);
	return comm;
}

int
main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	ncclComm_t comm;
	float host[64] = {0}, *f, *g;
	int *p;

	CU(cudaMalloc(&f, 100));
	if (!strcmp(way, "reduce")) { /* llm.c: four numbers in an allocation of one */
		comm = one_rank();
		CU(cudaMemset(f, 0, 100));
		CU(cudaMalloc(&g, 4));
		CU(cudaMemset(g, 0, 4));
		CHECK(ncclAllReduce(f, g, 4, ncclFloat, ncclSum, comm, 0) == ncclSuccess);
		CU(cudaDeviceSynchronize());
		CU(cudaFree(g));
		CHECK(ncclCommDestroy(comm) == ncclSuccess);
	} else if (!strcmp(way, "sent")) {
		comm = one_rank();
		CU(cudaMalloc(&g, 100));
		CHECK(ncclAllReduce(f, g, 4, ncclFloat, ncclSum, comm, 0) == ncclSuccess);
		CU(cudaDeviceSynchronize());
		CU(cudaFree(g));
		CHECK(ncclCommDestroy(comm) == ncclSuccess);
	} else if (!strcmp(way, "copy")) {
		CU(cudaMemcpy(f, host, 104, cudaMemcpyHostToDevice));
	} else if (!strcmp(way, "memset")) {
		CU(cudaMemset(f + 1, 0, 100));
	} else if (!strcmp(way, "fresh")) {
		CU(cudaMemcpy(f, host, 50, cudaMemcpyHostToDevice));
		CU(cudaMemcpy(host, f, 100, cudaMemcpyDeviceToHost));
	} else if (!strcmp(way, "computed")) {
		CU(cudaMemset(f, 0, 40));
		scale<<<1, 1>>>(f, 25);
		CU(cudaMemcpy(host, f, 100, cudaMemcpyDeviceToHost));
	} else if (!strcmp(way, "kernel")) {
		put<<<1, 1>>>((int *)f, 26);
		CU(cudaDeviceSynchronize());
	} else if (!strcmp(way, "freed")) {
		CU(cudaMalloc(&p, 400));
		CU(cudaFree(p));
		cudaMemcpy(host, p, 4, cudaMemcpyDeviceToHost);
	} else if (!strcmp(way, "touched")) {
		CU(cudaMalloc(&p, 400));
		put<<<1, 1>>>(p, 0);
		CU(cudaFree(p));
		put<<<1, 1>>>(p, 3);
		cudaDeviceSynchronize();
		CU(cudaDeviceReset());
		CU(cudaMalloc(&f, 100));
	} else if (!strcmp(way, "twice")) {
		CU(cudaMalloc(&p, 400));
		CU(cudaFree(p));
		cudaFree(p);
	} else if (!strcmp(way, "inside")) {
		cudaFree(f + 1);
	} else if (!strcmp(way, "leak")) {
		for (int i = 0; i < 3; i++)
			CU(cudaMalloc(&p, 400));
	} else if (!strcmp(way, "clean")) {
		comm = one_rank();
		CU(cudaMallocManaged(&g, 100));
		CU(cudaMemset(f, 0, 100));
		scale<<<1, 1>>>(f, 25);
		CHECK(ncclAllReduce(f, g, 25, ncclFloat, ncclSum, comm, 0) == ncclSuccess);
		CU(cudaMemcpy(host, f, 100, cudaMemcpyDeviceToHost));
		CU(cudaDeviceSynchronize());
		CHECK(host[24] == 1 && g[24] == 1);
		CU(cudaFree(g));
		CHECK(ncclCommDestroy(comm) == ncclSuccess);
	} else {
		return 3;
	}
	CU(cudaFree(f));
	return argc > 2 ? atoi(argv[2]) : 0;
}
