/* Windows, put and signal: a ring of puts, in order with the streams' earlier work; signals alone;
 * wrong calls. */
#include "nccl_test.h"

#define N 1000

static struct world w;

int
main(void)
{
	ncclWindow_t win[MAX_RANKS];
	int *mine[MAX_RANKS], *seen[MAX_RANKS], host[N];
	void *back;

	world_init(&w);
	for (int r = 0; r < w.n; r++) {
		mine[r] = device_bytes(r, NULL, sizeof host);
		CUDA(cudaSetDevice(r));
		NCCL(ncclMemAlloc((void **)&seen[r], 2 * sizeof host));
	}
	WANT(ncclInvalidUsage, ncclSignal(0, 0, 0, 0, w.comm[0], w.stream[0]));
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++)
		NCCL(ncclCommWindowRegister(w.comm[r], seen[r], 2 * sizeof host, &win[r],
					    NCCL_WIN_COLL_SYMMETRIC));
	NCCL(ncclGroupEnd());
	NCCL(ncclWinGetUserPtr(w.comm[0], win[0], &back));
	CHECK(back == seen[0]);
	for (int round = 1; round <= 5; round++) {
		for (int r = 0; r < w.n; r++) {
			CUDA(cudaSetDevice(r));
			CUDA(cudaMemsetAsync(mine[r], r * 16 + round, sizeof host, w.stream[r]));
			NCCL(ncclPutSignal(mine[r], N, ncclInt, (r + 1) % w.n, win[r], sizeof host,
					   0, 0, 0, w.comm[r], w.stream[r]));
			NCCL(ncclSignal((r + 1) % w.n, 0, 0, 0, w.comm[r], w.stream[r]));
		}
		for (int r = 0; r < w.n; r++) {
			ncclWaitSignalDesc_t d = {.opCnt = 2, .peer = (r + w.n - 1) % w.n};

			NCCL(ncclWaitSignal(1, &d, w.comm[r], w.stream[r]));
			/* No rank puts again before all have seen it. */
			NCCL(ncclGroupStart());
			for (int k = 0; k < w.n && r == w.n - 1; k++) {
				CUDA(cudaSetDevice(k));
				CUDA(cudaMemcpyAsync(seen[k], seen[k] + N, sizeof host,
						     cudaMemcpyDefault, w.stream[k]));
				NCCL(ncclAllReduce(mine[k], mine[k], 1, ncclInt, ncclSum, w.comm[k],
						   w.stream[k]));
			}
			NCCL(ncclGroupEnd());
		}
		world_sync(&w);
		for (int r = 0; r < w.n; r++) {
			int byte = (r + w.n - 1) % w.n * 16 + round;

			CUDA(cudaMemcpy(host, seen[r], sizeof host, cudaMemcpyDefault));
			for (int i = 0; i < N; i++)
				CHECK(host[i] == byte * 0x01010101);
		}
	}
	WANT(ncclInvalidArgument, ncclPutSignal(mine[0], N + 1, ncclInt, 1, win[0], sizeof host, 0,
						0, 0, w.comm[0], w.stream[0]));
	WANT(ncclInvalidArgument,
	     ncclPutSignal(mine[0], 1, ncclInt, 1, win[1], 0, 0, 0, 0, w.comm[0], w.stream[0]));
	WANT(ncclInvalidArgument, ncclSignal(1, 1, 0, 0, w.comm[0], w.stream[0]));
	for (int r = 0; r < w.n; r++) {
		NCCL(ncclCommWindowDeregister(w.comm[r], win[r]));
		CUDA(cudaFree(mine[r]));
		NCCL(ncclMemFree(seen[r]));
	}
	world_fini(&w);
	printf("signals are well\n");
	return 0;
}
