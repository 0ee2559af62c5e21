/*
 * emit.c - a net's working memory, its passes forward and backward, the loss and the optimizer's step.
 */
#include "nn/emit.h"

#include <string.h>

#include "nn/emit_impl.h"

#define ALIGN 256u

static uint64_t
extra_bytes(const struct net_node *node, uint64_t rows, uint64_t size)
{
	if (node->kind == NET_MAXPOOL)
		return rows * net_shape_size(node->shape) * sizeof(uint32_t);
	if (node->kind == NET_LAYERNORM)
		return 2 * rows * node->tokens * sizeof(double);
	if (node->kind == NET_ATTENTION)
		return rows * node->heads * node->tokens * size;
	return node->kind == NET_BATCHNORM ? 4ull * node->shape.channels * sizeof(double) : 0;
}

/* The number of nodes that read a node's output. */
static uint32_t
emit_consumers(const struct net *n, uint32_t k)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n->nnodes; i++)
		count += (n->node[i].in[0] == k) + (n->node[i].in[1] == k);
	return count;
}

/* A norm's gradient goes back in place; an add's goes to the block that it closes. Those nodes
 * share one dy. */
static uint32_t
lent_to(const struct net *n, uint32_t k, enum emit_use use)
{
	const struct net_node *node = &n->node[k];

	if (use != EMIT_APART && (node->kind == NET_BATCHNORM || node->kind == NET_LAYERNORM) &&
	    node->in[0] != NET_INPUT && emit_consumers(n, node->in[0]) == 1)
		return node->in[0];
	return node->kind == NET_ADD ? node->in[1] : NET_INPUT;
}

uint64_t
emit_take(uint64_t *at, uint64_t nbytes)
{
	uint64_t addr = *at;

	*at += (nbytes + ALIGN - 1) / ALIGN * ALIGN;
	return addr;
}

/* Does anything need the gradient of a node's input? */
static bool
propagates(const struct net *n, const struct net_node *node)
{
	return node->in[0] != NET_INPUT && n->node[node->in[0]].kind != NET_PATCHES;
}

/* Images that a convolution unfolds at once: small planes want several in one product, and room for their patches. */
static uint64_t
emit_scratch_images(const struct net_node *node)
{
	uint64_t plane = (uint64_t)node->shape.rows * node->shape.cols;

	return plane <= 16 ? 16 : plane <= 64 ? 8 : 1;
}

/* Elements of the patches of that many images. */
static uint64_t
scratch_size(const struct net *n, const struct net_node *node)
{
	if (node->kind != NET_CONV)
		return 0;
	return emit_scratch_images(node) * net_in_shape(n, node).channels * node->size *
	       node->size * node->shape.rows * node->shape.cols;
}

uint64_t
emit_place(struct emit_place *p, const struct net *n, enum gpusim_dtype dtype, uint64_t max_rows,
	   uint64_t base, enum emit_use use)
{
	uint64_t size = dtype == GPUSIM_F64 ? 8 : 4, at = base, scratch = 0;

	p->dtype = dtype;
	memset(p->dy, 0, sizeof p->dy);
	p->x = emit_take(&at, max_rows * net_shape_size(n->input) * size);
	for (uint32_t k = 0; k < n->nnodes; k++) {
		const struct net_node *node = &n->node[k];
		uint64_t wanted = scratch_size(n, node);

		p->y[k] = emit_take(&at, max_rows * net_item_size(node) * size);
		p->pre[k] = node->act == NET_GELU && use != EMIT_INFER
				? emit_take(&at, max_rows * net_item_size(node) * size)
				: p->y[k];
		p->extra[k] = emit_take(&at, extra_bytes(node, max_rows, size));
		scratch = wanted > scratch ? wanted : scratch;
	}
	p->scratch = emit_take(&at, scratch * size);
	for (uint32_t k = n->nnodes; use != EMIT_INFER && k-- > 0;) {
		uint32_t lent = lent_to(n, k, use);

		if (!p->dy[k] && n->node[k].kind != NET_PATCHES)
			p->dy[k] = emit_take(&at, max_rows * net_item_size(&n->node[k]) * size);
		if (lent != NET_INPUT)
			p->dy[lent] = p->dy[k];
	}
	return at - base;
}

/* ---- forward */

/* Add up a batch norm's sums, count doubles from element `first` of extra, over the ranks. */
static void
emit_sum(const struct emit_batch *b, uint32_t node, uint64_t first, uint64_t count,
	 const struct emit_sink *s)
{
	uint64_t addr[EMIT_MAX_RANKS];

	for (uint32_t r = 0; r < b->nranks; r++)
		addr[r] = b->place[r].extra[node] + first * sizeof(double);
	if (s->allreduce)
		s->allreduce(s->arg, GPUSIM_F64, count, addr);
}

static void
activate(const struct net_node *node, const struct emit_batch *b, uint32_t rank, uint32_t k,
	 const struct emit_sink *s)
{
	const struct emit_place *p = &b->place[rank];

	if (node->act != NET_LINEAR)
		LAUNCH(s, rank, net_act_name(node->act), U("y", p->y[k]), U("x", p->pre[k]),
		       U("n", b->rows[rank] * net_item_size(node)), U("dtype", p->dtype));
}

static void
forward_dense(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	      const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	uint64_t outputs = node->shape.channels, rows = emit_rows(b, rank, node);
	bool relu = node->act == NET_RELU;

	LAUNCH(s, rank, "gemm", U("m", rows), U("n", outputs),
	       U("k", net_shape_size(net_in_shape(n, node))), U("a", emit_input(p, node, 0)),
	       U("b", emit_param(p, node->weight)), U("c", p->pre[k]), U("tb", 1),
	       U("single", b->single), U("dtype", p->dtype));
	LAUNCH(s, rank, relu ? "bias_relu" : "bias_add", U("x", p->pre[k]),
	       U("bias", emit_param(p, node->bias)), U("rows", rows), U("cols", outputs),
	       U("dtype", p->dtype));
	if (!relu)
		activate(node, b, rank, k, s);
}

static void
forward_conv(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	     const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	struct net_shape in = net_in_shape(n, node);

	LAUNCH(s, rank, "conv2d", U("x", emit_input(p, node, 0)),
	       U("weight", emit_param(p, node->weight)),
	       U("bias", node->nbias ? emit_param(p, node->bias) : 0), U("y", p->pre[k]),
	       U("scratch", p->scratch), U("scratch_images", emit_scratch_images(node)),
	       U("n", b->rows[rank]), U("c", in.channels), U("h", in.rows), U("w", in.cols),
	       U("k", node->shape.channels), U("size", node->size), U("stride", node->stride),
	       U("pad", node->pad), U("single", b->single), U("dtype", p->dtype));
	activate(node, b, rank, k, s);
}

static void
forward_maxpool(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	struct net_shape in = net_in_shape(n, node);

	LAUNCH(s, rank, "maxpool2d", U("x", emit_input(p, node, 0)), U("y", p->y[k]),
	       U("index", p->extra[k]), U("n", b->rows[rank]), U("c", in.channels), U("h", in.rows),
	       U("w", in.cols), U("size", node->size), U("stride", node->stride),
	       U("dtype", p->dtype));
}

/* The batch's moments, over all ranks if they sum, into the place of their gradients. */
static void
moments(const struct net_node *node, const struct emit_batch *b, uint32_t k,
	const struct emit_sink *s)
{
	uint64_t plane = (uint64_t)node->shape.rows * node->shape.cols;

	for (uint32_t r = 0; r < b->nranks; r++)
		LAUNCH(s, r, "batchnorm_sums", U("sums", b->place[r].extra[k]),
		       U("x", emit_input(&b->place[r], node, 0)), U("n", b->rows[r]),
		       U("c", node->shape.channels), U("hw", plane), U("dtype", b->place[r].dtype));
	emit_sum(b, k, 0, 2ull * node->shape.channels, s);
	for (uint32_t r = 0; r < b->nranks; r++)
		LAUNCH(s, r, "batchnorm_moments",
		       U("moments", emit_grad(&b->place[r], node->stats)),
		       U("sums", b->place[r].extra[k]), U("c", node->shape.channels),
		       U("count", (s->allreduce ? b->total : b->rows[r]) * plane),
		       U("dtype", b->place[r].dtype));
}

static void
forward_batchnorm(const struct net_node *node, const struct emit_batch *b, uint32_t rank,
		  uint32_t k, enum emit_mode mode, const struct emit_sink *s)
{
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "batchnorm", U("y", p->pre[k]), U("x", emit_input(p, node, 0)),
	       U("moments",
		 mode == EMIT_TRAIN ? emit_grad(p, node->stats) : emit_param(p, node->stats)),
	       U("gamma", emit_param(p, node->weight)), U("beta", emit_param(p, node->bias)),
	       U("n", b->rows[rank]), U("c", node->shape.channels),
	       U("hw", (uint64_t)node->shape.rows * node->shape.cols), U("dtype", p->dtype));
	activate(node, b, rank, k, s);
}

static void
forward_layernorm(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		  const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "layernorm", U("y", p->pre[k]), U("x", emit_input(p, node, 0)),
	       U("gamma", emit_param(p, node->weight)), U("beta", emit_param(p, node->bias)),
	       U("moments", p->extra[k]), U("rows", emit_rows(b, rank, node)),
	       U("cols", net_shape_size(node->shape)), U("dtype", p->dtype));
	activate(node, b, rank, k, s);
}

static void
forward_add(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	    const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "add", U("y", p->pre[k]), U("a", emit_input(p, node, 0)),
	       U("b", emit_input(p, node, 1)), U("n", b->rows[rank] * net_item_size(node)),
	       U("dtype", p->dtype));
	activate(node, b, rank, k, s);
}

void
emit_forward_nodes(const struct net *n, const struct emit_batch *b, uint32_t first, uint32_t end,
		   enum emit_mode mode, const struct emit_sink *s)
{
	static emit_node_fn *const forward[] = {
	    [NET_DENSE] = forward_dense,
	    [NET_CONV] = forward_conv,
	    [NET_LAYERNORM] = forward_layernorm,
	    [NET_MAXPOOL] = forward_maxpool,
	    [NET_ADD] = forward_add,
	    [NET_PATCHES] = forward_patches,
	    [NET_TOKENS] = forward_tokens,
	    [NET_ATTENTION] = forward_attention,
	    [NET_PICK] = forward_pick,
	};

	for (uint32_t k = first; k < end; k++) {
		const struct net_node *node = &n->node[k];

		if (node->kind == NET_BATCHNORM && mode == EMIT_TRAIN)
			moments(node, b, k, s);
		for (uint32_t r = 0; r < b->nranks; r++)
			if (node->kind == NET_BATCHNORM)
				forward_batchnorm(node, b, r, k, mode, s);
			else
				forward[node->kind](n, b, r, k, s);
	}
}

void
emit_forward(const struct net *n, const struct emit_batch *b, enum emit_mode mode,
	     const struct emit_sink *s)
{
	emit_forward_nodes(n, b, 0, n->nnodes, mode, s);
}

void
emit_loss(const struct net *n, const struct emit_batch *b, const struct emit_target *target,
	  const struct emit_sink *s)
{
	uint32_t last = n->nnodes - 1;

	for (uint32_t r = 0; r < b->nranks; r++)
		LAUNCH(s, r, n->loss == NET_L2 ? "l2_loss" : "softmax_xent",
		       U("logits", b->place[r].y[last]),
		       MOVES("labels", target[r].labels, target[r].labels_step),
		       MOVES("loss", target[r].loss, target[r].loss_step), U("rows", b->rows[r]),
		       U("classes", n->nclasses), U("grad", b->place[r].dy[last]), F("scale", 1),
		       F("grad_scale", target[r].grad_scale), U("dtype", b->place[r].dtype));
}

/* ---- backward: parameters */

/* dy becomes the gradient of the activation's input. */
static void
deactivate(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	   const struct emit_sink *s)
{
	static const char *const gradient[] = {[NET_RELU] = "relu_grad",
					       [NET_SIGMOID] = "sigmoid_grad",
					       [NET_TANH] = "tanh_grad",
					       [NET_GELU] = "gelu_grad"};
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	bool of_x = node->act == NET_RELU || node->act == NET_GELU; /* else of the output */

	if (node->act != NET_LINEAR)
		LAUNCH(s, rank, gradient[node->act], U("dx", p->dy[k]), U("dy", p->dy[k]),
		       U(of_x ? "x" : "y", p->pre[k]), U("n", b->rows[rank] * net_item_size(node)),
		       U("dtype", p->dtype));
}

static void
gradients_dense(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	uint64_t outputs = node->shape.channels, rows = emit_rows(b, rank, node);

	if (node->act == NET_RELU && !b->apart) {
		LAUNCH(s, rank, "bias_relu_grad", U("dx", p->dy[k]),
		       U("db", emit_grad(p, node->bias)), U("dy", p->dy[k]), U("y", p->y[k]),
		       U("rows", rows), U("cols", outputs), U("dtype", p->dtype));
	} else {
		if (!b->apart)
			deactivate(n, b, rank, k, s);
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

	if (!b->apart)
		deactivate(n, b, rank, k, s);
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

		deactivate(n, b, r, k, s);
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

	if (!b->apart)
		deactivate(n, b, rank, k, s);
	LAUNCH(s, rank, "layernorm_grad_params", U("dgamma", emit_grad(p, node->weight)),
	       U("dbeta", emit_grad(p, node->bias)), U("dy", p->dy[k]),
	       U("x", emit_input(p, node, 0)), U("moments", p->extra[k]),
	       U("rows", emit_rows(b, rank, node)), U("cols", net_shape_size(node->shape)),
	       U("dtype", p->dtype));
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
		else if (node->kind == NET_TOKENS)
			gradients_tokens(n, b, r, k, s);
		else if (!b->apart)
			deactivate(n, b, r, k, s);
	}
}

/* ---- backward: a node's inputs */

/* Does a later node also pass a gradient to this input? Backward visits it first, so this node adds. */
static bool
adds(const struct net *n, uint32_t k, uint32_t in)
{
	for (uint32_t i = k + 1; i < n->nnodes; i++)
		if (n->node[i].in[0] == in || n->node[i].in[1] == in)
			return true;
	return false;
}

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
	       U("moments", p->extra[k]), U("rows", emit_rows(b, rank, node)),
	       U("cols", net_shape_size(node->shape)), U("add", adds(n, k, node->in[0])),
	       U("dtype", p->dtype));
}

static void
propagate_dense(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "gemm", U("m", emit_rows(b, rank, node)),
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
	uint64_t count = b->rows[rank] * net_item_size(node), skip = p->dy[node->in[0]];

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
	static emit_node_fn *const propagate[] = {
	    [NET_DENSE] = propagate_dense,	   [NET_CONV] = propagate_conv,
	    [NET_BATCHNORM] = propagate_batchnorm, [NET_LAYERNORM] = propagate_layernorm,
	    [NET_MAXPOOL] = propagate_maxpool,	   [NET_ADD] = propagate_add,
	    [NET_TOKENS] = propagate_tokens,	   [NET_ATTENTION] = propagate_attention,
	    [NET_PICK] = propagate_pick,
	};
	const struct net_node *node = &n->node[k];

	for (uint32_t r = 0; r < b->nranks && b->apart; r++)
		deactivate(n, b, r, k, s);
	for (uint32_t r = 0; r < b->nranks && propagates(n, node); r++)
		propagate[node->kind](n, b, r, k, s);
	for (uint32_t r = 0; r < b->nranks && node->kind == NET_BATCHNORM; r++)
		correct_variances(node, b, r, s);
}

void
emit_backward(const struct net *n, const struct emit_batch *b, const struct emit_sink *s)
{
	for (uint32_t k = n->nnodes; k-- > 0;) {
		if (b->apart)
			emit_propagate(n, b, k, s);
		emit_gradients(n, b, k, s);
		if (!b->apart)
			emit_propagate(n, b, k, s);
	}
}

/* ---- the optimizer */

/* running = 0.9 running + 0.1 of the batch */
static void
follow_statistics(const struct net *n, uint32_t rank, const struct emit_place *p,
		  const struct emit_sink *s)
{
	LAUNCH(s, rank, "scale", U("x", emit_param(p, n->nparams)), U("n", n->nstats),
	       F("alpha", 0.9), U("dtype", p->dtype));
	LAUNCH(s, rank, "axpy", U("y", emit_param(p, n->nparams)), U("x", emit_grad(p, n->nparams)),
	       U("n", n->nstats), F("alpha", 0.1), U("dtype", p->dtype));
}

void
emit_update(const struct net *n, uint32_t rank, const struct emit_place *p,
	    const struct emit_optimizer *o, const struct emit_sink *s)
{
	if (optimizer_adapts(o->kind))
		LAUNCH(s, rank, "adam", U("w", p->params), U("grad", p->grads), U("m", o->state[0]),
		       U("v", o->state[1]), U("t", o->count), U("n", n->nparams), F("lr", o->lr),
		       F("weight_decay", o->weight_decay),
		       U("decoupled", o->kind == OPTIMIZER_ADAMW),
		       MOVES("lr_at", o->lr_at, o->lr_step), U("dtype", p->dtype));
	else
		LAUNCH(s, rank, "sgd", U("w", p->params), U("grad", p->grads), U("v", o->state[0]),
		       U("n", n->nparams), F("lr", o->lr), F("momentum", o->momentum),
		       F("weight_decay", o->weight_decay),
		       U("nesterov", o->kind == OPTIMIZER_NESTEROV && o->momentum > 0),
		       MOVES("lr_at", o->lr_at, o->lr_step), U("dtype", p->dtype));
	if (n->nstats)
		follow_statistics(n, rank, p, s);
}
