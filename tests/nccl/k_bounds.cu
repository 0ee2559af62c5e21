/*
 * k_bounds others|sticky|peers|small|many|late: kernels that touch memory that is not theirs fail, and change
 * nothing of another process, another device or another allocation.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cu.h"

enum { OTHERS = 1 << 20 };

__global__ void
poke(char *p, long at)
{
	if (threadIdx.x == 3)
		p[at] = 1;
}

__global__ void
sweep(char *p, long from, long to)
{
	for (long at = from; at < to; at += 4096)
		p[at] = 1;
}

/* The other process: fill memory, and find it unchanged. */
static int
neighbour(int in, int out)
{
	char *p, *q, *host, c = 0;
	int bad = 0;

	CU(cudaMalloc(&p, OTHERS));
	CU(cudaMalloc(&q, 100));
	CU(cudaMallocHost(&host, OTHERS));
	CU(cudaMemset(p, 0x5a, OTHERS));
	CU(cudaMemset(q, 0x5a, 100));
	CHECK(write(out, &c, 1) == 1 && read(in, &c, 1) == 1);
	CU(cudaMemcpy(host, p, OTHERS, cudaMemcpyDeviceToHost));
	for (int i = 0; i < OTHERS; i++)
		bad += host[i] != 0x5a;
	CU(cudaMemcpy(host, q, 100, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 100; i++)
		bad += host[i] != 0x5a;
	return bad != 0;
}

static void
others()
{
	static const long wild[] = {512 << 10, 1 << 20,	   64 << 20,  512 << 20,
				    -4096,     -(1 << 20), (1l << 30)};
	int there[2], back[2], status;
	char *p, c = 0;
	pid_t pid;

	CHECK(pipe(there) == 0 && pipe(back) == 0);
	pid = fork();
	if (pid == 0)
		_exit(neighbour(there[0], back[1]));
	CHECK(read(back[0], &c, 1) == 1);
	for (unsigned i = 0; i < sizeof wild / sizeof *wild; i++) {
		CU(cudaMalloc(&p, 256 << 10));
		poke<<<1, 4>>>(p, (256 << 10) - 1);
		CU(cudaDeviceSynchronize());
		poke<<<2, 4>>>(p, wild[i]);
		FAILS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
		CU(cudaDeviceReset());
	}
	/* Everything behind and before it, one page after the other. */
	for (long to = 4096; to < 64 << 20; to *= 8) {
		CU(cudaMalloc(&p, 64 << 10));
		sweep<<<1, 1>>>(p, to > 4096 ? to : 64 << 10, 64 << 20);
		FAILS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
		CU(cudaDeviceReset());
	}
	CHECK(write(there[1], &c, 1) == 1 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void
sticky()
{
	cudaStream_t s;
	cudaEvent_t v;
	char *p, *q, h = 0;
	int n;

	CU(cudaMalloc(&p, 40000));
	CU(cudaStreamCreate(&s));
	CU(cudaEventCreate(&v));
	poke<<<2, 4>>>(p, 40972);
	FAILS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	FAILS(cudaMalloc(&q, 4), cudaErrorIllegalAddress);
	FAILS(cudaMallocHost(&q, 4), cudaErrorIllegalAddress);
	FAILS(cudaMallocAsync(&q, 4, s), cudaErrorIllegalAddress);
	FAILS(cudaFree(p), cudaErrorIllegalAddress);
	FAILS(cudaFreeAsync(p, s), cudaErrorIllegalAddress);
	FAILS(cudaMemset(p, 0, 4), cudaErrorIllegalAddress);
	FAILS(cudaMemsetAsync(p, 0, 4, s), cudaErrorIllegalAddress);
	FAILS(cudaMemcpy(p, &h, 1, cudaMemcpyHostToDevice), cudaErrorIllegalAddress);
	FAILS(cudaMemcpyAsync(&h, p, 1, cudaMemcpyDeviceToHost, s), cudaErrorIllegalAddress);
	FAILS(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
	FAILS(cudaStreamQuery(s), cudaErrorIllegalAddress);
	FAILS(cudaEventRecord(v, s), cudaErrorIllegalAddress);
	FAILS(cudaEventQuery(v), cudaErrorIllegalAddress);
	poke<<<1, 4>>>(p, 0);
	FAILS(cudaGetLastError(), cudaErrorIllegalAddress);
	FAILS(cudaGetLastError(), cudaErrorIllegalAddress);
	FAILS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	/* The other device is well. */
	CU(cudaSetDevice(1));
	CU(cudaMalloc(&q, 4));
	poke<<<1, 4>>>(q, 0);
	CU(cudaDeviceSynchronize());
	FAILS(cudaFree(p), cudaErrorIllegalAddress);
	CU(cudaSetDevice(0));
	CU(cudaGetDeviceCount(&n));
	CU(cudaDeviceReset());
	FAILS(cudaGetLastError(), cudaSuccess);
	CU(cudaMalloc(&p, 4));
	poke<<<1, 4>>>(p, 0);
	CU(cudaDeviceSynchronize());
}

/* Another device's memory, with and without peer access. */
static void
peers()
{
	char *far;

	CU(cudaSetDevice(1));
	CU(cudaMalloc(&far, 1 << 20));
	CU(cudaSetDevice(0));
	CU(cudaDeviceEnablePeerAccess(1, 0));
	poke<<<1, 4>>>(far, 0);
	CU(cudaDeviceSynchronize());
	CU(cudaDeviceDisablePeerAccess(1));
	poke<<<1, 4>>>(far, 0);
	FAILS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

/* Small allocations fill a device; each keeps its bytes. */
static void
small()
{
	enum { N = 4 << 10 };
	static char *p[N];
	size_t left, total;
	int n = 0, back = 0;

	CU(cudaMemGetInfo(&left, &total));
	while (n < N && cudaMalloc(&p[n], 2000) == cudaSuccess)
		n++;
	cudaGetLastError();
	CHECK(n * 2048ull >= total / 100 * 95 || n == N);
	for (int i = 0; i < n; i++) {
		CHECK((size_t)p[i] % 512 == 0);
		CU(cudaMemset(p[i], i & 0x7f, 2000));
	}
	for (int i = 0; i < n; i += 7) {
		char h[2000];

		CU(cudaMemcpy(h, p[i], sizeof h, cudaMemcpyDeviceToHost));
		back += h[0] == (i & 0x7f) && h[1999] == (i & 0x7f);
	}
	CHECK(back == (n + 6) / 7);
	for (int i = 0; i < n; i++)
		CU(cudaFree(p[i]));
	CU(cudaMalloc(&p[0], total / 100 * 99));
	puts(n == N ? "too large a device" : "full");
}

/* More allocations than a device leases to a process. */
static void
many()
{
	enum { N = 6000 };
	static char *p[N];
	char h = 0;

	for (int i = 0; i < N; i++) {
		CU(cudaMalloc(&p[i], 32 << 10));
		CU(cudaMemset(p[i], i & 0x7f, 8));
		poke<<<1, 4>>>(p[i], (32 << 10) - 1);
	}
	CU(cudaDeviceSynchronize());
	for (int i = 0; i < N; i += 59) {
		CU(cudaMemcpy(&h, p[i] + 7, 1, cudaMemcpyDeviceToHost));
		CHECK(h == (i & 0x7f));
		CU(cudaMemcpy(&h, p[i] + (32 << 10) - 1, 1, cudaMemcpyDeviceToHost));
		CHECK(h == 1);
	}
	for (int i = 0; i < N; i++)
		CU(cudaFree(p[i]));
}

__global__ void
follow(char *volatile *slot, volatile int *go, volatile int *done)
{
	while (!*go)
		__nanosleep(1000);
	**slot = 7;
	*done = 1;
}

/* Memory that is allocated, and other memory that is freed, while a kernel runs. */
static void
late()
{
	char **slot, *p, *q, h = 0;
	int *go;
	cudaStream_t s;

	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CU(cudaMallocHost(&slot, sizeof *slot));
	CU(cudaMallocHost(&go, 2 * sizeof *go));
	go[0] = go[1] = 0;
	CU(cudaSetDevice(1));
	CU(cudaMalloc(&q, 1 << 20));
	CU(cudaSetDevice(0));
	follow<<<1, 1, 0, s>>>(slot, go, go + 1);
	CU(cudaSetDevice(1));
	CU(cudaFree(q)); /* waits until the helper that runs the kernel has unmapped it */
	CU(cudaMallocManaged(&p, 1 << 20));
	*slot = p;
	__sync_synchronize();
	*(volatile int *)go = 1;
	CU(cudaSetDevice(0));
	CU(cudaStreamSynchronize(s));
	CU(cudaMemcpy(&h, p, 1, cudaMemcpyDeviceToHost));
	CHECK(h == 7 && go[1] == 1);
	/* Memory that was used, and then freed. */
	CU(cudaMalloc(&p, 50000));
	poke<<<1, 4>>>(p, 0);
	CU(cudaFree(p));
	poke<<<1, 4>>>(p, 5);
	FAILS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)();
	} ways[] = {{"others", others}, {"sticky", sticky}, {"peers", peers},
		    {"small", small},	{"many", many},	    {"late", late}};

	for (auto &w : ways)
		if (argc == 2 && !strcmp(argv[1], w.name)) {
			w.run();
			puts("well");
			return 0;
		}
	return 2;
}
