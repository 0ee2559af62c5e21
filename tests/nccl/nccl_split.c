/* Communicators from communicators: split in a group and by threads, shrink, grow, several ids, blocking=0. */
#include "nccl_test.h"

static struct world w;

/* The sum of the members' world ranks over a communicator, from each of them. */
static void
check_sum(ncclComm_t *comm, int want_even, int want_odd)
{
	int *p[MAX_RANKS], host;

	for (int r = 0; r < w.n; r++)
		p[r] = device_bytes(r, &r, sizeof r);
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++)
		if (comm[r])
			NCCL(ncclAllReduce(p[r], p[r], 1, ncclInt, ncclSum, comm[r], w.stream[r]));
	NCCL(ncclGroupEnd());
	world_sync(&w);
	for (int r = 0; r < w.n; r++) {
		CUDA(cudaMemcpy(&host, p[r], sizeof host, cudaMemcpyDefault));
		if (comm[r])
			CHECK(host == (r % 2 ? want_odd : want_even));
		CUDA(cudaFree(p[r]));
	}
}

static void
destroy(ncclComm_t *comm)
{
	for (int r = 0; r < w.n; r++)
		if (comm[r])
			NCCL(ncclCommDestroy(comm[r]));
}

static void
test_split(void)
{
	ncclComm_t half[MAX_RANKS], evens[MAX_RANKS];
	int even = 0, odd = 0, rank, count;

	for (int r = 0; r < w.n; r++)
		*(r % 2 ? &odd : &even) += r;
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++)
		NCCL(ncclCommSplit(w.comm[r], r % 2, -r, &half[r], NULL));
	NCCL(ncclGroupEnd());
	check_sum(half, even, odd);
	NCCL(ncclCommUserRank(half[0], &rank));
	NCCL(ncclCommCount(half[0], &count));
	CHECK(count == (w.n + 1) / 2 && rank == count - 1); /* by key, so backwards */
	destroy(half);
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++)
		NCCL(ncclCommSplit(w.comm[r], r % 2 ? NCCL_SPLIT_NOCOLOR : 3, 0, &evens[r], NULL));
	NCCL(ncclGroupEnd());
	for (int r = 0; r < w.n; r++)
		CHECK((evens[r] == NULL) == (r % 2 == 1));
	check_sum(evens, even, 0);
	destroy(evens);
}

static void
test_shrink(void)
{
	ncclComm_t less[MAX_RANKS] = {0};
	int last = w.n - 1, sum = 0;

	for (int r = 0; r < last; r++)
		sum += r;
	NCCL(ncclGroupStart());
	for (int r = 0; r < last; r++)
		NCCL(ncclCommShrink(w.comm[r], &last, 1, &less[r], NULL, NCCL_SHRINK_DEFAULT));
	NCCL(ncclGroupEnd());
	check_sum(less, sum, sum);
	/* And back: the last device joins as a new rank. */
	{
		ncclComm_t grown[MAX_RANKS];
		ncclUniqueId id;
		int count, rank;

		NCCL(ncclCommGetUniqueId(less[0], &id));
		WANT(ncclInvalidUsage, ncclCommGetUniqueId(less[0], &id));
		NCCL(ncclGroupStart());
		for (int r = 0; r < last; r++)
			NCCL(ncclCommGrow(less[r], w.n, r ? NULL : &id, -1, &grown[r], NULL));
		CUDA(cudaSetDevice(last));
		NCCL(ncclCommGrow(NULL, w.n, &id, last, &grown[last], NULL));
		NCCL(ncclGroupEnd());
		NCCL(ncclCommCount(grown[last], &count));
		NCCL(ncclCommUserRank(grown[last], &rank));
		CHECK(count == w.n && rank == last);
		check_sum(grown, sum + last, sum + last);
		destroy(grown);
	}
	destroy(less);
}

/* ---- threads, each with its own rank, not blocking */

static ncclUniqueId ids[2];

static void *
run_rank(void *arg)
{
	int r = (int)(intptr_t)arg, one = 1, sum = 0, *p;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm, child;
	ncclResult_t e = ncclInProgress;
	cudaStream_t stream;

	config.blocking = 0;
	config.commName = "threads";
	CUDA(cudaSetDevice(r));
	CUDA(cudaStreamCreate(&stream));
	p = device_bytes(r, &one, sizeof one);
	WANT(ncclInProgress, ncclCommInitRankScalable(&comm, w.n, r, 2, ids, &config));
	while (e == ncclInProgress)
		NCCL(ncclCommGetAsyncError(comm, &e));
	CHECK(e == ncclSuccess);
	WANT(ncclInProgress, ncclCommSplit(comm, 0, r, &child, NULL));
	for (e = ncclInProgress; e == ncclInProgress;)
		NCCL(ncclCommGetAsyncError(child, &e));
	CHECK(e == ncclSuccess);
	NCCL(ncclAllReduce(p, p, 1, ncclInt, ncclSum, child, stream));
	CUDA(cudaMemcpyAsync(&sum, p, sizeof sum, cudaMemcpyDefault, stream));
	CUDA(cudaStreamSynchronize(stream));
	CHECK(sum == w.n);
	WANT(ncclInProgress, ncclCommFinalize(child));
	for (e = ncclInProgress; e == ncclInProgress;)
		NCCL(ncclCommGetAsyncError(child, &e));
	CHECK(e == ncclSuccess);
	NCCL(ncclCommDestroy(child));
	NCCL(ncclCommDestroy(comm));
	CUDA(cudaFree(p));
	CUDA(cudaStreamDestroy(stream));
	return NULL;
}

static void
test_threads(void)
{
	pthread_t thread[MAX_RANKS];

	NCCL(ncclGetUniqueId(&ids[0]));
	NCCL(ncclGetUniqueId(&ids[1]));
	for (int r = 0; r < w.n; r++)
		CHECK(pthread_create(&thread[r], NULL, run_rank, (void *)(intptr_t)r) == 0);
	for (int r = 0; r < w.n; r++)
		pthread_join(thread[r], NULL);
}

/* A communicator whose other rank never comes is aborted while it starts. */
static void
test_abandoned(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm;
	ncclResult_t e;
	ncclUniqueId id;
	int n;

	config.blocking = 0;
	CUDA(cudaSetDevice(0));
	NCCL(ncclGetUniqueId(&id));
	WANT(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config));
	NCCL(ncclCommGetAsyncError(comm, &e));
	CHECK(e == ncclInProgress);
	WANT(ncclInvalidArgument, ncclCommCount(comm, &n));
	NCCL(ncclCommAbort(comm));
}

int
main(void)
{
	world_init(&w);
	test_split();
	if (w.n > 2)
		test_shrink();
	test_threads();
	test_abandoned();
	world_fini(&w);
	printf("communicators are well\n");
	return 0;
}
