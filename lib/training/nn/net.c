/*
 * net.c - names, shapes and buckets of nets, and the models.
 */
#include "nn/net.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/net_impl.h"
#include "nn/rng.h"

static const char *const model_names[NET_NMODELS] = {"mlp", "softmax", "lenet", "resnet9", "vit"};
static const char *const act_names[NET_NACTS] = {"linear", "relu", "sigmoid", "tanh", "gelu"};
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

/* Nearly normal numbers, the same on every machine: sums of 12 uniform ones, whose deviation is 2. */
static void
fill_normal(struct rng *rng, float *p, uint64_t n, float deviation)
{
	for (uint64_t i = 0; i < n; i++) {
		float sum = 0;

		for (int k = 0; k < 12; k++)
			sum += rng_uniform(rng, -1, 1);
		p[i] = deviation / 2 * sum;
	}
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
		} else if (node->kind == NET_TOKENS) {
			fill_normal(&rng, params + node->weight, end - node->weight, 0.02f);
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

struct net_window {
	uint32_t size, stride, pad;
	bool no_bias; /* conv: the batch norm after it has one */
};

static enum rc
net_begin(struct net_builder *b, struct net_shape input, struct err *err)
{
	*b = (struct net_builder){.net = {.input = input}, .err = err};
	if (net_shape_size(input) == 0 || net_shape_size(input) > NET_MAX_WIDTH * UINT64_C(64))
		b->rc = err_set(err, RC_INVAL, "items of %ux%ux%u", input.channels, input.rows,
				input.cols);
	return b->rc;
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

	snprintf(node.name, sizeof node.name, "%.23s", name);
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

static uint32_t
net_conv(struct net_builder *b, const char *name, uint32_t in, uint32_t channels,
	 const struct net_window *w, enum net_act act)
{
	struct net_node node = sliding(b, NET_CONV, name, in, w);
	uint64_t k = (uint64_t)node.shape.channels * w->size * w->size;

	node.shape.channels = channels;
	node.act = act;
	net_own(&b->net, &node, k * channels, w->no_bias ? 0 : channels);
	return net_append(b, &node);
}

static uint32_t
net_maxpool(struct net_builder *b, const char *name, uint32_t in, uint32_t size)
{
	struct net_node node =
	    sliding(b, NET_MAXPOOL, name, in, &(struct net_window){.size = size, .stride = size});

	return net_append(b, &node);
}

static uint32_t
net_batchnorm(struct net_builder *b, const char *name, uint32_t in, enum net_act act)
{
	struct net_node node = {.kind = NET_BATCHNORM, .act = act, .in = {in, NET_INPUT}};

	node.shape = net_in_shape(&b->net, &node);
	snprintf(node.name, sizeof node.name, "%.23s", name);
	net_own(&b->net, &node, node.shape.channels, node.shape.channels);
	node.stats = b->net.nstats; /* from the end of the parameters, until those are known */
	b->net.nstats += 2ull * node.shape.channels;
	return net_append(b, &node);
}

static enum rc
net_end(struct net_builder *b, struct net *out)
{
	struct net *n = &b->net;
	uint32_t narrays = 0;

	for (uint32_t k = 0; k < n->nnodes; k++)
		narrays += n->node[k].kind == NET_BATCHNORM ? 4 : n->node[k].nweight ? 2 : 0;
	if (b->rc == RC_OK && narrays > NET_MAX_ARRAYS)
		b->rc = err_set(b->err, RC_INVAL, "a net of more than %d arrays", NET_MAX_ARRAYS);
	if (b->rc != RC_OK)
		return b->rc;
	for (uint32_t k = 0; k < n->nnodes; k++)
		n->node[k].stats += n->node[k].kind == NET_BATCHNORM ? n->nparams : 0;
	if (n->ncuts == 0)
		n->ncuts = 1; /* cut[0] is 0 */
	*out = *n;
	return RC_OK;
}

/* ---- the models */

/* An mlp's sizes; the data replace those that are 0. */
static enum rc
complete_sizes(const struct net_config *c, uint64_t inputs, uint32_t nclasses, uint32_t *size,
	       uint32_t *n, struct err *err)
{
	static const uint32_t by_default[] = {0, 128, 0};

	*n = c->nsizes ? c->nsizes : 3;
	memcpy(size, c->nsizes ? c->size : by_default, *n * sizeof *size);
	if (inputs > NET_MAX_WIDTH)
		return err_set(err, RC_INVAL, "an mlp accepts at most %d values, not %" PRIu64,
			       NET_MAX_WIDTH, inputs);
	if (size[0] == 0)
		size[0] = (uint32_t)inputs;
	if (size[0] != inputs)
		return err_set(err, RC_INVAL, "items have %" PRIu64 " values; the model takes %u",
			       inputs, size[0]);
	if (size[*n - 1] == 0)
		size[*n - 1] = nclasses;
	if (size[*n - 1] < nclasses)
		return err_set(err, RC_INVAL, "the data have %u classes; the model has %u",
			       nclasses, size[*n - 1]);
	return RC_OK;
}

/* Dense layers with activations between them, each perhaps after a layer norm. L2 loss adds a final
 * sigmoid. */
static void
build_mlp(struct net_builder *b, const uint32_t *size, uint32_t nsizes, const struct net_config *c)
{
	bool bounded = c->loss == NET_L2 && c->act == NET_SIGMOID && c->model == NET_MLP;
	uint32_t at = NET_INPUT;
	char name[24];

	for (uint32_t l = 1; l < nsizes; l++) {
		bool hidden = l + 1 < nsizes, norm = hidden && c->layer_norm;

		net_cut(b);
		snprintf(name, sizeof name, "fc%u", l);
		at = net_dense(b, name, at, size[l],
			       (hidden || bounded) && !norm ? c->act : NET_LINEAR);
		snprintf(name, sizeof name, "ln%u", l);
		if (norm)
			at = net_layernorm(b, name, at, c->act);
	}
}

/*
 * LeNet-5 with ReLU, max pooling in place of means, and more channels.
 * Source: LeCun et al., Proc. IEEE 86(11), 1998, doi:10.1109/5.726791
 */
static void
build_lenet(struct net_builder *b, uint32_t nclasses)
{
	const struct net_window same = {.size = 5, .stride = 1, .pad = 2},
				valid = {.size = 5, .stride = 1};
	uint32_t at = net_conv(b, "conv1", NET_INPUT, 16, &same, NET_RELU);

	at = net_maxpool(b, "pool1", at, 2);
	at = net_conv(b, "conv2", at, 32, &valid, NET_RELU);
	at = net_maxpool(b, "pool2", at, 2);
	at = net_dense(b, "fc1", at, 120, NET_RELU);
	at = net_dense(b, "fc2", at, 84, NET_RELU);
	net_dense(b, "fc3", at, nclasses, NET_LINEAR);
}

/* Convolution, batch norm, ReLU, and a 2x2 max pooling where rows and columns are to halve. */
static uint32_t
conv_block(struct net_builder *b, const char *number, uint32_t in, uint32_t channels, bool halve)
{
	const struct net_window same = {.size = 3, .stride = 1, .pad = 1, .no_bias = true};
	char name[24];
	uint32_t at;

	snprintf(name, sizeof name, "conv%s", number);
	at = net_conv(b, name, in, channels, &same, NET_LINEAR);
	snprintf(name, sizeof name, "bn%s", number);
	at = net_batchnorm(b, name, at, NET_RELU);
	return halve ? net_maxpool(b, "pool", at, 2) : at;
}

static uint32_t
residual(struct net_builder *b, const char *first, const char *second, uint32_t in,
	 uint32_t channels)
{
	uint32_t at = conv_block(b, first, in, channels, false);

	at = conv_block(b, second, at, channels, false);
	return net_add(b, in, at);
}

/*
 * Eight convolutions and a dense layer, as in DAWNBench's entries for CIFAR-10.
 * Source: He et al., CVPR 2016, doi:10.1109/CVPR.2016.90
 */
static void
build_resnet9(struct net_builder *b, uint32_t nclasses)
{
	uint32_t at = conv_block(b, "1", NET_INPUT, 64, false), side;

	at = conv_block(b, "2", at, 128, true);
	at = residual(b, "3", "4", at, 128);
	at = conv_block(b, "5", at, 256, true);
	at = conv_block(b, "6", at, 512, true);
	at = residual(b, "7", "8", at, 512);
	side = b->rc == RC_OK ? b->net.node[at].shape.rows : 1;
	if (b->rc == RC_OK && b->net.node[at].shape.cols < side)
		side = b->net.node[at].shape.cols;
	if (side > 1) /* 4 for items of 32x32 */
		at = net_maxpool(b, "pool", at, side < 4 ? side : 4);
	net_dense(b, "fc", at, nclasses, NET_LINEAR);
}

/* "mlp 784-128-10 layer-norm relu cross-entropy", "lenet 1x28x28-10 cross-entropy", "vit 1x28x28-10 blocks 4 hidden 64
 * heads 4 patch 7 cross-entropy". */
static void
describe(struct net *n, const struct net_config *c, const uint32_t *size, uint32_t nsizes)
{
	size_t at = (size_t)snprintf(n->text, sizeof n->text, "%s ", net_model_name(c->model));

	for (uint32_t l = 0; l < nsizes; l++)
		at += (size_t)snprintf(n->text + at, sizeof n->text - at, "%s%u", l ? "-" : "",
				       size[l]);
	if (nsizes > 2)
		at += (size_t)snprintf(n->text + at, sizeof n->text - at, "%s %s",
				       c->layer_norm ? " layer-norm" : "", net_act_name(c->act));
	else if (nsizes == 0)
		at +=
		    (size_t)snprintf(n->text + at, sizeof n->text - at, "%ux%ux%u-%u",
				     n->input.channels, n->input.rows, n->input.cols, n->nclasses);
	if (c->model == NET_VIT)
		at += (size_t)snprintf(n->text + at, sizeof n->text - at,
				       " blocks %u hidden %u heads %u patch %u", n->vit.blocks,
				       n->vit.hidden, n->vit.heads, n->vit.patch);
	snprintf(n->text + at, sizeof n->text - at, " %s", net_loss_name(c->loss));
}

enum rc
net_build(const struct net_config *c, struct net_shape input, uint32_t nclasses, struct net *out,
	  struct err *err)
{
	uint32_t size[NET_MAX_SIZES], nsizes = 0;
	struct net_builder b;
	enum rc rc = net_begin(&b, input, err);

	if (rc == RC_OK && c->model == NET_SOFTMAX) {
		rc = complete_sizes(&(struct net_config){.nsizes = 2}, net_shape_size(input),
				    nclasses, size, &nsizes, err);
	} else if (rc == RC_OK && c->model == NET_MLP) {
		rc = complete_sizes(c, net_shape_size(input), nclasses, size, &nsizes, err);
		if (rc == RC_OK && c->layer_norm && nsizes == 2)
			rc = err_set(err, RC_INVAL, "the net has no hidden layer to normalise");
	} else if (rc == RC_OK && c->nsizes) {
		rc = err_set(err, RC_INVAL, "layer options apply to mlp alone, not to %s",
			     net_model_name(c->model));
	}
	if (rc != RC_OK)
		return rc;
	if (c->model == NET_LENET)
		build_lenet(&b, nclasses);
	else if (c->model == NET_RESNET9)
		build_resnet9(&b, nclasses);
	else if (c->model == NET_VIT)
		net_vit_append(&b, &c->vit, nclasses);
	else
		build_mlp(&b, size, nsizes, c);
	b.net.nclasses = nsizes ? size[nsizes - 1] : nclasses;
	b.net.loss = c->loss;
	describe(&b.net, c, size, nsizes);
	return net_end(&b, out);
}
