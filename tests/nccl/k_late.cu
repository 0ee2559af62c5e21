/*
 * k_late LIBRARY: kernels from dlopen after others have run (the library is this file with -DLATE -shared),
 * kernels in a graph, and a program that forks and waits for its own children.
 */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cu.h"

__device__ int mine = 3;

__global__ void
next(int *p)
{
	*p = ++mine;
}

#ifdef LATE
extern "C" void
go(int *p)
{
	next<<<1, 1>>>(p);
}
#else

static int
read_back(int *p)
{
	int h = -1;

	CU(cudaDeviceSynchronize());
	CU(cudaMemcpy(&h, p, sizeof h, cudaMemcpyDeviceToHost));
	return h;
}

static void
test_library(int *p, const char *path)
{
	void *lib;
	void (*go)(int *);

	next<<<1, 1>>>(p);
	CHECK(read_back(p) == 4);
	lib = dlopen(path, RTLD_NOW);
	CHECK(lib);
	go = (void (*)(int *))dlsym(lib, "go");
	CHECK(go);
	go(p);
	CU(cudaGetLastError());
	CHECK(read_back(p) == 4); /* the library's own variable */
	next<<<1, 1>>>(p);
	CHECK(read_back(p) == 5); /* this program's is unchanged */
}

static void
test_children(int *p)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		_exit(cudaDeviceSynchronize() == cudaErrorInitializationError ? 3 : 1);
	CHECK(wait(&status) == child && WEXITSTATUS(status) == 3);
	CHECK(wait(&status) == -1);
	next<<<1, 1>>>(p);
	CHECK(read_back(p) == 6);
}

static void
test_graph(int *p)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	cudaStream_t s;

	CU(cudaStreamCreate(&s));
	CU(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	next<<<1, 1, 0, s>>>(p);
	next<<<1, 1, 0, s>>>(p);
	CU(cudaStreamEndCapture(s, &graph));
	CU(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(read_back(p) == 6);
	for (int i = 0; i < 200; i++)
		CU(cudaGraphLaunch(exec, s));
	CU(cudaStreamSynchronize(s));
	CHECK(read_back(p) == 406);
}

int
main(int argc, char **argv)
{
	int *p;

	CHECK(argc == 2);
	CU(cudaMalloc(&p, sizeof *p));
	test_library(p, argv[1]);
	test_children(p);
	test_graph(p);
	puts("late");
	return 0;
}
#endif
