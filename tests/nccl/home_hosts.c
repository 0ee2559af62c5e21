/*
 * home_hosts NRANKS RANK DEVICE FIFO - one rank of several processes on several hosts: meets the others by an id, sums,
 * gathers, and sends round a ring.
 *
 * Rank 0 makes the id and writes it to FIFO.1, FIFO.2 and so on; rank r reads it from FIFO.r. Prints the number of
 * devices that CUDA has here, and "all is right".
 */
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 100000 };

#define MUST(call)                                                                      \
	do {                                                                            \
		int rc_ = (int)(call);                                                  \
		if (rc_ != 0) {                                                         \
			fprintf(stderr, "home_hosts: line %d: %d: %s\n", __LINE__, rc_, \
				ncclGetLastError(NULL));                                \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

static void
hand_over(const ncclUniqueId *id, const char *fifo, int rank)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof path, "%s.%d", fifo, rank);
	f = fopen(path, "wb");
	MUST(!f || fwrite(id, sizeof *id, 1, f) != 1 || fclose(f));
}

static void
meet(ncclUniqueId *id, int nranks, int rank, const char *fifo)
{
	char path[4096];
	FILE *f;

	if (rank == 0) {
		MUST(ncclGetUniqueId(id));
		for (int r = 1; r < nranks; r++)
			hand_over(id, fifo, r);
		return;
	}
	snprintf(path, sizeof path, "%s.%d", fifo, rank);
	f = fopen(path, "rb");
	MUST(!f || fread(id, sizeof *id, 1, f) != 1 || fclose(f));
}

int
main(int argc, char **argv)
{
	int nranks = argc == 5 ? atoi(argv[1]) : 0, rank = nranks ? atoi(argv[2]) : 0, ndevices;
	int *mine = malloc(N * sizeof *mine), *got, *in, *out;
	ncclUniqueId id;
	ncclComm_t comm;
	cudaStream_t stream;

	MUST(argc != 5);
	got = malloc((size_t)nranks * N * sizeof *got);
	MUST(cudaGetDeviceCount(&ndevices));
	meet(&id, nranks, rank, argv[4]);
	MUST(cudaSetDevice(atoi(argv[3])));
	MUST(ncclCommInitRank(&comm, nranks, id, rank));
	MUST(cudaStreamCreate(&stream));
	MUST(cudaMalloc((void **)&in, N * sizeof *in));
	MUST(cudaMalloc((void **)&out, (size_t)nranks * N * sizeof *out));
	for (int i = 0; i < N; i++)
		mine[i] = i + rank;
	MUST(cudaMemcpy(in, mine, N * sizeof *in, cudaMemcpyHostToDevice));

	MUST(ncclAllReduce(in, out, N, ncclInt32, ncclSum, comm, stream));
	MUST(cudaMemcpyAsync(got, out, N * sizeof *in, cudaMemcpyDeviceToHost, stream));
	MUST(cudaStreamSynchronize(stream));
	for (int i = 0; i < N; i++)
		MUST(got[i] != nranks * i + nranks * (nranks - 1) / 2);

	MUST(ncclAllGather(in, out, N, ncclInt32, comm, stream));
	MUST(cudaMemcpyAsync(got, out, (size_t)nranks * N * sizeof *in, cudaMemcpyDeviceToHost,
			     stream));
	MUST(cudaStreamSynchronize(stream));
	for (int i = 0; i < nranks * N; i++)
		MUST(got[i] != i % N + i / N);

	MUST(ncclGroupStart());
	MUST(ncclSend(in, N, ncclInt32, (rank + 1) % nranks, comm, stream));
	MUST(ncclRecv(out, N, ncclInt32, (rank + nranks - 1) % nranks, comm, stream));
	MUST(ncclGroupEnd());
	MUST(cudaMemcpyAsync(got, out, N * sizeof *in, cudaMemcpyDeviceToHost, stream));
	MUST(cudaStreamSynchronize(stream));
	for (int i = 0; i < N; i++)
		MUST(got[i] != i + (rank + nranks - 1) % nranks);

	MUST(ncclCommDestroy(comm));
	printf("rank %d: %d devices, all is right\n", rank, ndevices);
	return 0;
}
