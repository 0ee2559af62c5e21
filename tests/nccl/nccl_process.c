/*
 * nccl_process MODE - ranks in processes of their own, which this program starts by fork and exec
 * of itself; the id goes through pipes.
 *
 *	all	every rank runs collectives, and destroys its communicator
 *	leave	every rank returns from main without destroying it
 *	kill	the last rank kills itself between two collectives: the others see ncclRemoteError
 *	exit	the last rank exits normally while the others wait for it: the same
 *	abort	the last rank aborts: the same
 *	mismatch	ranks disagree about the count: all see a failure
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "nccl_test.h"

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
sum(ncclComm_t comm, cudaStream_t stream, float *p, int n)
{
	float one = 1, host = 0;

	CUDA(cudaMemcpy(p, &one, sizeof one, cudaMemcpyDefault));
	NCCL(ncclAllReduce(p, p, 1, ncclFloat, ncclSum, comm, stream));
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaMemcpy(&host, p, sizeof host, cudaMemcpyDefault));
	CHECK(host == (float)n);
}

/* The others: an operation that cannot end, until the failure arrives. */
static int
await_failure(ncclComm_t comm, cudaStream_t stream, float *p, int count, const char *why)
{
	ncclResult_t e = ncclSuccess;
	double begun = seconds(), took;

	NCCL(ncclAllReduce(p, p, (size_t)count, ncclFloat, ncclSum, comm, stream));
	while (e == ncclSuccess && seconds() < begun + 20)
		NCCL(ncclCommGetAsyncError(comm, &e));
	took = seconds() - begun;
	if (!strstr(ncclGetLastError(comm), why)) {
		fprintf(stderr, "result %d after %.1f s: '%s' has no '%s'\n", (int)e, took,
			ncclGetLastError(comm), why);
		return 1;
	}
	CHECK(strcmp(why, "disagree") == 0 ? e != ncclSuccess : e == ncclRemoteError);
	CHECK(cudaStreamSynchronize(stream) != cudaSuccess);
	NCCL(ncclCommAbort(comm));
	/* Everything else is usable. */
	CUDA(cudaMemsetAsync(p, 0, 4, stream));
	CUDA(cudaStreamSynchronize(stream));
	fprintf(stderr, "%.2f s\n", took);
	return took < 3 ? 0 : 1;
}

static int
run_rank(const char *mode, int rank, int n)
{
	bool last = rank == n - 1;
	ncclUniqueId id;
	ncclComm_t comm;
	cudaStream_t stream;
	float *p;

	CHECK(read(0, &id, sizeof id) == sizeof id);
	CUDA(cudaSetDevice(rank));
	CUDA(cudaStreamCreate(&stream));
	CUDA(cudaMalloc((void **)&p, 64));
	NCCL(ncclCommInitRank(&comm, n, id, rank));
	for (int i = 0; i < 10; i++)
		sum(comm, stream, p, n);
	if (strcmp(mode, "leave") == 0)
		return 0;
	if (strcmp(mode, "all") == 0) {
		CUDA(cudaFree(p));
		CUDA(cudaStreamDestroy(stream));
		NCCL(ncclCommFinalize(comm));
		NCCL(ncclCommDestroy(comm));
		return 0;
	}
	if (strcmp(mode, "mismatch") == 0)
		return await_failure(comm, stream, p, last ? 2 : 1, "disagree");
	if (!last)
		return await_failure(comm, stream, p, 1,
				     strcmp(mode, "abort") == 0	 ? "ncclCommAbort"
				     : strcmp(mode, "exit") == 0 ? "has left"
								 : "ended");
	/* So that the others are already waiting. */
	usleep(200000);
	if (strcmp(mode, "kill") == 0)
		raise(SIGKILL);
	if (strcmp(mode, "abort") == 0)
		NCCL(ncclCommAbort(comm));
	if (strcmp(mode, "exit") == 0)
		exit(0);
	return 0;
}

static pid_t
start(const char *self, const char *mode, int rank, int n, const ncclUniqueId *id)
{
	char ranks[2][16];
	int fd[2];
	pid_t pid;

	snprintf(ranks[0], sizeof ranks[0], "%d", rank);
	snprintf(ranks[1], sizeof ranks[1], "%d", n);
	CHECK(pipe(fd) == 0);
	pid = fork();
	if (pid == 0) {
		dup2(fd[0], 0);
		close(fd[0]);
		close(fd[1]);
		execl(self, self, mode, ranks[0], ranks[1], (char *)NULL);
		_exit(127);
	}
	close(fd[0]);
	CHECK(write(fd[1], id, sizeof *id) == sizeof *id);
	close(fd[1]);
	return pid;
}

int
main(int argc, char **argv)
{
	ncclUniqueId id;
	pid_t pid[MAX_RANKS];
	int n, status, failed = 0;

	if (argc == 4)
		return run_rank(argv[1], atoi(argv[2]), atoi(argv[3]));
	CHECK(argc == 2);
	CUDA(cudaGetDeviceCount(&n));
	NCCL(ncclGetUniqueId(&id));
	for (int r = 0; r < n; r++)
		pid[r] = start("/proc/self/exe", argv[1], r, n, &id);
	for (int r = 0; r < n; r++) {
		bool killed = r == n - 1 && strcmp(argv[1], "kill") == 0;

		CHECK(waitpid(pid[r], &status, 0) == pid[r]);
		failed |= killed ? !WIFSIGNALED(status) : status != 0;
	}
	printf("%s: %s\n", argv[1], failed ? "failed" : "as it should be");
	return failed;
}
