/*
 * emit_split.c - the launches and exchanges of layers that are divided over ranks, and of a loss whose classes are.
 */
#include "nn/emit_impl.h"

#define MAX_TP 1024u

/* Where the ranks of a group have a value. */
typedef uint64_t emit_where_fn(const struct emit_place *p, uint32_t k);

static uint64_t
output(const struct emit_place *p, uint32_t k)
{
	return p->y[k];
}

static uint64_t
before_activation(const struct emit_place *p, uint32_t k)
{
	return p->pre[k];
}

static uint64_t
gradient(const struct emit_place *p, uint32_t k)
{
	return p->dy[k];
}

struct exchange {
	enum gpusim_coll coll;
	enum gpusim_redop redop;
	emit_where_fn *send, *recv;
	uint32_t from, to; /* nodes */
};

/* Exchange a node's rows within each group. */
static void
exchange(const struct net *n, const struct emit_batch *b, uint32_t k, const struct exchange *x,
	 const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	uint64_t send[MAX_TP], recv[MAX_TP];

	for (uint32_t first = 0; first < b->nranks; first += n->tp) {
		struct emit_tensor t = {.rank = first,
					.coll = x->coll,
					.redop = x->redop,
					.dtype = b->place[first].dtype,
					.nelem = b->rows[first] * net_item_size(node),
					.send = send,
					.recv = recv};

		if (emit_by_rows(n, node)) /* rows that do not divide are filled up */
			t.nelem = emit_room(n, &(struct net_node){.tokens = node->tokens},
					    b->rows[first]) *
				  net_shape_size(node->shape);
		for (uint32_t i = 0; i < n->tp; i++) {
			send[i] = x->send(&b->place[first + i], x->from);
			recv[i] = x->recv(&b->place[first + i], x->to);
		}
		if (t.nelem)
			s->tensor(s->arg, &t);
	}
}

void
forward_exchange(const struct net *n, const struct emit_batch *b, uint32_t k,
		 const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	bool sums = node->kind == NET_LEAVE, rows = emit_by_rows(n, node);
	struct exchange x = {.coll = !rows  ? GPUSIM_ALLREDUCE
				     : sums ? GPUSIM_REDUCESCATTER
					    : GPUSIM_ALLGATHER,
			     .redop = GPUSIM_SUM,
			     .send = output,
			     .recv = sums ? before_activation : output,
			     .from = node->in[0],
			     .to = k};

	if (sums || node->kind == NET_GATHER || (node->kind == NET_ENTER && rows))
		exchange(n, b, k, &x, s);
}

void
propagate_exchange(const struct net *n, const struct emit_batch *b, uint32_t k,
		   const struct emit_sink *s)
{
	const struct net_node *node = &n->node[k];
	struct exchange x = {.coll = GPUSIM_ALLGATHER,
			     .redop = GPUSIM_SUM,
			     .send = gradient,
			     .recv = gradient,
			     .from = k,
			     .to = node->in[0]};

	if (node->kind == NET_ENTER)
		x.coll = emit_by_rows(n, node) ? GPUSIM_REDUCESCATTER : GPUSIM_ALLREDUCE;
	if (node->kind == NET_ENTER || node->kind == NET_SCATTER ||
	    (node->kind == NET_LEAVE && node->sharded))
		exchange(n, b, k, &x, s);
}

/* ---- a loss whose classes are divided */

/* The classes of a rank: *first and their number. */
static uint64_t
classes_of(const struct net *n, uint32_t rank, uint64_t *first)
{
	uint64_t all = n->nclasses;

	*first = (uint64_t)(rank % n->tp) * n->each;
	if (*first > all)
		*first = all;
	return all - *first < n->each ? all - *first : n->each;
}

/* Combine `per` values of each row at scratch + after rows of f32. */
static void
combine(const struct net *n, const struct emit_batch *b, const struct emit_target *target,
	enum gpusim_redop op, uint64_t after, uint64_t per, const struct emit_sink *s)
{
	uint64_t addr[MAX_TP];

	for (uint32_t first = 0; first < b->nranks; first += n->tp) {
		uint64_t rows = b->rows[first];
		struct emit_tensor t = {.rank = first,
					.coll = GPUSIM_ALLREDUCE,
					.redop = op,
					.dtype = GPUSIM_F32,
					.nelem = rows * per,
					.send = addr,
					.recv = addr};

		for (uint32_t i = 0; i < n->tp; i++)
			addr[i] = target[first + i].scratch + after * rows * sizeof(float);
		if (t.nelem)
			s->tensor(s->arg, &t);
	}
}

/* The largest logit of each row, and three sums of it (kern_shard.c), over all classes. */
static void
compare_logits(const struct net *n, const struct emit_batch *b, const struct emit_target *target,
	       const struct emit_sink *s)
{
	uint32_t last = n->nnodes - 1;
	uint64_t first, count;

	for (uint32_t r = 0; r < b->nranks; r++) {
		count = classes_of(n, r, &first);
		LAUNCH(s, r, "shard_top", U("top", target[r].scratch),
		       U("logits", b->place[r].y[last]), U("rows", b->rows[r]), U("classes", count),
		       U("cols", n->each), U("dtype", b->place[r].dtype));
	}
	combine(n, b, target, GPUSIM_MAX, 0, 1, s);
	for (uint32_t r = 0; r < b->nranks; r++) {
		count = classes_of(n, r, &first);
		LAUNCH(s, r, "shard_sums",
		       U("sums", target[r].scratch + b->rows[r] * sizeof(float)),
		       U("top", target[r].scratch), U("logits", b->place[r].y[last]),
		       MOVES("labels", target[r].labels, target[r].labels_step),
		       U("rows", b->rows[r]), U("classes", count), U("cols", n->each),
		       U("first", first), U("dtype", b->place[r].dtype));
	}
	combine(n, b, target, GPUSIM_SUM, 1, 3, s);
}

void
divided_loss(const struct net *n, const struct emit_batch *b, const struct emit_target *target,
	     const struct emit_sink *s)
{
	uint32_t last = n->nnodes - 1;
	uint64_t first, count;

	compare_logits(n, b, target, s);
	for (uint32_t r = 0; r < b->nranks; r++) {
		count = classes_of(n, r, &first);
		LAUNCH(s, r, "shard_xent", U("grad", b->place[r].dy[last]),
		       MOVES("loss", target[r].loss, target[r].loss_step),
		       U("top", target[r].scratch),
		       U("sums", target[r].scratch + b->rows[r] * sizeof(float)),
		       U("logits", b->place[r].y[last]),
		       MOVES("labels", target[r].labels, target[r].labels_step),
		       U("rows", b->rows[r]), U("classes", count), U("cols", n->each),
		       U("first", first), F("scale", target[r].grad_scale),
		       U("scale_at", target[r].scale_at), U("dtype", b->place[r].dtype));
	}
}

void
divided_count(const struct net *n, const struct emit_batch *b, const struct emit_target *target,
	      const struct emit_sink *s)
{
	compare_logits(n, b, target, s);
	for (uint32_t r = 0; r < b->nranks; r++)
		LAUNCH(s, r, "shard_hits", MOVES("count", target[r].loss, target[r].loss_step),
		       U("top", target[r].scratch),
		       U("sums", target[r].scratch + b->rows[r] * sizeof(float)),
		       U("rows", b->rows[r]));
}
