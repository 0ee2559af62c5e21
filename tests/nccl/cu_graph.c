/* Stream capture and graphs, on two devices. */
#include <pthread.h>
#include <string.h>

#include "cu.h"

#define N 50000

static int host[N];

static void
expect(const int *device, int want)
{
	CU(cudaMemcpy(host, device, sizeof host, cudaMemcpyDefault));
	for (int i = 0; i < N; i++)
		CHECK(host[i] == want);
}

static int counted;

static void
count(void *arg)
{
	counted += (int)(long)arg;
}

static void
replay(void)
{
	int *a, *b, *pinned;
	cudaStream_t s;
	cudaGraph_t g;
	cudaGraphExec_t x;
	enum cudaStreamCaptureStatus status;
	unsigned long long id = 0;
	const cudaGraphNode_t *deps;
	cudaGraphNode_t nodes[10];
	enum cudaGraphNodeType type;
	size_t n;

	CU(cudaMalloc((void **)&a, sizeof host));
	CU(cudaMalloc((void **)&b, sizeof host));
	CU(cudaMallocHost((void **)&pinned, sizeof host));
	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CU(cudaMemset(a, 0, sizeof host));
	CU(cudaMemset(b, 0x11, sizeof host));
	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	CU(cudaStreamIsCapturing(s, &status));
	CHECK(status == cudaStreamCaptureStatusActive);
	CU(cudaMemcpyAsync(a, pinned, sizeof host, cudaMemcpyHostToDevice, s));
	CU(cudaMemcpyAsync(b, a, sizeof host, cudaMemcpyDeviceToDevice, s));
	CU(cudaMemsetAsync(a, 0x22, sizeof host, s));
	CU(cudaLaunchHostFunc(s, count, (void *)5));
	CU(cudaStreamGetCaptureInfo(s, &status, &id, &g, &deps, &n));
	CHECK(id != 0 && n == 1);
	CU(cudaGraphNodeGetType(deps[0], &type));
	CHECK(type == cudaGraphNodeTypeHost);
	CU(cudaStreamEndCapture(s, &g));
	CU(cudaStreamIsCapturing(s, &status));
	CHECK(status == cudaStreamCaptureStatusNone);
	/* Nothing has run. */
	CU(cudaStreamSynchronize(s));
	expect(b, 0x11111111);
	CHECK(counted == 0);
	n = 10;
	CU(cudaGraphGetNodes(g, nodes, &n));
	CHECK(n == 4);
	CU(cudaGraphGetEdges(g, NULL, NULL, &n));
	CHECK(n == 3);
	CU(cudaGraphInstantiate(&x, g, 0));
	CU(cudaGraphDestroy(g));
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < N; i++)
			pinned[i] = round;
		CU(cudaGraphLaunch(x, s));
		CU(cudaStreamSynchronize(s));
		expect(b, round);
		expect(a, 0x22222222);
		CHECK(counted == 5 * (round + 1));
	}
	CU(cudaGraphExecDestroy(x));
	FAILS(cudaGraphLaunch(NULL, s), cudaErrorInvalidValue);
	CU(cudaStreamDestroy(s));
	CU(cudaFree(a));
	CU(cudaFree(b));
	CU(cudaFreeHost(pinned));
}

/* Two streams of one device and one of another, forked and joined by events. */
static void
forked(void)
{
	int *a, *b, *c, *d;
	cudaStream_t s, t, u;
	cudaEvent_t fork, join, far;
	cudaGraph_t g;
	cudaGraphExec_t x;

	CU(cudaMalloc((void **)&a, sizeof host));
	CU(cudaMalloc((void **)&b, sizeof host));
	CU(cudaMalloc((void **)&c, sizeof host));
	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CU(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
	CU(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CU(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	CU(cudaSetDevice(1));
	CU(cudaMalloc((void **)&d, sizeof host));
	CU(cudaStreamCreateWithFlags(&u, cudaStreamNonBlocking));
	CU(cudaEventCreateWithFlags(&far, cudaEventDisableTiming));
	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	CU(cudaMemsetAsync(a, 1, sizeof host, s));
	CU(cudaEventRecord(fork, s));
	CU(cudaStreamWaitEvent(t, fork, 0));
	CU(cudaStreamWaitEvent(u, fork, 0));
	CU(cudaMemcpyAsync(b, a, sizeof host, cudaMemcpyDefault, t)); /* 1 */
	CU(cudaMemcpyAsync(d, a, sizeof host, cudaMemcpyDefault, u)); /* 1 */
	CU(cudaEventRecord(join, t));
	CU(cudaEventRecord(far, u));
	CU(cudaStreamWaitEvent(s, join, 0));
	CU(cudaStreamWaitEvent(s, far, 0));
	CU(cudaMemsetAsync(a, 2, sizeof host, s));
	CU(cudaMemcpyAsync(c, d, sizeof host, cudaMemcpyDefault, s));
	FAILS(cudaEventQuery(far), cudaErrorCapturedEvent);
	CU(cudaStreamEndCapture(s, &g));
	CU(cudaGraphInstantiate(&x, g, 0));
	for (int round = 0; round < 10; round++) {
		CU(cudaMemset(d, 9, sizeof host));
		CU(cudaDeviceSynchronize());
		CU(cudaGraphLaunch(x, s));
		CU(cudaGraphLaunch(x, t));
		CU(cudaStreamSynchronize(t));
		expect(a, 0x02020202);
		expect(b, 0x01010101);
		expect(c, 0x01010101);
		expect(d, 0x01010101);
	}
	CU(cudaGraphExecDestroy(x));
	CU(cudaGraphDestroy(g));
	/* A stream that is not joined. */
	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	CU(cudaEventRecord(fork, s));
	CU(cudaStreamWaitEvent(t, fork, 0));
	CU(cudaMemsetAsync(a, 1, sizeof host, t));
	FAILS(cudaStreamEndCapture(t, &g), cudaErrorStreamCaptureUnmatched);
	FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	CU(cudaEventRecord(fork, s));
	CU(cudaStreamWaitEvent(t, fork, 0));
	CU(cudaMemsetAsync(a, 1, sizeof host, t));
	FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureUnjoined);
	CHECK(g == NULL);
	CU(cudaStreamQuery(t));
	CU(cudaSetDevice(0));
}

/* Forbidden calls. */
static void
forbidden(void)
{
	cudaStream_t s, t, blocking;
	cudaEvent_t outside;
	cudaGraph_t g;
	enum cudaStreamCaptureStatus status;
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	void *p, *q;

	CU(cudaMalloc(&q, 100));
	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CU(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
	CU(cudaStreamCreate(&blocking));
	CU(cudaEventCreate(&outside));
	CU(cudaEventRecord(outside, t));
	FAILS(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal),
	      cudaErrorStreamCaptureUnsupported);
	FAILS(cudaStreamEndCapture(s, &g), cudaErrorIllegalState);
	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	FAILS(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
	FAILS(cudaMalloc(&p, 10), cudaErrorStreamCaptureUnsupported);
	CU(cudaStreamIsCapturing(s, &status));
	CHECK(status == cudaStreamCaptureStatusInvalidated);
	FAILS(cudaMemsetAsync(q, 0, 1, s), cudaErrorStreamCaptureInvalidated);
	FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);

	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	CU(cudaMalloc(&p, 10));
	FAILS(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
	FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);

	CU(cudaThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == cudaStreamCaptureModeGlobal);
	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
	CU(cudaFree(p));
	CU(cudaThreadExchangeStreamCaptureMode(&mode));
	FAILS(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
	FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);

	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	FAILS(cudaStreamWaitEvent(s, outside, 0), cudaErrorStreamCaptureIsolation);
	FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);

	CU(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
	FAILS(cudaMemsetAsync(q, 0, 1, 0), cudaErrorStreamCaptureImplicit);
	FAILS(cudaStreamEndCapture(blocking, &g), cudaErrorStreamCaptureInvalidated);

	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	CU(cudaStreamBeginCapture(t, cudaStreamCaptureModeRelaxed));
	CU(cudaEventRecord(outside, s));
	FAILS(cudaStreamWaitEvent(t, outside, 0), cudaErrorStreamCaptureMerge);
	FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
	FAILS(cudaStreamEndCapture(t, &g), cudaErrorStreamCaptureInvalidated);
	CU(cudaFree(q));
}

static cudaStream_t captured;

static void *
other_thread(void *arg)
{
	cudaGraph_t g;
	void *p;

	(void)arg;
	FAILS(cudaStreamEndCapture(captured, &g), cudaErrorStreamCaptureWrongThread);
	CU(cudaMalloc(&p, 10)); /* the capture belongs only to the other thread */
	CU(cudaFree(p));
	return NULL;
}

static void
threads(void)
{
	pthread_t t;
	cudaGraph_t g;

	CU(cudaStreamCreate(&captured));
	CU(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal));
	pthread_create(&t, NULL, other_thread, NULL);
	pthread_join(t, NULL);
	CU(cudaStreamEndCapture(captured, &g));
	CU(cudaGraphDestroy(g));
}

/* Nodes that the program adds; updates. */
static void
explicit_nodes(void)
{
	int *a, *b;
	cudaStream_t s;
	cudaGraph_t g, child, clone;
	cudaGraphExec_t x;
	cudaGraphNode_t set, copy, fn, kid, join, found;
	cudaGraphExecUpdateResultInfo info;
	cudaGraphNode_t two[2];
	struct cudaMemsetParams m = {.value = 7, .elementSize = 4, .width = N, .height = 1};
	struct cudaHostNodeParams h = {count, (void *)1};

	CU(cudaStreamCreate(&s));
	CU(cudaMalloc((void **)&a, sizeof host));
	CU(cudaMalloc((void **)&b, sizeof host));
	m.dst = a;
	m.pitch = sizeof host;
	CU(cudaGraphCreate(&child, 0));
	CU(cudaGraphAddHostNode(&fn, child, NULL, 0, &h));
	CU(cudaGraphCreate(&g, 0));
	CU(cudaGraphAddMemsetNode(&set, g, NULL, 0, &m));
	CU(cudaGraphAddMemcpyNode1D(&copy, g, &set, 1, b, a, sizeof host, cudaMemcpyDefault));
	CU(cudaGraphAddChildGraphNode(&kid, g, &set, 1, child));
	two[0] = copy;
	two[1] = kid;
	CU(cudaGraphAddEmptyNode(&join, g, two, 2));
	m.value = 8;
	CU(cudaGraphAddMemsetNode(&found, g, &join, 1, &m));
	CU(cudaGraphInstantiate(&x, g, 0));
	counted = 0;
	CU(cudaGraphLaunch(x, s));
	CU(cudaGraphLaunch(x, s));
	CU(cudaStreamSynchronize(s));
	CHECK(counted == 2);
	expect(b, 7);
	expect(a, 8);
	m.value = 70000;
	CU(cudaGraphExecMemsetNodeSetParams(x, set, &m));
	CU(cudaGraphLaunch(x, s));
	CU(cudaStreamSynchronize(s));
	expect(b, 70000);
	CU(cudaGraphClone(&clone, g));
	CU(cudaGraphNodeFindInClone(&found, set, clone));
	m.value = 9;
	CU(cudaGraphMemsetNodeSetParams(found, &m));
	CU(cudaGraphExecUpdate(x, clone, &info));
	CU(cudaGraphLaunch(x, s));
	CU(cudaStreamSynchronize(s));
	expect(b, 9);
	CU(cudaGraphDestroyNode(found));
	FAILS(cudaGraphExecUpdate(x, clone, &info), cudaErrorGraphExecUpdateFailure);
	CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
	/* A circle. */
	CU(cudaGraphAddDependencies(g, &join, &set, 1));
	FAILS(cudaGraphInstantiate(&x, g, 0), cudaErrorInvalidValue);
	CU(cudaGraphDestroy(g));
	CU(cudaGraphDestroy(child));
	CU(cudaGraphDestroy(clone));
	CU(cudaFree(a));
	CU(cudaFree(b));
}

int
main(void)
{
	replay();
	forked();
	forbidden();
	threads();
	explicit_nodes();
	puts("all is well");
	return 0;
}
