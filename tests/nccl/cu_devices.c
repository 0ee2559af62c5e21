/* cu_devices - print the number of devices, or CUDA's error; then the UUID's end and memory of each. */
#include "cu.h"

int
main(void)
{
	struct cudaDeviceProp p;
	int n;
	cudaError_t e = cudaGetDeviceCount(&n);

	if (e != cudaSuccess) {
		printf("%s\n", cudaGetErrorName(e));
		return n != 0;
	}
	printf("%d\n", n);
	for (int i = 0; i < n; i++) {
		CU(cudaGetDeviceProperties(&p, i));
		printf("GPU-67707573-0000-0000-");
		for (int k = 8; k < 16; k++)
			printf("%s%02x", k == 10 ? "-" : "", (unsigned char)p.uuid.bytes[k]);
		printf("\n");
	}
	return 0;
}
