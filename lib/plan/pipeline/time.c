/*
 * time.c - a schedule in time: when each action runs, and how long ranks are idle.
 */
#include <stdlib.h>

#include "pipeline/pipeline_impl.h"

struct clocks {
	const struct pipeline *p;
	const struct pipeline_costs *costs;
	struct pipeline_times *out;
	double *made[2]; /* by stage and microbatch: when F, and I or B, ends; negative: not yet */
	double *now;	 /* by rank */
};

static double
cost_of(const struct pipeline_costs *c, enum pipeline_kind k)
{
	switch (k) {
	case PIPELINE_F:
		return c->f;
	case PIPELINE_I:
		return c->b;
	case PIPELINE_W:
		return c->w;
	case PIPELINE_B:
		return c->b + c->w;
	default:
		return 0;
	}
}

/* When an action's value is there; negative: nobody knows yet. */
static double
available(const struct clocks *t, uint32_t rank, const struct pipeline_action *a)
{
	uint32_t from;
	double at;

	if (!pipeline_computes(a->kind) || a->kind == PIPELINE_W)
		return 0;
	from = pipeline_before(t->p, a->kind, a->stage);
	if (from == PIPELINE_NOBODY)
		return 0;
	at = t->made[a->kind != PIPELINE_F][(size_t)from * t->p->nmicro + a->micro];
	return at < 0 || t->p->rank_of[from] == rank ? at : at + t->costs->comm;
}

static bool
run(void *arg, uint32_t rank, size_t i)
{
	const struct clocks *t = arg;
	const struct pipeline_action *a = &t->p->row[rank].v[i];
	struct pipeline_span *span = &t->out->span[rank][i];
	double begin = t->now[rank];

	if (!pipeline_computes(a->kind))
		return true;
	for (const struct pipeline_action *of = a;;
	     of++) { /* a cell begins when all its values are there */
		double at = available(t, rank, of);

		if (at < 0)
			return false;
		begin = at > begin ? at : begin;
		if (!of->joined)
			break;
	}
	span->begin = begin;
	span->end = t->now[rank] = begin + cost_of(t->costs, a->kind);
	if (a->kind != PIPELINE_W)
		t->made[a->kind != PIPELINE_F][(size_t)a->stage * t->p->nmicro + a->micro] =
		    span->end;
	return true;
}

static void
sum_up(const struct pipeline *p, struct pipeline_times *out)
{
	for (uint32_t r = 0; r < p->nranks; r++) {
		double busy = 0, end = -1;

		for (size_t i = 0; i < p->row[r].n; i++) {
			const struct pipeline_span *s = &out->span[r][i];

			if (!pipeline_computes(p->row[r].v[i].kind))
				continue;
			out->idle[r] += end < 0 ? 0 : s->begin - end;
			end = s->end;
			busy += s->end - s->begin;
		}
		out->end = end > out->end ? end : out->end;
		out->busy = busy > out->busy ? busy : out->busy;
		out->bubble = out->idle[r] > out->bubble ? out->idle[r] : out->bubble;
	}
}

enum rc
pipeline_time(const struct pipeline *p, const struct pipeline_costs *costs,
	      struct pipeline_times *out, struct err *err)
{
	size_t n = (size_t)p->nstages * p->nmicro, nactions = 0;
	double *made = alloc_zeroed(n, 2 * sizeof(double)),
	       *now = alloc_zeroed(p->nranks, sizeof(double));
	struct clocks t = {
	    .p = p, .costs = costs, .out = out, .made = {made, made ? made + n : NULL}, .now = now};
	size_t *next = alloc_zeroed(p->nranks, sizeof *next);
	bool room;

	for (uint32_t r = 0; r < p->nranks; r++)
		nactions += p->row[r].n;
	*out = (struct pipeline_times){.span = alloc_zeroed(p->nranks, sizeof *out->span),
				       .idle = alloc_zeroed(p->nranks, sizeof *out->idle)};
	if (out->span)
		out->span[0] = alloc_zeroed(nactions, sizeof **out->span);
	room = out->span && out->span[0] && out->idle && made && now && next;
	for (uint32_t r = 1; room && r < p->nranks; r++)
		out->span[r] = out->span[r - 1] + p->row[r - 1].n;
	for (size_t i = 0; room && i < 2 * n; i++)
		made[i] = -1;
	room = room && pipeline_run(p, run, &t, next);
	if (room)
		sum_up(p, out);
	else
		pipeline_times_fini(out);
	free(made);
	free(now);
	free(next);
	return room ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

void
pipeline_times_fini(struct pipeline_times *t)
{
	if (t->span)
		free(t->span[0]);
	free(t->span);
	free(t->idle);
	*t = (struct pipeline_times){0};
}
