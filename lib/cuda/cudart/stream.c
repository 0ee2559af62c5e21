/*
 * Streams: handles and queues.
 *
 * Design notes. A stream's memory is never freed: a destroyed stream is kept with its queue, whose
 * work continues, and becomes the next new stream of its device. A queue is opened when the stream
 * is first used.
 */
#include <stdlib.h>

#include "cudart/cuda_impl.h"

static atomic_uint_least64_t last_id;
static _Thread_local struct CUstream_st **own; /* per-thread streams, by ordinal */

static struct CUstream_st *
make(struct device *d)
{
	struct CUstream_st *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	s->device = d;
	pthread_mutex_init(&s->lock, NULL);
	s->next = d->streams;
	d->streams = s;
	return s;
}

/* Device's lock held. A destroyed stream whose work has ended without error. */
static struct CUstream_st *
reuse(struct device *d)
{
	for (struct CUstream_st *s = d->streams; s; s = s->next) {
		struct cmdq *q = atomic_load(&s->q);

		if (!atomic_load(&s->live) && s != d->legacy &&
		    (!q || (cmdq_done(q, cmdq_tail(q)) && cmdq_error(q, NULL) == GPUSIM_OK)))
			return s;
	}
	return NULL;
}

cudaError_t
stream_new(struct device *d, unsigned flags, int priority, struct CUstream_st **out)
{
	struct CUstream_st *s;

	pthread_mutex_lock(&d->lock);
	s = reuse(d);
	if (!s)
		s = make(d);
	if (s) {
		s->magic = STREAM_MAGIC;
		s->id = atomic_fetch_add(&last_id, 1) + 1;
		s->flags = flags;
		s->priority = priority;
		s->legacy_seen = 0;
		atomic_store(&s->blocking, !(flags & cudaStreamNonBlocking));
		atomic_store(&s->live, true);
	}
	pthread_mutex_unlock(&d->lock);
	if (!s)
		return cudaErrorMemoryAllocation;
	*out = s;
	return cudaSuccess;
}

void
stream_release(struct CUstream_st *s)
{
	s->magic = 0;
	atomic_store(&s->live, false); /* it stays among the blocking streams while it has work */
}

void
stream_forget_all(struct device *d)
{
	pthread_mutex_lock(&d->lock);
	for (struct CUstream_st *s = d->streams; s; s = s->next) {
		struct cmdq *q = atomic_load(&s->q);

		if (q)
			cmdq_forgive(q, 0);
		if (s != d->legacy)
			stream_release(s);
	}
	pthread_mutex_unlock(&d->lock);
}

/* The legacy stream of a device, made by its first use. */
static cudaError_t
legacy_of(struct device *d, struct CUstream_st **out)
{
	struct CUstream_st *s;
	cudaError_t e;

	pthread_mutex_lock(&d->lock);
	s = d->legacy;
	pthread_mutex_unlock(&d->lock);
	if (!s) {
		e = stream_new(d, 0, 0, &s);
		if (e != cudaSuccess)
			return e;
		pthread_mutex_lock(&d->lock);
		if (!d->legacy)
			d->legacy = s;
		else
			stream_release(s);
		s = d->legacy;
		pthread_mutex_unlock(&d->lock);
	}
	*out = s;
	return cudaSuccess;
}

static cudaError_t
own_of(struct device *d, struct CUstream_st **out)
{
	cudaError_t e;

	if (!own && !(own = calloc((size_t)cuda_device_count(), sizeof(struct CUstream_st *))))
		return cudaErrorMemoryAllocation;
	if (!own[d->ordinal] || own[d->ordinal]->magic != STREAM_MAGIC) {
		e = stream_new(d, 0, 0, &own[d->ordinal]);
		if (e != cudaSuccess)
			return e;
	}
	*out = own[d->ordinal];
	return cudaSuccess;
}

cudaError_t
stream_of(cudaStream_t handle, struct CUstream_st **out)
{
	if (handle == NULL || handle == cudaStreamLegacy)
		return legacy_of(cuda_current(), out);
	if (handle == cudaStreamPerThread)
		return own_of(cuda_current(), out);
	if (handle->magic != STREAM_MAGIC)
		return cudaErrorInvalidResourceHandle;
	*out = handle;
	return cudaSuccess;
}

cudaError_t
stream_queue(struct CUstream_st *s, struct cmdq **out)
{
	struct cmdq *q = atomic_load_explicit(&s->q, memory_order_acquire);

	if (!q) {
		if (cmdq_open(cuda_connection(), s->device->space->device, CMDQ_OWN_STREAM, &q) !=
		    GPUSIM_OK) {
			cuda_tell(gpusim_error());
			return cudaErrorDevicesUnavailable;
		}
		atomic_store(&s->q, q);
	}
	*out = q;
	return cudaSuccess;
}
