/*
 * nccl_stuck MODE RANK - all ranks but one do the same; this one does what MODE says, so that all
 * stall. Then the program waits until its standard input ends.
 */
#include "nccl_test.h"

#define N (1 << 20)

static struct world w;
static float *data[MAX_RANKS];
static int odd;
static int gate[2];

static void
hold(void *arg)
{
	char c;

	(void)arg;
	(void)!read(gate[0], &c, 1);
}

static void
all_reduce(int r, ncclComm_t comm, size_t n, ncclDataType_t type)
{
	CUDA(cudaSetDevice(r));
	NCCL(ncclAllReduce(data[r], data[r], n, type, ncclSum, comm, w.stream[r]));
}

static void
missing(int r)
{
	if (r != odd)
		all_reduce(r, w.comm[r], N, ncclFloat);
}

static void
size(int r)
{
	all_reduce(r, w.comm[r], r == odd ? N / 2 : N, ncclFloat);
}

static void
type(int r)
{
	all_reduce(r, w.comm[r], N, r == odd ? ncclInt : ncclFloat);
}

static void
order(int r)
{
	CUDA(cudaSetDevice(r));
	if (r == odd)
		NCCL(ncclBroadcast(data[r], data[r], N, ncclFloat, 0, w.comm[r], w.stream[r]));
	all_reduce(r, w.comm[r], N, ncclFloat);
	if (r != odd)
		NCCL(ncclBroadcast(data[r], data[r], N, ncclFloat, 0, w.comm[r], w.stream[r]));
}

static void
host(int r)
{
	CUDA(cudaSetDevice(r));
	if (r == odd)
		CUDA(cudaLaunchHostFunc(w.stream[r], hold, NULL));
	all_reduce(r, w.comm[r], N, ncclFloat);
}

static void
event(int r)
{
	cudaStream_t other;
	cudaEvent_t e;

	CUDA(cudaSetDevice(r));
	if (r == odd) {
		CUDA(cudaStreamCreate(&other));
		CUDA(cudaEventCreate(&e));
		CUDA(cudaLaunchHostFunc(other, hold, NULL));
		CUDA(cudaEventRecord(e, other));
		CUDA(cudaStreamWaitEvent(w.stream[r], e, 0));
	}
	all_reduce(r, w.comm[r], N, ncclFloat);
}

static void
recv_only(int r)
{
	CUDA(cudaSetDevice(r));
	if (r == odd)
		NCCL(ncclRecv(data[r], N, ncclFloat, (r + 1) % w.n, w.comm[r], w.stream[r]));
}

/* Its group stays open, and all later calls of the thread are in it: it must be the last rank. */
static void
group(int r)
{
	if (r == odd)
		NCCL(ncclGroupStart());
	all_reduce(r, w.comm[r], N, ncclFloat);
}

static void
memory(int r)
{
	void *p;

	CUDA(cudaSetDevice(r));
	if (r == odd)
		CHECK(cudaMalloc(&p, (size_t)1 << 40) == cudaErrorMemoryAllocation);
	else
		all_reduce(r, w.comm[r], N, ncclFloat);
}

static void
pass_on(int r, int from, int to)
{
	CUDA(cudaSetDevice(r));
	if (odd)
		NCCL(ncclRecv(data[r], N, ncclFloat, from, w.comm[r], w.stream[r]));
	NCCL(ncclSend(data[r], N, ncclFloat, to, w.comm[r], w.stream[r]));
	if (!odd)
		NCCL(ncclRecv(data[r], N, ncclFloat, from, w.comm[r], w.stream[r]));
}

/* All send to the next and then receive; with RANK 1 the other way round. */
static void
ring(int r)
{
	pass_on(r, (r + w.n - 1) % w.n, (r + 1) % w.n);
}

static void
pause_for(void *arg)
{
	(void)arg;
	usleep(700000);
}

/* The rank is late for each of many operations. */
static void
late(int r)
{
	CUDA(cudaSetDevice(r));
	for (int i = 0; i < 300; i++) {
		if (r == odd)
			CUDA(cudaLaunchHostFunc(w.stream[r], pause_for, NULL));
		all_reduce(r, w.comm[r], 1024, ncclFloat);
	}
}

static ncclComm_t second[MAX_RANKS];

static void
crossed(int r)
{
	all_reduce(r, r == odd ? second[r] : w.comm[r], N, ncclFloat);
	all_reduce(r, r == odd ? w.comm[r] : second[r], N, ncclFloat);
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(int r);
	} mode[] = {{"missing", missing}, {"size", size},	{"type", type},
		    {"order", order},	  {"host", host},	{"event", event},
		    {"recv", recv_only},  {"crossed", crossed}, {"group", group},
		    {"memory", memory},	  {"ring", ring},	{"late", late}};
	char c;

	CHECK(argc == 3 && pipe(gate) == 0);
	odd = atoi(argv[2]);
	world_init(&w);
	for (int r = 0; r < w.n; r++)
		data[r] = device_bytes(r, NULL, N * sizeof(float));
	for (int r = 0; r < w.n; r++)
		all_reduce(r, w.comm[r], 8, ncclFloat);
	world_sync(&w);
	if (strcmp(argv[1], "crossed") == 0)
		NCCL(ncclCommInitAll(second, w.n, NULL));
	for (size_t i = 0; i < sizeof mode / sizeof *mode; i++)
		for (int r = 0; r < w.n && strcmp(argv[1], mode[i].name) == 0; r++)
			mode[i].run(r);
	printf("ready\n");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	_exit(0);
}
