/* Plans a spread training. */
#include "train/spread.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "train/order.h"

bool
spread_wanted(const struct train_config *c)
{
	return c->parallel.tp > 1 || c->parallel.pp > 1 || c->micro > 1 || c->zero ||
	       c->recompute || c->pipeline || c->nstages || c->precision || c->clip > 0 ||
	       (c->account && c->compress.kind == COMPRESS_NONE);
}

/* ---- the plan */

static enum rc
refuse(struct err *err, const char *option)
{
	err->rc = RC_INVAL;
	return err_prefix(err, "--%s", option);
}

/* The grid of n ranks; a communicator that shrank may leave some idle. */
static enum rc
choose_grid(const struct task *task, uint32_t n, struct grid *g, struct err *err)
{
	const struct train_config *c = task->config;
	char text[GRID_TEXT];

	*g = c->parallel;
	g->tp = g->tp ? g->tp : 1;
	g->pp = g->pp ? g->pp : 1;
	if (n < g->tp * g->pp) {
		g->dp = 1;
		return err_set(err, RC_FAILED,
			       "--parallel %s needs %" PRIu32 " devices; there are %" PRIu32,
			       grid_print(g, text), grid_size(g), n);
	}
	g->dp = n / (g->tp * g->pp);
	return RC_OK;
}

/* Ranks of a group that shards: as said, or, where that does not divide dp since devices were lost or joined, the next
 * larger divisor, with which no device has to hold more than before. */
static uint32_t
choose_shards(const struct train_config *c, uint32_t dp)
{
	uint32_t s = c->shard_size && c->shard_size < dp ? c->shard_size : dp;

	while (dp % s)
		s++;
	return s;
}

/* The schedule of a step. */
static enum rc
choose_schedule(const struct task *task, struct spread *s, struct err *err)
{
	const struct train_config *c = task->config;
	uint32_t pp = s->grid.pp, m = c->micro ? c->micro : pp > 1 ? 2 * pp : 1;
	struct pipeline_facts *facts = must_alloc(1, sizeof *facts);
	enum rc rc = RC_OK;

	s->schedule = task->schedule;
	if (!s->schedule) {
		rc = pipeline_named(c->pipeline ? c->pipeline
				    : pp > 1	? "1f1b"
						: "gpipe",
				    pp, m, &s->made, err);
		if (rc == RC_OK)
			rc = pipeline_check(s->made, facts, err);
		s->schedule = s->made;
	} else if (s->schedule->nranks != pp) {
		rc = err_set(err, RC_INVAL,
			     "it has %" PRIu32 " rows, and --parallel says pp=%" PRIu32,
			     s->schedule->nranks, pp);
	} else if (c->micro && s->schedule->nmicro != c->micro) {
		rc = err_set(err, RC_INVAL,
			     "it has %" PRIu32 " microbatches, and --micro says %" PRIu32,
			     s->schedule->nmicro, c->micro);
	}
	free(facts);
	return rc == RC_OK ? rc : refuse(err, "schedule");
}

/* Units of each stage: as said, or of about the same cost. */
static enum rc
choose_stages(const struct task *task, const struct pipeline *s, uint32_t *units, struct err *err)
{
	const struct train_config *c = task->config;
	uint32_t sum = 0;

	if (s->nstages > task->net.ncuts)
		return err_set(err, RC_INVAL,
			       "--parallel: %s can be cut into at most %" PRIu32
			       " stages, not %" PRIu32,
			       task->net.text, task->net.ncuts, s->nstages);
	if (c->nstages == 0) {
		layout_balance(&task->net, s->nstages, units);
		return RC_OK;
	}
	for (uint32_t i = 0; i < c->nstages; i++)
		sum += c->stages[i];
	if (c->nstages != s->nstages || sum != task->net.ncuts)
		return err_set(err, RC_INVAL,
			       "--stages: needs %" PRIu32 " numbers whose sum is %" PRIu32
			       ", the units of %s",
			       s->nstages, task->net.ncuts, task->net.text);
	memcpy(units, c->stages, c->nstages * sizeof *units);
	return RC_OK;
}

/* A test batch passes the stages forward, one after another. */
static struct pipeline *
forward_only(const struct pipeline *s)
{
	struct pipeline *f = must_alloc(1, sizeof *f);

	*f = (struct pipeline){
	    .nranks = s->nranks, .nstages = s->nstages, .nmicro = 1, .sends = true};
	f->row = must_alloc(f->nranks, sizeof *f->row);
	f->rank_of = must_alloc(f->nstages, sizeof *f->rank_of);
	memcpy(f->rank_of, s->rank_of, f->nstages * sizeof *f->rank_of);
	for (uint32_t p = 0; p < f->nranks; p++)
		f->row[p].v = must_alloc(3ull * f->nstages, sizeof *f->row[p].v);
	for (uint32_t stage = 0; stage < f->nstages; stage++) {
		struct pipeline_row *row = &f->row[f->rank_of[stage]];

		if (stage && f->rank_of[stage - 1] != f->rank_of[stage])
			row->v[row->n++] =
			    (struct pipeline_action){.kind = PIPELINE_RECV_F, .stage = stage};
		row->v[row->n++] = (struct pipeline_action){.kind = PIPELINE_F, .stage = stage};
		if (stage + 1 < f->nstages && f->rank_of[stage + 1] != f->rank_of[stage])
			row->v[row->n++] =
			    (struct pipeline_action){.kind = PIPELINE_SEND_F, .stage = stage};
	}
	return f;
}

/* The most rows of a microbatch on a rank. */
static uint64_t
most_rows(const struct task *task, uint64_t global, uint32_t dp, uint32_t nmicro)
{
	uint64_t begin, end, rows, whole = task_leaf(task);

	order_share(global, (uint32_t)whole, 0, dp, &begin, &end);
	rows = end - begin;
	for (uint32_t d = 1; d < dp; d++) {
		order_share(global, (uint32_t)whole, d, dp, &begin, &end);
		rows = end - begin > rows ? end - begin : rows;
	}
	rows = (rows + whole - 1) / whole;
	return (rows + nmicro - 1) / nmicro * whole;
}

enum rc
spread_new(const struct task *task, uint32_t n, uint64_t global, struct spread **out,
	   struct err *err)
{
	const struct train_config *c = task->config;
	struct spread *s = must_alloc(1, sizeof *s);
	enum rc rc = choose_grid(task, n, &s->grid, err);
	struct layout_config l = {.grid = s->grid,
				  .sequence = c->sequence,
				  .zero = c->zero,
				  .shards = choose_shards(c, s->grid.dp),
				  .keep = c->no_reshard,
				  .recompute = c->recompute,
				  .dtype = c->precision,
				  .normed = c->clip > 0 || config_scales(c),
				  .leaf = c->deterministic ? c->leaf : 0,
				  .nstate = optimizer_adapts(c->optimizer) ? 2 : 1};

	if (rc == RC_OK && task->net.nstats)
		rc = err_set(err, RC_INVAL,
			     "--parallel, --zero, --micro, --precision, --clip: not for a model "
			     "with batch norm");
	if (rc == RC_OK && c->deterministic && c->precision == GPUSIM_F16)
		rc = err_set(err, RC_INVAL,
			     "--precision: f16 cannot be used with --deterministic, whose sums are "
			     "exact and do not overflow; bf16 can");
	if (rc == RC_OK)
		rc = choose_schedule(task, s, err);
	if (rc == RC_OK) {
		s->units = must_alloc(s->schedule->nstages, sizeof *s->units);
		rc = choose_stages(task, s->schedule, s->units, err);
	}
	if (rc == RC_OK) {
		char choices[PART_TEXT];

		s->forward = forward_only(s->schedule);
		l.rows = most_rows(task, global, s->grid.dp, s->schedule->nmicro);
		l.schedule = s->schedule;
		l.units = s->units;
		rc = layout_new(&task->net, &l, &s->layout, err);
		if (rc == RC_INVAL) {
			const struct err why = *err;

			rc =
			    err_set(err, RC_INVAL, "--parallel: %s; %s can have tp %s", why.text,
				    task->net.text, part_choices(&task->net, c->sequence, choices));
		}
	}
	for (uint32_t p = 0; rc == RC_OK && c->recompute && p < s->grid.pp; p++)
		for (uint32_t i = 0; i < s->layout->row[p].nchunks; i++)
			if (s->layout->row[p].chunk[i].split)
				rc = err_set(err, RC_INVAL,
					     "--recompute: needs a schedule whose backward is "
					     "whole, as 1f1b");
	if (rc == RC_OK)
		*out = s;
	else
		spread_free(s);
	return rc;
}

enum rc
spread_check(const struct task *task, uint32_t n, uint64_t global, struct err *err)
{
	uint32_t size = task->config->shard_size, divisor[GRID_MAX], ndivisors = 0, dp;
	struct spread *s;
	char text[PART_TEXT];
	enum rc rc = spread_new(task, n, global, &s, err);

	if (rc != RC_OK)
		return rc;
	dp = s->grid.dp;
	spread_free(s);
	if (size == 0 || dp % size == 0)
		return RC_OK;
	for (uint32_t i = 1; i <= dp; i++)
		if (dp % i == 0)
			divisor[ndivisors++] = i;
	return err_set(err, RC_INVAL,
		       "--shard-size: %" PRIu32 " does not divide dp=%" PRIu32 "; it can be %s",
		       size, dp, part_either(divisor, ndivisors, text));
}

void
spread_free(struct spread *s)
{
	if (!s)
		return;
	layout_free(s->layout);
	pipeline_free(s->made);
	pipeline_free(s->forward);
	free(s->units);
	free(s);
}

uint64_t
spread_test_rows(const struct spread *s)
{
	return s->layout->piece_rows;
}
