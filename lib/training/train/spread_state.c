/* Moves the state of a spread training between the host's image of the whole net and the devices. */
#include "train/spread.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "train/trainer_impl.h"

/* One vector of the values that training changes. */
struct vector {
	uint64_t at; /* offset in a rank's memory */
	bool sharded;
	float *whole; /* of the whole net, on the host */
};

/* A rank's parts of a vector, one after another; and back. */
static void
cut_parts(const struct layout *l, const struct layout_row *row, uint32_t d, float *values,
	  float *parts, bool back)
{
	for (uint32_t u = 0; u < row->nunits; u++) {
		const struct layout_unit *unit = &row->unit[u];
		uint64_t n, first = unit->first + layout_part(l, unit->n, d, &n);

		if (back)
			memcpy(values + first, parts + unit->shard, n * sizeof *values);
		else
			memcpy(parts + unit->shard, values + first, n * sizeof *values);
	}
}

/* What one call moves. */
struct move {
	struct trainer *t;
	const struct layout_row *row;
	uint32_t p, k;	       /* pipeline and tensor place */
	float *values, *parts; /* room for the rank's vector, and for a rank's parts of it */
};

static enum rc
load_vector(const struct move *m, const struct vector *v, struct err *err)
{
	const struct layout *l = m->t->spread->layout;
	enum rc rc = RC_OK;

	for (uint32_t i = 0; i < m->row->nchunks; i++)
		part_take(m->row->chunk[i].part, m->k, v->whole,
			  m->values + m->row->chunk[i].first);
	for (uint32_t d = 0; d < l->c.grid.dp && rc == RC_OK; d++) {
		const struct replica *r = &m->t->replica[grid_rank(&l->c.grid, d, m->k, m->p)];

		if (v->sharded)
			cut_parts(l, m->row, d, m->values, m->parts, false);
		rc = device_write(
		    m->t->g, r->device, r->spread + v->at, v->sharded ? m->parts : m->values,
		    (v->sharded ? m->row->nshard : m->row->n) * sizeof *m->values, err);
	}
	return rc;
}

static enum rc
fetch_vector(const struct move *m, const struct vector *v, struct err *err)
{
	const struct layout *l = m->t->spread->layout;
	enum rc rc = RC_OK;

	for (uint32_t d = 0; d < (v->sharded ? l->c.shards : 1) && rc == RC_OK; d++) {
		const struct replica *r = &m->t->replica[grid_rank(&l->c.grid, d, m->k, m->p)];

		rc = device_read(
		    m->t->g, v->sharded ? m->parts : m->values, r->device, r->spread + v->at,
		    (v->sharded ? m->row->nshard : m->row->n) * sizeof *m->values, err);
		if (rc == RC_OK && v->sharded)
			cut_parts(l, m->row, d, m->values, m->parts, true);
	}
	for (uint32_t i = 0; i < m->row->nchunks && rc == RC_OK; i++)
		part_give(m->row->chunk[i].part, m->k, m->values + m->row->chunk[i].first,
			  v->whole);
	return rc;
}

/* What is the same everywhere: the steps that the optimizer has counted, by unit; the loss's scale, if it has one. */
static enum rc
move_counts(const struct move *m, uint64_t *steps, uint8_t *scaler, bool load, struct err *err)
{
	const struct grid *g = &m->t->spread->grid;
	uint64_t counts[NET_MAX_CUTS];
	enum rc rc = RC_OK;

	for (uint32_t u = 0; u < m->row->nunits; u++)
		counts[u] = *steps;
	for (uint32_t d = 0; d < g->dp && rc == RC_OK; d++) {
		const struct replica *r = &m->t->replica[grid_rank(g, d, m->k, m->p)];
		uint64_t at = r->spread + m->row->counts;

		rc = load ? device_write(m->t->g, r->device, at, counts,
					 m->row->nunits * sizeof *counts, err)
			  : device_read(m->t->g, steps, r->device, at, sizeof *steps, err);
		at = r->spread + m->row->scaler;
		if (rc == RC_OK && scaler)
			rc = load ? device_write(m->t->g, r->device, at, scaler, LAYOUT_SCALER, err)
				  : device_read(m->t->g, scaler, r->device, at, LAYOUT_SCALER, err);
	}
	return rc;
}

/* All vectors of all ranks. */
static enum rc
move_state(struct trainer *t, uint8_t *image, bool load, struct err *err)
{
	const struct layout *l = t->spread->layout;
	struct replica at = {0};
	uint64_t end = 0;
	enum rc rc = RC_OK;

	replica_live(&at, t->task, &end);

	for (uint32_t p = 0; p < l->c.grid.pp && rc == RC_OK; p++) {
		const struct layout_row *row = &l->row[p];
		const struct vector v[] = {
		    {row->master, layout_shards_master(l), (float *)(void *)image},
		    {row->state[0], layout_shards_state(l), (float *)(void *)(image + at.state[0])},
		    {row->state[1], layout_shards_state(l),
		     (float *)(void *)(image + at.state[1])}};
		struct move m = {t,
				 row,
				 p,
				 0,
				 must_alloc(row->n, sizeof(float)),
				 must_alloc(row->nshard, sizeof(float))};

		for (m.k = 0; m.k < l->c.grid.tp && rc == RC_OK; m.k++) {
			for (unsigned i = 0; i < 1 + l->c.nstate && rc == RC_OK; i++)
				rc = (load ? load_vector : fetch_vector)(&m, &v[i], err);
			if (rc == RC_OK)
				rc = move_counts(&m, (uint64_t *)(void *)(image + at.adam_step),
						 at.scaler ? image + at.scaler : NULL, load, err);
		}
		free(m.values);
		free(m.parts);
	}
	return rc;
}

enum rc
spread_load(struct trainer *t, uint8_t *image, struct err *err)
{
	struct gpusim_ops *o;
	enum rc rc = move_state(t, image, true, err);

	if (rc != RC_OK || !t->o->precision)
		return rc;
	o = spread_narrow(t);
	rc = api(gpusim_submit(t->comm, o, GPUSIM_SYNC, NULL), err);
	gpusim_ops_free(o);
	return rc;
}

enum rc
spread_fetch(struct trainer *t, uint8_t *image, struct err *err)
{
	return move_state(t, image, false, err);
}
