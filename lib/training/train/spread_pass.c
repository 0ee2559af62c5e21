/* Passes through a stage, and the messages between stages. */
#include "train/spread_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"

/* ---- what passes between stages */

/* Elements of a node's output that a rank of the stage has. */
static uint64_t
boundary(const struct row_recorder *r, const struct layout_chunk *c, uint32_t node, uint32_t i)
{
	const struct net *n = &c->part->net;

	return emit_have(n, &n->node[node], r->rows[i], i % tp_of(r)) *
	       net_shape_size(n->node[node].shape);
}

const struct layout_chunk *
row_chunk(const struct row_recorder *r, uint32_t stage)
{
	for (uint32_t i = 0; i < r->row->nchunks; i++)
		if (r->row->chunk[i].stage == stage)
			return &r->row->chunk[i];
	return NULL;
}

/* Offsets of a piece's gradients on their way, in a slot. */
static uint64_t
box_at(const struct row_recorder *r, const struct layout_chunk *c, uint32_t micro, uint32_t piece,
       bool in)
{
	const struct net *n = &c->part->net;
	const struct net_node *node = &n->node[in ? n->nnodes - 1 : 0];
	uint64_t rows = emit_room(n, node, r->l->piece_rows),
		 each = rows * net_shape_size(node->shape) * each_of(r);
	uint32_t slot = slot_of(r, c, micro);

	return c->slots + slot * c->slot_bytes + (in ? c->inbox : c->outbox) + piece * each;
}

static void
copy(struct row_recorder *r, uint32_t i, uint64_t dst, uint64_t src, uint64_t n)
{
	LAUNCH(&r->sink, i, "copy", U("dst", dst), U("src", src), U("n", n),
	       U("dtype", r->l->c.dtype));
}

/* The address of a piece's message on rank i. back: a gradient; out: it is sent. */
static uint64_t
message_at(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro, uint32_t piece,
	   uint32_t i, bool back, bool out)
{
	if (back)
		return base_of(r, i) + box_at(r, c, micro, piece, !out);
	return r->place[i].y[out ? c->part->net.nnodes - 1 : 0];
}

void
row_message(struct row_recorder *r, const struct pipeline_action *a, bool back, bool out)
{
	const struct layout_chunk *c = row_chunk(r, a->stage);
	uint32_t other = out == back ? a->stage - 1 : a->stage + 1, q = r->s->rank_of[other];
	struct gpusim_stream stream = {P2P_FIRST + 2ull * q + out};
	uint64_t *sent = &r->sent[index_of(r, c, slot_of(r, c, a->micro))];
	char name[GPUSIM_LABEL];

	if (!out && !back) /* it overwrites the slot's last microbatch */
		row_await(r, STREAM_COMPUTE, *sent);
	row_join(r, STREAM_COMPUTE, stream);
	snprintf(name, sizeof name, "%s %c %" PRIu32, out ? "send" : "recv", back ? 'B' : 'F',
		 a->micro);
	gpusim_ops_label(r->o, stream, name);
	for (uint32_t piece = 0; piece < npieces(r); piece++) {
		row_bind(r, c, a->micro, piece);
		for (uint32_t i = 0; i < r->n; i++) {
			uint32_t node = out != back ? c->part->net.nnodes - 1 : 0;
			const struct gpusim_addr at = {
			    message_at(r, c, a->micro, piece, i, back, out)};
			const struct gpusim_collective x = {GPUSIM_COLLECTIVE_INIT,
							    .coll = out ? GPUSIM_SEND : GPUSIM_RECV,
							    .dtype = r->l->c.dtype,
							    .nelem = boundary(r, c, node, i),
							    .rank = r->first + i,
							    .root = q * r->n + i,
							    .send = &at,
							    .recv = &at,
							    .stream = stream};

			if (x.nelem == 0)
				continue;
			row_count(r, x.rank, COLL_BYTES);
			gpusim_ops_collective(r->o, &x);
		}
	}
	r->talks[2 * q + out] = true;
	if (out && back)
		*sent = row_mark(r, stream);
	else if (!out)
		r->came[back][index_of(r, c, a->micro)] = row_mark(r, stream);
}

/* The input of a stage's piece, from the data or from the stage before on the same rank. */
static void
take_input(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro, uint32_t piece)
{
	const struct layout_chunk *before = c->stage ? row_chunk(r, c->stage - 1) : NULL;
	struct emit_place *own;

	if (c->stage == 0) {
		for (uint32_t i = 0; i < r->n; i++) {
			struct replica at = r->t->replica[r->first + i];
			struct batch b = row_piece(r, i / tp_of(r), micro, piece);

			at.net.x = r->place[i].x;
			at.net.dtype = r->l->c.dtype;
			if (r->test)
				replica_load_tests(&r->sink, i, &at, &r->t->shape, &b, r->tested);
			else
				replica_load(&r->sink, i, &at, &r->t->shape, &b);
		}
		return;
	}
	if (!before)
		return;
	own = must_alloc(r->n, sizeof *own);
	row_bind(r, before, micro, piece);
	for (uint32_t i = 0; i < r->n; i++)
		own[i] = r->place[i];
	row_bind(r, c, micro, piece);
	for (uint32_t i = 0; i < r->n; i++)
		copy(r, i, r->place[i].y[0], own[i].y[before->part->net.nnodes - 1],
		     boundary(r, c, 0, i));
	free(own);
}

void
row_forward(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro)
{
	if (c->stage)
		row_await(r, STREAM_COMPUTE, r->came[0][index_of(r, c, micro)]);
	for (uint32_t piece = 0; piece < npieces(r); piece++) {
		row_bind(r, c, micro, piece);
		take_input(r, c, micro, piece);
	}
	for (uint32_t u = 0; u < c->nunits; u++) {
		const struct part_unit *unit = &c->part->unit[u];
		uint64_t params = row_params(r, c->unit0 + u);

		for (uint32_t piece = 0; piece < npieces(r); piece++) {
			struct emit_batch b = row_bind(r, c, micro, piece);

			row_bind_unit(r, unit, params, 0);
			for (uint32_t k = unit->node; k < unit->node + unit->nnodes; k++) {
				row_end_list(r);
				emit_forward_nodes(&c->part->net, &b, k, k + 1,
						   r->test ? EMIT_EVAL : EMIT_TRAIN, &r->sink);
			}
		}
	}
}

/* ---- back */

/* The loss of a piece, and the gradient of the last node's output. */
static void
take_loss(struct row_recorder *r, const struct layout_chunk *c, const struct emit_batch *b,
	  uint32_t micro, uint32_t piece)
{
	uint32_t number = micro * npieces(r) + piece;
	double scale = r->l->c.leaf ? 1 : 1 / (double)b->total;
	struct emit_target *target = must_alloc(r->n, sizeof *target);

	for (uint32_t i = 0; i < r->n; i++) {
		struct batch rows = row_piece(r, i / tp_of(r), micro, piece);

		target[i] = replica_target(&r->t->replica[r->first + i], &rows, scale);
		target[i].loss = base_of(r, i) + r->row->losses + number * sizeof(float);
		target[i].loss_step = 0;
		target[i].scratch = base_of(r, i) + r->row->scratch;
		target[i].scale_at = scales(r) ? base_of(r, i) + r->row->scaler : 0;
	}
	emit_loss(&c->part->net, b, target, &r->sink);
	for (uint32_t i = 0; r->l->c.leaf && i < r->n; i++)
		LAUNCH(&r->sink, i, "fixed_add", U("sum", base_of(r, i) + r->row->loss_sum),
		       U("src", target[i].loss), U("n", 1), F("scale", LEAVES_LOSS_SCALE),
		       U("add", number > 0));
	free(target);
}

/* The gradient of a stage's output, from the loss or from the stage after. */
static void
take_gradient(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro, uint32_t piece)
{
	const struct layout_chunk *after = row_chunk(r, c->stage + 1);
	struct emit_batch b = row_bind(r, c, micro, piece);
	uint32_t last = c->part->net.nnodes - 1;

	b.total = r->total;
	if (c->stage + 1 == r->s->nstages) {
		take_loss(r, c, &b, micro, piece);
		return;
	}
	for (uint32_t i = 0; i < r->n; i++)
		copy(r, i, r->place[i].dy[last],
		     base_of(r, i) + (after ? box_at(r, after, micro, piece, false)
					    : box_at(r, c, micro, piece, true)),
		     boundary(r, c, last, i));
}

static void
backward_nodes(struct row_recorder *r, const struct layout_chunk *c, const struct part_unit *u,
	       const struct emit_batch *b, enum half half)
{
	const struct net *n = &c->part->net;

	for (uint32_t k = u->node; half != HALF_WEIGHTS && k < u->node + u->nnodes; k++) {
		row_end_list(r);
		if (layout_volatile(r->l, c, k))
			emit_forward_nodes(n, b, k, k + 1, EMIT_TRAIN, &r->sink);
	}
	for (uint32_t k = u->node + u->nnodes; c->split && half != HALF_WEIGHTS && k-- > u->node;) {
		row_end_list(r);
		emit_propagate(n, b, k, &r->sink);
	}
	for (uint32_t k = u->node + u->nnodes; half != HALF_INPUT && k-- > u->node;) {
		row_end_list(r);
		emit_gradients(n, b, k, &r->sink);
		if (!c->split)
			emit_propagate(n, b, k, &r->sink);
	}
}

void
row_backward(struct row_recorder *r, const struct layout_chunk *c, uint32_t micro, enum half half)
{
	bool weights = half != HALF_INPUT, last = weights && --r->left[c - r->row->chunk] == 0;

	if (half != HALF_WEIGHTS && c->stage + 1 < r->s->nstages)
		row_await(r, STREAM_COMPUTE, r->came[1][index_of(r, c, micro)]);
	for (uint32_t u = c->nunits; u-- > 0;) {
		const struct part_unit *unit = &c->part->unit[u];
		uint32_t number = c->unit0 + u;
		uint64_t params = half == HALF_WEIGHTS ? 0 : row_params(r, number);

		if (weights)
			row_begin_unit(r);
		for (uint32_t piece = 0; piece < npieces(r); piece++) {
			struct emit_batch b;

			if (half != HALF_WEIGHTS && u + 1 == c->nunits)
				take_gradient(r, c, micro, piece);
			b = row_bind(r, c, micro, piece);
			row_bind_unit(r, unit, params, row_fresh(r, number));
			backward_nodes(r, c, unit, &b, half);
			if (weights)
				row_accumulate(r, number, piece);
			if (half != HALF_WEIGHTS && u == 0 && c->stage)
				for (uint32_t i = 0; i < r->n; i++)
					copy(r, i,
					     base_of(r, i) + box_at(r, c, micro, piece, false),
					     r->place[i].dy[0], boundary(r, c, 0, i));
		}
		if (weights)
			row_end_unit(r, c, number, last);
	}
}

/* ---- a test */

void
row_end_test(struct row_recorder *r, const struct layout_chunk *c)
{
	struct emit_target *target = must_alloc(r->n, sizeof *target);
	struct emit_batch b = row_bind(r, c, 0, 0);

	for (uint32_t i = 0; i < r->n; i++) {
		const struct batch *rows = &r->batch[i / tp_of(r)];

		target[i] = replica_test_target(&r->t->replica[r->first + i], rows, r->tested);
		target[i].scratch = base_of(r, i) + r->row->scratch;
	}
	emit_count(&c->part->net, &b, target, &r->sink);
	free(target);
}
