#include "cudart/cuda_impl.h"
cudaError_t
capture_look(struct CUstream_st *s, bool *is)
{
	(void)s;
	*is = false;
	return cudaSuccess;
}
cudaError_t
capture_add(struct CUstream_st *s, struct op *o)
{
	(void)s, (void)o;
	return cudaErrorNotSupported;
}
cudaError_t
capture_forbids(void)
{
	return cudaSuccess;
}
cudaError_t
capture_forbids_on(struct CUstream_st *s)
{
	(void)s;
	return cudaSuccess;
}
void
captured_fini(struct captured *c)
{
	*c = (struct captured){0};
}
cudaError_t
capture_record(struct CUstream_st *s, struct captured *out)
{
	(void)s, (void)out;
	return cudaErrorNotSupported;
}
cudaError_t
capture_wait(struct CUstream_st *s, const struct captured *e)
{
	(void)s, (void)e;
	return cudaErrorNotSupported;
}
cudaError_t
capture_isolation(struct CUstream_st *s)
{
	(void)s;
	return cudaErrorStreamCaptureIsolation;
}
bool
gpusim_cuda_is_capturing(cudaStream_t stream)
{
	(void)stream;
	return false;
}
