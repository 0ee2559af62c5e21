/* Which CUDA this is. */
#include "cuda_runtime_api.h"

cudaError_t
cudaRuntimeGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}
