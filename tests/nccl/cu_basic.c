/* Devices, memory, copies, streams and events of the CUDA runtime, on two devices. */
#include <string.h>

#include "cu.h"

#define N 100000

static int host[N], back[N];

static void
devices(void)
{
	struct cudaDeviceProp p;
	char bus[32];
	int n, d, value;
	size_t free_bytes, total;

	CU(cudaGetDeviceCount(&n));
	CHECK(n == 2);
	CU(cudaGetDevice(&d));
	CHECK(d == 0);
	FAILS(cudaSetDevice(2), cudaErrorInvalidDevice);
	FAILS(cudaSetDevice(-1), cudaErrorInvalidDevice);
	CU(cudaGetDeviceProperties(&p, 1));
	CHECK(p.major == 9 && p.warpSize == 32 && p.unifiedAddressing == 1 && *p.name);
	CU(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
	CHECK(value == p.major);
	CU(cudaMemGetInfo(&free_bytes, &total));
	CHECK(total == p.totalGlobalMem && free_bytes <= total && free_bytes > 0);
	CU(cudaDeviceGetPCIBusId(bus, sizeof bus, 1));
	CU(cudaDeviceGetByPCIBusId(&d, bus));
	CHECK(d == 1);
	CU(cudaDeviceCanAccessPeer(&value, 0, 1));
	CHECK(value == 1);
	CU(cudaDeviceEnablePeerAccess(1, 0));
	FAILS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
	CU(cudaDeviceDisablePeerAccess(1));
	FAILS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
	CU(cudaRuntimeGetVersion(&value));
	CHECK(value == 12040);
}

static void
last_error(void)
{
	CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
	CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
	CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
	CHECK(cudaGetLastError() == cudaSuccess);
	CHECK(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
	CHECK(strcmp(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady") == 0);
}

static void
pointers(void)
{
	struct cudaPointerAttributes a;
	char *p, *q, *pinned, *same;

	CU(cudaMalloc((void **)&p, 1000));
	CU(cudaSetDevice(1));
	CU(cudaMalloc((void **)&q, 1000));
	CU(cudaSetDevice(0));
	CU(cudaPointerGetAttributes(&a, q + 10));
	CHECK(a.type == cudaMemoryTypeDevice && a.device == 1 && a.devicePointer == q + 10);
	CHECK(a.hostPointer == NULL);
	CU(cudaPointerGetAttributes(&a, host));
	CHECK(a.type == cudaMemoryTypeUnregistered);
	CU(cudaMallocHost((void **)&pinned, 5000));
	CU(cudaPointerGetAttributes(&a, pinned + 4999));
	CHECK(a.type == cudaMemoryTypeHost && a.hostPointer == pinned + 4999);
	CU(cudaHostGetDevicePointer((void **)&same, pinned, 0));
	CHECK(same == pinned);
	memset(pinned, 7, 5000);
	/* Memory outside of an allocation, which is whole 512 bytes, is unchanged. */
	CU(cudaMemset(p, 0, 1024));
	FAILS(cudaMemcpy(p, host, 1025, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	FAILS(cudaMemcpy(p + 1023, host, 2, cudaMemcpyDefault), cudaErrorInvalidValue);
	FAILS(cudaMemset(p + 1, 0, 1024), cudaErrorInvalidValue);
	FAILS(cudaMemcpy(p, host, 10, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
	FAILS(cudaMemcpy(p, host, 10, (enum cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
	FAILS(cudaFree(p + 1), cudaErrorInvalidValue);
	FAILS(cudaFree(host), cudaErrorInvalidValue);
	FAILS(cudaFreeHost(p), cudaErrorInvalidValue);
	FAILS(cudaMalloc((void **)&p, (size_t)1 << 50), cudaErrorMemoryAllocation);
	CHECK(p == NULL);
	CU(cudaFree(NULL));
	CU(cudaFree(q));
	FAILS(cudaFree(q), cudaErrorInvalidValue);
	FAILS(cudaMemcpy(q, host, 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	CU(cudaFreeHost(pinned));
	CU(cudaHostRegister(host, sizeof host, 0));
	FAILS(cudaHostRegister(host, sizeof host, 0), cudaErrorHostMemoryAlreadyRegistered);
	CU(cudaPointerGetAttributes(&a, host));
	CHECK(a.type == cudaMemoryTypeHost);
	FAILS(cudaHostGetDevicePointer((void **)&same, host, 0), cudaErrorNotSupported);
	CU(cudaHostUnregister(host));
	FAILS(cudaHostUnregister(host), cudaErrorHostMemoryNotRegistered);
}

static void
copies(void)
{
	int *a, *b, *other, *managed, *pinned;
	cudaStream_t s;

	CU(cudaMalloc((void **)&a, sizeof host));
	CU(cudaMalloc((void **)&b, sizeof host));
	CU(cudaSetDevice(1));
	CU(cudaMalloc((void **)&other, sizeof host));
	CU(cudaSetDevice(0));
	CU(cudaMallocManaged((void **)&managed, sizeof host, cudaMemAttachGlobal));
	CU(cudaHostAlloc((void **)&pinned, sizeof host, cudaHostAllocMapped));
	for (int i = 0; i < N; i++)
		host[i] = 3 * i;
	CU(cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice));
	CU(cudaMemcpy(b, a, sizeof host, cudaMemcpyDeviceToDevice));
	CU(cudaMemcpyPeer(other, 1, b, 0, sizeof host));
	CU(cudaMemcpy(managed, other, sizeof host, cudaMemcpyDefault));
	CHECK(memcmp(managed, host, sizeof host) == 0);
	managed[5] = -1;
	CU(cudaMemcpy(pinned, managed, sizeof host, cudaMemcpyDefault));
	CHECK(pinned[5] == -1 && pinned[N - 1] == host[N - 1]);

	/* A stream's order, through all paths of copies. */
	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < N; i++)
			pinned[i] = host[i] = i + round;
		CU(cudaMemcpyAsync(a, round % 2 ? pinned : host, sizeof host, cudaMemcpyDefault,
				   s));
		if (round % 2 == 0)
			memset(host, 0, sizeof host);
		CU(cudaMemcpyAsync(b, a, sizeof host, cudaMemcpyDeviceToDevice, s));
		CU(cudaMemcpyAsync(other, b, sizeof host, cudaMemcpyDefault, s));
		CU(cudaMemsetAsync(b, 0xff, sizeof host, s));
		CU(cudaMemcpyAsync(managed, other, sizeof host, cudaMemcpyDefault, s));
		CU(cudaMemcpyAsync(back, managed, sizeof host, cudaMemcpyDeviceToHost, s));
		for (int i = 0; i < N; i++)
			CHECK(back[i] == i + round);
		CU(cudaMemcpyAsync(pinned, b, sizeof host, cudaMemcpyDeviceToHost, s));
		CU(cudaStreamSynchronize(s));
		CHECK(pinned[0] == -1 && pinned[N - 1] == -1);
	}
	CU(cudaStreamDestroy(s));
	FAILS(cudaStreamSynchronize(s), cudaErrorInvalidResourceHandle);
	CU(cudaFree(a));
	CU(cudaFree(b));
	CU(cudaFree(other));
	CU(cudaFree(managed));
	CU(cudaFreeHost(pinned));
}

static void
pitched(void)
{
	unsigned char *p, in[30 * 20], out[30 * 20];
	struct cudaPitchedPtr box;
	struct cudaMemcpy3DParms c = {.extent = {30, 10, 2}, .kind = cudaMemcpyHostToDevice};
	size_t pitch;

	for (int i = 0; i < 600; i++)
		in[i] = (unsigned char)(i * 7);
	CU(cudaMallocPitch((void **)&p, &pitch, 30, 20));
	CHECK(pitch >= 30);
	CU(cudaMemset2D(p, pitch, 9, 30, 20));
	CU(cudaMemcpy2D(p, pitch, in, 30, 20, 20, cudaMemcpyHostToDevice));
	CU(cudaMemcpy2D(out, 30, p, pitch, 30, 20, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 600; i++)
		CHECK(out[i] == (i % 30 < 20 ? in[i] : 9));
	FAILS(cudaMemcpy2D(p, 10, in, 30, 20, 20, cudaMemcpyHostToDevice),
	      cudaErrorInvalidPitchValue);
	CU(cudaFree(p));
	CU(cudaMalloc3D(&box, c.extent));
	c.srcPtr = (struct cudaPitchedPtr){in, 30, 30, 10};
	c.dstPtr = box;
	CU(cudaMemcpy3D(&c));
	c.dstPtr = (struct cudaPitchedPtr){out, 30, 30, 10};
	c.srcPtr = box;
	c.kind = cudaMemcpyDeviceToHost;
	memset(out, 0, sizeof out);
	CU(cudaMemcpy3D(&c));
	CHECK(memcmp(in, out, sizeof in) == 0);
	CU(cudaFree(box.ptr));
}

/* Work of the legacy stream follows all earlier work, and precedes all later work. */
static void
legacy_order(void)
{
	cudaStream_t s[4];
	unsigned char *p, got[8];

	CU(cudaMalloc((void **)&p, 64 << 20));
	for (int i = 0; i < 4; i++)
		CU(cudaStreamCreate(&s[i]));
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 4; i++)
			CU(cudaMemsetAsync(p, 1 + i, (size_t)(8 << 20) + i, s[i]));
		CU(cudaMemset(p, 50 + round, 32 << 20));
		CU(cudaMemcpyAsync(p + (40 << 20), p, 8, cudaMemcpyDeviceToDevice, s[round % 4]));
		CU(cudaMemcpy(got, p + (40 << 20), 8, cudaMemcpyDeviceToHost));
		CHECK(got[0] == 50 + round && got[7] == 50 + round);
	}
	for (int i = 0; i < 4; i++)
		CU(cudaStreamDestroy(s[i]));
	CU(cudaFree(p));
}

static int steps[100], nsteps;

static void
step(void *arg)
{
	steps[nsteps++] = (int)(long)arg;
	CHECK(cudaStreamQuery(0) == cudaErrorNotPermitted);
}

static void
called(cudaStream_t s, cudaError_t e, void *arg)
{
	CHECK(s != NULL && e == cudaSuccess);
	step(arg);
}

static void
events(void)
{
	cudaEvent_t start, end, other, plain;
	cudaStream_t s, t;
	float ms;
	char *p;

	CU(cudaMalloc((void **)&p, 1 << 20));
	CU(cudaStreamCreate(&s));
	CU(cudaEventCreate(&start));
	CU(cudaEventCreate(&end));
	CU(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
	CU(cudaEventQuery(start));
	FAILS(cudaEventElapsedTime(&ms, start, end), cudaErrorInvalidResourceHandle);
	CU(cudaEventRecord(start, s));
	for (int i = 0; i < 50; i++)
		CU(cudaMemsetAsync(p, i, 1 << 20, s));
	CU(cudaEventRecord(end, s));
	CU(cudaEventRecord(plain, s));
	CU(cudaEventSynchronize(plain));
	CU(cudaEventQuery(end));
	CU(cudaEventElapsedTime(&ms, start, end));
	CHECK(ms > 0 && ms < 60000);
	FAILS(cudaEventElapsedTime(&ms, start, plain), cudaErrorInvalidResourceHandle);

	/* A host function, and a stream of another device that waits for it. */
	CU(cudaSetDevice(1));
	CU(cudaStreamCreate(&t));
	CU(cudaEventCreate(&other));
	FAILS(cudaEventRecord(other, s), cudaErrorInvalidResourceHandle);
	for (long i = 0; i < 30; i += 3) {
		CU(cudaLaunchHostFunc(s, step, (void *)i));
		CU(cudaEventRecord(plain, s));
		CU(cudaStreamWaitEvent(t, plain, 0));
		CU(cudaLaunchHostFunc(t, step, (void *)(i + 1)));
		CU(cudaEventRecord(other, t));
		CU(cudaStreamWaitEvent(s, other, 0));
		CU(cudaStreamAddCallback(s, called, (void *)(i + 2), 0));
	}
	CU(cudaStreamSynchronize(s));
	CU(cudaStreamSynchronize(t));
	CHECK(nsteps == 30);
	for (int i = 0; i < 30; i++)
		CHECK(steps[i] == i);
	CU(cudaStreamQuery(s));
	CU(cudaDeviceSynchronize());
	CU(cudaEventDestroy(start));
	FAILS(cudaEventRecord((cudaEvent_t)NULL, s), cudaErrorInvalidResourceHandle);
	CU(cudaSetDevice(0));
	CU(cudaDeviceReset());
}

static void
pools(void)
{
	cudaStream_t s;
	char *p[20], c;

	CU(cudaStreamCreate(&s));
	for (int i = 0; i < 20; i++) {
		CU(cudaMallocAsync((void **)&p[i], 10000, s));
		CU(cudaMemsetAsync(p[i], i, 10000, s));
	}
	for (int i = 0; i < 20; i++) {
		CU(cudaMemcpyAsync(&c, p[i] + 9999, 1, cudaMemcpyDeviceToHost, s));
		CHECK(c == i);
		CU(cudaFreeAsync(p[i], s));
		FAILS(cudaFreeAsync(p[i], s), cudaErrorInvalidValue);
	}
	CU(cudaStreamSynchronize(s));
}

int
main(void)
{
	devices();
	last_error();
	pointers();
	copies();
	pitched();
	legacy_order();
	events();
	pools();
	puts("all is well");
	return 0;
}
