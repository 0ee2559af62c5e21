/* The calls about streams. */
#include "cudart/cuda_impl.h"

static cudaError_t
create(cudaStream_t *out, unsigned flags, int priority)
{
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && (!out || flags & ~(unsigned)cudaStreamNonBlocking))
		e = cudaErrorInvalidValue;
	priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	return e == cudaSuccess ? stream_new(cuda_current(), flags, priority, out) : e;
}

cudaError_t
cudaStreamCreate(cudaStream_t *stream)
{
	return cuda_done(create(stream, cudaStreamDefault, 0));
}

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	return cuda_done(create(stream, flags, 0));
}

cudaError_t
cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
	return cuda_done(create(stream, flags, priority));
}

/* Begin a call about one stream. */
static cudaError_t
about(cudaStream_t handle, struct CUstream_st **s)
{
	cudaError_t e = cuda_enter();

	return e == cudaSuccess ? stream_of(handle, s) : e;
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
	struct CUstream_st *s;
	cudaError_t e = about(stream, &s);

	if (e == cudaSuccess && s != stream)
		e = cudaErrorInvalidResourceHandle; /* the special handles */
	if (e == cudaSuccess)
		e = capture_forbids_on(s);
	if (e == cudaSuccess)
		stream_release(s);
	return cuda_done(e);
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
	struct CUstream_st *s;
	cudaError_t e = about(stream, &s);

	if (e == cudaSuccess)
		e = capture_forbids_on(s);
	return cuda_done(e == cudaSuccess ? order_drain_stream(s) : e);
}

cudaError_t
cudaStreamQuery(cudaStream_t stream)
{
	struct CUstream_st *s;
	struct cmdq *q;
	cudaError_t e = about(stream, &s);

	if (e == cudaSuccess)
		e = capture_forbids_on(s);
	if (e != cudaSuccess)
		return cuda_done(e);
	q = atomic_load(&s->q);
	if (q)
		e = order_error(q);
	return cuda_done(e == cudaSuccess && !order_is_idle(s) ? cudaErrorNotReady : e);
}

/* Constant properties of a stream. */
#define GETTER(name, type, value)                        \
	cudaError_t name(cudaStream_t stream, type *out) \
	{                                                \
		struct CUstream_st *s;                   \
		cudaError_t e = about(stream, &s);       \
                                                         \
		if (e == cudaSuccess && !out)            \
			e = cudaErrorInvalidValue;       \
		if (e == cudaSuccess)                    \
			*out = s->value;                 \
		return cuda_done(e);                     \
	}
GETTER(cudaStreamGetPriority, int, priority)
GETTER(cudaStreamGetFlags, unsigned int, flags)
GETTER(cudaStreamGetId, unsigned long long, id)
GETTER(cudaStreamGetDevice, int, device->ordinal)

cudaError_t
cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src)
{
	struct CUstream_st *from, *to;
	cudaError_t e = about(dst, &to);

	if (e == cudaSuccess)
		e = stream_of(src, &from);
	if (e == cudaSuccess)
		to->priority = from->priority;
	return cuda_done(e);
}

cudaError_t
cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID attr, cudaStreamAttrValue *value)
{
	struct CUstream_st *s;
	cudaError_t e = about(stream, &s);

	if (e == cudaSuccess && !value)
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	*value = (cudaStreamAttrValue){.pad = {0}};
	if (attr == cudaStreamAttributePriority)
		value->priority = s->priority;
	else if (attr == cudaStreamAttributeSynchronizationPolicy)
		value->syncPolicy = cudaSyncPolicyAuto;
	return cudaSuccess;
}

cudaError_t
cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attr, const cudaStreamAttrValue *value)
{
	struct CUstream_st *s;
	cudaError_t e = about(stream, &s);

	if (e == cudaSuccess && !value)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && attr == cudaStreamAttributePriority)
		s->priority = value->priority;
	return cuda_done(e);
}

cudaError_t
cudaStreamAttachMemAsync(cudaStream_t stream, void *ptr, size_t length, unsigned int flags)
{
	struct CUstream_st *s;
	struct memory m = {0};
	cudaError_t e = about(stream, &s);

	(void)length, (void)flags; /* managed memory is open to all at any time */
	if (e == cudaSuccess)
		e = memory_find(ptr, 1, &m, NULL);
	return cuda_done(e == cudaSuccess && m.kind != MEMORY_MANAGED ? cudaErrorInvalidValue : e);
}
