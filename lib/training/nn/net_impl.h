/*
 * net_impl.h - a net under construction, for the files with models.
 *
 * Nets are built node by node. After the first failure, which is in rc and *err, the other calls do nothing. Each call
 * returns its node; in: a node, or NET_INPUT.
 */
#ifndef NN_NET_IMPL_H
#define NN_NET_IMPL_H

#include "nn/net.h"

struct net_builder {
	struct net net;
	struct err *err;
	enum rc rc;
};

/* Reserve a node's weights, then its biases. */
void net_own(struct net *n, struct net_node *node, uint64_t nweight, uint64_t nbias);

/* Append a node; tokens 0: as many as its input has. */
uint32_t net_append(struct net_builder *b, const struct net_node *node);

/* A unit of a pipeline begins with the next node. */
void net_cut(struct net_builder *b);

uint32_t net_dense(struct net_builder *b, const char *name, uint32_t in, uint32_t outputs,
		   enum net_act act);
uint32_t net_layernorm(struct net_builder *b, const char *name, uint32_t in, enum net_act act);

/* The sum of a node's output and of the output of a block on it. */
uint32_t net_add(struct net_builder *b, uint32_t skip, uint32_t block);

/* Append a vit; RC_INVAL, in the builder, where its sizes do not fit the input or each other. */
void net_vit_append(struct net_builder *b, const struct net_vit *request, uint32_t nclasses);

#endif
