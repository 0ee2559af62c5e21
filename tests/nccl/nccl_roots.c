/*
 * nccl_roots - each collective with a root, of 4 bytes, whose ranks name different roots: every rank sees a failure,
 * and none of them waits for ever. First each rank names itself; then the last rank names another root than the others.
 */
#include <time.h>

#include "nccl_test.h"

static struct world w;
static float *data[MAX_RANKS];

static void
call(int which, int r, int root)
{
	CUDA(cudaSetDevice(r));
	if (which == 0)
		NCCL(ncclBroadcast(data[r], data[r], 1, ncclFloat, root, w.comm[r], w.stream[r]));
	else if (which == 1)
		NCCL(ncclReduce(data[r], data[r] + 64, 1, ncclFloat, ncclSum, root, w.comm[r],
				w.stream[r]));
	else if (which == 2)
		NCCL(
		    ncclScatter(data[r], data[r] + 64, 1, ncclFloat, root, w.comm[r], w.stream[r]));
	else
		NCCL(ncclGather(data[r], data[r] + 64, 1, ncclFloat, root, w.comm[r], w.stream[r]));
}

/* The failure of a rank: of its stream, or of its communicator soon after. */
static void
await_failure(const char *what, int r)
{
	ncclResult_t e = ncclSuccess;
	time_t end = time(NULL) + 20;
	bool failed;

	CUDA(cudaSetDevice(r));
	failed = cudaStreamSynchronize(w.stream[r]) != cudaSuccess;
	while (e == ncclSuccess && time(NULL) < end)
		NCCL(ncclCommGetAsyncError(w.comm[r], &e));
	if (e == ncclSuccess || !strstr(ncclGetLastError(w.comm[r]), "the ranks disagree")) {
		printf("%s: rank %d of %d: stream %s, result %d, '%s'\n", what, r, w.n,
		       failed ? "failed" : "well", (int)e, ncclGetLastError(w.comm[r]));
		fflush(stdout);
		_exit(1);
	}
}

int
main(void)
{
	static const char *const what[] = {"broadcast", "reduce", "scatter", "gather"};

	CUDA(cudaGetDeviceCount(&w.n));
	world_streams(&w);
	for (int r = 0; r < w.n; r++)
		data[r] = device_bytes(r, NULL, 1024);
	for (int i = 0; i < 8; i++) {
		NCCL(ncclCommInitAll(w.comm, w.n, NULL));
		for (int k = 0; k < 3; k++)
			for (int r = 0; r < w.n; r++)
				call(i % 4, r, k % w.n);
		world_sync(&w);
		for (int r = 0; r < w.n; r++)
			call(i % 4, r, i < 4 ? r : r == w.n - 1);
		for (int r = 0; r < w.n; r++)
			await_failure(what[i % 4], r);
		for (int r = 0; r < w.n; r++)
			NCCL(ncclCommAbort(w.comm[r]));
	}
	printf("roots are compared\n");
	return 0;
}
