/* Collectives, groups, sends and receives in a graph: captured once, launched often, beside calls on the stream. */
#include "nccl_test.h"

#define N	 1000
#define LAUNCHES 20

static struct world w;

int
main(void)
{
	cudaGraphExec_t exec[MAX_RANKS];
	float *a[MAX_RANKS], *b[MAX_RANKS], *host = calloc(N, sizeof *host), want = 0;
	ncclRedOp_t half[MAX_RANKS];
	float scalar = 0.5f;

	world_init(&w);
	for (int r = 0; r < w.n; r++) {
		a[r] = device_bytes(r, NULL, N * sizeof *host);
		b[r] = device_bytes(r, NULL, N * sizeof *host);
		NCCL(ncclRedOpCreatePreMulSum(&half[r], &scalar, ncclFloat, ncclScalarHostImmediate,
					      w.comm[r]));
		CUDA(cudaSetDevice(r));
		CUDA(cudaMemset(a[r], 0, N * sizeof *host));
		for (int i = 0; i < N; i++)
			host[i] = 1;
		CUDA(cudaMemcpy(b[r], host, N * sizeof *host, cudaMemcpyDefault));
	}
	for (int r = 0; r < w.n; r++) {
		CUDA(cudaSetDevice(r));
		CUDA(cudaStreamBeginCapture(w.stream[r], cudaStreamCaptureModeThreadLocal));
	}
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++) {
		NCCL(ncclAllReduce(a[r], a[r], N, ncclFloat, half[r], w.comm[r], w.stream[r]));
		NCCL(ncclAllReduce(b[r], b[r], N, ncclFloat, ncclMax, w.comm[r], w.stream[r]));
	}
	NCCL(ncclGroupEnd());
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++) {
		NCCL(ncclSend(b[r], N, ncclFloat, (r + 1) % w.n, w.comm[r], w.stream[r]));
		NCCL(ncclRecv(a[r], N, ncclFloat, (r + w.n - 1) % w.n, w.comm[r], w.stream[r]));
	}
	NCCL(ncclGroupEnd());
	for (int r = 0; r < w.n; r++) {
		cudaGraph_t graph;

		CUDA(cudaSetDevice(r));
		CUDA(cudaStreamEndCapture(w.stream[r], &graph));
		CUDA(cudaGraphInstantiate(&exec[r], graph, 0));
		CUDA(cudaGraphDestroy(graph));
	}
	world_sync(&w);
	CUDA(cudaMemcpy(host, a[0], sizeof *host, cudaMemcpyDefault));
	CHECK(host[0] == 0); /* nothing ran while it was captured */
	for (int i = 0; i < LAUNCHES; i++)
		for (int r = 0; r < w.n; r++) {
			CUDA(cudaSetDevice(r));
			CUDA(cudaGraphLaunch(exec[r], w.stream[r]));
			NCCL(ncclAllReduce(a[r], a[r], N, ncclFloat, ncclSum, w.comm[r],
					   w.stream[r]));
		}
	want = (float)w.n;
	world_sync(&w);
	for (int r = 0; r < w.n; r++) {
		CUDA(cudaMemcpy(host, a[r], N * sizeof *host, cudaMemcpyDefault));
		for (int i = 0; i < N; i++)
			CHECK(host[i] == want);
		CUDA(cudaSetDevice(r));
		CUDA(cudaGraphExecDestroy(exec[r]));
		NCCL(ncclRedOpDestroy(half[r], w.comm[r]));
		CUDA(cudaFree(a[r]));
		CUDA(cudaFree(b[r]));
	}
	free(host);
	world_fini(&w);
	printf("graphs are well\n");
	return 0;
}
