/*
 * As a program does that NVIDIA's nvcc has built: with "driver" its static runtime looks for the driver, with "kernel"
 * it registers and launches code for GPUs.
 */
#include <dlfcn.h>
#include <string.h>

#include "cu.h"

void **__cudaRegisterFatBinary(void *fat);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
			    int limit, void *tid, void *bid, void *block, void *grid, int *warp);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);

static void
find_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned), (*find)(const char *, void **, int, unsigned long long, void *);

	CHECK(driver);
	*(void **)&init = dlsym(driver, "cuInit");
	*(void **)&find = dlsym(driver, "cuGetProcAddress_v2");
	CHECK(init && find);
	if (find("cuInit", NULL, 12000, 0, NULL) == 801 && init(0) == 801)
		puts("CUDA_ERROR_NOT_SUPPORTED");
}

int
main(int argc, char **argv)
{
	const dim3 one = {1, 1, 1};
	void **handle;

	if (argc > 1 && strcmp(argv[1], "driver") == 0) {
		find_driver();
		return 0;
	}
	handle = __cudaRegisterFatBinary(NULL);
	__cudaRegisterFunction(handle, "k", NULL, "k", -1, NULL, NULL, NULL, NULL, NULL);
	CHECK(__cudaPushCallConfiguration(one, one, 0, NULL) != 0);
	puts(cudaGetErrorName(cudaGetLastError()));
	return 0;
}
