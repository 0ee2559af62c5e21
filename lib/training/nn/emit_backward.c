/*
 * emit_backward.c - gradients, from a net's last node to its first.
 */
#include "nn/emit_impl.h"

void
emit_sum(const struct emit_batch *b, uint32_t node, uint64_t first, uint64_t count,
	 const struct emit_sink *s)
{
	uint64_t addr[EMIT_MAX_RANKS];

	for (uint32_t r = 0; r < b->nranks; r++)
		addr[r] = b->place[r].extra[node] + first * sizeof(double);
	if (s->allreduce)
		s->allreduce(s->arg, GPUSIM_F64, count, addr);
}

/* Does a later node also pass a gradient to this input? Backward visits it first, so this node adds. */
static bool
adds(const struct net *n, uint32_t k, uint32_t in)
{
	for (uint32_t i = k + 1; i < n->nnodes; i++)
		if (n->node[i].in[0] == in || n->node[i].in[1] == in)
			return true;
	return false;
}

/* ---- parameters */

static const char *
gradient_of(enum net_act act)
{
	return act == NET_RELU ? "relu_grad" : act == NET_SIGMOID ? "sigmoid_grad" : "tanh_grad";
}

/* dy becomes the gradient of the activation's input. */
static void
deactivate(const struct net_node *node, const struct emit_place *p, uint32_t rank, uint32_t k,
	   uint64_t rows, const struct emit_sink *s)
{
	uint64_t count = rows * net_shape_size(node->shape);

	if (node->act == NET_LINEAR)
		return;
	if (node->act == NET_RELU)
		LAUNCH(s, rank, "relu_grad", U("dx", p->dy[k]), U("dy", p->dy[k]), U("x", p->y[k]),
		       U("n", count), U("dtype", p->dtype));
	else
		LAUNCH(s, rank, gradient_of(node->act), U("dx", p->dy[k]), U("dy", p->dy[k]),
		       U("y", p->y[k]), U("n", count), U("dtype", p->dtype));
}

static void
gradients_dense(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	uint64_t outputs = node->shape.channels, rows = b->rows[rank];

	if (node->act == NET_RELU) {
		LAUNCH(s, rank, "bias_relu_grad", U("dx", p->dy[k]),
		       U("db", emit_grad(p, node->bias)), U("dy", p->dy[k]), U("y", p->y[k]),
		       U("rows", rows), U("cols", outputs), U("dtype", p->dtype));
	} else {
		deactivate(node, p, rank, k, rows, s);
		LAUNCH(s, rank, "bias_grad", U("db", emit_grad(p, node->bias)), U("dy", p->dy[k]),
		       U("rows", rows), U("cols", outputs), U("dtype", p->dtype));
	}
	LAUNCH(s, rank, "gemm", U("m", outputs), U("n", net_shape_size(net_in_shape(n, node))),
	       U("k", rows), U("a", p->dy[k]), U("b", emit_input(p, node, 0)),
	       U("c", emit_grad(p, node->weight)), U("ta", 1), U("single", b->single),
	       U("dtype", p->dtype));
}

static void
gradients_conv(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	       const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	struct net_shape in = net_in_shape(n, node);

	deactivate(node, p, rank, k, b->rows[rank], s);
	LAUNCH(s, rank, "conv2d_grad_w", U("dw", emit_grad(p, node->weight)),
	       U("db", node->nbias ? emit_grad(p, node->bias) : 0), U("dy", p->dy[k]),
	       U("x", emit_input(p, node, 0)), U("scratch", p->scratch),
	       U("scratch_images", emit_scratch_images(node)), U("n", b->rows[rank]),
	       U("c", in.channels), U("h", in.rows), U("w", in.cols), U("k", node->shape.channels),
	       U("size", node->size), U("stride", node->stride), U("pad", node->pad),
	       U("single", b->single), U("dtype", p->dtype));
}

static void
gradients_batchnorm(const struct net *n, const struct emit_batch *b, uint32_t k,
		    const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	uint64_t channels = node->shape.channels;

	for (uint32_t r = 0; r < b->nranks; r++) {
		const struct emit_place *p = &b->place[r];

		deactivate(node, p, r, k, b->rows[r], s);
		LAUNCH(
		    s, r, "batchnorm_grad_sums",
		    U("sums", p->extra[k] + 2 * channels * sizeof(double)),
		    U("dgamma", emit_grad(p, node->weight)), U("dbeta", emit_grad(p, node->bias)),
		    U("dy", p->dy[k]), U("x", emit_input(p, node, 0)),
		    U("moments", emit_grad(p, node->stats)), U("n", b->rows[r]), U("c", channels),
		    U("hw", (uint64_t)node->shape.rows * node->shape.cols), U("dtype", p->dtype));
	}
	emit_sum(b, k, 2 * channels, 2 * channels, s);
}

static void
gradients_layernorm(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		    const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	deactivate(node, p, rank, k, b->rows[rank], s);
	LAUNCH(s, rank, "layernorm_grad_params", U("dgamma", emit_grad(p, node->weight)),
	       U("dbeta", emit_grad(p, node->bias)), U("dy", p->dy[k]),
	       U("x", emit_input(p, node, 0)), U("moments", p->extra[k]), U("rows", b->rows[rank]),
	       U("cols", net_shape_size(node->shape)), U("dtype", p->dtype));
}

void
emit_gradients(const struct net *n, const struct emit_batch *b, uint32_t k,
	       const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];

	if (node->kind == NET_BATCHNORM) {
		gradients_batchnorm(n, b, k, s);
		return;
	}
	for (uint32_t r = 0; r < b->nranks; r++) {
		if (node->kind == NET_DENSE)
			gradients_dense(n, b, r, k, s);
		else if (node->kind == NET_CONV)
			gradients_conv(n, b, r, k, s);
		else if (node->kind == NET_LAYERNORM)
			gradients_layernorm(n, b, r, k, s);
		else
			deactivate(node, &b->place[r], r, k, b->rows[r], s);
	}
}

/* ---- a node's inputs */

static void
propagate_conv(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	       const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	struct net_shape in = net_in_shape(n, node);

	LAUNCH(s, rank, "conv2d_grad_x", U("dx", p->dy[node->in[0]]), U("dy", p->dy[k]),
	       U("weight", emit_param(p, node->weight)), U("scratch", p->scratch),
	       U("scratch_images", emit_scratch_images(node)), U("n", b->rows[rank]),
	       U("c", in.channels), U("h", in.rows), U("w", in.cols), U("k", node->shape.channels),
	       U("size", node->size), U("stride", node->stride), U("pad", node->pad),
	       U("add", adds(n, k, node->in[0])), U("single", b->single), U("dtype", p->dtype));
}

static void
propagate_maxpool(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		  const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	struct net_shape in = net_in_shape(n, node);

	LAUNCH(s, rank, "maxpool2d_grad", U("dx", p->dy[node->in[0]]), U("dy", p->dy[k]),
	       U("index", p->extra[k]), U("n", b->rows[rank]), U("c", in.channels), U("h", in.rows),
	       U("w", in.cols), U("size", node->size), U("stride", node->stride),
	       U("add", adds(n, k, node->in[0])), U("dtype", p->dtype));
}

static void
propagate_batchnorm(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		    const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	uint64_t plane = (uint64_t)node->shape.rows * node->shape.cols;

	LAUNCH(s, rank, "batchnorm_grad", U("dx", p->dy[node->in[0]]), U("dy", p->dy[k]),
	       U("x", emit_input(p, node, 0)), U("moments", emit_grad(p, node->stats)),
	       U("gamma", emit_param(p, node->weight)),
	       U("sums", p->extra[k] + 2ull * node->shape.channels * sizeof(double)),
	       U("count", (s->allreduce ? b->total : b->rows[rank]) * plane), U("n", b->rows[rank]),
	       U("c", node->shape.channels), U("hw", plane), U("add", adds(n, k, node->in[0])),
	       U("dtype", p->dtype));
}

static void
propagate_layernorm(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		    const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "layernorm_grad", U("dx", p->dy[node->in[0]]), U("dy", p->dy[k]),
	       U("x", emit_input(p, node, 0)), U("gamma", emit_param(p, node->weight)),
	       U("moments", p->extra[k]), U("rows", b->rows[rank]),
	       U("cols", net_shape_size(node->shape)), U("add", adds(n, k, node->in[0])),
	       U("dtype", p->dtype));
}

static void
propagate_dense(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "gemm", U("m", b->rows[rank]),
	       U("n", net_shape_size(net_in_shape(n, node))), U("k", node->shape.channels),
	       U("a", p->dy[k]), U("b", emit_param(p, node->weight)), U("c", p->dy[node->in[0]]),
	       F("beta", adds(n, k, node->in[0])), U("single", b->single), U("dtype", p->dtype));
}

/* The block's gradient is the add's own; the skip's gradient is a copy. */
static void
propagate_add(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	      const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	uint64_t count = b->rows[rank] * net_shape_size(node->shape), skip = p->dy[node->in[0]];

	if (adds(n, k, node->in[0]))
		LAUNCH(s, rank, "axpy", U("y", skip), U("x", p->dy[k]), U("n", count),
		       U("dtype", p->dtype));
	else
		LAUNCH(s, rank, "copy", U("dst", skip), U("src", p->dy[k]), U("n", count),
		       U("dtype", p->dtype));
}

/*
 * Backward no longer needs the batch's variances. Running statistics follow the unbiased variances,
 * as in PyTorch: for n elements, n / (n - 1) times as large. The variance of one element stays 0.
 */
static void
correct_variances(const struct net_node *node, const struct emit_batch *b, uint32_t rank,
		  const struct emit_sink *s)
{
	const struct emit_place *p = &b->place[rank];
	uint64_t plane = (uint64_t)node->shape.rows * node->shape.cols;
	uint64_t n = (s->allreduce ? b->total : b->rows[rank]) * plane;

	if (n > 1)
		LAUNCH(s, rank, "scale", U("x", emit_grad(p, node->stats + node->shape.channels)),
		       U("n", node->shape.channels), F("alpha", (double)n / (double)(n - 1)),
		       U("dtype", p->dtype));
}

void
emit_propagate(const struct net *n, const struct emit_batch *b, uint32_t k,
	       const struct emit_sink *s)
{
	static void (*const propagate[])(const struct net *n, const struct emit_batch *b,
					 uint32_t rank, uint32_t k, const struct emit_sink *s) = {
	    [NET_DENSE] = propagate_dense,	   [NET_CONV] = propagate_conv,
	    [NET_BATCHNORM] = propagate_batchnorm, [NET_LAYERNORM] = propagate_layernorm,
	    [NET_MAXPOOL] = propagate_maxpool,	   [NET_ADD] = propagate_add,
	};
	const struct net_node *node = &n->node[k];

	for (uint32_t r = 0; r < b->nranks && node->in[0] != NET_INPUT; r++)
		propagate[node->kind](n, b, r, k, s);
	for (uint32_t r = 0; r < b->nranks && node->kind == NET_BATCHNORM; r++)
		correct_variances(node, b, r, s);
}

void
emit_backward(const struct net *n, const struct emit_batch *b, const struct emit_sink *s)
{
	for (uint32_t k = n->nnodes; k-- > 0;) {
		emit_gradients(n, b, k, s);
		emit_propagate(n, b, k, s);
	}
}
