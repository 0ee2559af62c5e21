#include "grid/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

static uint64_t
larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The unit that a stage begins with. */
static uint32_t
first_unit(const struct layout_config *c, uint32_t stage)
{
	uint32_t u = 0;

	for (uint32_t s = 0; s < stage; s++)
		u += c->units[s];
	return u;
}

/* ---- slots */

/* Does an action of a row use what a stage keeps of a microbatch? So does the pass back of the stage before,
 * if it is on the same row: it reads the gradient. */
static bool
uses(const struct pipeline_action *a, uint32_t stage)
{
	return (a->stage == stage && a->kind <= PIPELINE_RECV_B) ||
	       (a->stage + 1 == stage && (a->kind == PIPELINE_B || a->kind == PIPELINE_I));
}

/* Give each microbatch of a stage a slot: from the arrival of its input to the end of its last use. The slot
 * that is free longest is taken. Returns the number of slots. */
static uint32_t
take_slots(const struct pipeline *p, const struct pipeline_row *row, uint32_t stage, uint32_t *slot)
{
	uint32_t *left = must_alloc(p->nmicro, sizeof *left),
		 *queue = must_alloc(p->nmicro, sizeof *queue);
	uint32_t nslots = 0, head = 0, tail = 0;

	for (uint32_t m = 0; m < p->nmicro; m++)
		slot[m] = PIPELINE_NOBODY;
	for (size_t i = 0; i < row->n; i++) {
		const struct pipeline_action *a = &row->v[i];

		if (uses(a, stage))
			left[a->micro]++;
	}
	for (size_t i = 0; i < row->n; i++) {
		const struct pipeline_action *a = &row->v[i];
		uint32_t m = a->micro;

		if (!uses(a, stage))
			continue;
		if (slot[m] == PIPELINE_NOBODY)
			slot[m] = head < tail ? queue[head++] : nslots++;
		if (--left[m] == 0)
			queue[tail++] = slot[m];
	}
	free(left);
	free(queue);
	return nslots;
}

/* ---- a chunk */

static bool
splits(const struct pipeline_row *row, uint32_t stage)
{
	for (size_t i = 0; i < row->n; i++)
		if (row->v[i].stage == stage && row->v[i].kind == PIPELINE_W)
			return true;
	return false;
}

bool
layout_volatile(const struct layout *l, const struct layout_chunk *c, uint32_t node)
{
	const struct net *n = &c->part->net;

	if (l->c.recompute == RECOMPUTE_SELECTIVE)
		return n->node[node].kind == NET_ATTENTION;
	if (l->c.recompute == RECOMPUTE_NONE || node + 1 == n->nnodes ||
	    n->node[node].kind == NET_RECV)
		return false;
	for (uint32_t u = 0; u < c->part->nunits; u++) {
		uint32_t end = c->part->unit[u].node + c->part->unit[u].nnodes;

		/* An exchange at a unit's end may have its output in the place of its input's. */
		if (node + 1 == end || (node + 2 == end && n->node[end - 1].kind >= NET_RECV))
			return false;
	}
	return true;
}

/* Lay one piece out. Returns the bytes in the slot; *work [out]: in the chunk's shared memory. */
static uint64_t
place(const struct layout *l, const struct layout_chunk *c, uint32_t t, uint64_t rows,
      uint64_t kept, uint64_t shared, struct emit_place *out, uint64_t *work)
{
	bool again[NET_MAX_NODES];
	struct emit_areas a = {
	    .kept = kept, .shared = shared, .again = again, .place = t, .rows = rows};
	uint32_t starts[NET_MAX_CUTS];

	for (uint32_t k = 0; k < c->part->net.nnodes; k++)
		again[k] = layout_volatile(l, c, k);
	for (uint32_t u = 0; u < c->part->nunits; u++)
		starts[u] = c->part->unit[u].node;
	a.nunits = c->part->nunits;
	a.unit = starts;
	emit_lay(out, &c->part->net, l->c.dtype, l->piece_rows,
		 c->split ? EMIT_APART : EMIT_BACKWARD, &a);
	*work = a.shared - shared;
	return a.kept - kept;
}

void
layout_place(const struct layout *l, const struct layout_chunk *c, uint32_t slot, uint32_t piece,
	     uint32_t t, uint64_t rows, uint64_t base, struct emit_place *out)
{
	uint64_t at = base + c->slots + slot * c->slot_bytes + piece * c->piece_bytes, work;

	place(l, c, t, rows, at, base + c->work + piece * c->work_bytes, out, &work);
}

/* Elements of a piece's values in a node. */
static uint64_t
boundary(const struct layout *l, const struct net *n, uint32_t k)
{
	return emit_room(n, &n->node[k], l->piece_rows) * net_shape_size(n->node[k].shape);
}

static void
place_chunk(const struct layout *l, struct layout_chunk *c, uint64_t *at)
{
	const struct net *n = &c->part->net;
	struct emit_place *scratch = must_alloc(1, sizeof *scratch);
	uint64_t work, bytes = place(l, c, 0, 0, 256, 256, scratch, &work), slot = 0;

	c->piece_bytes = bytes;
	slot = (uint64_t)l->pieces * c->piece_bytes;
	c->inbox =
	    c->stage + 1 < l->c.schedule->nstages
		? emit_take(&slot, l->pieces * boundary(l, n, n->nnodes - 1) * layout_size(l))
		: 0;
	c->outbox = c->stage ? emit_take(&slot, l->pieces * boundary(l, n, 0) * layout_size(l)) : 0;
	c->slot_bytes = slot;
	c->slots = emit_take(at, c->nslots * c->slot_bytes);
	c->work_bytes = emit_take(&work, 0);
	c->work = emit_take(at, l->pieces * c->work_bytes);
	free(scratch);
}

/* ---- a row */

static enum rc
find_chunks(struct layout *l, uint32_t p, struct layout_row *row, struct err *err)
{
	const struct pipeline *s = l->c.schedule;
	enum rc rc = RC_OK;

	row->chunk = must_alloc(s->nstages, sizeof *row->chunk);
	row->unit = must_alloc(l->whole->ncuts, sizeof *row->unit);
	for (uint32_t stage = 0; stage < s->nstages && rc == RC_OK; stage++) {
		struct layout_chunk *c = &row->chunk[row->nchunks];

		if (s->rank_of[stage] != p)
			continue;
		*c = (struct layout_chunk){
		    .stage = stage, .unit0 = row->nunits, .nunits = l->c.units[stage]};
		rc = part_build(l->whole, first_unit(&l->c, stage), c->nunits, l->c.grid.tp,
				l->c.sequence, &c->part, err);
		if (rc != RC_OK)
			break;
		row->nchunks++;
		c->split = splits(&s->row[p], stage);
		c->nslots = take_slots(s, &s->row[p], stage, l->slot + (size_t)stage * s->nmicro);
		c->first = row->n;
		for (uint32_t u = 0; u < c->nunits; u++) {
			const struct part_unit *unit = &c->part->unit[u];
			struct layout_unit *to = &row->unit[row->nunits++];

			*to =
			    (struct layout_unit){.chunk = row->nchunks - 1,
						 .number = u,
						 .first = row->n + unit->first,
						 .n = unit->n,
						 .shard = row->nshard,
						 .each = (unit->n + l->c.shards - 1) / l->c.shards};
			row->nshard += to->each;
			row->largest = larger(row->largest, unit->n);
		}
		row->n += c->part->net.nparams;
	}
	return rc;
}

/* Parameters, optimizer state, gradients. */
static void
place_values(const struct layout *l, struct layout_row *row, uint64_t *at)
{
	uint64_t whole = row->n, shard = row->nshard, unit = sizeof(uint64_t);
	uint64_t each = layout_size(l), size = l->c.leaf ? sizeof(int64_t) : each;
	uint64_t state = (layout_shards_state(l) ? shard : whole) * sizeof(float);
	bool fresh = l->c.leaf || l->c.schedule->nmicro > 1 || layout_shards_grads(l);

	row->params = emit_take(at, (layout_shards_params(l) ? shard : whole) * each);
	row->master = l->c.dtype == GPUSIM_F32 ? row->params : emit_take(at, state);
	for (unsigned i = 0; i < l->c.nstate; i++)
		row->state[i] = emit_take(at, state);
	row->counts = emit_take(at, row->nunits * unit);
	row->grads = emit_take(at, (layout_shards_grads(l) ? shard : whole) * size);
	for (unsigned i = 0; i < 2; i++) {
		/* With leaves the sums become f32 here. */
		row->fresh[i] =
		    fresh ? emit_take(at, row->largest * (l->c.leaf ? sizeof(float) : each)) : 0;
		if (layout_shards_grads(l)) {
			row->sums[i] = l->c.leaf ? emit_take(at, row->largest * size) : 0;
			row->part[i] = emit_take(at, (row->largest / l->c.shards + 1) * size);
		}
		if (layout_shards_params(l) && !l->c.keep)
			row->gathered[i] = emit_take(at, row->largest * each);
	}
	if (layout_shards_params(l) && l->c.keep)
		row->gathered[0] = emit_take(at, whole * each);
	if (l->c.normed) {
		row->norm = emit_take(at, LAYOUT_NORM * sizeof(int64_t));
		row->gate = emit_take(at, 2 * sizeof(float));
		row->scaler = emit_take(at, LAYOUT_SCALER);
	}
	row->losses = emit_take(at, (uint64_t)l->c.schedule->nmicro * l->pieces * sizeof(float));
	row->loss_sum = emit_take(at, sizeof(int64_t));
	row->scratch = emit_take(at, 4 * l->piece_rows * sizeof(float));
}

uint64_t
layout_part(const struct layout *l, uint64_t all, uint32_t d, uint64_t *n)
{
	uint64_t s = l->c.shards, k = d % s, begin = all * k / s;

	*n = all * (k + 1) / s - begin;
	return begin;
}

enum rc
layout_new(const struct net *net, const struct layout_config *config, struct layout **out,
	   struct err *err)
{
	struct layout *l = must_alloc(1, sizeof *l);
	const struct pipeline *s = config->schedule;
	enum rc rc = RC_OK;

	*l = (struct layout){.c = *config, .whole = net};
	l->c.dtype = config->dtype ? config->dtype : GPUSIM_F32;
	l->c.shards = config->shards ? config->shards : config->grid.dp;
	l->piece_rows = config->leaf && config->leaf < config->rows ? config->leaf : config->rows;
	l->pieces = (uint32_t)((config->rows + l->piece_rows - 1) / l->piece_rows);
	l->row = must_alloc(s->nranks, sizeof *l->row);
	l->slot = must_alloc((size_t)s->nstages * s->nmicro, sizeof *l->slot);
	for (uint32_t p = 0; p < s->nranks && rc == RC_OK; p++) {
		struct layout_row *row = &l->row[p];
		uint64_t at = 0;

		rc = find_chunks(l, p, row, err);
		if (rc != RC_OK)
			break;
		place_values(l, row, &at);
		for (uint32_t i = 0; i < row->nchunks; i++)
			place_chunk(l, &row->chunk[i], &at);
		row->bytes = at;
		l->bytes = larger(l->bytes, at);
	}
	if (rc == RC_OK)
		*out = l;
	else
		layout_free(l);
	return rc;
}

void
layout_free(struct layout *l)
{
	if (!l)
		return;
	for (uint32_t p = 0; l->row && p < l->c.schedule->nranks; p++) {
		for (uint32_t i = 0; i < l->row[p].nchunks; i++)
			free(l->row[p].chunk[i].part);
		free(l->row[p].chunk);
		free(l->row[p].unit);
	}
	free(l->row);
	free(l->slot);
	free(l);
}

/* ---- balance */

/* Can units be cut into at most n stages that cost at most `most` each? units may be NULL. */
static bool
fits(const double *cost, uint32_t nunits, uint32_t n, double most, uint32_t *units)
{
	uint32_t at = 0;

	for (uint32_t s = 0; s < n; s++) {
		double sum = 0;
		uint32_t count = 0;

		/* Each later stage needs a unit. */
		while (at < nunits && nunits - at > n - 1 - s &&
		       (count == 0 || sum + cost[at] <= most * (1 + 1e-12))) {
			sum += cost[at++];
			count++;
		}
		if (sum > most * (1 + 1e-12) || count == 0)
			return false;
		if (units)
			units[s] = count;
	}
	return at == nunits;
}

void
layout_balance(const struct net *net, uint32_t n, uint32_t *units)
{
	double cost[NET_MAX_CUTS], best = 0;

	for (uint32_t u = 0; u < net->ncuts; u++)
		cost[u] = part_flops(net, u, 1);
	for (uint32_t u = 0; u < net->ncuts; u++)
		best += cost[u];
	/* The costliest stage of the best cut is some run of units. */
	for (uint32_t a = 0; a < net->ncuts; a++) {
		double sum = 0;

		for (uint32_t b = a; b < net->ncuts; b++) {
			sum += cost[b];
			if (sum < best && fits(cost, net->ncuts, n, sum, NULL))
				best = sum;
		}
	}
	fits(cost, net->ncuts, n, best, units);
}
