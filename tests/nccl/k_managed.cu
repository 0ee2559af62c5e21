/* __managed__ variables: of the program and of kernels on two devices. */
#include "cu.h"

struct pair {
	int a;
	double b;
};

__device__ __managed__ int count = 3, table[2] = {10, 20};
static __managed__ pair both{1, 2.5};
namespace inner
{
__managed__ float grown[1000];
}

__global__ void
change()
{
	atomicAdd(&count, 1);
	table[1] += table[0];
	both.b *= 2;
	inner::grown[999] = 7;
}

int
main()
{
	struct cudaPointerAttributes attr;

	CHECK(count == 3 && table[1] == 20 && both.b == 2.5 && inner::grown[999] == 0);
	for (int device = 0; device < 2; device++) {
		CU(cudaSetDevice(device));
		change<<<1, 1>>>();
		CU(cudaDeviceSynchronize());
		count += 100;
	}
	CHECK(count == 205 && table[1] == 40 && both.a == 1 && both.b == 10 && inner::grown[999] == 7);
	CU(cudaPointerGetAttributes(&attr, &table[1]));
	CHECK(attr.type == cudaMemoryTypeManaged && sizeof table == 8);
	CU(cudaMemset(&count, 0, sizeof count));
	CU(cudaDeviceSynchronize());
	CHECK(count == 0);
	puts("shared");
}
