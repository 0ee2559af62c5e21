/*
 * net_models.c - the models.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nn/net_impl.h"

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

/* "mlp 784-128-10 layer-norm relu cross-entropy", "lenet 1x28x28-10 cross-entropy". */
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
	else
		build_mlp(&b, size, nsizes, c);
	b.net.nclasses = nsizes ? size[nsizes - 1] : nclasses;
	b.net.loss = c->loss;
	describe(&b.net, c, size, nsizes);
	return net_end(&b, out);
}
