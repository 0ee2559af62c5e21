/* Kernels in graphs, captured and added; kernels on pinned, managed and another device's memory. */
#include <cuda_runtime.h>

#include "cu.h"

#define N 1000

__global__ void
add(int *to, const int *from, int n)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < n)
		to[i] += from[i];
}

static void
fill(int *v, int value)
{
	for (int i = 0; i < N; i++)
		v[i] = value;
}

static void
expect(const int *p, int want)
{
	int got[N];

	CU(cudaMemcpy(got, p, sizeof got, cudaMemcpyDefault));
	for (int i = 0; i < N; i++)
		CHECK(got[i] == want);
}

int
main(void)
{
	int *a, *far, *pinned, *managed, n = N;
	cudaStream_t s;
	cudaGraph_t g;
	cudaGraphExec_t x;
	cudaGraphNode_t node, next;
	cudaKernelNodeParams k = {};
	void *args[3];

	CU(cudaMalloc(&a, N * sizeof *a));
	CU(cudaMallocHost(&pinned, N * sizeof *a));
	CU(cudaMallocManaged(&managed, N * sizeof *a));
	CU(cudaSetDevice(1));
	CU(cudaMalloc(&far, N * sizeof *a));
	CU(cudaMemset(far, 0, N * sizeof *a));
	CU(cudaDeviceSynchronize());
	CU(cudaSetDevice(0));
	CU(cudaDeviceEnablePeerAccess(1, 0));
	CU(cudaStreamCreate(&s));
	fill(pinned, 1);
	fill(managed, 10);
	CU(cudaMemset(a, 0, N * sizeof *a));
	add<<<4, 256, 0, s>>>(a, pinned, n);
	add<<<4, 256, 0, s>>>(a, managed, n);
	add<<<4, 256, 0, s>>>(far, a, n);
	add<<<4, 256, 0, s>>>(managed, a, n);
	add<<<4, 256, 0, s>>>(pinned, far, n);
	CU(cudaStreamSynchronize(s));
	expect(a, 11);
	expect(far, 11);
	CHECK(managed[N - 1] == 21 && pinned[N - 1] == 12);

	/* Memory that is allocated while the helper already runs. */
	int *late, *late_pinned;

	CU(cudaMalloc(&late, N * sizeof *a));
	CU(cudaMallocHost(&late_pinned, N * sizeof *a));
	fill(late_pinned, 3);
	CU(cudaMemset(late, 0, N * sizeof *a));
	add<<<4, 256, 0, s>>>(late, late_pinned, n);
	add<<<4, 256, 0, s>>>(late_pinned, late, n);
	CU(cudaStreamSynchronize(s));
	expect(late, 3);
	CHECK(late_pinned[0] == 6);

	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	add<<<4, 256, 0, s>>>(a, managed, n);
	add<<<4, 256, 0, s>>>(a, pinned, n);
	CU(cudaStreamEndCapture(s, &g));
	CU(cudaGraphInstantiate(&x, g, NULL, NULL, 0));
	expect(a, 11);
	for (int i = 1; i <= 5; i++) {
		CU(cudaGraphLaunch(x, s));
		CU(cudaStreamSynchronize(s));
		expect(a, 11 + 33 * i);
	}
	CU(cudaGraphExecDestroy(x));
	CU(cudaGraphDestroy(g));

	args[0] = &a;
	args[1] = &pinned;
	args[2] = &n;
	k.func = (void *)add;
	k.gridDim = dim3(4);
	k.blockDim = dim3(256);
	k.kernelParams = args;
	CU(cudaMemset(a, 0, N * sizeof *a));
	CU(cudaGraphCreate(&g, 0));
	CU(cudaGraphAddKernelNode(&node, g, NULL, 0, &k));
	CU(cudaGraphAddKernelNode(&next, g, &node, 1, &k));
	CU(cudaGraphInstantiate(&x, g, 0));
	CU(cudaGraphLaunch(x, s));
	CU(cudaStreamSynchronize(s));
	expect(a, 24);
	args[1] = &managed;
	CU(cudaGraphExecKernelNodeSetParams(x, next, &k));
	CU(cudaGraphLaunch(x, s));
	CU(cudaStreamSynchronize(s));
	expect(a, 24 + 12 + 21);
	puts("all is well");
	return 0;
}
