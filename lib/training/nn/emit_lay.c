/*
 * emit_lay.c - a net's working memory: outputs, gradients, and what backward needs besides.
 */
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
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
		return rows * node->heads * node->tokens *
		       (size < sizeof(float) ? sizeof(float) : size);
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
emit_room(const struct net *n, const struct net_node *node, uint64_t max_rows)
{
	uint64_t rows = max_rows * node->tokens, each;

	if (!n->sequence)
		return rows;
	each = (rows + n->tp - 1) / n->tp;
	return node->sharded ? each : each * n->tp;
}

uint64_t
emit_have(const struct net *n, const struct net_node *node, uint64_t rows, uint32_t place)
{
	uint64_t all = rows * node->tokens, each, first;

	if (!node->sharded)
		return all;
	each = (all + n->tp - 1) / n->tp;
	first = place * each;
	return first >= all ? 0 : all - first < each ? all - first : each;
}

/* A node's output is its input's, or part of it. */
static bool
passes_on(const struct net *n, const struct net_node *node)
{
	return (node->kind == NET_ENTER && !emit_by_rows(n, node)) ||
	       (node->kind == NET_LEAVE && !node->sharded && node->act != NET_GELU) ||
	       node->kind == NET_SCATTER;
}

/* Bytes before a rank's rows, where it has all. */
static uint64_t
before(const struct net *n, const struct net_node *node, const struct emit_areas *a, uint64_t size)
{
	return a->place * emit_room(n, node, a->rows) * net_shape_size(node->shape) * size;
}

/* Outputs. */
static void
lay_forward(struct emit_place *p, const struct net *n, uint64_t max_rows, uint64_t size,
	    enum emit_use use, struct emit_areas *a)
{
	uint64_t begin = a->shared, end = begin, scratch = 0;
	uint32_t unit = 0;

	for (uint32_t k = 0; k < n->nnodes; k++) {
		const struct net_node *node = &n->node[k];
		uint64_t nbytes = emit_room(n, node, max_rows) * net_shape_size(node->shape) * size;
		uint64_t wanted = scratch_size(n, node), *at;

		if (unit < a->nunits && a->unit[unit] == k && unit++ > 0)
			a->shared = begin;
		at = a->again && a->again[k] ? &a->shared : &a->kept;
		p->y[k] = !passes_on(n, node)
			      ? emit_take(at, nbytes)
			      : p->y[node->in[0]] +
				    (node->kind == NET_SCATTER ? before(n, node, a, size) : 0);
		if (node->kind == NET_LEAVE && !node->sharded)
			p->pre[k] = p->y[node->in[0]];
		else if (node->act == NET_GELU && use != EMIT_INFER)
			p->pre[k] = emit_take(at, nbytes);
		else
			p->pre[k] = p->y[k];
		p->extra[k] = emit_take(at, extra_bytes(node, max_rows, size));
		scratch = wanted > scratch ? wanted : scratch;
		end = a->shared > end ? a->shared : end;
	}
	a->shared = end;
	p->scratch = emit_take(&a->shared, scratch * size);
}

/* A node's gradient: its own memory, or a place in another's. */
static void
lay_gradient(struct emit_place *p, const struct net *n, uint32_t k, uint64_t max_rows,
	     uint64_t size, const struct emit_areas *a, uint64_t *at)
{
	const struct net_node *node = &n->node[k];
	uint64_t nbytes = emit_room(n, node, max_rows) * net_shape_size(node->shape) * size;
	uint64_t off = before(n, node, a, size);

	if (node->kind == NET_SCATTER) {
		p->dy[node->in[0]] = emit_take(at, n->tp * nbytes);
		p->dy[k] = p->dy[node->in[0]] + off;
	} else if (!p->dy[k] && node->kind != NET_PATCHES) {
		p->dy[k] = emit_take(at, nbytes);
	}
	if ((node->kind == NET_ENTER || node->kind == NET_LEAVE) && !emit_by_rows(n, node))
		p->dy[node->in[0]] = p->dy[k];
	if (node->kind == NET_GATHER)
		p->dy[node->in[0]] = p->dy[k] + before(n, &n->node[node->in[0]], a, size);
}

void
emit_lay(struct emit_place *p, const struct net *n, enum gpusim_dtype dtype, uint64_t max_rows,
	 enum emit_use use, struct emit_areas *a)
{
	uint64_t size = emit_type_size(dtype);
	uint64_t *at = use == EMIT_APART ? &a->kept : &a->shared;

	p->dtype = dtype;
	memset(p->dy, 0, sizeof p->dy);
	p->x = emit_take(&a->kept, n->nnodes && n->node[0].kind == NET_RECV
				       ? 0
				       : max_rows * net_shape_size(n->input) * size);
	lay_forward(p, n, max_rows, size, use, a);
	for (uint32_t k = n->nnodes; use != EMIT_INFER && k-- > 0;) {
		uint32_t lent = lent_to(n, k, use);

		lay_gradient(p, n, k, max_rows, size, a, at);
		if (lent != NET_INPUT)
			p->dy[lent] = p->dy[k];
	}
}

uint64_t
emit_place(struct emit_place *p, const struct net *n, enum gpusim_dtype dtype, uint64_t max_rows,
	   uint64_t base, enum emit_use use)
{
	struct emit_areas a = {.kept = 0}, nothing = a;
	struct emit_place *sizes = must_alloc(1, sizeof *sizes);

	/* The shared area follows the kept one. */
	emit_lay(sizes, n, dtype, max_rows, use, &nothing);
	free(sizes);
	a.kept = base;
	a.shared = base + nothing.kept;
	emit_lay(p, n, dtype, max_rows, use, &a);
	return a.shared - base;
}
