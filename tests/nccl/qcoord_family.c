/*
 * One process a rank: communicators of a communicator, by calls of each rank. `grow`: two ranks become
 * four. `death`: the last rank's process is killed; the others notice, and continue without it.
 */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "nccl_test.h"

#define RANKS 4

/* Memory that all processes share. */
static struct {
	ncclUniqueId id, grow_id;
	volatile int has_id, has_grow_id;
	volatile int ready[RANKS];
} * all;

static int me;
static cudaStream_t stream;
static float *buffer;

/* The sum of 1 over the communicator's ranks. */
static int
count_ranks(ncclComm_t comm)
{
	float one = 1, sum = 0;

	CUDA(cudaMemcpy(buffer, &one, sizeof one, cudaMemcpyHostToDevice));
	NCCL(ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, comm, stream));
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaMemcpy(&sum, buffer, sizeof sum, cudaMemcpyDeviceToHost));
	return (int)sum;
}

static int
rank_of(ncclComm_t comm)
{
	int rank;

	NCCL(ncclCommUserRank(comm, &rank));
	return rank;
}

static void
split(void)
{
	ncclComm_t comm, half, other;

	NCCL(ncclCommInitRank(&comm, RANKS, all->id, me));
	CHECK(count_ranks(comm) == RANKS);
	NCCL(ncclCommSplit(comm, me % 2, -me, &half, NULL));
	CHECK(count_ranks(half) == 2 && rank_of(half) == (me < 2));
	NCCL(ncclCommSplit(comm, me == 1 ? 5 : 7, 0, &other, NULL));
	CHECK(count_ranks(other) == (me == 1 ? 1 : RANKS - 1));
	CHECK(rank_of(other) == (me == 1 ? 0 : me - (me > 1)));
	/* Ranks leave at different times. */
	NCCL(ncclCommDestroy(other));
	NCCL(ncclCommDestroy(half));
	CHECK(count_ranks(comm) == RANKS);
	NCCL(ncclCommDestroy(comm));
}

static void
grow(void)
{
	ncclComm_t comm = NULL, more;

	if (me < 2) {
		NCCL(ncclCommInitRank(&comm, 2, all->id, me));
		if (me == 0) {
			NCCL(ncclCommGetUniqueId(comm, &all->grow_id));
			all->has_grow_id = 1;
		}
		NCCL(ncclCommGrow(comm, RANKS, me == 0 ? &all->grow_id : NULL, -1, &more, NULL));
	} else {
		while (!all->has_grow_id)
			sched_yield();
		NCCL(ncclCommGrow(NULL, RANKS, &all->grow_id, me, &more, NULL));
	}
	CHECK(rank_of(more) == me && count_ranks(more) == RANKS);
	if (comm) {
		CHECK(count_ranks(comm) == 2);
		NCCL(ncclCommDestroy(comm));
	}
	NCCL(ncclCommDestroy(more));
}

static void
death(void)
{
	int dead = RANKS - 1;
	ncclComm_t comm, left;
	ncclResult_t r = ncclSuccess;

	NCCL(ncclCommInitRank(&comm, RANKS, all->id, me));
	CHECK(count_ranks(comm) == RANKS);
	all->ready[me] = 1;
	for (int i = 0; i < RANKS; i++)
		while (!all->ready[i])
			sched_yield();
	if (me == dead)
		raise(SIGKILL);
	while (r == ncclSuccess || r == ncclInProgress)
		NCCL(ncclCommGetAsyncError(comm, &r));
	CHECK(r == ncclRemoteError);
	CHECK(strstr(ncclGetLastError(comm), "rank 3"));
	NCCL(ncclCommShrink(comm, &dead, 1, &left, NULL, NCCL_SHRINK_ABORT));
	CHECK(rank_of(left) == me && count_ranks(left) == RANKS - 1);
	NCCL(ncclCommAbort(comm));
	NCCL(ncclCommDestroy(left));
}

int
main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	int status, bad = 0;
	pid_t pid[RANKS];

	all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(all != MAP_FAILED);
	for (me = 0; me < RANKS; me++)
		if ((pid[me] = fork()) == 0)
			break;
	if (me < RANKS) {
		if (me == 0) {
			NCCL(ncclGetUniqueId(&all->id));
			all->has_id = 1;
		}
		while (!all->has_id)
			sched_yield();
		CUDA(cudaSetDevice(me));
		CUDA(cudaStreamCreate(&stream));
		CUDA(cudaMalloc((void **)&buffer, sizeof *buffer));
		strcmp(what, "grow") == 0 ? grow() : strcmp(what, "death") == 0 ? death() : split();
		CUDA(cudaFree(buffer));
		return 0;
	}
	for (int r = 0; r < RANKS; r++) {
		CHECK(waitpid(pid[r], &status, 0) == pid[r]);
		if (strcmp(what, "death") == 0 && r == RANKS - 1)
			bad |= !WIFSIGNALED(status);
		else if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			printf("rank %d: status %d\n", r, status);
			bad = 1;
		}
	}
	printf(bad ? "bad\n" : "good\n");
	return bad;
}
