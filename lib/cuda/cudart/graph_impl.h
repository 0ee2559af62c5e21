/* graph_impl.h - shared by the files of graphs. */
#ifndef CUDART_GRAPH_IMPL_H
#define CUDART_GRAPH_IMPL_H

#include "cudart/cuda_impl.h"
#include "cudart/graph.h"

/* Begin a call about a graph, a node, an executable graph: cudaErrorInvalidValue if the handle is NULL. */
cudaError_t graph_about(cudaGraph_t graph);
cudaError_t node_about(cudaGraphNode_t node);
cudaError_t exec_about(cudaGraphExec_t exec);

/* Put another op of the same kind in a step's place. */
cudaError_t exec_replace(cudaGraphExec_t exec, cudaGraphNode_t node, struct op *o);

#endif
