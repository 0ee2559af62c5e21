/* Operations: a stream runs them once, a graph's node at each launch. */
#include <stdlib.h>

#include "cudart/cuda_impl.h"

cudaError_t
op_submit(struct CUstream_st *s, struct op *o)
{
	bool captured = false;
	cudaError_t e = o ? capture_look(s, &captured) : cudaErrorMemoryAllocation;

	if (e == cudaSuccess)
		e = captured ? capture_add(s, o) : o->issue(o, s);
	op_drop(o);
	return e;
}

static cudaError_t
issue_nothing(struct op *o, struct CUstream_st *s)
{
	(void)o, (void)s;
	return cudaSuccess;
}

struct op *
op_empty(void)
{
	return op_new(cudaGraphNodeTypeEmpty, -1, issue_nothing);
}

/* ------------------------------------------------------------------ enqueued by a function: hooks.h */

static enum rc
run_call(void *arg, struct err *err)
{
	struct op *o = arg;

	work_is_kernel(o->u.call.name);
	return o->u.call.run(o->u.call.arg, err);
}

void
op_drop_work(void *arg, cudaError_t e)
{
	(void)e;
	op_drop(arg);
}

static cudaError_t
issue_call(struct op *o, struct CUstream_st *s)
{
	return o->u.call.run ? work_enqueue(s, run_call, op_drop_work, op_hold(o))
			     : order_enqueue(s, o->u.call.enqueue, o->u.call.arg);
}

static void
fini_call(struct op *o)
{
	if (o->u.call.done_with)
		o->u.call.done_with(o->u.call.arg);
}

/* An operation that owns c->arg; on failure c->arg is done with. NULL: out of memory. */
static struct op *
op_call(const struct call *c, int ordinal)
{
	struct op *o = op_new(cudaGraphNodeTypeKernel, ordinal, issue_call);

	if (o) {
		o->u.call = *c;
		o->fini = fini_call;
	} else if (c->done_with) {
		c->done_with(c->arg);
	}
	return o;
}

static cudaError_t
enqueue_call(cudaStream_t stream, int ordinal, const struct call *c)
{
	struct CUstream_st *s;
	bool captured = false;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess && s->device->ordinal != ordinal)
		e = cudaErrorInvalidResourceHandle;
	if (e == cudaSuccess)
		e = capture_look(s, &captured);
	if (e == cudaSuccess && (captured || c->run))
		return op_submit(s, op_call(c, ordinal));
	/* Without an op, because calls of collectives take this path. */
	if (e == cudaSuccess)
		e = order_enqueue(s, c->enqueue, c->arg);
	if (c->done_with)
		c->done_with(c->arg);
	return e;
}

/* The special streams belong to the given device, whatever the thread's current device is. */
static cudaError_t
enqueue_on(cudaStream_t stream, int ordinal, const struct call *c)
{
	struct device *before = cuda_connect() == cudaSuccess ? cuda_current() : NULL;
	cudaError_t e;

	if (before && cuda_set_current(ordinal) != cudaSuccess) {
		if (c->done_with)
			c->done_with(c->arg);
		return cudaErrorInvalidDevice;
	}
	e = enqueue_call(stream, ordinal, c);
	if (before)
		cuda_set_current(before->ordinal);
	return e;
}

cudaError_t
gpusim_cuda_enqueue(cudaStream_t stream, int ordinal, gpusim_cuda_enqueue_fn *enqueue, void *arg,
		    void (*done_with)(void *arg))
{
	struct call c = {.enqueue = enqueue, .arg = arg, .done_with = done_with};

	return enqueue_on(stream, ordinal, &c);
}

cudaError_t
gpusim_cuda_work(cudaStream_t stream, int ordinal, const char *name, gpusim_cuda_work_fn *run,
		 void *arg, void (*done_with)(void *arg))
{
	struct call c = {.run = run, .name = name, .arg = arg, .done_with = done_with};

	return enqueue_on(stream, ordinal, &c);
}

/* ------------------------------------------------------------------ host functions */

static enum rc
run_host(void *arg, struct err *err)
{
	struct op *o = arg;

	(void)err;
	work_does(CMDQ_DOES_HOST, NULL);
	cuda_forbid_calls(true);
	o->u.host.fn(o->u.host.userData);
	cuda_forbid_calls(false);
	return RC_OK;
}

static cudaError_t
issue_host(struct op *o, struct CUstream_st *s)
{
	return work_enqueue(s, run_host, op_drop_work, op_hold(o));
}

struct op *
op_host(cudaHostFn_t fn, void *arg)
{
	struct op *o = op_new(cudaGraphNodeTypeHost, -1, issue_host);

	if (o)
		o->u.host = (struct cudaHostNodeParams){fn, arg};
	return o;
}

cudaError_t
cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
	struct CUstream_st *s;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && !fn)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	return cuda_done(e == cudaSuccess ? op_submit(s, op_host(fn, userData)) : e);
}

/* cudaStreamAddCallback, which is called even if the stream has failed. */
struct callback {
	cudaStreamCallback_t fn;
	cudaStream_t stream;
	void *arg;
};

static void
call_back(const struct callback *c, cudaError_t e)
{
	cuda_forbid_calls(true);
	c->fn(c->stream, e, c->arg);
	cuda_forbid_calls(false);
}

static enum rc
run_callback(void *arg, struct err *err)
{
	(void)err;
	work_does(CMDQ_DOES_HOST, NULL);
	call_back(arg, cudaSuccess);
	return RC_OK;
}

static void
drop_callback(void *arg, cudaError_t e)
{
	if (e == cudaErrorLaunchFailure)
		call_back(arg, e);
	free(arg);
}

cudaError_t
cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *userData,
		      unsigned int flags)
{
	struct CUstream_st *s;
	struct callback *c;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && (!callback || flags))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess)
		e = capture_forbids_on(s);
	if (e != cudaSuccess)
		return cuda_done(e);
	c = malloc(sizeof *c);
	if (!c)
		return cuda_done(cudaErrorMemoryAllocation);
	*c = (struct callback){callback, stream, userData};
	return cuda_done(work_enqueue(s, run_callback, drop_callback, c));
}
