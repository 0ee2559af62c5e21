/* cu_hold FILE - take memory of all kinds, enqueue work that does not end, report that in FILE, and
 * wait for the end. */
#include <semaphore.h>
#include <unistd.h>

#include "cu.h"

static sem_t never;

static void
hold(void *arg)
{
	(void)arg;
	for (;;)
		sem_wait(&never);
}

int
main(int argc, char **argv)
{
	cudaStream_t s;
	void *p;
	FILE *f;

	(void)argc;
	sem_init(&never, 0, 0);
	CU(cudaMalloc(&p, 10 << 20));
	CU(cudaMallocManaged(&p, 1 << 20, cudaMemAttachGlobal));
	CU(cudaMallocHost(&p, 1 << 20));
	CU(cudaStreamCreate(&s));
	CU(cudaMemsetAsync(p, 1, 1 << 20, s));
	CU(cudaLaunchHostFunc(s, hold, NULL));
	f = fopen(argv[1], "w");
	CHECK(f && fprintf(f, "%d\n", (int)getpid()) > 0 && fclose(f) == 0);
	CU(cudaStreamSynchronize(s));
	return 0;
}
