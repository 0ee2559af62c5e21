/* Output of kernels appears where the program waits for it, between the program's own. */
#include "cu.h"

__global__ void
say(int n)
{
	printf("kernel %d thread %d\n", n, threadIdx.x);
}

int
main(void)
{
	puts("begin");
	say<<<1, 2>>>(1);
	CU(cudaDeviceSynchronize());
	puts("middle");
	say<<<2, 1>>>(2);
	say<<<1, 1>>>(3);
	CU(cudaStreamSynchronize(0));
	puts("end");
	return 0;
}
