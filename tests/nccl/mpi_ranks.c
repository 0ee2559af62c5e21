/*
 * mpi_ranks - a process for each rank, as mpirun starts them: the id travels by MPI_Bcast, each rank takes
 * the device of its rank on this host, and NCCL's sums are compared with MPI's. Rank 0 prints how many ranks
 * agree.
 */
#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 30011, ROUNDS = 20 };

#define MUST(call)                                                                     \
	do {                                                                           \
		int rc_ = (int)(call);                                                 \
		if (rc_ != 0) {                                                        \
			fprintf(stderr, "mpi_ranks: line %d: %d: %s\n", __LINE__, rc_, \
				ncclGetLastError(NULL));                               \
			MPI_Abort(MPI_COMM_WORLD, 1);                                  \
		}                                                                      \
	} while (0)

static int
rank_on_host(void)
{
	MPI_Comm host;
	int rank;

	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Comm_rank(host, &rank);
	MPI_Comm_free(&host);
	return rank;
}

int
main(int argc, char **argv)
{
	static long mine[N], got[N], want[N];
	int rank, nranks, good = 1, all;
	ncclUniqueId id;
	ncclComm_t comm;
	cudaStream_t stream;
	long *buf;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &nranks);
	if (rank == 0)
		MUST(ncclGetUniqueId(&id));
	MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
	MUST(cudaSetDevice(rank_on_host()));
	MUST(ncclCommInitRank(&comm, nranks, id, rank));
	MUST(cudaStreamCreate(&stream));
	MUST(cudaMalloc((void **)&buf, sizeof mine));
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < N; i++)
			mine[i] = (long)rank * i + round;
		MUST(cudaMemcpyAsync(buf, mine, sizeof mine, cudaMemcpyHostToDevice, stream));
		MUST(ncclAllReduce(buf, buf, N, ncclInt64, ncclSum, comm, stream));
		MUST(cudaMemcpyAsync(got, buf, sizeof got, cudaMemcpyDeviceToHost, stream));
		MPI_Allreduce(mine, want, N, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		MUST(cudaStreamSynchronize(stream));
		for (int i = 0; i < N; i++)
			good = good && got[i] == want[i];
	}
	MUST(cudaFree(buf));
	MUST(cudaStreamDestroy(stream));
	MUST(ncclCommDestroy(comm));
	MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d of %d ranks agree with MPI\n", all, nranks);
	MPI_Finalize();
	return all == nranks ? 0 : 1;
}
