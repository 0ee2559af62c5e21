/*
 * The names that programs call if they were compiled with --default-stream per-thread: stream 0 is then the
 * thread's own. A synchronous copy waits for all blocking streams as always, the thread's own among them.
 */
#include "cudart/cuda_impl.h"

static cudaStream_t
own(cudaStream_t s)
{
	return s ? s : cudaStreamPerThread;
}

#define FORM(name, suffix, params, args) \
	cudaError_t name##suffix params; \
	cudaError_t name##suffix params  \
	{                                \
		return name args;        \
	}

FORM(cudaMemcpy, _ptds, (void *d, const void *s, size_t n, enum cudaMemcpyKind k), (d, s, n, k))
FORM(cudaMemcpy2D, _ptds,
     (void *d, size_t dp, const void *s, size_t sp, size_t w, size_t h, enum cudaMemcpyKind k),
     (d, dp, s, sp, w, h, k))
FORM(cudaMemcpy3D, _ptds, (const struct cudaMemcpy3DParms *p), (p))
FORM(cudaMemcpyAsync, _ptsz,
     (void *d, const void *s, size_t n, enum cudaMemcpyKind k, cudaStream_t st),
     (d, s, n, k, own(st)))
FORM(cudaMemcpy2DAsync, _ptsz,
     (void *d, size_t dp, const void *s, size_t sp, size_t w, size_t h, enum cudaMemcpyKind k,
      cudaStream_t st),
     (d, dp, s, sp, w, h, k, own(st)))
FORM(cudaMemcpy3DAsync, _ptsz, (const struct cudaMemcpy3DParms *p, cudaStream_t st), (p, own(st)))
FORM(cudaMemsetAsync, _ptsz, (void *p, int v, size_t n, cudaStream_t st), (p, v, n, own(st)))
FORM(cudaMemset2DAsync, _ptsz, (void *p, size_t pitch, int v, size_t w, size_t h, cudaStream_t st),
     (p, pitch, v, w, h, own(st)))
FORM(cudaStreamQuery, _ptsz, (cudaStream_t st), (own(st)))
FORM(cudaStreamSynchronize, _ptsz, (cudaStream_t st), (own(st)))
FORM(cudaStreamWaitEvent, _ptsz, (cudaStream_t st, cudaEvent_t e, unsigned int f), (own(st), e, f))
FORM(cudaStreamAddCallback, _ptsz,
     (cudaStream_t st, cudaStreamCallback_t fn, void *arg, unsigned int f), (own(st), fn, arg, f))
FORM(cudaStreamGetFlags, _ptsz, (cudaStream_t st, unsigned int *f), (own(st), f))
FORM(cudaStreamGetPriority, _ptsz, (cudaStream_t st, int *p), (own(st), p))
FORM(cudaEventRecord, _ptsz, (cudaEvent_t e, cudaStream_t st), (e, own(st)))
FORM(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t e, cudaStream_t st, unsigned int f),
     (e, own(st), f))
FORM(cudaLaunchKernel, _ptsz,
     (const void *f, dim3 g, dim3 b, void **args, size_t n, cudaStream_t st),
     (f, g, b, args, n, own(st)))
FORM(cudaLaunchHostFunc, _ptsz, (cudaStream_t st, cudaHostFn_t fn, void *arg), (own(st), fn, arg))
FORM(cudaGraphLaunch, _ptsz, (cudaGraphExec_t x, cudaStream_t st), (x, own(st)))
FORM(cudaStreamBeginCapture, _ptsz, (cudaStream_t st, enum cudaStreamCaptureMode m), (own(st), m))
FORM(cudaStreamEndCapture, _ptsz, (cudaStream_t st, cudaGraph_t *g), (own(st), g))
FORM(cudaStreamIsCapturing, _ptsz, (cudaStream_t st, enum cudaStreamCaptureStatus *s), (own(st), s))
FORM(cudaMallocAsync, _ptsz, (void **p, size_t n, cudaStream_t st), (p, n, own(st)))
FORM(cudaFreeAsync, _ptsz, (void *p, cudaStream_t st), (p, own(st)))

cudaError_t cudaMemset_ptds(void *p, int v, size_t n);
cudaError_t
cudaMemset_ptds(void *p, int v, size_t n)
{
	return cudaMemsetAsync(p, v, n, cudaStreamPerThread);
}

cudaError_t cudaMemset2D_ptds(void *p, size_t pitch, int v, size_t w, size_t h);
cudaError_t
cudaMemset2D_ptds(void *p, size_t pitch, int v, size_t w, size_t h)
{
	return cudaMemset2DAsync(p, pitch, v, w, h, cudaStreamPerThread);
}
