/*
 * nccl_killed - the last rank's device is killed while the others wait for it in a collective: they get
 * ncclRemoteError, and their streams an error.
 */
#include <signal.h>
#include <time.h>

#include "nccl_test.h"

static struct world w;

/* The process of the device with that number. */
static pid_t
device_process(int ordinal)
{
	char line[256];
	FILE *f = popen("gpuctl devices --json", "r");
	int pid = 0, seen = 0;

	CHECK(f != NULL);
	while (seen <= ordinal && fscanf(f, "%255s", line) == 1)
		for (const char *p = line; (p = strstr(p, "\"pid\":")); p++)
			if (seen++ == ordinal)
				pid = atoi(p + 6);
	pclose(f);
	CHECK(pid > 1);
	return pid;
}

int
main(void)
{
	float *data[MAX_RANKS];
	time_t end;

	world_init(&w);
	for (int r = 0; r < w.n; r++) {
		data[r] = device_bytes(r, NULL, 64);
		NCCL(ncclAllReduce(data[r], data[r], 16, ncclFloat, ncclSum, w.comm[r],
				   w.stream[r]));
	}
	world_sync(&w);
	for (int r = 0; r < w.n - 1; r++) {
		CUDA(cudaSetDevice(r));
		NCCL(ncclAllReduce(data[r], data[r], 16, ncclFloat, ncclSum, w.comm[r],
				   w.stream[r]));
	}
	CHECK(kill(device_process(w.n - 1), SIGKILL) == 0);
	end = time(NULL) + 60;
	for (int r = 0; r < w.n - 1; r++) {
		ncclResult_t e = ncclSuccess;
		cudaError_t c;

		while (e == ncclSuccess && time(NULL) < end)
			NCCL(ncclCommGetAsyncError(w.comm[r], &e));
		if (e != ncclRemoteError)
			printf("rank %d: %d, '%s'\n", r, (int)e, ncclGetLastError(w.comm[r]));
		CHECK(e == ncclRemoteError);
		CUDA(cudaSetDevice(r));
		c = cudaStreamSynchronize(w.stream[r]);
		if (c != cudaErrorLaunchFailure)
			printf("rank %d: %s\n", r, cudaGetErrorName(c));
		CHECK(c == cudaErrorLaunchFailure);
	}
	for (int r = 0; r < w.n - 1; r++) {
		CUDA(cudaSetDevice(r));
		NCCL(ncclCommAbort(w.comm[r]));
		CUDA(cudaMemsetAsync(data[r], 0, 64, w.stream[r]));
		CUDA(cudaStreamSynchronize(w.stream[r]));
	}
	printf("killed\n");
	fflush(stdout);
	_exit(0);
}
