/*
 * nccl_call - one 8-byte ncclAllReduce beside MPI_Allreduce, in the same processes and run: prints for each
 * way the best batch in microseconds a call. Under `gpuctl run --nccl -n N -- mpirun -n N`; a rank a
 * process. With an argument: ncclAllReduce of that many bytes and its wait, the best of some runs.
 *
 *	mpi	MPI_Allreduce
 *	call	ncclAllReduce, then cudaStreamSynchronize
 *	queued	100 times ncclAllReduce, then one cudaStreamSynchronize
 *
 * The ways take turns. A wrong sum ends it with exit status 1.
 */
#include <mpi.h>
#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 2, ROUNDS = 60, BATCH = 200, QUEUED = 100 };

static int rank, nranks;
static ncclComm_t comm;
static cudaStream_t stream;
static float *in, *out;

static double
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void
must(int bad, const char *call)
{
	if (!bad)
		return;
	fprintf(stderr, "nccl_call: rank %d: %s: %s\n", rank, call, ncclGetLastError(comm));
	MPI_Abort(MPI_COMM_WORLD, 1);
}

#define NCCL(call) must((call) != ncclSuccess, #call)
#define CUDA(call) must((call) != cudaSuccess, #call)

static void
by_mpi(void)
{
	static const float mine[COUNT] = {1, 2};
	float sum[COUNT];

	for (int i = 0; i < BATCH; i++)
		MPI_Allreduce(mine, sum, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	must(sum[1] != 2.0F * (float)nranks, "MPI_Allreduce: wrong sum");
}

static void
by_call(void)
{
	for (int i = 0; i < BATCH; i++) {
		NCCL(ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, comm, stream));
		CUDA(cudaStreamSynchronize(stream));
	}
}

static void
by_queue(void)
{
	for (int i = 0; i < BATCH / QUEUED; i++) {
		for (int k = 0; k < QUEUED; k++)
			NCCL(ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, comm, stream));
		CUDA(cudaStreamSynchronize(stream));
	}
}

static void
check(void)
{
	float sum[COUNT];

	CUDA(cudaMemcpy(sum, out, sizeof sum, cudaMemcpyDeviceToHost));
	must(sum[0] != (float)nranks * (float)(nranks + 1) / 2, "ncclAllReduce: wrong sum");
	CUDA(cudaMemset(out, 0, sizeof sum));
}

/* One size, out of place. */
static void
large(size_t nbytes)
{
	float *a, *b, first;
	double best = 1e12;

	CUDA(cudaMalloc((void **)&a, nbytes));
	CUDA(cudaMalloc((void **)&b, nbytes));
	CUDA(cudaMemset(a, 0, nbytes));
	CUDA(cudaMemcpy(a, (float[COUNT]){(float)rank + 1, 1}, COUNT * sizeof *a, cudaMemcpyHostToDevice));
	for (int r = 0; r < 12; r++) {
		double t, mine, most;

		MPI_Barrier(MPI_COMM_WORLD);
		t = now_us();
		NCCL(ncclAllReduce(a, b, nbytes / sizeof *a, ncclFloat, ncclSum, comm, stream));
		CUDA(cudaStreamSynchronize(stream));
		mine = now_us() - t;
		MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
		best = r > 1 && most < best ? most : best;
	}
	CUDA(cudaMemcpy(&first, b, sizeof first, cudaMemcpyDeviceToHost));
	must(first != (float)nranks * (float)(nranks + 1) / 2, "ncclAllReduce: wrong sum");
	if (rank == 0)
		printf("large %.1f us\n", best);
	CUDA(cudaFree(a));
	CUDA(cudaFree(b));
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} way[] = {{"mpi", by_mpi}, {"call", by_call}, {"queued", by_queue}};
	enum { NWAYS = sizeof way / sizeof *way };
	double best[NWAYS];
	ncclUniqueId id;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &nranks);
	if (rank == 0)
		NCCL(ncclGetUniqueId(&id));
	MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
	CUDA(cudaSetDevice(rank));
	CUDA(cudaStreamCreate(&stream));
	NCCL(ncclCommInitRank(&comm, nranks, id, rank));
	CUDA(cudaMalloc((void **)&in, COUNT * sizeof *in));
	CUDA(cudaMalloc((void **)&out, COUNT * sizeof *out));
	CUDA(cudaMemcpy(in, (float[COUNT]){(float)rank + 1, 1}, COUNT * sizeof *in, cudaMemcpyHostToDevice));
	if (argc > 1) {
		large(strtoull(argv[1], NULL, 10));
		goto end;
	}
	for (int w = 0; w < NWAYS; w++)
		best[w] = 1e9;
	for (int r = 0; r < ROUNDS; r++)
		for (int w = 0; w < NWAYS; w++) {
			double t, mine, most;

			MPI_Barrier(MPI_COMM_WORLD);
			t = now_us();
			way[w].run();
			mine = (now_us() - t) / BATCH;
			if (w > 0)
				check();
			MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
			best[w] = most < best[w] ? most : best[w];
		}
	for (int w = 0; rank == 0 && w < NWAYS; w++)
		printf("%s %.3f us, %.2f of mpi\n", way[w].name, best[w], best[w] / best[0]);
end:
	NCCL(ncclCommDestroy(comm));
	CUDA(cudaFree(in));
	CUDA(cudaFree(out));
	CUDA(cudaStreamDestroy(stream));
	MPI_Finalize();
	return 0;
}
