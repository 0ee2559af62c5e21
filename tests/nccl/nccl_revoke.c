/* Operations that cannot end: abort and revoke end them, other communicators on the same streams go on. */
#include "nccl_test.h"

static struct world w, other;

static void
check_other(void)
{
	int *p[MAX_RANKS], one = 1, host;

	for (int r = 0; r < w.n; r++)
		p[r] = device_bytes(r, &one, sizeof one);
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++)
		NCCL(ncclAllReduce(p[r], p[r], 1, ncclInt, ncclSum, other.comm[r], w.stream[r]));
	NCCL(ncclGroupEnd());
	world_sync(&w);
	for (int r = 0; r < w.n; r++) {
		CUDA(cudaMemcpy(&host, p[r], sizeof host, cudaMemcpyDefault));
		CHECK(host == w.n);
		CUDA(cudaFree(p[r]));
	}
}

int
main(int argc, char **argv)
{
	bool revoke = argc > 1 && strcmp(argv[1], "revoke") == 0;
	ncclResult_t e = ncclSuccess;
	float *p;

	world_init(&w);
	NCCL(ncclCommInitAll(other.comm, w.n, NULL));
	p = device_bytes(0, NULL, 64);
	/* Rank 1 never calls. */
	NCCL(ncclAllReduce(p, p, 1, ncclFloat, ncclSum, w.comm[0], w.stream[0]));
	CHECK(cudaStreamQuery(w.stream[0]) == cudaErrorNotReady);
	if (revoke) {
		NCCL(ncclCommRevoke(w.comm[0], NCCL_REVOKE_DEFAULT));
		NCCL(ncclCommGetAsyncError(w.comm[0], &e));
		CHECK(e == ncclSuccess);
		WANT(ncclInvalidUsage,
		     ncclAllReduce(p, p, 1, ncclFloat, ncclSum, w.comm[0], w.stream[0]));
		while (e == ncclSuccess)
			NCCL(ncclCommGetAsyncError(w.comm[1], &e));
		CHECK(e == ncclRemoteError &&
		      strstr(ncclGetLastError(w.comm[1]), "ncclCommRevoke"));
		for (int r = 1; r < w.n; r++)
			NCCL(ncclCommRevoke(w.comm[r], NCCL_REVOKE_DEFAULT));
		check_other();
		for (int r = 0; r < w.n; r++)
			NCCL(ncclCommDestroy(w.comm[r]));
	} else {
		for (int r = 0; r < w.n; r++)
			NCCL(ncclCommAbort(w.comm[r]));
	}
	check_other();
	for (int r = 0; r < w.n; r++)
		NCCL(ncclCommDestroy(other.comm[r]));
	printf("well\n");
	return 0;
}
