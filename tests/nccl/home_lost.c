/*
 * home_lost NRANKS RANK DEVICE FIFO - one rank of several processes, of which the last prints its
 * process id and waits to be killed. The others begin a sum with it, and print the resulting error,
 * and whether their stream continues after an abort.
 */
#include <time.h>
#include <unistd.h>

#include "home_meet.h"

int
main(int argc, char **argv)
{
	int nranks = argc == 5 ? atoi(argv[1]) : 0, rank = nranks ? atoi(argv[2]) : 0;
	ncclResult_t result = ncclSuccess;
	struct timespec pause_ns = {.tv_nsec = 1000000};
	ncclUniqueId id;
	ncclComm_t comm;
	cudaStream_t stream;
	int *buf;

	MUST(argc != 5);
	meet(&id, nranks, rank, argv[4]);
	MUST(cudaSetDevice(atoi(argv[3])));
	MUST(ncclCommInitRank(&comm, nranks, id, rank));
	MUST(cudaStreamCreate(&stream));
	MUST(cudaMalloc((void **)&buf, sizeof *buf));
	/* After the first sum, all ranks have begun. */
	MUST(ncclAllReduce(buf, buf, 1, ncclInt32, ncclSum, comm, stream));
	MUST(cudaStreamSynchronize(stream));
	if (rank == nranks - 1) {
		printf("%d\n", (int)getpid());
		fflush(stdout);
		pause();
	}
	MUST(ncclAllReduce(buf, buf, 1, ncclInt32, ncclSum, comm, stream));
	while (result == ncclSuccess) {
		MUST(ncclCommGetAsyncError(comm, &result));
		nanosleep(&pause_ns, NULL);
	}
	printf("%d %s\n", result == ncclRemoteError, ncclGetLastError(comm));
	MUST(cudaStreamSynchronize(stream) != cudaErrorLaunchFailure);
	MUST(ncclCommAbort(comm));
	MUST(cudaMemsetAsync(buf, 0, sizeof *buf, stream));
	MUST(cudaStreamSynchronize(stream));
	puts("goes on");
	return 0;
}
