/* __device__ and __constant__ variables by name: a copy to or from one is a copy to or from device memory. */
#include <stdio.h>

#include "cudart/cuda_impl.h"
#include "cudart/helper.h"

static cudaError_t
find(const void *symbol, size_t offset, void **out)
{
	struct err err = {0};
	cudaError_t e = cuda_enter();
	enum rc rc;

	if (e != cudaSuccess)
		return e;
	rc = helper_symbol(cuda_current()->ordinal, symbol, out, &err);
	if (rc == RC_NOTFOUND)
		return cudaErrorInvalidSymbol;
	if (rc != RC_OK) {
		cuda_tell(err.text);
		return rc == RC_NOMEM ? cudaErrorMemoryAllocation : cudaErrorLaunchFailure;
	}
	*out = (unsigned char *)*out + offset;
	return cudaSuccess;
}

cudaError_t
cudaGetSymbolAddress(void **ptr, const void *symbol)
{
	return cuda_done(ptr ? find(symbol, 0, ptr) : cudaErrorInvalidValue);
}

/* The compiler knows the size, and C++'s form of this call gets it from there. */
cudaError_t
cudaGetSymbolSize(size_t *size, const void *symbol)
{
	(void)size, (void)symbol;
	return cuda_done(cudaErrorNotSupported);
}

cudaError_t
cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
		   enum cudaMemcpyKind kind)
{
	void *p;
	cudaError_t e = find(symbol, offset, &p);

	return e == cudaSuccess ? cudaMemcpy(p, src, count, kind) : cuda_done(e);
}

cudaError_t
cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
		     enum cudaMemcpyKind kind)
{
	void *p;
	cudaError_t e = find(symbol, offset, &p);

	return e == cudaSuccess ? cudaMemcpy(dst, p, count, kind) : cuda_done(e);
}

cudaError_t
cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t offset,
			enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *p;
	cudaError_t e = find(symbol, offset, &p);

	return e == cudaSuccess ? cudaMemcpyAsync(p, src, count, kind, stream) : cuda_done(e);
}

cudaError_t
cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
			  enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *p;
	cudaError_t e = find(symbol, offset, &p);

	return e == cudaSuccess ? cudaMemcpyAsync(dst, p, count, kind, stream) : cuda_done(e);
}
