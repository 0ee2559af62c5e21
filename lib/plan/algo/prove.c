/*
 * prove.c - prove that the graph has no cycle, its order has no race, and the steps in that order compute
 * the collective's result.
 */
#include "algo/algo.h"

#include <stdio.h>
#include <stdlib.h>

#include "algo/cells.h"
#include "algo/graph.h"
#include "algo/value.h"
#include "base/buf.h"

struct prover {
	const struct algo *a;
	struct graph g;
	struct values values;
	value *cell; /* of all ranks */
	value *flight;
	uint32_t per; /* chunks of the vector that belong to a rank */
};

/* ---- limits */

/* The proof's memory: cells, and chunks in all messages together. */
static enum rc
check_size(const struct algo *a, struct err *err)
{
	uint64_t cells = 0, moved = 0;

	for (uint32_t r = 0; r < a->nranks; r++) {
		const struct algo_rank *rank = &a->rank[r];

		cells += cells_of_rank(a, r);
		for (size_t b = 0; b < rank->nblock; b++)
			for (size_t i = 0; i < rank->block[b].nstep; i++)
				moved += rank->block[b].step[i].count;
	}
	if (cells > PROVE_MAX_CELLS)
		return err_set(err, RC_INVAL,
			       "too large to prove: the ranks' buffers have %llu chunks; at "
			       "most %u are allowed",
			       (unsigned long long)cells, PROVE_MAX_CELLS);
	if (moved > PROVE_MAX_MOVED)
		return err_set(
		    err, RC_INVAL,
		    "too large to prove: the steps move %llu chunks; at most %u are allowed",
		    (unsigned long long)moved, PROVE_MAX_MOVED);
	return RC_OK;
}

/* A step with overlapping source and destination at different places races with itself. */
static enum rc
check_overlap(const struct graph *g, struct err *err)
{
	for (uint32_t n = 0; n < g->nnode; n++) {
		const struct algo_step *s = graph_step(g, n);
		uint32_t rank = graph_rank(g, n);
		struct cells r = step_reads(g->algo, rank, s), w = step_writes(g->algo, rank, s);

		if (!r.count || !w.count || r.at == w.at || r.at >= w.at + w.count ||
		    w.at >= r.at + r.count)
			continue;
		return err_set(err, RC_BADDATA,
			       "race: %s reads and writes %s at different places of one range%s",
			       graph_name(g, n).text,
			       cell_name(g->algo, rank, s, r.at > w.at ? r.at : w.at).text,
			       graph_line(g, n).text);
	}
	return RC_OK;
}

/* ---- deadlock */

static enum rc
find_slots(struct graph *g, uint32_t *slots, struct err *err)
{
	const uint64_t work = 5ull * g->nnode; /* of a sort */
	enum rc rc = algo_spend(g->algo->budget, 2 * work, err);

	if (!rc)
		rc = graph_sort(g, 0, err);
	*slots = 0;
	while (!rc && g->nmessage) {
		++*slots;
		rc = algo_spend(g->algo->budget, work, err);
		if (rc)
			break;
		rc = graph_sort(g, *slots, *slots == ALGO_SLOTS ? err : NULL);
		if (rc != RC_BADDATA || *slots == ALGO_SLOTS)
			break;
		rc = RC_OK;
	}
	return rc;
}

/* ---- values */

static void
put(struct prover *p, uint32_t rank, unsigned buf, uint32_t at, value x)
{
	p->cell[p->g.first_cell[rank] + cell_of(p->a, rank, buf, at)] = x;
}

/* A rank's initial values. Of custom algorithms it is only known that they exist. */
static void
fill_inputs(struct prover *p, uint32_t rank)
{
	const struct algo *a = p->a;
	bool gathers = !a->custom && a->coll == GPUSIM_ALLGATHER;
	uint32_t n = a->custom ? cells_data(a, rank) : gathers ? p->per : a->nchunks;

	if (!a->custom && a->coll == GPUSIM_BROADCAST && rank != a->root)
		return;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t chunk = gathers ? rank * p->per + i : i;

		if (a->custom)
			p->cell[p->g.first_cell[rank] + i] = value_one(0, 0);
		else
			put(p, rank, ALGO_IN, gathers && a->in_place ? chunk : i,
			    value_one(rank, chunk));
	}
}

static enum rc
check_written(const struct prover *p, uint32_t node, struct cells range, struct err *err)
{
	uint32_t rank = graph_rank(&p->g, node);
	const struct algo_step *s = graph_step(&p->g, node);
	const value *cell = p->cell + p->g.first_cell[rank];

	for (uint32_t i = 0; i < range.count; i++)
		if (cell[range.at + i] == VALUE_NONE)
			return err_set(err, RC_BADDATA, "%s reads %s before it is written%s",
				       graph_name(&p->g, node).text,
				       cell_name(p->a, rank, s, range.at + i).text,
				       graph_line(&p->g, node).text);
	return RC_OK;
}

static value
add(struct prover *p, value x, value y)
{
	return p->a->custom ? x : value_sum(&p->values, x, y);
}

/* One chunk of a step: the received chunk or dst, combined with src, goes to dst and out. */
static void
do_chunk(struct prover *p, const struct algo_step *s, value *src, value *dst, value *in, value *out)
{
	value x = VALUE_NONE, sum;

	if (in) {
		x = *in;
		*in = VALUE_NONE;
	} else if (s->kind == ALGO_REDUCE) {
		x = value_keep(&p->values, *dst);
	}
	if (algo_kind_reads(s->kind) && x == VALUE_NONE) {
		x = value_keep(&p->values, *src);
	} else if (algo_kind_reads(s->kind)) {
		sum = add(p, x, *src);
		value_drop(&p->values, x);
		x = sum;
	}
	if (algo_kind_writes(s->kind)) {
		value_drop(&p->values, *dst);
		*dst = value_keep(&p->values, x);
	}
	if (out)
		*out = value_keep(&p->values, x);
	value_drop(&p->values, x);
}

static enum rc
do_step(struct prover *p, uint32_t node, struct err *err)
{
	const struct algo_step *s = graph_step(&p->g, node);
	uint32_t rank = graph_rank(&p->g, node);
	struct cells r = step_reads(p->a, rank, s), w = step_writes(p->a, rank, s);
	value *cell = p->cell + p->g.first_cell[rank], *in = NULL, *out = NULL;
	enum rc rc = algo_spend(p->a->budget, 20 + s->count * (4 + p->a->nranks / 16), err);

	if (!rc)
		rc = check_written(p, node, r, err);
	if (!rc && s->kind == ALGO_REDUCE)
		rc = check_written(p, node, w, err);
	if (algo_kind_recvs(s->kind))
		in = p->flight + p->g.sent_at[p->g.from[node]];
	if (algo_kind_sends(s->kind))
		out = p->flight + p->g.sent_at[node];
	for (uint32_t i = 0; !rc && i < s->count; i++)
		do_chunk(p, s, cell + r.at + i, cell + w.at + i, in ? in + i : NULL,
			 out ? out + i : NULL);
	return rc;
}

/* ---- the collective's result */

/* The chunk of all ranks (rank == ALGO_NONE), or of one. */
struct wanted {
	uint32_t rank, chunk;
};

static enum rc
tell_wrong(const struct values *v, value x, struct wanted want, const char *where, struct err *err)
{
	struct value_what has = value_what(v, x);
	bool whole = want.rank == ALGO_NONE;

	if (x == VALUE_NONE)
		return err_set(err, RC_BADDATA, "%s of the output is never written", where);
	if (has.state == VALUE_TWICE && has.chunk == want.chunk)
		return err_set(err, RC_BADDATA, "%s ends with the contribution of rank %u twice",
			       where, has.rank);
	if (has.state != VALUE_GOOD) {
		bool first = has.chunk != want.chunk;

		return err_set(err, RC_BADDATA,
			       "%s ends with chunk %u of rank %u, which does not belong there",
			       where, first ? has.chunk : has.other_chunk,
			       first ? has.rank : has.other_rank);
	}
	if (has.chunk != want.chunk ||
	    (!whole && has.rank != want.rank && value_has_beside(v, x, has.rank) == v->nranks))
		return err_set(err, RC_BADDATA, "%s ends with chunk %u of rank %u instead of %s%u",
			       where, has.chunk, has.rank, whole ? "chunk " : "that of rank ",
			       whole ? want.chunk : want.rank);
	if (whole)
		return err_set(err, RC_BADDATA, "%s ends without the contribution of rank %u",
			       where, value_lacks(v, x));
	return err_set(err, RC_BADDATA,
		       "%s ends with the contribution of rank %u, which does not belong there",
		       where, value_has_beside(v, x, want.rank));
}

static enum rc
check_output(const struct prover *p, uint32_t rank, uint32_t at, struct wanted want,
	     struct err *err)
{
	const struct algo *a = p->a;
	value x = p->cell[p->g.first_cell[rank] + cell_of(a, rank, ALGO_OUT, at)];
	struct value_what has = value_what(&p->values, x);
	bool good = x != VALUE_NONE && has.state == VALUE_GOOD && has.chunk == want.chunk;
	char where[64];

	if (good && want.rank == ALGO_NONE && value_lacks(&p->values, x) == a->nranks)
		return RC_OK;
	if (good && has.rank == want.rank &&
	    value_has_beside(&p->values, x, want.rank) == a->nranks)
		return RC_OK;
	snprintf(where, sizeof where, "rank %u chunk %u", rank,
		 a->coll == GPUSIM_REDUCESCATTER ? want.chunk : at);
	return tell_wrong(&p->values, x, want, where, err);
}

/* The expected value at place i of a rank's output. */
static struct wanted
wanted_at(const struct prover *p, uint32_t rank, uint32_t i)
{
	switch (p->a->coll) {
	case GPUSIM_BROADCAST:
		return (struct wanted){p->a->root, i};
	case GPUSIM_ALLGATHER:
		return (struct wanted){i / p->per, i};
	case GPUSIM_ALLTOALL:
		return (struct wanted){i / p->per, rank * p->per + i % p->per};
	default:
		return (struct wanted){ALGO_NONE, i};
	}
}

static enum rc
check_outputs(const struct prover *p, uint32_t rank, struct err *err)
{
	const struct algo *a = p->a;
	bool scatters = a->coll == GPUSIM_REDUCESCATTER;
	uint32_t first = scatters ? rank * p->per : 0;
	uint32_t end = scatters ? first + p->per : a->nchunks;
	enum rc rc = algo_spend(a->budget, (end - first) * (2ull + a->nranks / 16), err);

	if (a->coll == GPUSIM_REDUCE && rank != a->root)
		return rc;
	for (uint32_t i = first; !rc && i < end; i++)
		rc = check_output(p, rank, scatters && !a->in_place ? i - first : i,
				  wanted_at(p, rank, i), err);
	return rc;
}

/* ---- all together */

static enum rc
alloc_values(struct prover *p, struct err *err)
{
	const struct algo *a = p->a;

	values_init(&p->values, a->nranks);
	p->per = a->nchunks / a->nranks;
	p->cell = alloc_zeroed(p->g.ncell + 1ul, sizeof *p->cell);
	p->flight = alloc_zeroed(p->g.nsent + 1ul, sizeof *p->flight);
	if (!p->cell || !p->flight)
		return err_set(err, RC_NOMEM, "out of memory");
	return RC_OK;
}

static enum rc
prove_values(struct prover *p, struct err *err)
{
	enum rc rc = alloc_values(p, err);

	for (uint32_t r = 0; !rc && r < p->a->nranks; r++)
		fill_inputs(p, r);
	for (uint32_t i = 0; !rc && i < p->g.nnode && !p->values.full; i++)
		rc = do_step(p, p->g.order[i], err);
	if (!rc && p->values.full)
		return err_set(err, RC_INVAL,
			       "too large to prove: the partial sums need too much memory");
	for (uint32_t r = 0; !rc && !p->a->custom && r < p->a->nranks; r++)
		rc = check_outputs(p, r, err);
	return rc;
}

enum rc
algo_prove(const struct algo *a, struct proof *out, struct err *err)
{
	struct prover p = {.a = a};
	struct proof proof = {0};
	enum rc rc = algo_check_shape(a, err);

	if (!rc)
		rc = check_size(a, err);
	if (!rc)
		rc = graph_init(&p.g, a, err);
	if (!rc)
		rc = check_overlap(&p.g, err);
	if (!rc)
		rc = find_slots(&p.g, &proof.min_slots, err);
	if (!rc)
		rc = graph_sort(&p.g, 0, err);
	if (!rc)
		rc = race_find(&p.g, err);
	if (!rc)
		rc = prove_values(&p, err);
	if (!rc) {
		proof.nsteps = p.g.nnode;
		proof.nmessages = p.g.nmessage;
		*out = proof;
	}
	graph_fini(&p.g);
	values_fini(&p.values);
	free(p.cell);
	free(p.flight);
	return rc;
}
