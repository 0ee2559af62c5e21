/* cu_touch device|managed|freed|pinned - write to such memory from the program, and read it on the device. */
#include <string.h>

#include "cu.h"

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	unsigned char *p, got[100];

	if (strcmp(what, "managed") == 0)
		CU(cudaMallocManaged((void **)&p, 10000, cudaMemAttachGlobal));
	else if (strcmp(what, "pinned") == 0 || strcmp(what, "freed") == 0)
		CU(cudaMallocHost((void **)&p, 10000));
	else
		CU(cudaMalloc((void **)&p, 10000));
	CU(cudaMemset(p, 1, 10000));
	CU(cudaDeviceSynchronize());
	if (strcmp(what, "freed") == 0)
		CU(cudaFreeHost(p));
	CHECK(((volatile unsigned char *)p)[9999] == 1);
	memset(p, 77, 10000);
	CU(cudaMemcpy(got, p + 9900, 100, cudaMemcpyDefault));
	CHECK(got[0] == 77 && got[99] == 77);
	puts("touched");
	return 0;
}
