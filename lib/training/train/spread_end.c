/* The end of a step: its loss, the norm of the gradient, the optimizer. */
#include "train/spread_impl.h"

#include <stdlib.h>

#include "base/must.h"

/* The step's loss, on the ranks of the last stage: the sum over microbatches; exact sums also over the ranks. */
static void
end_loss(struct row_recorder *r)
{
	uint32_t n = r->s->nmicro * npieces(r);
	const struct over_dp x = {.coll = GPUSIM_ALLREDUCE,
				  .type = GPUSIM_I64,
				  .n = 1,
				  .send = r->row->loss_sum,
				  .recv = r->row->loss_sum};

	if (r->l->c.leaf)
		row_over_dp(r, &x, STREAM_COMPUTE);
	for (uint32_t i = 0; i < r->n; i++) {
		struct batch b = r->batch[i / tp_of(r)];
		struct emit_target to = replica_target(&r->t->replica[r->first + i], &b, 1);

		if (r->l->c.leaf)
			LAUNCH(&r->sink, i, "cast", MOVES("dst", to.loss, to.loss_step),
			       U("src", base_of(r, i) + r->row->loss_sum), U("n", 1),
			       U("from", GPUSIM_I64), U("to", GPUSIM_F32),
			       F("scale", 1 / LEAVES_LOSS_SCALE));
		else
			LAUNCH(&r->sink, i, "bias_grad", MOVES("db", to.loss, to.loss_step),
			       U("dy", base_of(r, i) + r->row->losses), U("rows", n), U("cols", 1));
	}
}

/* A rank's gradient of a unit, of which it has n values from `first` on, in f32 or a half type. */
static uint64_t
gradient_at(struct row_recorder *r, const struct layout_unit *u, uint32_t i, uint64_t first,
	    uint64_t n)
{
	uint64_t base = base_of(r, i);
	uint64_t at = base + r->row->grads +
		      (layout_shards_grads(r->l) ? u->shard : u->first + first) * size_of(r);

	if (!r->l->c.leaf)
		return at;
	LAUNCH(&r->sink, i, "cast", U("dst", base + r->row->fresh[0]), U("src", at), U("n", n),
	       U("from", GPUSIM_I64), U("to", GPUSIM_F32),
	       F("scale", 1 / (LEAVES_SCALE * (double)r->total)));
	return base + r->row->fresh[0];
}

/* Add the squares of a rank's gradient of a unit, each value once in the grid: of its part over the data-parallel
 * ranks, of the first replica alone, and what all tensor-parallel ranks have alike only on the first. */
static void
add_squares(struct row_recorder *r, uint32_t unit, uint32_t i)
{
	const struct layout_unit *u = &r->row->unit[unit];
	const struct part *part = r->row->chunk[u->chunk].part;
	enum gpusim_dtype type = r->l->c.leaf ? GPUSIM_F32 : r->l->c.dtype;
	uint64_t n, first = layout_part(r->l, u->n, i / tp_of(r), &n);
	uint64_t grad = gradient_at(r, u, i, first, n), sum = base_of(r, i) + r->row->norm;

	first += part->unit[u->number].first;
	if (i % tp_of(r) == 0)
		LAUNCH(&r->sink, i, "sum_squares", U("sum", sum), U("x", grad), U("n", n),
		       U("add", 1), U("dtype", type));
	for (uint32_t k = 0; k < part->narrays && i % tp_of(r) > 0; k++) {
		const struct part_array *a = &part->array[k];
		uint64_t begin = a->part, end = a->part + part_array_size(a);

		begin = begin < first ? first : begin;
		end = end < first + n ? end : first + n;
		if (a->split != PART_WHOLE && begin < end)
			LAUNCH(&r->sink, i, "sum_squares", U("sum", sum),
			       U("x", grad + (begin - first) * emit_type_size(type)),
			       U("n", end - begin), U("add", 1), U("dtype", type));
	}
}

/* The squares of all units of the stage's ranks. */
static void
square(struct row_recorder *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		LAUNCH(&r->sink, i, "fill", U("dst", base_of(r, i) + r->row->norm),
		       U("n", LAYOUT_NORM), U("dtype", GPUSIM_I64));
	for (uint32_t u = 0; u < r->row->nunits; u++) {
		row_end_list(r);
		for (uint32_t i = 0; i < r->l->c.shards * tp_of(r); i++)
			add_squares(r, u, i);
	}
}

void
row_decide(struct row_recorder *rows)
{
	const struct train_config *c = rows->t->o;
	uint32_t n = grid_size(&rows->l->c.grid), all = gpusim_comm_count(rows->t->comm);
	struct gpusim_addr *at = must_alloc(n, sizeof *at);
	uint32_t *members = must_alloc(n, sizeof *members);
	const struct gpusim_collective x = {GPUSIM_COLLECTIVE_INIT,
					    .coll = GPUSIM_ALLREDUCE,
					    .dtype = GPUSIM_I64,
					    .redop = GPUSIM_SUM,
					    .algo = row_algo(rows, "grid", GPUSIM_ALLREDUCE),
					    .nelem = LAYOUT_NORM,
					    .send = at,
					    .recv = at,
					    .stream = STREAM_COMPUTE,
					    .members = n < all ? members : NULL,
					    .nmembers = n < all ? n : 0,
					    .group = n < all ? "grid" : NULL};

	for (uint32_t p = 0; p < rows->s->nranks; p++)
		for (uint32_t i = 0; i < rows[p].n; i++) {
			members[rows[p].first + i] = rows[p].first + i;
			at[rows[p].first + i].addr = base_of(&rows[p], i) + rows[p].row->norm;
			row_count(rows, rows[p].first + i, COLL_BYTES + 2ull * n);
		}
	if (n > 1)
		gpusim_ops_collective(rows->o, &x);
	for (uint32_t p = 0; p < rows->s->nranks; p++)
		for (uint32_t i = 0; i < rows[p].n; i++) {
			uint64_t base = base_of(&rows[p], i);
			uint64_t scale = scales(rows) ? base + rows[p].row->scaler : 0;
			bool fixed = c->loss_scale > 0;

			LAUNCH(&rows[p].sink, i, "grad_scaler", U("gate", base + rows[p].row->gate),
			       U("sum", base + rows[p].row->norm), U("scale", scale),
			       U("counts", scale ? scale + sizeof(float) : 0), F("clip", c->clip),
			       F("growth", fixed ? 1 : 2), F("backoff", fixed ? 1 : 0.5));
		}
	free(at);
	free(members);
}

/* What a rank steps of a unit, its part or all: the first element; *n elements. */
static uint64_t
stepped(const struct row_recorder *r, const struct layout_unit *u, uint32_t i, uint64_t *n)
{
	*n = u->n;
	return layout_shards_state(r->l) ? layout_part(r->l, u->n, i / tp_of(r), n) : 0;
}

/* Where a rank has its parameters of a unit from element `part` on, and their masters. */
static uint64_t
values_at(const struct row_recorder *r, const struct layout_unit *u, uint32_t i, uint64_t part,
	  uint64_t *master)
{
	uint64_t base = base_of(r, i);

	*master = base + r->row->master +
		  (layout_shards_master(r->l) ? u->shard : u->first + part) * sizeof(float);
	return base + r->row->params +
	       (layout_shards_params(r->l) ? u->shard : u->first + part) * each_of(r);
}

/* The optimizer's step of a rank's values of a unit: its part, or all. */
static void
update_unit(struct row_recorder *r, uint32_t unit, uint32_t i)
{
	const struct layout_unit *u = &r->row->unit[unit];
	const struct batch *b = &r->batch[i / tp_of(r)];
	struct emit_optimizer o = replica_optimizer(&r->t->replica[r->first + i], &r->t->shape, b);
	uint64_t base = base_of(r, i), n, part = stepped(r, u, i, &n), master, grad, state;

	values_at(r, u, i, part, &master);
	grad = gradient_at(r, u, i, part, n);
	state = layout_shards_state(r->l) ? u->shard : u->first;
	for (unsigned k = 0; k < 2; k++)
		o.state[k] = r->row->state[k] ? base + r->row->state[k] + state * sizeof(float) : 0;
	o.count = base + r->row->counts + unit * sizeof(uint64_t);
	o.gate = r->row->gate ? base + r->row->gate : 0;
	o.grad_dtype = r->l->c.leaf ? GPUSIM_F32 : r->l->c.dtype;
	emit_optimize(&r->sink, i, master, grad, n, GPUSIM_F32, &o);
}

void
row_spread(struct row_recorder *r, uint32_t unit)
{
	const struct layout_unit *u = &r->row->unit[unit];
	uint64_t at = r->row->params + u->first * each_of(r);
	const struct over_dp x = {.coll = GPUSIM_ALLGATHER,
				  .type = r->l->c.dtype,
				  .n = u->n,
				  .send = at,
				  .recv = at,
				  .send_part = each_of(r)};

	for (uint32_t i = 0; i < r->n && r->l->c.dtype != GPUSIM_F32; i++) {
		uint64_t master, n, part = stepped(r, u, i, &n);
		uint64_t params = values_at(r, u, i, part, &master);

		LAUNCH(&r->sink, i, "cast", U("dst", params), U("src", master), U("n", n),
		       U("from", GPUSIM_F32), U("to", r->l->c.dtype));
	}
	if (!layout_shards_state(r->l) || layout_shards_params(r->l))
		return;
	row_join(r, STREAM_COMPUTE, STREAM_COMM);
	row_name_unit(r, "gather", unit);
	row_over_dp(r, &x, STREAM_COMM);
}

void
row_close(struct row_recorder *r)
{
	row_name_pass(r, NULL);
	row_join(r, STREAM_COMM, STREAM_COMPUTE);
	if (r->p == r->s->rank_of[r->s->nstages - 1])
		end_loss(r);
	if (r->l->c.normed)
		square(r);
}

void
row_step(struct row_recorder *r)
{
	for (uint32_t u = 0; u < r->row->nunits; u++) {
		row_end_list(r);
		for (uint32_t i = 0; i < r->n; i++)
			update_unit(r, u, i);
		row_spread(r, u);
	}
}
