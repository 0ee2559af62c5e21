/*
 * emit_impl.h - shared by the forward and backward passes.
 */
#ifndef NN_EMIT_IMPL_H
#define NN_EMIT_IMPL_H

#include "nn/launch.h"

/* The number of nodes that read a node's output. */
uint32_t emit_consumers(const struct net *n, uint32_t node);

/* Images that a convolution unfolds at once. */
uint64_t emit_scratch_images(const struct net_node *node);

/* Add up a batch norm's sums, count doubles from element `first` of extra, over the ranks. */
void emit_sum(const struct emit_batch *b, uint32_t node, uint64_t first, uint64_t count,
	      const struct emit_sink *s);

static inline uint64_t
emit_size(const struct emit_place *p)
{
	return p->dtype == GPUSIM_F64 ? 8 : 4;
}

/* Addresses of a parameter and of its gradient. */
static inline uint64_t
emit_param(const struct emit_place *p, uint64_t offset)
{
	return p->params + offset * emit_size(p);
}

static inline uint64_t
emit_grad(const struct emit_place *p, uint64_t offset)
{
	return p->grads + offset * emit_size(p);
}

/* A node's input. */
static inline uint64_t
emit_input(const struct emit_place *p, const struct net_node *node, unsigned i)
{
	return node->in[i] == NET_INPUT ? p->x : p->y[node->in[i]];
}

#endif
