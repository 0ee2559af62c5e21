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
	return emit_type_size(p->dtype);
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
emit_rows(const struct net *n, const struct emit_batch *b, uint32_t rank,
	  const struct net_node *node)
{
	return emit_have(n, node, b->rows[rank], n->tp ? rank % n->tp : 0);
}

/* Elements of a node's output. */
static inline uint64_t
emit_elements(const struct net *n, const struct emit_batch *b, uint32_t rank,
	      const struct net_node *node)
{
	return emit_rows(n, b, rank, node) * net_shape_size(node->shape);
}

/* Is a node an exchange among the ranks that layers are divided over? */
static inline bool
emit_exchanges(const struct net_node *node)
{
	return node->kind >= NET_RECV;
}

/* Does such a node exchange rows, or whole outputs? */
static inline bool
emit_by_rows(const struct net *n, const struct net_node *node)
{
	return node->kind == NET_ENTER ? n->node[node->in[0]].sharded
				       : node->sharded || node->kind == NET_GATHER;
}

/* Those nodes, on all ranks; the loss and the right answers where the classes are divided (emit_split.c). */
void forward_exchange(const struct net *n, const struct emit_batch *b, uint32_t k,
		      const struct emit_sink *s);
void propagate_exchange(const struct net *n, const struct emit_batch *b, uint32_t k,
			const struct emit_sink *s);
void divided_loss(const struct net *n, const struct emit_batch *b, const struct emit_target *target,
		  const struct emit_sink *s);
void divided_count(const struct net *n, const struct emit_batch *b,
		   const struct emit_target *target, const struct emit_sink *s);

/* Images that a convolution unfolds at once: small planes want several in one product, and room for their patches. */
static inline uint64_t
emit_scratch_images(const struct net_node *node)
{
	uint64_t plane = (uint64_t)node->shape.rows * node->shape.cols;

	return plane <= 16 ? 16 : plane <= 64 ? 8 : 1;
}

/* One node of a vit on one rank. None has an activation, and each is the only reader of its input. */
typedef void emit_node_fn(const struct net *n, const struct emit_batch *b, uint32_t rank,
			  uint32_t k, const struct emit_sink *s);
emit_node_fn forward_patches, forward_tokens, forward_attention, forward_pick;
emit_node_fn gradients_tokens;
emit_node_fn propagate_tokens, propagate_attention, propagate_pick;

#endif
