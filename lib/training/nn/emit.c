/*
 * emit.c - a net's passes forward and backward, the loss and the optimizer's step.
 */
#include "nn/emit.h"

#include "nn/emit_impl.h"

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
activate(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	 const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	if (node->act != NET_LINEAR)
		LAUNCH(s, rank, net_act_name(node->act), U("y", p->y[k]), U("x", p->pre[k]),
		       U("n", emit_elements(n, b, rank, node)), U("dtype", p->dtype));
}

static void
forward_dense(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	      const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	uint64_t outputs = node->shape.channels, rows = emit_rows(n, b, rank, node);
	bool relu = node->act == NET_RELU;

	LAUNCH(s, rank, "gemm", U("m", rows), U("n", outputs),
	       U("k", net_shape_size(net_in_shape(n, node))), U("a", emit_input(p, node, 0)),
	       U("b", emit_param(p, node->weight)), U("c", p->pre[k]), U("tb", 1),
	       U("single", b->single), U("dtype", p->dtype));
	if (node->nbias)
		LAUNCH(s, rank, relu ? "bias_relu" : "bias_add", U("x", p->pre[k]),
		       U("bias", emit_param(p, node->bias)), U("rows", rows), U("cols", outputs),
		       U("dtype", p->dtype));
	if (!relu)
		activate(n, b, rank, k, s);
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
	activate(n, b, rank, k, s);
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
forward_batchnorm(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		  enum emit_mode mode, const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "batchnorm", U("y", p->pre[k]), U("x", emit_input(p, node, 0)),
	       U("moments",
		 mode == EMIT_TRAIN ? emit_grad(p, node->stats) : emit_param(p, node->stats)),
	       U("gamma", emit_param(p, node->weight)), U("beta", emit_param(p, node->bias)),
	       U("n", b->rows[rank]), U("c", node->shape.channels),
	       U("hw", (uint64_t)node->shape.rows * node->shape.cols), U("dtype", p->dtype));
	activate(n, b, rank, k, s);
}

static void
forward_layernorm(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		  const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "layernorm", U("y", p->pre[k]), U("x", emit_input(p, node, 0)),
	       U("gamma", emit_param(p, node->weight)), U("beta", emit_param(p, node->bias)),
	       U("moments", p->extra[k]), U("rows", emit_rows(n, b, rank, node)),
	       U("cols", net_shape_size(node->shape)), U("dtype", p->dtype));
	activate(n, b, rank, k, s);
}

static void
forward_add(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	    const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "add", U("y", p->pre[k]), U("a", emit_input(p, node, 0)),
	       U("b", emit_input(p, node, 1)), U("n", emit_elements(n, b, rank, node)),
	       U("dtype", p->dtype));
	activate(n, b, rank, k, s);
}

/* The bias that follows a sum over ranks. */
static void
forward_leave(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
	      const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "bias_add", U("x", p->pre[k]), U("bias", emit_param(p, node->bias)),
	       U("rows", emit_rows(n, b, rank, node)), U("cols", node->shape.channels),
	       U("dtype", p->dtype));
	activate(n, b, rank, k, s);
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
	    [NET_LEAVE] = forward_leave,
	    [NET_GATHER] = NULL,
	};

	for (uint32_t k = first; k < end; k++) {
		const struct net_node *node = &n->node[k];

		if (node->kind == NET_BATCHNORM && mode == EMIT_TRAIN)
			moments(node, b, k, s);
		if (emit_exchanges(node))
			forward_exchange(n, b, k, s);
		for (uint32_t r = 0; r < b->nranks; r++)
			if (node->kind == NET_BATCHNORM)
				forward_batchnorm(n, b, r, k, mode, s);
			else if (forward[node->kind])
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

	if (n->each) {
		divided_loss(n, b, target, s);
		return;
	}
	for (uint32_t r = 0; r < b->nranks; r++)
		LAUNCH(s, r, n->loss == NET_L2 ? "l2_loss" : "softmax_xent",
		       U("logits", b->place[r].y[last]),
		       MOVES("labels", target[r].labels, target[r].labels_step),
		       MOVES("loss", target[r].loss, target[r].loss_step), U("rows", b->rows[r]),
		       U("classes", n->nclasses), U("grad", b->place[r].dy[last]), F("scale", 1),
		       F("grad_scale", target[r].grad_scale), U("scale_at", target[r].scale_at),
		       U("dtype", b->place[r].dtype));
}

void
emit_count(const struct net *n, const struct emit_batch *b, const struct emit_target *target,
	   const struct emit_sink *s)
{
	if (n->each) {
		divided_count(n, b, target, s);
		return;
	}
	for (uint32_t r = 0; r < b->nranks; r++)
		LAUNCH(s, r, "accuracy", U("logits", b->place[r].y[n->nnodes - 1]),
		       MOVES("labels", target[r].labels, target[r].labels_step),
		       MOVES("count", target[r].loss, target[r].loss_step), U("rows", b->rows[r]),
		       U("classes", n->nclasses), U("dtype", b->place[r].dtype));
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
		       U(of_x ? "x" : "y", p->pre[k]), U("n", emit_elements(n, b, rank, node)),
		       U("dtype", p->dtype));
}

static void
gradients_dense(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];
	uint64_t outputs = node->shape.channels, rows = emit_rows(n, b, rank, node);

	if (node->act == NET_RELU && node->nbias && !b->apart) {
		LAUNCH(s, rank, "bias_relu_grad", U("dx", p->dy[k]),
		       U("db", emit_grad(p, node->bias)), U("dy", p->dy[k]), U("y", p->y[k]),
		       U("rows", rows), U("cols", outputs), U("dtype", p->dtype));
	} else {
		if (!b->apart)
			deactivate(n, b, rank, k, s);
		if (node->nbias)
			LAUNCH(s, rank, "bias_grad", U("db", emit_grad(p, node->bias)),
			       U("dy", p->dy[k]), U("rows", rows), U("cols", outputs),
			       U("dtype", p->dtype));
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
	       U("rows", emit_rows(n, b, rank, node)), U("cols", net_shape_size(node->shape)),
	       U("dtype", p->dtype));
}

/* The bias that follows a sum over ranks. */
static void
gradients_leave(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	if (!b->apart)
		deactivate(n, b, rank, k, s);
	LAUNCH(s, rank, "bias_grad", U("db", emit_grad(p, node->bias)), U("dy", p->dy[k]),
	       U("rows", emit_rows(n, b, rank, node)), U("cols", node->shape.channels),
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
		else if (node->kind == NET_LEAVE)
			gradients_leave(n, b, r, k, s);
		else if (!b->apart)
			deactivate(n, b, r, k, s);
	}
}

/* ---- backward: a node's inputs */

/* Does anything need the gradient of a node's input? */
static bool
propagates(const struct net *n, const struct net_node *node)
{
	return node->in[0] != NET_INPUT && n->node[node->in[0]].kind != NET_PATCHES;
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
	       U("moments", p->extra[k]), U("rows", emit_rows(n, b, rank, node)),
	       U("cols", net_shape_size(node->shape)), U("add", adds(n, k, node->in[0])),
	       U("dtype", p->dtype));
}

static void
propagate_dense(const struct net *n, const struct emit_batch *b, uint32_t rank, uint32_t k,
		const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	const struct emit_place *p = &b->place[rank];

	LAUNCH(s, rank, "gemm", U("m", emit_rows(n, b, rank, node)),
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
	uint64_t count = emit_elements(n, b, rank, node), skip = p->dy[node->in[0]];

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
	if (emit_exchanges(node))
		propagate_exchange(n, b, k, s);
	for (uint32_t r = 0; r < b->nranks && propagates(n, node) && !emit_exchanges(node); r++)
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
emit_optimize(const struct emit_sink *s, uint32_t rank, uint64_t w, uint64_t grad, uint64_t n,
	      enum gpusim_dtype dtype, const struct emit_optimizer *o)
{
	if (optimizer_adapts(o->kind))
		LAUNCH(s, rank, "adam", U("w", w), U("grad", grad), U("m", o->state[0]),
		       U("v", o->state[1]), U("t", o->count), U("n", n), F("lr", o->lr),
		       F("weight_decay", o->weight_decay),
		       U("decoupled", o->kind == OPTIMIZER_ADAMW), U("frozen", o->frozen),
		       MOVES("lr_at", o->lr_at, o->lr_step), U("dtype", dtype), U("gate", o->gate),
		       U("grad_dtype", o->grad_dtype ? o->grad_dtype : dtype));
	else
		LAUNCH(s, rank, "sgd", U("w", w), U("grad", grad), U("v", o->state[0]), U("n", n),
		       F("lr", o->lr), F("momentum", o->momentum),
		       F("weight_decay", o->weight_decay),
		       U("nesterov", o->kind == OPTIMIZER_NESTEROV && o->momentum > 0),
		       MOVES("lr_at", o->lr_at, o->lr_step), U("dtype", dtype), U("gate", o->gate),
		       U("grad_dtype", o->grad_dtype ? o->grad_dtype : dtype));
}

void
emit_update(const struct net *n, uint32_t rank, const struct emit_place *p,
	    const struct emit_optimizer *o, const struct emit_sink *s)
{
	emit_optimize(s, rank, p->params, p->grads, n->nparams, p->dtype, o);
	if (n->nstats)
		follow_statistics(n, rank, p, s);
}
