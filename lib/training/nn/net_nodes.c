/*
 * net_nodes.c - the nodes of a net under construction that several files with models append.
 */
#include <stdio.h>

#include "nn/net_impl.h"

struct net_shape
net_in_shape(const struct net *n, const struct net_node *node)
{
	return node->in[0] == NET_INPUT ? n->input : n->node[node->in[0]].shape;
}

uint32_t
net_in_tokens(const struct net *n, const struct net_node *node)
{
	return node->in[0] == NET_INPUT ? 1 : n->node[node->in[0]].tokens;
}

void
net_own(struct net *n, struct net_node *node, uint64_t nweight, uint64_t nbias)
{
	node->weight = n->nparams;
	node->nweight = nweight;
	node->bias = node->weight + nweight;
	node->nbias = nbias;
	n->nparams = node->bias + nbias;
}

uint32_t
net_append(struct net_builder *b, const struct net_node *node)
{
	struct net *n = &b->net;

	if (b->rc != RC_OK)
		return 0;
	if (n->nnodes == NET_MAX_NODES || n->nparams > UINT64_C(1) << 28) {
		b->rc = err_set(b->err, RC_INVAL, "a net of more than %d nodes or 2^28 parameters",
				NET_MAX_NODES);
		return 0;
	}
	n->node[n->nnodes] = *node;
	if (node->tokens == 0)
		n->node[n->nnodes].tokens = net_in_tokens(n, node);
	return n->nnodes++;
}

void
net_cut(struct net_builder *b)
{
	struct net *n = &b->net;

	if (b->rc == RC_OK && n->ncuts < NET_MAX_CUTS)
		n->cut[n->ncuts++] = n->nnodes;
}

uint32_t
net_dense(struct net_builder *b, const char *name, uint32_t in, uint32_t outputs, enum net_act act)
{
	struct net_node node = {
	    .kind = NET_DENSE, .act = act, .in = {in, NET_INPUT}, .shape = {outputs, 1, 1}};

	snprintf(node.name, sizeof node.name, "%.23s", name);
	net_own(&b->net, &node, net_shape_size(net_in_shape(&b->net, &node)) * outputs, outputs);
	return net_append(b, &node);
}

uint32_t
net_layernorm(struct net_builder *b, const char *name, uint32_t in, enum net_act act)
{
	struct net_node node = {.kind = NET_LAYERNORM, .act = act, .in = {in, NET_INPUT}};
	uint64_t n;

	node.shape = net_in_shape(&b->net, &node);
	n = net_shape_size(node.shape);
	snprintf(node.name, sizeof node.name, "%.23s", name);
	net_own(&b->net, &node, n, n);
	return net_append(b, &node);
}

uint32_t
net_add(struct net_builder *b, uint32_t skip, uint32_t block)
{
	struct net_node node = {
	    .kind = NET_ADD, .in = {skip, block}, .shape = b->net.node[block].shape};

	return net_append(b, &node);
}
