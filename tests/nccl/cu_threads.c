/* Threads that use the runtime concurrently: each has its own current device, errors, streams and memory. */
#include <pthread.h>

#include "cu.h"

#define THREADS 4
#define ROUNDS	40
#define N	20000

static void *
work(void *arg)
{
	int self = (int)(long)arg, device;
	unsigned char *p, *q, *pinned, got[2];
	cudaStream_t s;
	cudaEvent_t v;
	cudaGraph_t g;
	cudaGraphExec_t x;

	CU(cudaSetDevice(self % 2));
	for (int round = 0; round < ROUNDS; round++) {
		int value = self * ROUNDS + round;

		CU(cudaStreamCreateWithFlags(&s, round % 2 ? cudaStreamNonBlocking : 0));
		CU(cudaEventCreate(&v));
		CU(cudaMalloc((void **)&p, N));
		CU(cudaMalloc((void **)&q, N));
		CU(cudaMallocHost((void **)&pinned, N));
		CU(cudaMemsetAsync(p, value, N, s));
		CU(cudaEventRecord(v, s));
		CU(cudaStreamWaitEvent(cudaStreamPerThread, v, 0));
		CU(cudaMemcpyAsync(q, p, N, cudaMemcpyDefault, cudaStreamPerThread));
		CU(cudaMemcpyAsync(pinned, q, N, cudaMemcpyDefault, cudaStreamPerThread));
		CU(cudaStreamSynchronize(cudaStreamPerThread));
		CHECK(pinned[0] == (unsigned char)value && pinned[N - 1] == (unsigned char)value);
		FAILS(cudaSetDevice(10 + self), cudaErrorInvalidDevice);
		CU(cudaGetDevice(&device));
		CHECK(device == self % 2);
		CU(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed));
		CU(cudaMemsetAsync(q, value + 1, N, cudaStreamPerThread));
		CU(cudaStreamEndCapture(cudaStreamPerThread, &g));
		CU(cudaGraphInstantiate(&x, g, 0));
		CU(cudaGraphLaunch(x, s));
		CU(cudaMemcpyAsync(got, q + N - 2, 2, cudaMemcpyDeviceToHost, s));
		CHECK(got[1] == (unsigned char)(value + 1));
		CU(cudaGraphExecDestroy(x));
		CU(cudaGraphDestroy(g));
		CU(cudaStreamDestroy(s));
		CU(cudaEventDestroy(v));
		CU(cudaFree(p));
		CU(cudaFree(q));
		CU(cudaFreeHost(pinned));
	}
	return NULL;
}

int
main(void)
{
	pthread_t t[THREADS];

	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	puts("all is well");
	return 0;
}
