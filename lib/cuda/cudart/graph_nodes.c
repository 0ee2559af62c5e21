/*
 * Nodes that a program adds itself, and their parameters. A kernel's node is made by capturing its
 * launch, so that launches have one path.
 */
#include <stdlib.h>
#include <string.h>

#include "cudart/graph_impl.h"

/* The device that a pointer is on; else the current one. */
static int
device_of(const void *p)
{
	struct memory m = {0};

	if (p && memory_find(p, 1, &m, NULL) == cudaSuccess &&
	    (m.kind == MEMORY_DEVICE || m.kind == MEMORY_MANAGED))
		return m.ordinal;
	return cuda_current()->ordinal;
}

static cudaError_t
node_op_copy(const struct box *b, struct op **out, int *ordinal)
{
	cudaError_t e = copy_check(b);

	if (e != cudaSuccess)
		return e;
	*ordinal = device_of(b->dst);
	if (*ordinal == cuda_current()->ordinal)
		*ordinal = device_of(b->src);
	*out = op_copy(b);
	return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t
node_op_memset(const struct cudaMemsetParams *p, struct op **out, int *ordinal)
{
	cudaError_t e = memset_check(p);

	if (e != cudaSuccess)
		return e;
	*ordinal = device_of(p->dst);
	*out = op_memset(p);
	return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* Take the op of a graph's only node. */
static struct op *
only_op(cudaGraph_t g)
{
	return g->n == 1 ? op_hold(g->nodes[0]->op) : NULL;
}

/* Make ops from nodes' parameters. *ordinal [out]: the device that runs them. */
static cudaError_t
node_op_kernel(const struct cudaKernelNodeParams *p, struct op **out)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	struct CUstream_st *s;
	cudaGraph_t g = NULL;
	cudaError_t e, ended;

	if (!p->func || p->extra)
		return cudaErrorInvalidValue;
	e = stream_new(cuda_current(), cudaStreamNonBlocking, 0, &s);
	if (e != cudaSuccess)
		return e;
	e = cudaStreamBeginCapture(s, mode);
	if (e == cudaSuccess) {
		e = cudaLaunchKernel(p->func, p->gridDim, p->blockDim, p->kernelParams,
				     p->sharedMemBytes, s);
		ended = cudaStreamEndCapture(s, &g);
		e = e == cudaSuccess ? ended : e;
	}
	stream_release(s);
	*out = e == cudaSuccess ? only_op(g) : NULL;
	graph_free(g);
	return e == cudaSuccess && !*out ? cudaErrorInvalidDeviceFunction : e;
}

/* ------------------------------------------------------------------ adding */

/* Takes over the caller's reference on the op. */
static cudaError_t
add(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t ndeps,
    struct op *o, int ordinal)
{
	cudaGraphNode_t n = NULL;

	if (!o)
		return cudaErrorMemoryAllocation;
	if (node && (deps || !ndeps))
		n = graph_add(graph, o, ordinal, deps, ndeps);
	op_drop(o);
	if (!n)
		return cudaErrorInvalidValue;
	*node = n;
	return cudaSuccess;
}

/* Keep a node's parameters for queries. */
static void
keep(cudaGraphNode_t node, const void *params, size_t nbytes)
{
	free(node->params);
	node->params = malloc(nbytes);
	if (node->params)
		memcpy(node->params, params, nbytes);
	node->params_nbytes = nbytes;
}

cudaError_t
cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
		      size_t ndependencies)
{
	cudaError_t e = graph_about(graph);

	return cuda_done(e == cudaSuccess ? add(node, graph, dependencies, ndependencies,
						op_empty(), cuda_current()->ordinal)
					  : e);
}

cudaError_t
cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
		       const cudaGraphNode_t *dependencies, size_t ndependencies,
		       const struct cudaKernelNodeParams *params)
{
	struct op *o;
	cudaError_t e = graph_about(graph);

	if (e == cudaSuccess && !params)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = node_op_kernel(params, &o);
	if (e == cudaSuccess)
		e = add(node, graph, dependencies, ndependencies, o, cuda_current()->ordinal);
	if (e == cudaSuccess)
		keep(*node, params, sizeof *params);
	return cuda_done(e);
}

static cudaError_t
add_copy(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t ndeps,
	 const struct cudaMemcpy3DParms *p)
{
	struct box b;
	struct op *o;
	int ordinal;
	cudaError_t e = graph_about(graph);

	if (e == cudaSuccess)
		e = p ? copy_box(p, &b) : cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = node_op_copy(&b, &o, &ordinal);
	if (e == cudaSuccess)
		e = add(node, graph, deps, ndeps, o, ordinal);
	if (e == cudaSuccess)
		keep(*node, p, sizeof *p);
	return cuda_done(e);
}

static struct cudaMemcpy3DParms
line(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	return (struct cudaMemcpy3DParms){.srcPtr = {(void *)(uintptr_t)src, count, count, 1},
					  .dstPtr = {dst, count, count, 1},
					  .extent = {count, 1, 1},
					  .kind = kind};
}

cudaError_t
cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph,
		       const cudaGraphNode_t *dependencies, size_t ndependencies,
		       const struct cudaMemcpy3DParms *copyParams)
{
	return add_copy(node, graph, dependencies, ndependencies, copyParams);
}

cudaError_t
cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
			 const cudaGraphNode_t *dependencies, size_t ndependencies, void *dst,
			 const void *src, size_t count, enum cudaMemcpyKind kind)
{
	struct cudaMemcpy3DParms p = line(dst, src, count, kind);

	return add_copy(node, graph, dependencies, ndependencies, &p);
}

cudaError_t
cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
		       const cudaGraphNode_t *dependencies, size_t ndependencies,
		       const struct cudaMemsetParams *memsetParams)
{
	struct op *o;
	int ordinal;
	cudaError_t e = graph_about(graph);

	if (e == cudaSuccess)
		e = memsetParams ? node_op_memset(memsetParams, &o, &ordinal)
				 : cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = add(node, graph, dependencies, ndependencies, o, ordinal);
	return cuda_done(e);
}

cudaError_t
cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
		     size_t ndependencies, const struct cudaHostNodeParams *params)
{
	cudaError_t e = graph_about(graph);

	if (e == cudaSuccess && (!params || !params->fn))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = add(node, graph, dependencies, ndependencies,
			op_host(params->fn, params->userData), cuda_current()->ordinal);
	return cuda_done(e);
}

cudaError_t
cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph,
			    const cudaGraphNode_t *dependencies, size_t ndependencies,
			    cudaEvent_t event)
{
	struct op *o;
	cudaError_t e = graph_about(graph);

	if (e == cudaSuccess && !event)
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	o = op_record(event);
	return cuda_done(add(node, graph, dependencies, ndependencies, o, o ? o->ordinal : 0));
}

cudaError_t
cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph,
			  const cudaGraphNode_t *dependencies, size_t ndependencies,
			  cudaEvent_t event)
{
	cudaError_t e = graph_about(graph);

	if (e == cudaSuccess && !event)
		e = cudaErrorInvalidValue;
	return cuda_done(e == cudaSuccess ? add(node, graph, dependencies, ndependencies,
						op_wait(event), cuda_current()->ordinal)
					  : e);
}

static cudaError_t
issue_child(struct op *o, struct CUstream_st *s)
{
	(void)o, (void)s; /* its nodes are steps of the parent graph */
	return cudaErrorInvalidValue;
}

static void
fini_child(struct op *o)
{
	graph_free(o->u.graph);
}

cudaError_t
cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph,
			   const cudaGraphNode_t *dependencies, size_t ndependencies,
			   cudaGraph_t childGraph)
{
	struct op *o = NULL;
	cudaError_t e = graph_about(graph);

	if (e == cudaSuccess)
		e = graph_about(childGraph);
	if (e == cudaSuccess && !(o = op_new(cudaGraphNodeTypeGraph, -1, issue_child)))
		e = cudaErrorMemoryAllocation;
	if (e != cudaSuccess)
		return cuda_done(e);
	o->fini = fini_child;
	o->u.graph = graph_clone(childGraph);
	if (!o->u.graph) {
		op_drop(o);
		return cuda_done(cudaErrorMemoryAllocation);
	}
	return cuda_done(add(node, graph, dependencies, ndependencies, o, cuda_current()->ordinal));
}

cudaError_t
cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *graph)
{
	cudaError_t e = node_about(node);

	if (e == cudaSuccess && (!graph || node->op->type != cudaGraphNodeTypeGraph))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		*graph = node->op->u.graph;
	return cuda_done(e);
}

cudaError_t
cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
		 size_t ndependencies, struct cudaGraphNodeParams *p)
{
	struct cudaKernelNodeParams kernel;
	struct cudaMemsetParams memset;
	struct cudaHostNodeParams host;

	if (!p)
		return cuda_done(cudaErrorInvalidValue);
	switch (p->type) {
	case cudaGraphNodeTypeKernel:
		memcpy(&kernel, &p->kernel, sizeof kernel);
		return cudaGraphAddKernelNode(node, graph, dependencies, ndependencies, &kernel);
	case cudaGraphNodeTypeMemcpy:
		return add_copy(node, graph, dependencies, ndependencies, &p->memcpy.copyParams);
	case cudaGraphNodeTypeMemset:
		memcpy(&memset, &p->memset, sizeof memset);
		return cudaGraphAddMemsetNode(node, graph, dependencies, ndependencies, &memset);
	case cudaGraphNodeTypeHost:
		memcpy(&host, &p->host, sizeof host);
		return cudaGraphAddHostNode(node, graph, dependencies, ndependencies, &host);
	case cudaGraphNodeTypeGraph:
		return cudaGraphAddChildGraphNode(node, graph, dependencies, ndependencies,
						  p->graph.graph);
	case cudaGraphNodeTypeEmpty:
		return cudaGraphAddEmptyNode(node, graph, dependencies, ndependencies);
	case cudaGraphNodeTypeWaitEvent:
		return cudaGraphAddEventWaitNode(node, graph, dependencies, ndependencies,
						 p->eventWait.event);
	case cudaGraphNodeTypeEventRecord:
		return cudaGraphAddEventRecordNode(node, graph, dependencies, ndependencies,
						   p->eventRecord.event);
	default:
		return cuda_done(cudaErrorNotSupported);
	}
}

/* ------------------------------------------------------------------ parameters */

/* Find a node of the type; with params, also its parameters. */
static cudaError_t
about(cudaGraphNode_t node, enum cudaGraphNodeType type, const void *out)
{
	cudaError_t e = node_about(node);

	return e == cudaSuccess && (node->op->type != type || !out) ? cudaErrorInvalidValue : e;
}

static cudaError_t
kept(cudaGraphNode_t node, void *out, size_t nbytes)
{
	if (!node->params || node->params_nbytes != nbytes)
		return cudaErrorNotSupported; /* a captured node */
	memcpy(out, node->params, nbytes);
	return cudaSuccess;
}

/* Takes over the caller's reference on the op. */
static void
replace(cudaGraphNode_t node, struct op *o)
{
	op_drop(node->op);
	node->op = o;
}

cudaError_t
cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *params)
{
	cudaError_t e = about(node, cudaGraphNodeTypeKernel, params);

	return cuda_done(e == cudaSuccess ? kept(node, params, sizeof *params) : e);
}

cudaError_t
cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *params)
{
	struct op *o;
	cudaError_t e = about(node, cudaGraphNodeTypeKernel, params);

	if (e == cudaSuccess)
		e = node_op_kernel(params, &o);
	if (e == cudaSuccess) {
		replace(node, o);
		keep(node, params, sizeof *params);
	}
	return cuda_done(e);
}

cudaError_t
cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
				 const struct cudaKernelNodeParams *params)
{
	struct op *o;
	cudaError_t e = exec_about(exec);

	if (e == cudaSuccess)
		e = about(node, cudaGraphNodeTypeKernel, params);
	if (e == cudaSuccess)
		e = node_op_kernel(params, &o);
	return cuda_done(e == cudaSuccess ? exec_replace(exec, node, o) : e);
}

cudaError_t
cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *params)
{
	cudaError_t e = about(node, cudaGraphNodeTypeMemcpy, params);

	return cuda_done(e == cudaSuccess ? kept(node, params, sizeof *params) : e);
}

static cudaError_t
op_of_params(const struct cudaMemcpy3DParms *p, struct op **o)
{
	struct box b;
	int ordinal;
	cudaError_t e = copy_box(p, &b);

	return e == cudaSuccess ? node_op_copy(&b, o, &ordinal) : e;
}

cudaError_t
cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *params)
{
	struct op *o;
	cudaError_t e = about(node, cudaGraphNodeTypeMemcpy, params);

	if (e == cudaSuccess)
		e = op_of_params(params, &o);
	if (e == cudaSuccess) {
		replace(node, o);
		keep(node, params, sizeof *params);
	}
	return cuda_done(e);
}

cudaError_t
cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src, size_t count,
			       enum cudaMemcpyKind kind)
{
	struct cudaMemcpy3DParms p = line(dst, src, count, kind);

	return cudaGraphMemcpyNodeSetParams(node, &p);
}

cudaError_t
cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
				 const struct cudaMemcpy3DParms *params)
{
	struct op *o;
	cudaError_t e = exec_about(exec);

	if (e == cudaSuccess)
		e = about(node, cudaGraphNodeTypeMemcpy, params);
	if (e == cudaSuccess)
		e = op_of_params(params, &o);
	return cuda_done(e == cudaSuccess ? exec_replace(exec, node, o) : e);
}

cudaError_t
cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *dst,
				   const void *src, size_t count, enum cudaMemcpyKind kind)
{
	struct cudaMemcpy3DParms p = line(dst, src, count, kind);

	return cudaGraphExecMemcpyNodeSetParams(exec, node, &p);
}

cudaError_t
cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *params)
{
	cudaError_t e = about(node, cudaGraphNodeTypeMemset, params);

	if (e == cudaSuccess)
		*params = node->op->u.memset;
	return cuda_done(e);
}

cudaError_t
cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *params)
{
	struct op *o;
	int ordinal;
	cudaError_t e = about(node, cudaGraphNodeTypeMemset, params);

	if (e == cudaSuccess)
		e = node_op_memset(params, &o, &ordinal);
	if (e == cudaSuccess)
		replace(node, o);
	return cuda_done(e);
}

cudaError_t
cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
				 const struct cudaMemsetParams *params)
{
	struct op *o;
	int ordinal;
	cudaError_t e = exec_about(exec);

	if (e == cudaSuccess)
		e = about(node, cudaGraphNodeTypeMemset, params);
	if (e == cudaSuccess)
		e = node_op_memset(params, &o, &ordinal);
	return cuda_done(e == cudaSuccess ? exec_replace(exec, node, o) : e);
}

cudaError_t
cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *params)
{
	cudaError_t e = about(node, cudaGraphNodeTypeHost, params);

	if (e == cudaSuccess)
		*params = node->op->u.host;
	return cuda_done(e);
}

cudaError_t
cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams *params)
{
	struct op *o = NULL;
	cudaError_t e = about(node, cudaGraphNodeTypeHost, params);

	if (e == cudaSuccess && !params->fn)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && !(o = op_host(params->fn, params->userData)))
		e = cudaErrorMemoryAllocation;
	if (e == cudaSuccess)
		replace(node, o);
	return cuda_done(e);
}

cudaError_t
cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
			       const struct cudaHostNodeParams *params)
{
	cudaError_t e = exec_about(exec);

	if (e == cudaSuccess)
		e = about(node, cudaGraphNodeTypeHost, params);
	if (e == cudaSuccess && !params->fn)
		e = cudaErrorInvalidValue;
	return cuda_done(
	    e == cudaSuccess ? exec_replace(exec, node, op_host(params->fn, params->userData)) : e);
}

/* ------------------------------------------------------------------ nodes of events */

static cudaError_t
event_of(cudaGraphNode_t node, enum cudaGraphNodeType type, cudaEvent_t *event)
{
	cudaError_t e = about(node, type, event);

	if (e == cudaSuccess)
		*event = node->op->u.event;
	return cuda_done(e);
}

cudaError_t
cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event)
{
	return event_of(node, cudaGraphNodeTypeEventRecord, event);
}

cudaError_t
cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event)
{
	return event_of(node, cudaGraphNodeTypeWaitEvent, event);
}

static cudaError_t
set_event(cudaGraphNode_t node, enum cudaGraphNodeType type, cudaEvent_t event,
	  struct op *(*make)(cudaEvent_t))
{
	struct op *o = NULL;
	cudaError_t e = about(node, type, event);

	if (e == cudaSuccess && !(o = make(event)))
		e = cudaErrorMemoryAllocation;
	if (e == cudaSuccess)
		replace(node, o);
	return cuda_done(e);
}

cudaError_t
cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
	return set_event(node, cudaGraphNodeTypeEventRecord, event, op_record);
}

cudaError_t
cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
	return set_event(node, cudaGraphNodeTypeWaitEvent, event, op_wait);
}

static cudaError_t
exec_set_event(cudaGraphExec_t exec, cudaGraphNode_t node, enum cudaGraphNodeType type,
	       cudaEvent_t event, struct op *(*make)(cudaEvent_t))
{
	cudaError_t e = exec_about(exec);

	if (e == cudaSuccess)
		e = about(node, type, event);
	return cuda_done(e == cudaSuccess ? exec_replace(exec, node, make(event)) : e);
}

cudaError_t
cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event)
{
	return exec_set_event(exec, node, cudaGraphNodeTypeEventRecord, event, op_record);
}

cudaError_t
cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event)
{
	return exec_set_event(exec, node, cudaGraphNodeTypeWaitEvent, event, op_wait);
}
