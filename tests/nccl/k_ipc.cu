/*
 * k_ipc: a parent exports memory and an event; a child, which is another program, opens them, and
 * hears when they are gone.  k_ipc child FD FD: that child.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cu.h"

enum { N = 100000 };

struct handles {
	cudaIpcMemHandle_t big, small;
	cudaIpcEventHandle_t event;
};

__global__ void
add(int *p, int n, int by)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		p[i] += by;
}

static void
meet(int in, int out)
{
	char c = 0;

	CHECK(write(out, &c, 1) == 1 && read(in, &c, 1) == 1);
}

static int
child(int in, int out)
{
	struct handles h;
	cudaEvent_t event;
	cudaStream_t s;
	int *big, *small, *again, *bad, v;

	CHECK(read(in, &h, sizeof h) == sizeof h);
	CU(cudaIpcOpenMemHandle((void **)&big, h.big, cudaIpcMemLazyEnablePeerAccess));
	CU(cudaIpcOpenMemHandle((void **)&again, h.big, cudaIpcMemLazyEnablePeerAccess));
	CHECK(big == again);
	CU(cudaIpcOpenMemHandle((void **)&small, h.small, 0));
	CU(cudaIpcOpenEventHandle(&event, h.event));
	FAILS(cudaFree(big), cudaErrorInvalidValue);
	CU(cudaStreamCreate(&s));
	CU(cudaStreamWaitEvent(s, event, 0));
	add<<<4, 64, 0, s>>>(big, N, 5);
	add<<<1, 1, 0, s>>>(small, 1, 7);
	CU(cudaEventRecord(event, s));
	meet(in, out); /* the parent waits for the event, and looks */
	meet(in, out); /* the parent has freed small */
	CU(cudaIpcCloseMemHandle(again));
	add<<<4, 64, 0, s>>>(big, N, 1);
	CU(cudaStreamSynchronize(s));
	FAILS(cudaMemcpy(&v, small, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
	FAILS(cudaIpcOpenMemHandle((void **)&bad, h.small, 0), cudaErrorInvalidValue);
	add<<<1, 1>>>(small, 1, 1);
	FAILS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	CU(cudaDeviceReset());
	CU(cudaIpcOpenMemHandle((void **)&big, h.big, cudaIpcMemLazyEnablePeerAccess));
	CU(cudaMemcpy(&v, big, 4, cudaMemcpyDeviceToHost));
	CHECK(v == 7);
	CU(cudaIpcCloseMemHandle(big));
	FAILS(cudaIpcCloseMemHandle(big), cudaErrorInvalidValue);
	add<<<1, 1>>>(big, 1, 1); /* closed: not mapped any more */
	FAILS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	CU(cudaDeviceReset());
	CU(cudaIpcOpenMemHandle((void **)&big, h.big, cudaIpcMemLazyEnablePeerAccess));
	meet(in, out); /* the parent ends */
	CHECK(read(in, &v, 1) == 0);
	for (int i = 0; i < 10000 && cudaMemcpy(&v, big, 4, cudaMemcpyDeviceToHost) == cudaSuccess; i++)
		usleep(1000);
	FAILS(cudaMemcpy(&v, big, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
	return 0;
}

int
main(int argc, char **argv)
{
	int there[2], back[2], *big, *small, v;
	struct handles h;
	cudaEvent_t event;
	cudaStream_t s;
	char in[12], out[12];

	if (argc == 4)
		return child(atoi(argv[2]), atoi(argv[3]));
	CHECK(pipe(there) == 0 && pipe(back) == 0);
	if (fork() == 0) {
		close(there[1]);
		close(back[0]);
		snprintf(in, sizeof in, "%d", there[0]);
		snprintf(out, sizeof out, "%d", back[1]);
		execl("/proc/self/exe", argv[0], "child", in, out, (char *)NULL);
		_exit(1);
	}
	close(there[0]);
	close(back[1]);
	CU(cudaMalloc(&big, N * sizeof *big));
	CU(cudaMalloc(&small, 4));
	CU(cudaMemset(big, 0, N * sizeof *big));
	CU(cudaMemset(small, 0, 4));
	CU(cudaStreamCreate(&s));
	FAILS(cudaIpcGetMemHandle(&h.big, big + 1), cudaErrorInvalidValue);
	CU(cudaIpcGetMemHandle(&h.big, big));
	CU(cudaIpcGetMemHandle(&h.small, small));
	FAILS(cudaIpcOpenMemHandle((void **)&small, h.small, 0), cudaErrorDeviceUninitialized);
	FAILS(cudaEventCreateWithFlags(&event, cudaEventInterprocess), cudaErrorInvalidValue);
	CU(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
	CU(cudaIpcGetEventHandle(&h.event, event));
	add<<<1, 64, 0, s>>>(big, N, 1);
	CU(cudaEventRecord(event, s));
	CHECK(write(there[1], &h, sizeof h) == sizeof h);
	meet(back[0], there[1]);
	CU(cudaStreamWaitEvent(s, event, 0));
	CU(cudaMemcpyAsync(&v, big + N - 1, 4, cudaMemcpyDeviceToHost, s));
	CU(cudaStreamSynchronize(s));
	CHECK(v == 6);
	CU(cudaEventSynchronize(event));
	CU(cudaMemcpy(&v, small, 4, cudaMemcpyDeviceToHost));
	CHECK(v == 7);
	CU(cudaFree(small));
	meet(back[0], there[1]);
	meet(back[0], there[1]);
	puts("well");
	fflush(stdout);
	close(there[1]);
	_exit(0);
}
