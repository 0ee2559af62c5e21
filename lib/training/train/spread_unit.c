/* Parameters and gradients of a unit of layers, whole or in parts over the data-parallel ranks. */
#include "train/spread_impl.h"

/* ---- parameters: zero 3 gathers a unit ahead */

static uint64_t
gathered_at(const struct row_recorder *r, uint32_t use)
{
	if (r->l->c.keep)
		return r->row->gathered[0] + r->row->unit[r->use[use]].first * each_of(r);
	return r->row->gathered[use % 2];
}

static void
gather(struct row_recorder *r, uint32_t use)
{
	const struct layout_unit *u = &r->row->unit[r->use[use]];
	const struct over_dp x = {.coll = GPUSIM_ALLGATHER,
				  .type = r->l->c.dtype,
				  .n = u->n,
				  .send = r->row->params + u->shard * each_of(r),
				  .recv = gathered_at(r, use)};

	row_join(r, STREAM_COMPUTE, STREAM_COMM); /* the buffer's last use */
	row_name_unit(r, "gather", r->use[use]);
	row_over_dp(r, &x, STREAM_COMM);
	r->got[use % 2] = row_mark(r, STREAM_COMM);
}

uint64_t
row_params(struct row_recorder *r, uint32_t unit)
{
	if (!layout_shards_params(r->l))
		return r->row->params + r->row->unit[unit].first * each_of(r);
	for (uint32_t k = 0; r->l->c.keep && k < r->used; k++) /* gathered once a step */
		if (r->use[k] == unit)
			return gathered_at(r, k);
	if (r->used == 0 || r->use[r->used - 1] != unit)
		r->used++;
	while (r->asked < r->nuse && r->asked <= r->used)
		gather(r, r->asked++);
	row_await(r, STREAM_COMPUTE, r->got[(r->used - 1) % 2]);
	return gathered_at(r, r->used - 1);
}

void
row_add_use(struct row_recorder *r, uint32_t unit)
{
	for (uint32_t k = r->l->c.keep || !r->nuse ? 0 : r->nuse - 1; k < r->nuse; k++)
		if (r->use[k] == unit)
			return;
	r->use[r->nuse++] = unit;
}

/* ---- gradients */

/* Is a unit's gradient made in its place, without a buffer? */
static bool
direct(const struct row_recorder *r, uint32_t unit)
{
	return !r->l->c.leaf && !layout_shards_grads(r->l) && r->begun[unit] == 0;
}

static uint64_t
grads_at(const struct row_recorder *r, uint32_t unit)
{
	return r->row->grads + r->row->unit[unit].first * size_of(r);
}

uint64_t
row_fresh(const struct row_recorder *r, uint32_t unit)
{
	return direct(r, unit) ? grads_at(r, unit) : r->row->fresh[r->turn];
}

void
row_accumulate(struct row_recorder *r, uint32_t unit, uint32_t piece)
{
	bool shards = layout_shards_grads(r->l), begun = shards ? piece > 0 : r->begun[unit] > 0;
	uint64_t to = shards ? r->row->sums[r->turn] : grads_at(r, unit),
		 from = r->row->fresh[r->turn];
	uint64_t n = r->row->unit[unit].n;

	for (uint32_t i = 0; i < r->n; i++) {
		if (r->l->c.leaf)
			LAUNCH(&r->sink, i, "fixed_add", U("sum", base_of(r, i) + to),
			       U("src", base_of(r, i) + from), U("n", n), F("scale", LEAVES_SCALE),
			       U("add", begun), U("dtype", r->l->c.dtype));
		else if (!shards && begun)
			LAUNCH(&r->sink, i, "axpy", U("y", base_of(r, i) + to),
			       U("x", base_of(r, i) + from), U("n", n), U("dtype", r->l->c.dtype));
	}
	if (!shards)
		r->begun[unit]++;
}

/* Add a reduced part of a unit's gradient to the rank's. */
static void
add_part(struct row_recorder *r, uint32_t unit)
{
	const struct layout_unit *u = &r->row->unit[unit];
	const struct emit_sink sink = {.arg = r, .launch = row_launch_comm};
	uint64_t from = r->row->part[r->turn], to = r->row->grads + u->shard * size_of(r);

	for (uint32_t i = 0; i < r->n; i++) {
		uint64_t n, at = base_of(r, i);

		layout_part(r->l, u->n, i / tp_of(r), &n);
		if (r->begun[unit])
			LAUNCH(&sink, i, "add", U("y", at + to), U("a", at + to), U("b", at + from),
			       U("n", n), U("dtype", type_of(r)));
		else
			LAUNCH(&sink, i, "copy", U("dst", at + to), U("src", at + from), U("n", n),
			       U("dtype", type_of(r)));
	}
	r->begun[unit]++;
}

/* With sequence parallelism a rank has seen only its rows of what lies between the split layers. */
static void
sum_over_rows(struct row_recorder *r, const struct layout_chunk *c, const struct part_unit *u,
	      uint64_t at)
{
	const struct net *net = &c->part->net;
	uint32_t tp = tp_of(r);

	for (uint32_t k = u->node; k < u->node + u->nnodes; k++) {
		const struct net_node *node = &net->node[k];
		uint64_t n = node->nweight + node->nbias;
		uint64_t first = node->nweight ? node->weight : node->bias;

		if (!node->sharded || n == 0)
			continue;
		for (uint32_t d = 0; d < r->l->c.grid.dp; d++) {
			for (uint32_t t = 0; t < tp; t++) {
				r->members[t] = r->first + d * tp + t;
				r->send[t].addr =
				    base_of(r, d * tp + t) + at + (first - u->first) * size_of(r);
				r->recv[t] = r->send[t];
			}
			row_collect(r, "tp", tp, GPUSIM_ALLREDUCE, GPUSIM_SUM, type_of(r), n,
				    STREAM_COMM);
		}
	}
}

/* Reduce a unit's gradient over the data-parallel ranks: within groups that shard; after the last microbatch the rank's
 * part also over its replicas, as MiCS does (arXiv:2205.00119). */
static void
reduce_unit(struct row_recorder *r, const struct layout_chunk *c, uint32_t unit, bool last)
{
	const struct layout_unit *u = &r->row->unit[unit];
	bool shards = layout_shards_grads(r->l), in_parts = layout_shards_state(r->l);
	uint64_t from = !shards	       ? grads_at(r, unit)
			: r->l->c.leaf ? r->row->sums[r->turn]
				       : r->row->fresh[r->turn];
	const struct over_dp x = {.coll = in_parts ? GPUSIM_REDUCESCATTER : GPUSIM_ALLREDUCE,
				  .type = type_of(r),
				  .n = u->n,
				  .send = from,
				  .recv = shards ? r->row->part[r->turn] : from,
				  .recv_part = in_parts && !shards ? size_of(r) : 0};
	uint64_t own = shards ? r->row->grads + u->shard * size_of(r) : from;
	const struct over_dp sum = {.coll = GPUSIM_ALLREDUCE,
				    .type = type_of(r),
				    .n = u->n,
				    .send = own,
				    .recv = own,
				    .send_part = x.recv_part,
				    .recv_part = x.recv_part,
				    .replicas = true};

	row_join(r, STREAM_COMPUTE, STREAM_COMM);
	row_name_unit(r, "reduce", unit);
	sum_over_rows(r, c, &c->part->unit[u->number], from);
	row_over_dp(r, &x, STREAM_COMM);
	if (shards)
		add_part(r, unit);
	if (in_parts && last)
		row_over_dp(r, &sum, STREAM_COMM);
	if (!shards)
		return;
	r->busy[r->turn] = row_mark(r, STREAM_COMM);
	r->turn = !r->turn;
}

void
row_end_unit(struct row_recorder *r, const struct layout_chunk *c, uint32_t unit, bool last)
{
	if (layout_shards_grads(r->l) || last)
		reduce_unit(r, c, unit, last);
}

void
row_begin_unit(struct row_recorder *r)
{
	if (layout_shards_grads(r->l))
		row_await(r, STREAM_COMPUTE, r->busy[r->turn]);
}
