/*
 * Groups: meshes of sends and receives with oneself among the peers, communicators and streams that
 * mix, ranks that call in different orders, and groups that fail.
 */
#include "nccl_test.h"

static struct world w;

/* Element i of rank r's message to rank p. */
static int
word(int r, int p, int i)
{
	return (r * 100 + p) * 1000 + i;
}

static void
test_mesh(int count)
{
	int *send[MAX_RANKS], *recv[MAX_RANKS], host[64 * MAX_RANKS];

	for (int r = 0; r < w.n; r++) {
		for (int i = 0; i < count * w.n; i++)
			host[i] = word(r, i / count, i % count);
		send[r] = device_bytes(r, host, sizeof *host * (size_t)(count * w.n));
		recv[r] = device_bytes(r, NULL, sizeof *host * (size_t)(count * w.n));
	}
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++)
		for (int k = 0; k < w.n; k++) {
			int p = (r + k) % w.n;
			size_t n = (size_t)count;

			/* Each rank's own order. */
			if (r % 2)
				NCCL(ncclSend(send[r] + p * count, n, ncclInt32, p, w.comm[r],
					      w.stream[r]));
			NCCL(
			    ncclRecv(recv[r] + p * count, n, ncclInt32, p, w.comm[r], w.stream[r]));
			if (r % 2 == 0)
				NCCL(ncclSend(send[r] + p * count, n, ncclInt32, p, w.comm[r],
					      w.stream[r]));
		}
	NCCL(ncclGroupEnd());
	world_sync(&w);
	for (int r = 0; r < w.n; r++) {
		CUDA(cudaMemcpy(host, recv[r], sizeof *host * (size_t)(count * w.n),
				cudaMemcpyDefault));
		for (int i = 0; i < count * w.n; i++)
			CHECK(host[i] == word(i / count, r, i % count));
		CUDA(cudaFree(send[r]));
		CUDA(cudaFree(recv[r]));
	}
}

/* Two communicators on the same devices and streams, called in a different order by each rank; and
 * a third on its own streams, all in nested groups. */
static void
test_communicators(void)
{
	struct world second = w, third = w;
	float *buffer[3][MAX_RANKS], one[1] = {1}, host;

	NCCL(ncclCommInitAll(second.comm, w.n, NULL));
	NCCL(ncclCommInitAll(third.comm, w.n, NULL));
	world_streams(&third);
	for (int r = 0; r < w.n; r++)
		for (int c = 0; c < 3; c++) {
			one[0] = (float)(c + 1);
			buffer[c][r] = device_bytes(r, one, sizeof one);
		}
	for (int round = 0; round < 20; round++) {
		NCCL(ncclGroupStart());
		for (int r = 0; r < w.n; r++) {
			struct world *all[3] = {&w, &second, &third};

			NCCL(ncclGroupStart());
			for (int k = 0; k < 3; k++) {
				int c = r % 2 ? k : 2 - k;

				NCCL(ncclAllReduce(buffer[c][r], buffer[c][r], 1, ncclFloat,
						   ncclAvg, all[c]->comm[r], all[c]->stream[r]));
			}
			NCCL(ncclGroupEnd());
		}
		NCCL(ncclGroupEnd());
	}
	world_sync(&w);
	world_sync(&third);
	for (int r = 0; r < w.n; r++)
		for (int c = 0; c < 3; c++) {
			CUDA(cudaMemcpy(&host, buffer[c][r], sizeof host, cudaMemcpyDefault));
			CHECK(host == (float)(c + 1));
			CUDA(cudaFree(buffer[c][r]));
		}
	world_fini(&third);
	for (int r = 0; r < w.n; r++)
		NCCL(ncclCommDestroy(second.comm[r]));
}

/* An all-gather by doubling distances, its steps groups inside one group. */
static void
test_nested(void)
{
	int *p[MAX_RANKS], host[MAX_RANKS];

	if (w.n & (w.n - 1))
		return;
	for (int r = 0; r < w.n; r++) {
		memset(host, 0, sizeof host);
		host[r] = r + 1;
		p[r] = device_bytes(r, host, sizeof host);
	}
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++)
		for (int mask = 1; mask < w.n; mask *= 2) {
			int from = r & ~(mask - 1), to = from ^ mask;

			NCCL(ncclGroupStart());
			NCCL(ncclSend(p[r] + from, (size_t)mask, ncclInt, r ^ mask, w.comm[r],
				      w.stream[r]));
			NCCL(ncclRecv(p[r] + to, (size_t)mask, ncclInt, r ^ mask, w.comm[r],
				      w.stream[r]));
			NCCL(ncclGroupEnd());
		}
	NCCL(ncclGroupEnd());
	world_sync(&w);
	for (int r = 0; r < w.n; r++) {
		CUDA(cudaMemcpy(host, p[r], sizeof host, cudaMemcpyDefault));
		for (int i = 0; i < w.n; i++)
			CHECK(host[i] == i + 1);
		CUDA(cudaFree(p[r]));
	}
}

/* One communicator on two streams in one group: both keep the order with earlier and later work. */
static void
test_streams(void)
{
	struct world other = w;
	int *a[MAX_RANKS], *b[MAX_RANKS], host[2];
	const int n = 1 << 16;

	world_streams(&other);
	for (int r = 0; r < w.n; r++) {
		a[r] = device_bytes(r, NULL, sizeof(int) * n);
		b[r] = device_bytes(r, NULL, sizeof(int) * n);
		CUDA(cudaSetDevice(r));
		CUDA(cudaMemsetAsync(a[r], 1, sizeof(int) * n, w.stream[r]));
		CUDA(cudaMemsetAsync(b[r], 2, sizeof(int) * n, other.stream[r]));
	}
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++) {
		NCCL(ncclAllReduce(a[r], a[r], n, ncclInt, ncclMax, w.comm[r], w.stream[r]));
		NCCL(ncclAllReduce(b[r], b[r], n, ncclInt, ncclSum, w.comm[r], other.stream[r]));
	}
	NCCL(ncclGroupEnd());
	for (int r = 0; r < w.n; r++) {
		CUDA(cudaSetDevice(r));
		CUDA(cudaMemcpyAsync(&host[0], a[r] + n - 1, sizeof(int), cudaMemcpyDefault,
				     w.stream[r]));
		CUDA(cudaMemcpyAsync(&host[1], b[r] + n - 1, sizeof(int), cudaMemcpyDefault,
				     other.stream[r]));
		CUDA(cudaStreamSynchronize(w.stream[r]));
		CUDA(cudaStreamSynchronize(other.stream[r]));
		CHECK(host[0] == 0x01010101 && host[1] == 0x02020202 * w.n);
		CUDA(cudaFree(a[r]));
		CUDA(cudaFree(b[r]));
		CUDA(cudaStreamDestroy(other.stream[r]));
	}
}

/* No operation of a group with an invalid call begins. */
static void
test_failures(void)
{
	int *p[MAX_RANKS], host = 5;

	for (int r = 0; r < w.n; r++)
		p[r] = device_bytes(r, &host, sizeof host);
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++)
		NCCL(ncclAllReduce(p[r], p[r], 1, ncclInt, ncclSum, w.comm[r], w.stream[r]));
	WANT(ncclInvalidArgument,
	     ncclBroadcast(p[0], p[0], 1, ncclInt, w.n, w.comm[0], w.stream[0]));
	WANT(ncclInvalidArgument, ncclGroupEnd());
	world_sync(&w);
	CUDA(cudaMemcpy(&host, p[0], sizeof host, cudaMemcpyDefault));
	CHECK(host == 5);
	NCCL(ncclGroupStart());
	NCCL(ncclSend(p[0], 1, ncclInt, 0, w.comm[0], w.stream[0]));
	WANT(ncclInvalidUsage, ncclGroupEnd());
	CHECK(strstr(ncclGetLastError(NULL), "without a receive"));
	WANT(ncclInvalidUsage, ncclRecv(p[0], 1, ncclInt, 0, w.comm[0], w.stream[0]));
	WANT(ncclInvalidUsage, ncclGroupEnd());
	NCCL(ncclGroupStart());
	NCCL(ncclGroupEnd());
	for (int r = 0; r < w.n; r++)
		CUDA(cudaFree(p[r]));
}

/* More operations than a queue takes at once, from one thread for all devices. */
static void
test_long(void)
{
	const int n = 3000;
	int *p[MAX_RANKS], host = 1;

	for (int r = 0; r < w.n; r++)
		p[r] = device_bytes(r, &host, sizeof host);
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++)
		for (int i = 0; i < n; i++)
			NCCL(
			    ncclAllReduce(p[r], p[r], 1, ncclInt, ncclMax, w.comm[r], w.stream[r]));
	NCCL(ncclGroupEnd());
	world_sync(&w);
	for (int r = 0; r < w.n; r++) {
		CUDA(cudaMemcpy(&host, p[r], sizeof host, cudaMemcpyDefault));
		CHECK(host == 1);
		CUDA(cudaFree(p[r]));
	}
}

static void
test_simulate(void)
{
	ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER, wrong = {0};
	float *p[MAX_RANKS], host = 3, small;

	for (int r = 0; r < w.n; r++)
		p[r] = device_bytes(r, NULL, 1 << 20);
	CUDA(cudaMemcpy(p[0], &host, sizeof host, cudaMemcpyDefault));
	for (int large = 0; large < 2; large++) {
		NCCL(ncclGroupStart());
		for (int r = 0; r < w.n; r++)
			NCCL(ncclAllReduce(p[r], p[r], large ? 1 << 18 : 1, ncclFloat, ncclSum,
					   w.comm[r], w.stream[r]));
		NCCL(ncclGroupSimulateEnd(&info));
		CHECK(info.estimatedTime > 0);
		if (!large)
			small = info.estimatedTime;
		else
			CHECK(info.estimatedTime > small);
	}
	world_sync(&w);
	CUDA(cudaMemcpy(&host, p[0], sizeof host, cudaMemcpyDefault));
	CHECK(host == 3);
	NCCL(ncclGroupStart());
	WANT(ncclInvalidArgument, ncclGroupSimulateEnd(&wrong));
	WANT(ncclInvalidArgument, ncclGroupEnd());
	for (int r = 0; r < w.n; r++)
		CUDA(cudaFree(p[r]));
}

int
main(void)
{
	world_init(&w);
	test_mesh(1);
	test_mesh(63);
	test_mesh(0);
	test_nested();
	test_communicators();
	test_streams();
	test_failures();
	test_long();
	test_simulate();
	world_fini(&w);
	printf("groups are well\n");
	return 0;
}
