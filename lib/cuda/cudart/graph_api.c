/* Calls about graphs: making, copying, looking at nodes and edges. A graph belongs to one thread at
 * a time, as in CUDA. */
#include <stdlib.h>
#include <string.h>

#include "cudart/graph_impl.h"

cudaError_t
graph_about(cudaGraph_t graph)
{
	cudaError_t e = cuda_enter();

	return e == cudaSuccess && (!graph || graph->magic != GRAPH_MAGIC) ? cudaErrorInvalidValue
									   : e;
}

cudaError_t
node_about(cudaGraphNode_t node)
{
	cudaError_t e = cuda_enter();

	return e == cudaSuccess && (!node || node->magic != NODE_MAGIC) ? cudaErrorInvalidValue : e;
}

cudaError_t
cudaGraphCreate(cudaGraph_t *graph, unsigned int flags)
{
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess && (!graph || flags))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && !(*graph = graph_new()))
		e = cudaErrorMemoryAllocation;
	return cuda_done(e);
}

cudaError_t
cudaGraphDestroy(cudaGraph_t graph)
{
	cudaError_t e = graph_about(graph);

	if (e == cudaSuccess)
		graph_free(graph);
	return cuda_done(e);
}

cudaError_t
cudaGraphClone(cudaGraph_t *clone, cudaGraph_t original)
{
	cudaError_t e = graph_about(original);

	if (e == cudaSuccess && !clone)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && !(*clone = graph_clone(original)))
		e = cudaErrorMemoryAllocation;
	return cuda_done(e);
}

cudaError_t
cudaGraphNodeFindInClone(cudaGraphNode_t *node, cudaGraphNode_t original, cudaGraph_t clone)
{
	cudaError_t e = graph_about(clone);

	if (e == cudaSuccess && (!node || !original))
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	for (size_t i = 0; i < clone->n; i++)
		if (clone->nodes[i]->origin == original) {
			*node = clone->nodes[i];
			return cudaSuccess;
		}
	return cuda_done(cudaErrorInvalidValue);
}

cudaError_t
cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
	cudaError_t e = node_about(node);

	if (e == cudaSuccess && !type)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		*type = node->op->type;
	return cuda_done(e);
}

/* ------------------------------------------------------------------ lists: *n is the capacity,
 * then the count */

struct list {
	cudaGraphNode_t *a, *b; /* NULL: only count */
	size_t n, room;
};

static struct list
list_of(cudaGraphNode_t *a, cudaGraphNode_t *b, const size_t *room)
{
	return (struct list){a, b, 0, a ? *room : 0};
}

static void
list_add(struct list *l, cudaGraphNode_t a, cudaGraphNode_t b)
{
	if (l->n < l->room) {
		l->a[l->n] = a;
		if (l->b)
			l->b[l->n] = b;
	}
	l->n++;
}

/* Set the remaining entries to NULL. */
static cudaError_t
list_end(struct list *l, size_t *n)
{
	for (size_t i = l->n; i < l->room; i++) {
		l->a[i] = NULL;
		if (l->b)
			l->b[i] = NULL;
	}
	*n = l->room && l->n > l->room ? l->room : l->n;
	return cudaSuccess;
}

cudaError_t
cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
	cudaError_t e = graph_about(graph);
	struct list l;

	if (e != cudaSuccess || !numNodes)
		return cuda_done(e == cudaSuccess ? cudaErrorInvalidValue : e);
	l = list_of(nodes, NULL, numNodes);
	for (size_t i = 0; i < graph->n; i++)
		list_add(&l, graph->nodes[i], NULL);
	return list_end(&l, numNodes);
}

cudaError_t
cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *rootNodes, size_t *numRootNodes)
{
	cudaError_t e = graph_about(graph);
	struct list l;

	if (e != cudaSuccess || !numRootNodes)
		return cuda_done(e == cudaSuccess ? cudaErrorInvalidValue : e);
	l = list_of(rootNodes, NULL, numRootNodes);
	for (size_t i = 0; i < graph->n; i++)
		if (graph->nodes[i]->ndeps == 0)
			list_add(&l, graph->nodes[i], NULL);
	return list_end(&l, numRootNodes);
}

cudaError_t
cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *numEdges)
{
	cudaError_t e = graph_about(graph);
	struct list l;

	if (e != cudaSuccess || !numEdges || !from != !to)
		return cuda_done(e == cudaSuccess ? cudaErrorInvalidValue : e);
	l = list_of(from, to, numEdges);
	for (size_t i = 0; i < graph->n; i++)
		for (size_t k = 0; k < graph->nodes[i]->ndeps; k++)
			list_add(&l, graph->nodes[i]->deps[k], graph->nodes[i]);
	return list_end(&l, numEdges);
}

cudaError_t
cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *dependencies,
			     size_t *ndependencies)
{
	cudaError_t e = node_about(node);
	struct list l;

	if (e != cudaSuccess || !ndependencies)
		return cuda_done(e == cudaSuccess ? cudaErrorInvalidValue : e);
	l = list_of(dependencies, NULL, ndependencies);
	for (size_t k = 0; k < node->ndeps; k++)
		list_add(&l, node->deps[k], NULL);
	return list_end(&l, ndependencies);
}

cudaError_t
cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *dependentNodes,
			       size_t *numDependentNodes)
{
	cudaError_t e = node_about(node);
	struct list l;

	if (e != cudaSuccess || !numDependentNodes)
		return cuda_done(e == cudaSuccess ? cudaErrorInvalidValue : e);
	l = list_of(dependentNodes, NULL, numDependentNodes);
	for (size_t i = 0; i < node->graph->n; i++)
		for (size_t k = 0; k < node->graph->nodes[i]->ndeps; k++)
			if (node->graph->nodes[i]->deps[k] == node)
				list_add(&l, node->graph->nodes[i], NULL);
	return list_end(&l, numDependentNodes);
}

/* ------------------------------------------------------------------ edges */

static cudaError_t
change_edges(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t n,
	     bool (*change)(struct CUgraphNode_st *, struct CUgraphNode_st *))
{
	cudaError_t e = graph_about(graph);

	if (e == cudaSuccess && n && (!from || !to))
		e = cudaErrorInvalidValue;
	for (size_t i = 0; i < n && e == cudaSuccess; i++) {
		e = node_about(from[i]);
		if (e == cudaSuccess)
			e = node_about(to[i]);
		if (e == cudaSuccess && (from[i]->graph != graph || to[i]->graph != graph ||
					 from[i] == to[i] || !change(from[i], to[i])))
			e = cudaErrorInvalidValue;
	}
	return cuda_done(e);
}

cudaError_t
cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
			 size_t ndependencies)
{
	return change_edges(graph, from, to, ndependencies, graph_link);
}

cudaError_t
cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
			    const cudaGraphNode_t *to, size_t ndependencies)
{
	return change_edges(graph, from, to, ndependencies, graph_unlink);
}

cudaError_t
cudaGraphDestroyNode(cudaGraphNode_t node)
{
	cudaError_t e = node_about(node);

	if (e == cudaSuccess)
		graph_remove(node);
	return cuda_done(e);
}
