/*
 * home_hosts NRANKS RANK DEVICE FIFO - one rank of several processes on several hosts: sums, gathers, and
 * sends round a ring. Prints CUDA's number of devices on this host, and "all is right".
 */
#include "home_meet.h"

enum { N = 100000 };

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
	free(mine);
	free(got);
	printf("rank %d: %d devices, all is right\n", rank, ndevices);
	return 0;
}
