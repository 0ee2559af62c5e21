/*
 * Executable graphs: steps in lanes.
 *
 * Design notes. One lane, on the device of the launch's stream, runs in that stream; the others
 * have their own streams. They begin when the launch's stream reaches the launch, and it continues
 * when they have ended. Launches of one executable graph follow each other, whatever their streams.
 * Its lock covers all of it.
 */
#include <stdlib.h>
#include <string.h>

#include "cudart/graph_impl.h"

#define EXEC_MAGIC 0x6770757365786563ull

struct lane {
	int ordinal;
	struct CUstream_st *own; /* NULL: not needed yet */
	struct CUstream_st *now; /* in this launch; NULL: the lane has not begun */
};

struct CUgraphExec_st {
	uint64_t magic;
	atomic_uint users; /* the program, and launches that were captured */
	unsigned long long flags;
	pthread_mutex_t lock;
	struct step *steps;
	struct point *ends; /* of steps that others wait for, in this launch */
	size_t n, room;
	struct lane lanes[LANES_MAX];
	unsigned nlanes;
	struct point last; /* end of the latest launch */
};

cudaError_t
exec_about(cudaGraphExec_t exec)
{
	cudaError_t e = cuda_enter();

	return e == cudaSuccess && (!exec || exec->magic != EXEC_MAGIC) ? cudaErrorInvalidValue : e;
}

static void
exec_drop(struct CUgraphExec_st *x)
{
	if (!x || atomic_fetch_sub(&x->users, 1) != 1)
		return;
	for (size_t i = 0; i < x->n; i++) {
		op_drop(x->steps[i].op);
		free(x->steps[i].deps);
	}
	for (unsigned i = 0; i < x->nlanes; i++)
		if (x->lanes[i].own)
			stream_release(x->lanes[i].own);
	pthread_mutex_destroy(&x->lock);
	free(x->steps);
	free(x->ends);
	free(x);
}

/* ------------------------------------------------------------------ steps of a graph and its children */

/* Indices of steps. */
struct places {
	size_t *v, n;
};

static bool
places_add(struct places *p, const struct places *more)
{
	size_t *v = realloc(p->v, (p->n + more->n + 1) * sizeof *v);

	if (!v)
		return false;
	p->v = v;
	for (size_t i = 0; i < more->n; i++) {
		size_t k = 0;

		while (k < p->n && v[k] != more->v[i])
			k++;
		if (k == p->n)
			v[p->n++] = more->v[i];
	}
	return true;
}

static bool
add_step(struct CUgraphExec_st *x, const struct CUgraphNode_st *n, struct places *deps)
{
	size_t room = x->room ? 2 * x->room : 16;
	struct step *v = x->steps;

	if (x->n == x->room) {
		v = realloc(v, room * sizeof *v);
		if (!v)
			return false;
		x->steps = v;
		x->room = room;
	}
	v[x->n++] = (struct step){.op = op_hold(n->op),
				  .node = n,
				  .ordinal = n->ordinal,
				  .deps = deps->v,
				  .ndeps = deps->n};
	*deps = (struct places){NULL, 0};
	return true;
}

static cudaError_t add_graph(struct CUgraphExec_st *x, struct CUgraph_st *g,
			     const struct places *before, struct places *leaves);

/* Add a node: its dependants begin at its ends. */
static cudaError_t
add_node(struct CUgraphExec_st *x, const struct CUgraphNode_st *n, const struct places *before,
	 const struct places *ends, struct places *out)
{
	struct places deps = {NULL, 0};
	cudaError_t e = cudaErrorMemoryAllocation;
	bool good = n->ndeps || places_add(&deps, before);

	for (size_t k = 0; k < n->ndeps && good; k++)
		good = places_add(&deps, &ends[n->deps[k]->at]);
	if (good && n->op->type == cudaGraphNodeTypeGraph && n->op->u.graph) {
		e = add_graph(x, n->op->u.graph, &deps, out);
	} else if (good && add_step(x, n, &deps)) {
		size_t at = x->n - 1;
		struct places one = {&at, 1};

		e = places_add(out, &one) ? cudaSuccess : cudaErrorMemoryAllocation;
	}
	free(deps.v);
	return e;
}

static bool
is_leaf(const struct CUgraph_st *g, const struct CUgraphNode_st *n)
{
	for (size_t i = 0; i < g->n; i++)
		for (size_t k = 0; k < g->nodes[i]->ndeps; k++)
			if (g->nodes[i]->deps[k] == n)
				return false;
	return true;
}

/* leaves [out]: the ends of a graph; of an empty graph: `before`. */
static cudaError_t
add_graph(struct CUgraphExec_st *x, struct CUgraph_st *g, const struct places *before,
	  struct places *leaves)
{
	bool circle;
	struct CUgraphNode_st **order = graph_order(g, &circle);
	struct places *ends = calloc(g->n + 1, sizeof *ends);
	cudaError_t e = cudaSuccess;

	if (!order || !ends)
		e = circle ? cudaErrorInvalidValue : cudaErrorMemoryAllocation;
	for (size_t i = 0; i < g->n && e == cudaSuccess; i++)
		e = add_node(x, order[i], before, ends, &ends[i]);
	for (size_t i = 0; leaves && i < g->n && e == cudaSuccess; i++)
		if (is_leaf(g, order[i]) && !places_add(leaves, &ends[i]))
			e = cudaErrorMemoryAllocation;
	if (leaves && g->n == 0 && e == cudaSuccess && !places_add(leaves, before))
		e = cudaErrorMemoryAllocation;
	for (size_t i = 0; ends && i < g->n; i++)
		free(ends[i].v);
	free(ends);
	free(order);
	return e;
}

static cudaError_t
instantiate(struct CUgraph_st *g, unsigned long long flags, struct CUgraphExec_st **out)
{
	const struct places none = {NULL, 0};
	struct CUgraphExec_st *x = calloc(1, sizeof *x);
	int ordinal[LANES_MAX];
	cudaError_t e;

	if (!x)
		return cudaErrorMemoryAllocation;
	x->magic = EXEC_MAGIC;
	x->flags = flags;
	atomic_init(&x->users, 1);
	pthread_mutex_init(&x->lock, NULL);
	e = add_graph(x, g, &none, NULL);
	if (e == cudaSuccess && !(x->ends = calloc(x->n + 1, sizeof *x->ends)))
		e = cudaErrorMemoryAllocation;
	if (e != cudaSuccess) {
		exec_drop(x);
		return e;
	}
	x->nlanes = lanes_plan(x->steps, x->n, ordinal);
	for (unsigned i = 0; i < x->nlanes; i++)
		x->lanes[i].ordinal = ordinal[i];
	*out = x;
	return cudaSuccess;
}

/* ------------------------------------------------------------------ launching */

/* The lane's stream in this launch; a lane with its own stream begins with the launch. */
static cudaError_t
enter_lane(struct lane *l, struct point begin)
{
	cudaError_t e = cudaSuccess;

	if (l->now)
		return cudaSuccess;
	if (!l->own)
		e = stream_new(cuda_device_at(l->ordinal), cudaStreamNonBlocking, 0, &l->own);
	if (e == cudaSuccess)
		e = order_after(l->own, begin);
	if (e == cudaSuccess)
		l->now = l->own;
	return e;
}

static cudaError_t
launch_step(struct CUgraphExec_st *x, size_t i, struct point begin)
{
	struct step *st = &x->steps[i];
	struct lane *l = &x->lanes[st->lane];
	cudaError_t e = enter_lane(l, begin);

	for (size_t k = 0; k < st->ndeps && e == cudaSuccess; k++)
		if (x->steps[st->deps[k]].lane != st->lane)
			e = order_after(l->now, x->ends[st->deps[k]]);
	if (e == cudaSuccess && !st->disabled)
		e = st->op->issue(st->op, l->now);
	if (e == cudaSuccess && st->awaited)
		e = order_end_of(l->now, &x->ends[i]);
	return e;
}

/* The lane that runs in the launch's stream. */
static unsigned
home_lane(const struct CUgraphExec_st *x, const struct CUstream_st *s)
{
	unsigned i = 0;

	while (i < x->nlanes && x->lanes[i].ordinal != s->device->ordinal)
		i++;
	return i;
}

/* Lock held. */
static cudaError_t
launch(struct CUgraphExec_st *x, struct CUstream_st *s)
{
	unsigned home = home_lane(x, s);
	struct point begin = {.q = NULL}, end;
	cudaError_t e = order_after(s, x->last);

	for (unsigned i = 0; i < x->nlanes; i++)
		x->lanes[i].now = i == home ? s : NULL;
	if (e == cudaSuccess && x->nlanes > (home < x->nlanes))
		e = order_end_of(s, &begin);
	for (size_t i = 0; i < x->n && e == cudaSuccess; i++)
		e = launch_step(x, i, begin);
	for (unsigned i = 0; i < x->nlanes; i++)
		if (i != home && x->lanes[i].now &&
		    order_end_of(x->lanes[i].now, &end) == cudaSuccess) {
			cudaError_t joined = order_after(s, end);

			e = e == cudaSuccess ? joined : e;
		}
	if (order_end_of(s, &end) == cudaSuccess)
		x->last = end;
	return e;
}

static cudaError_t
launch_locked(struct CUgraphExec_st *x, struct CUstream_st *s)
{
	cudaError_t e;

	pthread_mutex_lock(&x->lock);
	e = launch(x, s);
	pthread_mutex_unlock(&x->lock);
	return e;
}

/* A launch that was captured. */
static cudaError_t
issue_launch(struct op *o, struct CUstream_st *s)
{
	return launch_locked(o->u.call.arg, s);
}

static void
fini_launch(struct op *o)
{
	exec_drop(o->u.call.arg);
}

static cudaError_t
capture_launch(struct CUgraphExec_st *x, struct CUstream_st *s)
{
	struct op *o = op_new(cudaGraphNodeTypeEmpty, -1, issue_launch);

	if (o) {
		atomic_fetch_add(&x->users, 1);
		o->u.call.arg = x;
		o->fini = fini_launch;
	}
	return op_submit(s, o);
}

cudaError_t
cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	struct CUstream_st *s;
	bool captured;
	cudaError_t e = exec_about(exec);

	if (e == cudaSuccess)
		e = stream_of(stream, &s);
	if (e == cudaSuccess)
		e = capture_look(s, &captured);
	if (e != cudaSuccess)
		return cuda_done(e);
	return cuda_done(captured ? capture_launch(exec, s) : launch_locked(exec, s));
}

cudaError_t
cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
	struct CUstream_st *s;
	cudaError_t e = exec_about(exec);

	return cuda_done(e == cudaSuccess ? stream_of(stream, &s) : e);
}

/* ------------------------------------------------------------------ instantiating */

cudaError_t
cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	cudaError_t e = graph_about(graph);

	if (e == cudaSuccess && (!exec || flags & ~15ull))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && flags & cudaGraphInstantiateFlagDeviceLaunch)
		e = cudaErrorNotSupported;
	return cuda_done(e == cudaSuccess ? instantiate(graph, flags, exec) : e);
}

cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

cudaError_t
cudaGraphInstantiateWithParams(cudaGraphExec_t *exec, cudaGraph_t graph,
			       cudaGraphInstantiateParams *params)
{
	cudaError_t e;

	if (!params)
		return cuda_done(cudaErrorInvalidValue);
	e = cudaGraphInstantiateWithFlags(exec, graph, params->flags);
	params->errNode_out = NULL;
	params->result_out = e == cudaSuccess		  ? cudaGraphInstantiateSuccess
			     : e == cudaErrorInvalidValue ? cudaGraphInstantiateInvalidStructure
							  : cudaGraphInstantiateError;
	return e;
}

cudaError_t
cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long *flags)
{
	cudaError_t e = exec_about(exec);

	if (e == cudaSuccess && !flags)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		*flags = exec->flags;
	return cuda_done(e);
}

/* Work that it has enqueued continues. */
cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	cudaError_t e = exec_about(exec);

	if (e == cudaSuccess) {
		exec->magic = 0;
		exec_drop(exec);
	}
	return cuda_done(e);
}

/* ------------------------------------------------------------------ changing */

static struct step *
step_of(struct CUgraphExec_st *x, const struct CUgraphNode_st *n)
{
	for (size_t i = 0; i < x->n; i++)
		if (x->steps[i].node == n)
			return &x->steps[i];
	return NULL;
}

cudaError_t
exec_replace(cudaGraphExec_t exec, cudaGraphNode_t node, struct op *o)
{
	struct step *st = step_of(exec, node);
	cudaError_t e = !o				 ? cudaErrorMemoryAllocation
			: !st || st->op->type != o->type ? cudaErrorInvalidValue
							 : cudaSuccess;

	if (e == cudaSuccess) {
		pthread_mutex_lock(&exec->lock);
		op_drop(st->op);
		st->op = op_hold(o);
		pthread_mutex_unlock(&exec->lock);
	}
	op_drop(o);
	return e;
}

static cudaError_t
enabled_step(cudaGraphExec_t exec, cudaGraphNode_t node, struct step **out)
{
	cudaError_t e = exec_about(exec);

	if (e == cudaSuccess)
		e = node_about(node);
	if (e == cudaSuccess && !(*out = step_of(exec, node)))
		e = cudaErrorInvalidValue;
	return e;
}

cudaError_t
cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int isEnabled)
{
	struct step *st;
	cudaError_t e = enabled_step(exec, node, &st);

	if (e == cudaSuccess)
		st->disabled = !isEnabled;
	return cuda_done(e);
}

cudaError_t
cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int *isEnabled)
{
	struct step *st;
	cudaError_t e = enabled_step(exec, node, &st);

	if (e == cudaSuccess && !isEnabled)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		*isEnabled = !st->disabled;
	return cuda_done(e);
}

/* Compare the steps of two executable graphs, ignoring parameters. */
static enum cudaGraphExecUpdateResult
compare(const struct CUgraphExec_st *a, const struct CUgraphExec_st *b, size_t *at)
{
	if (a->n != b->n)
		return cudaGraphExecUpdateErrorTopologyChanged;
	for (*at = 0; *at < a->n; ++*at) {
		const struct step *s = &a->steps[*at], *t = &b->steps[*at];

		if (s->op->type != t->op->type)
			return cudaGraphExecUpdateErrorNodeTypeChanged;
		if (s->ndeps != t->ndeps || s->ordinal != t->ordinal ||
		    (s->ndeps && memcmp(s->deps, t->deps, s->ndeps * sizeof *s->deps) != 0))
			return cudaGraphExecUpdateErrorTopologyChanged;
	}
	return cudaGraphExecUpdateSuccess;
}

static void
take_ops(struct CUgraphExec_st *x, struct CUgraphExec_st *from)
{
	pthread_mutex_lock(&x->lock);
	for (size_t i = 0; i < x->n; i++) {
		struct op *before = x->steps[i].op;

		x->steps[i].op = from->steps[i].op;
		x->steps[i].node = from->steps[i].node;
		from->steps[i].op = before;
	}
	pthread_mutex_unlock(&x->lock);
}

cudaError_t
cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info)
{
	cudaGraphExecUpdateResultInfo result = {cudaGraphExecUpdateSuccess, NULL, NULL};
	struct CUgraphExec_st *new = NULL;
	cudaError_t e = exec_about(exec);
	size_t at = 0;

	if (e == cudaSuccess)
		e = graph_about(graph);
	if (e == cudaSuccess)
		e = instantiate(graph, exec->flags, &new);
	if (e != cudaSuccess)
		return cuda_done(e);
	result.result = compare(exec, new, &at);
	if (result.result == cudaGraphExecUpdateSuccess) {
		take_ops(exec, new);
	} else {
		e = cudaErrorGraphExecUpdateFailure;
		if (at < new->n)
			result.errorNode = (cudaGraphNode_t)(uintptr_t) new->steps[at].node;
	}
	exec_drop(new);
	if (info)
		*info = result;
	return cuda_done(e);
}
