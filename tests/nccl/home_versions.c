/* home_versions - the versions of NCCL and the CUDA runtime that this program was compiled with and runs with. */
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>

int
main(void)
{
	int nccl, cuda;

	if (ncclGetVersion(&nccl) != ncclSuccess || cudaRuntimeGetVersion(&cuda) != cudaSuccess)
		return 1;
	printf("%d %d %d %d\n", NCCL_VERSION_CODE, nccl, CUDART_VERSION, cuda);
	return 0;
}
