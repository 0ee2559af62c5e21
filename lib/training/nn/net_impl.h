/*
 * net_impl.h - building nets node by node.
 *
 * After the first failure, which is in rc and *err, the other calls do nothing.
 */
#ifndef NN_NET_IMPL_H
#define NN_NET_IMPL_H

#include <stdbool.h>

#include "nn/net.h"

struct net_builder {
	struct net net;
	struct err *err;
	enum rc rc;
};

struct net_window {
	uint32_t size, stride, pad;
	bool no_bias; /* conv: the batch norm after it has one */
};

enum rc net_begin(struct net_builder *b, struct net_shape input, struct err *err);
enum rc net_end(struct net_builder *b, struct net *out);

/* Each returns its node. in: a node, or NET_INPUT. */
uint32_t net_dense(struct net_builder *b, const char *name, uint32_t in, uint32_t outputs,
		   enum net_act act);
uint32_t net_conv(struct net_builder *b, const char *name, uint32_t in, uint32_t channels,
		  const struct net_window *w, enum net_act act);
uint32_t net_maxpool(struct net_builder *b, const char *name, uint32_t in, uint32_t size);
uint32_t net_batchnorm(struct net_builder *b, const char *name, uint32_t in, enum net_act act);
uint32_t net_layernorm(struct net_builder *b, const char *name, uint32_t in, enum net_act act);

/* The sum of a node's output and of the output of a block on it. */
uint32_t net_add(struct net_builder *b, uint32_t skip, uint32_t block);

#endif
