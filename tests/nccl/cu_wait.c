/* cu_wait - with $GPUSIM_TIMEOUT, a wait for a stalled stream times out; the stream then continues. */
#include <semaphore.h>

#include "cu.h"

static sem_t gate;

static void
hold(void *arg)
{
	(void)arg;
	sem_wait(&gate);
}

int
main(void)
{
	cudaStream_t s;
	cudaEvent_t v;

	sem_init(&gate, 0, 0);
	CU(cudaStreamCreate(&s));
	CU(cudaEventCreate(&v));
	CU(cudaLaunchHostFunc(s, hold, NULL));
	CU(cudaEventRecord(v, s));
	FAILS(cudaStreamQuery(s), cudaErrorNotReady);
	FAILS(cudaEventQuery(v), cudaErrorNotReady);
	FAILS(cudaStreamSynchronize(s), cudaErrorLaunchTimeout);
	FAILS(cudaEventSynchronize(v), cudaErrorLaunchTimeout);
	sem_post(&gate);
	while (cudaEventQuery(v) == cudaErrorNotReady)
		;
	CU(cudaStreamQuery(s));
	CU(cudaStreamSynchronize(s));
	puts("all is well");
	return 0;
}
