/*
 * net.c - names, shapes and buckets of nets.
 */
#include "nn/net.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/net_impl.h"
#include "nn/rng.h"

static const char *const model_names[NET_NMODELS] = {"mlp", "softmax", "lenet", "resnet9"};
static const char *const act_names[NET_NACTS] = {"linear", "relu", "sigmoid", "tanh"};
static const char *const loss_names[NET_NLOSSES] = {"cross-entropy", "l2"};

const char *
net_model_name(enum net_model m)
{
	return model_names[m];
}

const char *
net_act_name(enum net_act a)
{
	return act_names[a];
}

const char *
net_loss_name(enum net_loss l)
{
	return loss_names[l];
}

enum rc
net_sizes_parse(const char *text, struct net_config *out, struct err *err)
{
	uint32_t size[NET_MAX_SIZES], n = 0;
	const char *p = text;

	for (;; p++) {
		char *end;
		unsigned long long v = strtoull(p, &end, 10);

		if (*p < '0' || *p > '9' || v > NET_MAX_WIDTH || (v == 0 && n > 0 && *end != '\0'))
			return err_set(err, RC_INVAL,
				       "'%.64s': layer sizes must be 1 to %d, separated by commas; "
				       "the first and the last may be 0",
				       text, NET_MAX_WIDTH);
		if (n == NET_MAX_SIZES)
			return err_set(err, RC_INVAL, "'%.64s': more than %d layer sizes", text,
				       NET_MAX_SIZES);
		size[n++] = (uint32_t)v;
		p = end;
		if (*p == '\0')
			break;
		if (*p != ',')
			return err_set(err, RC_INVAL,
				       "'%.64s': layer sizes must be separated by commas", text);
	}
	if (n < 2)
		return err_set(err, RC_INVAL,
			       "'%.64s': needs at least an input size and an output size", text);
	memcpy(out->size, size, n * sizeof *size);
	out->nsizes = n;
	return RC_OK;
}

struct net_shape
net_in_shape(const struct net *n, const struct net_node *node)
{
	return node->in[0] == NET_INPUT ? n->input : n->node[node->in[0]].shape;
}

/* The number of inputs of one output value. */
static uint64_t
fan_in(const struct net *n, const struct net_node *node)
{
	struct net_shape in = net_in_shape(n, node);

	return node->kind == NET_CONV ? (uint64_t)in.channels * node->size * node->size
				      : net_shape_size(in);
}

static void
fill(float *p, uint64_t n, float value)
{
	for (uint64_t i = 0; i < n; i++)
		p[i] = value;
}

void
net_init(const struct net *n, uint64_t seed, float *params)
{
	struct rng rng;

	rng_init(&rng, seed);
	for (uint32_t k = 0; k < n->nnodes; k++) {
		const struct net_node *node = &n->node[k];
		uint64_t end = node->bias + node->nbias;
		float bound;

		if (node->kind == NET_BATCHNORM || node->kind == NET_LAYERNORM) {
			fill(params + node->weight, node->nweight, 1);
			fill(params + node->bias, node->nbias, 0);
		}
		if (node->kind == NET_BATCHNORM) {
			fill(params + node->stats, node->shape.channels, 0);
			fill(params + node->stats + node->shape.channels, node->shape.channels, 1);
		} else if (node->nweight && node->kind != NET_LAYERNORM) {
			bound = 1.0f / sqrtf((float)fan_in(n, node));
			for (uint64_t i = node->weight; i < end; i++)
				params[i] = rng_uniform(&rng, -bound, bound);
		}
	}
}

unsigned
net_buckets(const struct net *n, uint64_t nbytes, struct net_bucket out[NET_MAX_NODES])
{
	uint64_t end = n->nparams;
	unsigned nout = 0;

	for (uint32_t k = n->nnodes; k-- > 0;) {
		const struct net_node *node = &n->node[k];
		uint64_t count = end - node->weight;

		if (node->nweight == 0 ||
		    (node->weight > 0 && (nbytes == 0 || count * sizeof(float) < nbytes)))
			continue;
		out[nout++] = (struct net_bucket){k, node->weight, count};
		end = node->weight;
	}
	return nout;
}

/* ---- building */

enum rc
net_begin(struct net_builder *b, struct net_shape input, struct err *err)
{
	*b = (struct net_builder){.net = {.input = input}, .err = err};
	if (net_shape_size(input) == 0 || net_shape_size(input) > NET_MAX_WIDTH * UINT64_C(64))
		b->rc = err_set(err, RC_INVAL, "items of %ux%ux%u", input.channels, input.rows,
				input.cols);
	return b->rc;
}

/* Reserve weights, then biases. */
static void
own(struct net *n, struct net_node *node, uint64_t nweight, uint64_t nbias)
{
	node->weight = n->nparams;
	node->nweight = nweight;
	node->bias = node->weight + nweight;
	node->nbias = nbias;
	n->nparams = node->bias + nbias;
}

static uint32_t
append(struct net_builder *b, const struct net_node *node)
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
	return n->nnodes++;
}

uint32_t
net_dense(struct net_builder *b, const char *name, uint32_t in, uint32_t outputs, enum net_act act)
{
	struct net_node node = {
	    .kind = NET_DENSE, .act = act, .in = {in, NET_INPUT}, .shape = {outputs, 1, 1}};

	snprintf(node.name, sizeof node.name, "%s", name);
	own(&b->net, &node, net_shape_size(net_in_shape(&b->net, &node)) * outputs, outputs);
	return append(b, &node);
}

/* Rows or columns of a window's output; 0 if the window does not fit. */
static uint32_t
windows(uint32_t n, uint32_t size, uint32_t stride, uint32_t pad)
{
	return n + 2 * pad < size ? 0 : (n + 2 * pad - size) / stride + 1;
}

/* A node that slides a window. */
static struct net_node
sliding(struct net_builder *b, enum net_kind kind, const char *name, uint32_t in,
	const struct net_window *w)
{
	struct net_node node = {.kind = kind,
				.in = {in, NET_INPUT},
				.size = w->size,
				.stride = w->stride,
				.pad = w->pad};
	struct net_shape from = net_in_shape(&b->net, &node);

	snprintf(node.name, sizeof node.name, "%s", name);
	node.shape =
	    (struct net_shape){from.channels, windows(from.rows, w->size, w->stride, w->pad),
			       windows(from.cols, w->size, w->stride, w->pad)};
	if (b->rc == RC_OK && (node.shape.rows == 0 || node.shape.cols == 0))
		b->rc =
		    err_set(b->err, RC_INVAL,
			    "items of %ux%ux%u are too small for this model: only %ux%u reach %s",
			    b->net.input.channels, b->net.input.rows, b->net.input.cols, from.rows,
			    from.cols, name);
	return node;
}

uint32_t
net_conv(struct net_builder *b, const char *name, uint32_t in, uint32_t channels,
	 const struct net_window *w, enum net_act act)
{
	struct net_node node = sliding(b, NET_CONV, name, in, w);
	uint64_t k = (uint64_t)node.shape.channels * w->size * w->size;

	node.shape.channels = channels;
	node.act = act;
	own(&b->net, &node, k * channels, w->no_bias ? 0 : channels);
	return append(b, &node);
}

uint32_t
net_maxpool(struct net_builder *b, const char *name, uint32_t in, uint32_t size)
{
	struct net_node node =
	    sliding(b, NET_MAXPOOL, name, in, &(struct net_window){.size = size, .stride = size});

	return append(b, &node);
}

uint32_t
net_batchnorm(struct net_builder *b, const char *name, uint32_t in, enum net_act act)
{
	struct net_node node = {.kind = NET_BATCHNORM, .act = act, .in = {in, NET_INPUT}};

	node.shape = net_in_shape(&b->net, &node);
	snprintf(node.name, sizeof node.name, "%s", name);
	own(&b->net, &node, node.shape.channels, node.shape.channels);
	node.stats = b->net.nstats; /* from the end of the parameters, until those are known */
	b->net.nstats += 2ull * node.shape.channels;
	return append(b, &node);
}

uint32_t
net_layernorm(struct net_builder *b, const char *name, uint32_t in, enum net_act act)
{
	struct net_node node = {.kind = NET_LAYERNORM, .act = act, .in = {in, NET_INPUT}};
	uint64_t n;

	node.shape = net_in_shape(&b->net, &node);
	n = net_shape_size(node.shape);
	snprintf(node.name, sizeof node.name, "%s", name);
	own(&b->net, &node, n, n);
	return append(b, &node);
}

uint32_t
net_add(struct net_builder *b, uint32_t skip, uint32_t block)
{
	struct net_node node = {
	    .kind = NET_ADD, .in = {skip, block}, .shape = b->net.node[block].shape};

	return append(b, &node);
}

enum rc
net_end(struct net_builder *b, struct net *out)
{
	struct net *n = &b->net;

	if (b->rc != RC_OK)
		return b->rc;
	for (uint32_t k = 0; k < n->nnodes; k++)
		n->node[k].stats += n->node[k].kind == NET_BATCHNORM ? n->nparams : 0;
	*out = *n;
	return RC_OK;
}
