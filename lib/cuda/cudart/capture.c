/*
 * Capture: operations of streams become nodes of a graph instead of commands.
 *
 * Design notes. One lock covers all captures and the streams' part of them. It is taken before any
 * other and never while a call waits. While no capture is in progress, calls only read a counter.
 */
#include <stdlib.h>
#include <string.h>

#include "cudart/cuda_impl.h"
#include "cudart/graph.h"

struct capture {
	struct capture *next;
	uint64_t id;
	enum cudaStreamCaptureMode mode;
	pthread_t thread; /* that began the capture */
	struct CUstream_st *origin;
	struct CUgraph_st *graph;
	bool given; /* the graph is the program's own: cudaStreamBeginCaptureToGraph */
	bool invalid;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;
static atomic_uint active;
static uint64_t last_id;
static _Thread_local enum cudaStreamCaptureMode thread_mode; /* at first global */

static bool
is_any(void)
{
	return atomic_load_explicit(&active, memory_order_relaxed) != 0;
}

static cudaError_t
invalidate(struct capture *c, cudaError_t e)
{
	c->invalid = true;
	return e;
}

/* ------------------------------------------------------------------ calls that a capture forbids */

static bool
forbids(const struct capture *c)
{
	bool own = pthread_equal(c->thread, pthread_self());

	if (thread_mode == cudaStreamCaptureModeRelaxed || c->mode == cudaStreamCaptureModeRelaxed)
		return false;
	return own || (thread_mode == cudaStreamCaptureModeGlobal &&
		       c->mode == cudaStreamCaptureModeGlobal);
}

cudaError_t
capture_forbids(void)
{
	cudaError_t e = cudaSuccess;

	if (!is_any())
		return cudaSuccess;
	pthread_mutex_lock(&lock);
	for (struct capture *c = captures; c; c = c->next)
		if (forbids(c))
			e = invalidate(c, cudaErrorStreamCaptureUnsupported);
	pthread_mutex_unlock(&lock);
	return e;
}

cudaError_t
capture_forbids_on(struct CUstream_st *s)
{
	bool captured = false;
	cudaError_t e = cudaSuccess;

	if (!is_any())
		return cudaSuccess;
	if (s == s->device->legacy)
		e = capture_look(s, &captured);
	pthread_mutex_lock(&lock);
	if (e == cudaSuccess && s->capture)
		e = invalidate(s->capture, cudaErrorStreamCaptureUnsupported);
	pthread_mutex_unlock(&lock);
	return e;
}

/* Lock held. A capture that has a blocking stream of the device. */
static struct capture *
blocking_capture(struct device *d)
{
	struct capture *c = NULL;

	pthread_mutex_lock(&d->lock);
	for (struct CUstream_st *s = d->streams; s && !c; s = s->next)
		if (atomic_load(&s->blocking))
			c = s->capture;
	pthread_mutex_unlock(&d->lock);
	return c;
}

cudaError_t
capture_look(struct CUstream_st *s, bool *is)
{
	struct capture *c;
	cudaError_t e = cudaSuccess;

	*is = false;
	if (!is_any())
		return cudaSuccess;
	pthread_mutex_lock(&lock);
	c = s->capture;
	if (c)
		e = c->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
	else if (s == s->device->legacy && (c = blocking_capture(s->device)))
		e = invalidate(c, cudaErrorStreamCaptureImplicit);
	*is = c != NULL;
	pthread_mutex_unlock(&lock);
	return e;
}

bool
gpusim_cuda_is_capturing(cudaStream_t stream)
{
	struct CUstream_st *s;

	return is_any() && cuda_connect() == cudaSuccess && stream_of(stream, &s) == cudaSuccess &&
	       s->capture;
}

/* ------------------------------------------------------------------ nodes */

static bool
set_tips(struct CUstream_st *s, struct CUgraphNode_st *const *v, size_t n)
{
	struct CUgraphNode_st **to = malloc((n + 1) * sizeof *to);

	if (!to)
		return false;
	if (n)
		memcpy(to, v, n * sizeof *to);
	free(s->tips);
	s->tips = to;
	s->ntips = n;
	return true;
}

static bool
has_tip(const struct CUstream_st *s, const struct CUgraphNode_st *n)
{
	for (size_t i = 0; i < s->ntips; i++)
		if (s->tips[i] == n)
			return true;
	return false;
}

static bool
add_tips(struct CUstream_st *s, struct CUgraphNode_st *const *v, size_t n)
{
	struct CUgraphNode_st **to = realloc(s->tips, (s->ntips + n + 1) * sizeof *to);

	if (!to)
		return false;
	s->tips = to;
	for (size_t i = 0; i < n; i++)
		if (!has_tip(s, v[i]))
			to[s->ntips++] = v[i];
	return true;
}

cudaError_t
capture_add(struct CUstream_st *s, struct op *o)
{
	struct CUgraphNode_st *n = NULL;
	cudaError_t e = cudaErrorStreamCaptureInvalidated;

	pthread_mutex_lock(&lock);
	if (s->capture && !s->capture->invalid) {
		n = graph_add(s->capture->graph, o, s->device->ordinal, s->tips, s->ntips);
		e = n && set_tips(s, &n, 1) ? cudaSuccess : cudaErrorMemoryAllocation;
		if (e != cudaSuccess)
			invalidate(s->capture, e);
	}
	pthread_mutex_unlock(&lock);
	return e;
}

/* ------------------------------------------------------------------ events join streams */

void
captured_fini(struct captured *c)
{
	free(c->tips);
	*c = (struct captured){0};
}

cudaError_t
capture_record(struct CUstream_st *s, struct captured *out)
{
	struct captured c = {0};
	cudaError_t e = cudaErrorStreamCaptureInvalidated;

	pthread_mutex_lock(&lock);
	if (s->capture && !s->capture->invalid) {
		c.tips = malloc((s->ntips + 1) * sizeof *c.tips);
		e = c.tips ? cudaSuccess : cudaErrorMemoryAllocation;
	}
	if (e == cudaSuccess) {
		c.id = s->capture->id;
		c.ntips = s->ntips;
		if (s->ntips)
			memcpy(c.tips, s->tips, s->ntips * sizeof *c.tips);
		*out = c;
	}
	pthread_mutex_unlock(&lock);
	return e;
}

static struct capture *
by_id(uint64_t id)
{
	struct capture *c = captures;

	while (c && c->id != id)
		c = c->next;
	return c;
}

cudaError_t
capture_wait(struct CUstream_st *s, const struct captured *v)
{
	struct capture *c;
	cudaError_t e = cudaSuccess;

	pthread_mutex_lock(&lock);
	c = by_id(v->id);
	if (!c)
		e = cudaErrorCapturedEvent;
	else if (c->invalid)
		e = cudaErrorStreamCaptureInvalidated;
	else if (s == s->device->legacy)
		e = invalidate(c, cudaErrorStreamCaptureImplicit);
	else if (s->capture && s->capture != c) {
		invalidate(s->capture, cudaSuccess);
		e = invalidate(c, cudaErrorStreamCaptureMerge);
	} else if (!add_tips(s, v->tips, v->ntips))
		e = invalidate(c, cudaErrorMemoryAllocation);
	else
		s->capture = c;
	pthread_mutex_unlock(&lock);
	return e;
}

cudaError_t
capture_isolation(struct CUstream_st *s)
{
	cudaError_t e = cudaErrorStreamCaptureIsolation;

	pthread_mutex_lock(&lock);
	if (s->capture)
		invalidate(s->capture, e);
	pthread_mutex_unlock(&lock);
	return e;
}

/* ------------------------------------------------------------------ begin and end */

static cudaError_t
begin(struct CUstream_st *s, enum cudaStreamCaptureMode mode, struct CUgraph_st *graph,
      struct CUgraphNode_st *const *deps, size_t ndeps)
{
	struct capture *c = calloc(1, sizeof *c);
	cudaError_t e = cudaSuccess;

	if (!c)
		return cudaErrorMemoryAllocation;
	pthread_mutex_lock(&lock);
	if (s->capture)
		e = cudaErrorIllegalState;
	else if (!(c->graph = graph ? graph : graph_new()) || !set_tips(s, deps, ndeps))
		e = cudaErrorMemoryAllocation;
	if (e == cudaSuccess) {
		c->id = ++last_id;
		c->mode = mode;
		c->thread = pthread_self();
		c->origin = s;
		c->given = graph != NULL;
		c->next = captures;
		captures = c;
		s->capture = c;
		atomic_fetch_add(&active, 1);
	}
	pthread_mutex_unlock(&lock);
	if (e != cudaSuccess) {
		if (!graph)
			graph_free(c->graph);
		free(c);
	}
	return e;
}

static cudaError_t
checked_begin(cudaStream_t stream, enum cudaStreamCaptureMode mode, struct CUgraph_st *graph,
	      struct CUgraphNode_st *const *deps, size_t ndeps)
{
	struct CUstream_st *s;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && (unsigned)mode > cudaStreamCaptureModeRelaxed)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess && s == s->device->legacy)
		e = cudaErrorStreamCaptureUnsupported;
	return e == cudaSuccess ? begin(s, mode, graph, deps, ndeps) : e;
}

cudaError_t
cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	return cuda_done(checked_begin(stream, mode, NULL, NULL, 0));
}

cudaError_t
cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
			      const cudaGraphNode_t *dependencies,
			      const cudaGraphEdgeData *dependencyData, size_t ndependencies,
			      enum cudaStreamCaptureMode mode)
{
	if (!graph || graph->magic != GRAPH_MAGIC || (ndependencies && !dependencies))
		return cuda_done(cudaErrorInvalidValue);
	if (dependencyData)
		return cuda_done(cudaErrorNotSupported);
	return cuda_done(checked_begin(stream, mode, graph, dependencies, ndependencies));
}

/* Lock held. Remove the capture from all its streams. */
static void
leave(struct capture *c)
{
	struct capture **at = &captures;

	for (int i = 0; i < cuda_device_count(); i++) {
		struct device *d = cuda_device_at(i);

		pthread_mutex_lock(&d->lock);
		for (struct CUstream_st *s = d->streams; s; s = s->next)
			if (s->capture == c) {
				s->capture = NULL;
				free(s->tips);
				s->tips = NULL;
				s->ntips = 0;
			}
		pthread_mutex_unlock(&d->lock);
	}
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	atomic_fetch_sub(&active, 1);
}

/* Lock held. */
static cudaError_t
end(struct CUstream_st *s, cudaGraph_t *out)
{
	struct capture *c = s->capture;
	cudaError_t e = cudaSuccess;

	if (!c)
		return cudaErrorIllegalState;
	if (c->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(c->thread, pthread_self()))
		return cudaErrorStreamCaptureWrongThread;
	if (c->origin != s)
		return invalidate(c, cudaErrorStreamCaptureUnmatched);
	if (c->invalid)
		e = cudaErrorStreamCaptureInvalidated;
	else if (!c->given && !graph_joined(c->graph, s->tips, s->ntips))
		e = cudaErrorStreamCaptureUnjoined;
	leave(c);
	if (e == cudaSuccess)
		*out = c->graph;
	else if (!c->given)
		graph_free(c->graph);
	free(c);
	return e;
}

cudaError_t
cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	struct CUstream_st *s;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && !graph)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e != cudaSuccess)
		return cuda_done(e);
	*graph = NULL;
	pthread_mutex_lock(&lock);
	e = end(s, graph);
	pthread_mutex_unlock(&lock);
	return cuda_done(e);
}

/* ------------------------------------------------------------------ queries */

cudaError_t
cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	enum cudaStreamCaptureMode before = thread_mode;

	if (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed)
		return cuda_done(cudaErrorInvalidValue);
	thread_mode = *mode;
	*mode = before;
	return cudaSuccess;
}

/* Lock held. */
static enum cudaStreamCaptureStatus
status_of(const struct CUstream_st *s)
{
	if (!s->capture)
		return cudaStreamCaptureStatusNone;
	return s->capture->invalid ? cudaStreamCaptureStatusInvalidated
				   : cudaStreamCaptureStatusActive;
}

cudaError_t
cudaStreamGetCaptureInfo_v3(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus,
			    unsigned long long *id, cudaGraph_t *graph,
			    const cudaGraphNode_t **dependencies,
			    const cudaGraphEdgeData **edgeData, size_t *ndependencies)
{
	struct CUstream_st *s;
	bool captured;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && !captureStatus)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess && s == s->device->legacy)
		e = capture_look(s, &captured);
	if (e != cudaSuccess)
		return cuda_done(e);
	pthread_mutex_lock(&lock);
	*captureStatus = status_of(s);
	if (*captureStatus == cudaStreamCaptureStatusActive) {
		if (id)
			*id = s->capture->id;
		if (graph)
			*graph = s->capture->graph;
		if (dependencies)
			*dependencies = s->tips;
		if (edgeData)
			*edgeData = NULL;
		if (ndependencies)
			*ndependencies = s->ntips;
	}
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

cudaError_t
cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus,
			    unsigned long long *id, cudaGraph_t *graph,
			    const cudaGraphNode_t **dependencies, size_t *ndependencies)
{
	return cudaStreamGetCaptureInfo_v3(stream, captureStatus, id, graph, dependencies, NULL,
					   ndependencies);
}

cudaError_t
cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	return cudaStreamGetCaptureInfo_v3(stream, status, NULL, NULL, NULL, NULL, NULL);
}

cudaError_t
cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
				    size_t ndependencies, unsigned int flags)
{
	struct CUstream_st *s;
	bool good = false;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess &&
	    (flags > cudaStreamSetCaptureDependencies || (ndependencies && !dependencies)))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e != cudaSuccess)
		return cuda_done(e);
	pthread_mutex_lock(&lock);
	if (!s->capture)
		e = cudaErrorIllegalState;
	for (size_t i = 0; e == cudaSuccess && i < ndependencies; i++)
		if (!dependencies[i] || dependencies[i]->magic != NODE_MAGIC ||
		    dependencies[i]->graph != s->capture->graph)
			e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		good = flags ? set_tips(s, dependencies, ndependencies)
			     : add_tips(s, dependencies, ndependencies);
	pthread_mutex_unlock(&lock);
	return cuda_done(e == cudaSuccess && !good ? cudaErrorMemoryAllocation : e);
}

cudaError_t
cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t *dependencies,
				       const cudaGraphEdgeData *dependencyData,
				       size_t ndependencies, unsigned int flags)
{
	if (dependencyData)
		return cuda_done(cudaErrorNotSupported);
	return cudaStreamUpdateCaptureDependencies(stream, dependencies, ndependencies, flags);
}
