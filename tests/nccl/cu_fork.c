/* A child of fork cannot call CUDA; the parent is not affected, however the child ends. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cu.h"

static void
in_child(void *device, int how)
{
	struct cudaDeviceProp p;
	cudaStream_t s;
	void *q;
	int n = -1;

	FAILS(cudaGetDeviceCount(&n), cudaErrorInitializationError);
	CHECK(n == 0);
	FAILS(cudaMalloc(&q, 10), cudaErrorInitializationError);
	FAILS(cudaFree(device), cudaErrorInitializationError);
	FAILS(cudaMemset(device, 0, 1), cudaErrorInitializationError);
	FAILS(cudaStreamCreate(&s), cudaErrorInitializationError);
	FAILS(cudaDeviceSynchronize(), cudaErrorInitializationError);
	FAILS(cudaGetDeviceProperties(&p, 0), cudaErrorInitializationError);
	FAILS(cudaDeviceReset(), cudaErrorInitializationError);
	if (how == 0)
		exit(0);
	else if (how == 1)
		_exit(0);
	execlp("true", "true", (char *)NULL);
	_exit(1);
}

int
main(void)
{
	char *p, c;
	cudaStream_t s;

	CU(cudaMalloc((void **)&p, 1000));
	CU(cudaStreamCreate(&s));
	CU(cudaMemsetAsync(p, 5, 1000, s));
	for (int how = 0; how < 3; how++) {
		pid_t pid = fork();
		int status;

		if (pid == 0)
			in_child(p, how);
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		CU(cudaMemsetAsync(p, 6 + how, 1000, s));
		CU(cudaStreamSynchronize(s));
		CU(cudaMemcpy(&c, p + 999, 1, cudaMemcpyDefault));
		CHECK(c == 6 + how);
	}
	puts("all is well");
	return 0;
}
