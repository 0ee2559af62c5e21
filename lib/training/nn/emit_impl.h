/*
 * emit_impl.h - what emit.c and emit_vit.c share: addresses and numbers of rows.
 */
#ifndef NN_EMIT_IMPL_H
#define NN_EMIT_IMPL_H

#include "nn/emit.h"
#include "nn/launch.h"

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

/* Rows of a node's output: of dense layers and norms also those of its input. */
static inline uint64_t
emit_rows(const struct emit_batch *b, uint32_t rank, const struct net_node *node)
{
	return b->rows[rank] * node->tokens;
}

/* One node of a vit on one rank. None has an activation, and each is the only reader of its input. */
typedef void emit_node_fn(const struct net *n, const struct emit_batch *b, uint32_t rank,
			  uint32_t k, const struct emit_sink *s);
emit_node_fn forward_patches, forward_tokens, forward_attention, forward_pick;
emit_node_fn gradients_tokens;
emit_node_fn propagate_tokens, propagate_attention, propagate_pick;

#endif
