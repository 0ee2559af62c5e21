/*
 * emit_vit.c - the launches of a vision transformer's own nodes: patches, tokens, attention, pick.
 */
#include "nn/emit_impl.h"

void
forward_patches(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "patches", U("y", p->y[k]), U("x", emit_input(p, node, 0)),
	       U("n", b->rows[rank]), U("c", n->input.channels), U("h", n->input.rows),
	       U("w", n->input.cols), U("size", node->size), U("dtype", p->dtype));
}

void
forward_tokens(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	       const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "tokens", U("y", p->y[k]), U("x", emit_input(p, node, 0)),
	       U("first", emit_param(p, node->weight)), U("place", emit_param(p, node->bias)),
	       U("n", b->rows[rank]), U("tokens", node->tokens),
	       U("cols", net_shape_size(node->shape)), U("dtype", p->dtype));
}

void
gradients_tokens(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		 const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "tokens_grad", U("dfirst", emit_grad(p, node->weight)),
	       U("dplace", emit_grad(p, node->bias)), U("dy", p->dy[k]), U("n", b->rows[rank]),
	       U("tokens", node->tokens), U("cols", net_shape_size(node->shape)),
	       U("dtype", p->dtype));
}

/* The patches' rows, which come after the class token. */
void
propagate_tokens(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		 const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "pick", U("y", p->dy[node->in[0]]), U("x", p->dy[k]), U("n", b->rows[rank]),
	       U("tokens", node->tokens), U("first", 1), U("count", node->tokens - 1),
	       U("cols", net_shape_size(node->shape)), U("dtype", p->dtype));
}

void
forward_attention(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		  const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "attention", U("y", p->y[k]), U("qkv", emit_input(p, node, 0)),
	       U("lse", p->extra[k]), U("samples", b->rows[rank]), U("tokens", node->tokens),
	       U("heads", node->heads), U("dim", net_shape_size(node->shape) / node->heads),
	       U("dtype", p->dtype));
}

void
propagate_attention(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		    const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "attention_grad", U("dqkv", p->dy[node->in[0]]), U("dy", p->dy[k]),
	       U("qkv", emit_input(p, node, 0)), U("y", p->y[k]), U("lse", p->extra[k]),
	       U("samples", b->rows[rank]), U("tokens", node->tokens), U("heads", node->heads),
	       U("dim", net_shape_size(node->shape) / node->heads), U("dtype", p->dtype));
}

void
forward_pick(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	     const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "pick", U("y", p->y[k]), U("x", emit_input(p, node, 0)),
	       U("n", b->rows[rank]), U("tokens", net_in_tokens(n, node)),
	       U("cols", net_shape_size(node->shape)), U("dtype", p->dtype));
}

void
propagate_pick(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	       const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "pick_grad", U("dx", p->dy[node->in[0]]), U("dy", p->dy[k]),
	       U("n", b->rows[rank]), U("tokens", net_in_tokens(n, node)),
	       U("cols", net_shape_size(node->shape)), U("dtype", p->dtype));
}
