/*
 * net.h - a net: its layers, their shapes, the offsets of their parameters, their initial values.
 *
 * A net is a list of nodes, each taking the outputs of nodes before it. Items and activations are
 * [channels, rows, cols], batches [n, channels, rows, cols], row-major; a dense layer's output is
 * [n, 1, 1]. A transformer's activations are [tokens, features]: a node has `tokens` rows of its shape
 * for each item, and dense layers and layer norms work on each row. All parameters lie in one vector,
 * node after node, weight then bias, so that one all-reduce carries all gradients. After them, in the same
 * vector, are the running statistics of batch norm, which training changes, but not by gradients.
 */
#ifndef NN_NET_H
#define NN_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"
#include "base/sha256.h"
#include "nn/npz.h"

#define NET_MAX_SIZES  16
#define NET_MAX_WIDTH  65536
#define NET_MAX_NODES  384
#define NET_MAX_BLOCKS 24
#define NET_MAX_HIDDEN 8192
#define NET_MAX_TOKENS 4096
#define NET_MAX_HEAD   1024
#define NET_MAX_CUTS   (NET_MAX_BLOCKS + 2)
#define NET_INPUT      UINT32_MAX /* as a node's number: the batch */

enum net_model { NET_MLP, NET_SOFTMAX, NET_LENET, NET_RESNET9, NET_VIT, NET_NMODELS };
enum net_act { NET_LINEAR, NET_RELU, NET_SIGMOID, NET_TANH, NET_GELU, NET_NACTS };
enum net_loss { NET_CROSS_ENTROPY, NET_L2, NET_NLOSSES };

/* A vision transformer: its blocks, the features of a token, the heads that share them, the rows and columns of a
 * patch. In a request 0 means 4, 64, 4, 7. */
struct net_vit {
	uint32_t blocks, hidden, heads, patch;
};

/* The request. */
struct net_config {
	enum net_model model;
	/* mlp: sizes from input to output; 0 as first or last: taken from the data. nsizes 0: 0,128,0. */
	uint32_t nsizes, size[NET_MAX_SIZES];
	enum net_act act; /* of an mlp's hidden layers */
	bool layer_norm;  /* of an mlp: normalise a hidden layer's output before its activation */
	struct net_vit vit;
	enum net_loss loss;
};

enum net_kind {
	NET_DENSE,     /* y = x W^T + b; W is [outputs, inputs], as in PyTorch */
	NET_CONV,      /* W is [channels out, channels in, size, size] */
	NET_BATCHNORM, /* weight is gamma, bias is beta, [channels] each */
	NET_LAYERNORM, /* of each row by itself; weight is gamma, bias is beta, of a row's shape */
	NET_MAXPOOL,
	NET_ADD,     /* of two nodes */
	NET_PATCHES, /* [c, r, w] to [r / size * w / size] rows of c * size * size */
	NET_TOKENS, /* a class token before the rows, positions on all; weight is [features], bias [tokens, features] */
	NET_ATTENTION, /* rows of queries, keys and values, [3, features], to [features]; softmax over the tokens */
	NET_PICK, /* the class token's row */
	/* Of a part of a net (grid/part.h), whose layers are divided over ranks: */
	NET_RECV, /* the input, from the part before */
	NET_ENTER, /* to layers divided by features: forward all ranks' rows, back the sum over the ranks */
	NET_LEAVE, /* from such layers: forward the sum over the ranks, plus a bias; back all ranks' rows */
	NET_SCATTER, /* a rank's rows of those that it has; back all ranks' rows */
	NET_GATHER,  /* all ranks' rows; back a rank's of them */
};

struct net_shape {
	uint32_t channels, rows, cols;
};

struct net_node {
	enum net_kind kind;
	enum net_act act;		       /* of its output, in place */
	uint32_t in[2];			       /* nodes, or NET_INPUT; in[1] is an add's */
	struct net_shape shape;		       /* of a row of its output */
	uint32_t tokens;		       /* rows of an item; 1 but in a transformer */
	uint32_t heads;			       /* attention: they share the features evenly */
	uint32_t size, stride, pad;	       /* conv, maxpool; patches: size */
	uint64_t weight, nweight, bias, nbias; /* offset and number, in elements; 0 and 0: none */
	uint64_t stats;			       /* batchnorm: mean then variance, [2, channels] */
	bool sharded;			       /* a rank has its rows of a batch only */
	char name[24];			       /* of its arrays: "NAME.weight" */
};

struct net {
	struct net_shape input;
	uint32_t nclasses, nnodes;
	struct net_vit vit; /* all 0 in other models */
	enum net_loss loss;
	struct net_node node[NET_MAX_NODES];
	uint64_t nparams; /* trained */
	uint64_t nstats;  /* running statistics after them */
	/* First nodes of the units that a pipeline may be cut into, from 0 on: of a vit the embedding, each block, the head;
	 * of an mlp each dense layer with its norm and activation; other models are one unit. Between two units passes one
	 * value: the output of the node before the cut. */
	uint32_t ncuts, cut[NET_MAX_CUTS];
	/* Of a part: the ranks that its layers are divided over, else 0 or 1; whether rows are, between such layers; the
	 * classes that a rank computes logits of, 0: all. */
	uint32_t tp;
	bool sequence;
	uint32_t each;
	char text[160]; /* "mlp 784-128-10 relu": the same text is the same net */
};

/* "784,128,10" to size and nsizes: RC_INVAL. */
enum rc net_sizes_parse(const char *text, struct net_config *out, struct err *err);
const char *net_model_name(enum net_model m);
const char *net_act_name(enum net_act a);
const char *net_loss_name(enum net_loss l);

/*
 * net_build - a net for items of a shape and a number of classes.
 *
 * Errors: RC_INVAL sizes that differ from the data's, items too small for the model, too many parameters.
 * Checked by: tests/unit/nn/t_net.c
 */
enum rc net_build(const struct net_config *c, struct net_shape input, uint32_t nclasses,
		  struct net *out, struct err *err);

/* Elements of a shape. */
static inline uint64_t
net_shape_size(struct net_shape s)
{
	return (uint64_t)s.channels * s.rows * s.cols;
}

/* The shape of a row of a node's input, and the number of rows of an item. */
struct net_shape net_in_shape(const struct net *n, const struct net_node *node);
uint32_t net_in_tokens(const struct net *n, const struct net_node *node);

/* Elements of an item in a node's output. */
static inline uint64_t
net_item_size(const struct net_node *node)
{
	return node->tokens * net_shape_size(node->shape);
}

/*
 * net_init - fill params (nparams + nstats floats). Dense and conv begin as PyTorch's do: weight
 * and bias uniform in +-1/sqrt(fan in), in order, from the seed; gamma 1, beta 0, mean 0, variance 1;
 * class token and positions normal with a deviation of 0.02.
 */
void net_init(const struct net *n, uint64_t seed, float *params);

/* A range of parameters whose gradients are reduced together: of the nodes from `node` up to the
 * bucket before. */
struct net_bucket {
	uint32_t node; /* the lowest with parameters; its gradients are complete last */
	uint64_t first, count;
};

/*
 * net_buckets - cut the parameters into buckets of whole nodes, in the order in which backward makes
 * their gradients: from the last node down. A bucket is full at nbytes bytes of f32; nbytes 0 makes
 * one bucket. Returns the number of buckets.
 */
unsigned net_buckets(const struct net *n, uint64_t nbytes, struct net_bucket out[NET_MAX_NODES]);

/* The arrays "fc1.weight", "fc1.bias" ... ("tokens.cls" and "tokens.pos" of a vit) that point into params; returns
 * their number. */
#define NET_MAX_ARRAYS (2 * NET_MAX_NODES)
unsigned net_arrays(const struct net *n, const float *params, struct npz_array out[NET_MAX_ARRAYS]);

/*
 * net_digest - the SHA-256 of the parameters and running statistics, as 64 hexadecimal digits. It
 * covers the arrays, sorted by name: the bytes of each name, then its elements, little-endian.
 */
void net_digest(const struct net *n, const float *params, char out[SHA256_TEXT]);

/* Take params (nparams + nstats) from a file that has those arrays. RC_BADDATA names the first that
 * is missing or has another shape. */
enum rc net_load(const struct net *n, const char *path, float *params, struct err *err);

/* As net_load, from a file that has been read. */
enum rc net_take(const struct net *n, const struct npz *npz, const char *path, float *params,
		 struct err *err);

/* Return true if the array is one of the net's, of that type and shape. params: of any such net. */
bool net_has_array(const struct net *n, const float *params, const struct npz_array *a);

#endif
