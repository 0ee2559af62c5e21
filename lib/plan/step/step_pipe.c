/* step_pipe.c - the schedule of a step's pipeline: its stages, how much is in flight, and its bubble. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "step/step_impl.h"

/* By formula: the name of 1F1B, of GPipe, or "interleaved=V". False: another schedule. */
static bool
by_formula(const struct step_ask *a, struct step_pipe *out, uint32_t *stages)
{
	static const char interleaved[] = "interleaved=";
	const char *name = a->schedule;

	*stages = a->interleave;
	out->gpipe = strcmp(name, "gpipe") == 0;
	if (strcmp(name, "interleaved") == 0)
		*stages = a->interleave > 1 ? a->interleave : 2;
	else if (strncmp(name, interleaved, sizeof interleaved - 1) == 0)
		return parse_u32(name + sizeof interleaved - 1, 1, PIPELINE_MAX_STAGES, stages,
				 NULL) == RC_OK;
	else
		return out->gpipe || strcmp(name, "1f1b") == 0;
	return true;
}

static enum rc
open_other(const struct step_ask *a, struct step_pipe *out, struct err *err)
{
	enum rc rc = pipeline_named(a->schedule, out->p, out->m, &out->pipeline, err);

	if (rc == RC_OK && pipeline_check(out->pipeline, &out->facts, err) != RC_OK)
		rc = err_prefix(err, "%.200s", a->schedule);
	if (rc != RC_OK)
		return rc;
	out->nstages = out->pipeline->nstages;
	out->first = out->pipeline->rank_of[0];
	out->last = out->pipeline->rank_of[out->nstages - 1];
	return RC_OK;
}

enum rc
step_pipe_open(const struct step_ask *a, struct step_pipe *out, struct err *err)
{
	char what[200];
	uint32_t v = 1;
	enum rc rc = RC_OK;

	*out = (struct step_pipe){.p = a->pp, .m = a->batch / a->dp / a->micro, .last = a->pp - 1};
	if (by_formula(a, out, &v)) {
		if (a->interleave > 1 && (out->gpipe || v != a->interleave))
			return err_set(err, RC_INVAL,
				       "interleave %u and schedule %.64s contradict each other",
				       a->interleave, a->schedule);
		if (v > 1 && a->pp == 1)
			return err_set(err, RC_INVAL,
				       "interleave %u needs a pipeline, and pp is 1; it can be 1",
				       v);
		snprintf(what, sizeof what,
			 "interleave %u needs microbatches in groups of pp %u, and there are %u", v,
			 a->pp, out->m);
		if (v > 1 && out->m % a->pp)
			return step_refuse(err, out->m, what, "pp");
		out->nstages = (uint64_t)a->pp * v > a->layers ? UINT32_MAX : a->pp * v;
	} else if (a->interleave > 1) {
		return err_set(err, RC_INVAL,
			       "interleave %u and schedule %.64s contradict each other",
			       a->interleave, a->schedule);
	} else {
		rc = open_other(a, out, err);
		v = out->nstages / a->pp;
	}
	snprintf(what, sizeof what, "%u layers are not a multiple of pp %u x %u stages", a->layers,
		 a->pp, v);
	if (rc == RC_OK && a->layers % out->nstages)
		rc = step_refuse(err, a->layers, what, "pp x stages");
	if (rc != RC_OK)
		step_pipe_close(out);
	return rc;
}

void
step_pipe_close(struct step_pipe *pipe)
{
	pipeline_free(pipe->pipeline);
	pipe->pipeline = NULL;
}

uint32_t
step_pipe_stages(const struct step_pipe *pipe, uint32_t rank)
{
	uint32_t n = 0;

	if (!pipe->pipeline)
		return pipe->nstages / pipe->p;
	for (uint32_t s = 0; s < pipe->nstages; s++)
		n += pipe->pipeline->rank_of[s] == rank;
	return n;
}

uint32_t
step_pipe_peak(const struct step_pipe *pipe, uint32_t rank)
{
	uint64_t v = pipe->nstages / pipe->p, after = pipe->p - 1 - rank, all = v * pipe->m;
	uint64_t most = v > 1 ? 2 * after + (v - 1) * pipe->p + 1 : after + 1;

	if (pipe->pipeline)
		return pipe->facts.peak[rank];
	return (uint32_t)(pipe->gpipe || most > all ? all : most);
}

enum rc
step_pipe_bubble(const struct step_pipe *pipe, const struct pipeline_costs *costs, double *out,
		 struct err *err)
{
	struct pipeline_times times;
	double pass = pipe->m * (costs->f + costs->b + costs->w), longest = 0;
	enum rc rc;

	if (!pipe->pipeline) {
		*out = (pipe->p - 1) * (costs->f + costs->b + costs->w);
		return RC_OK;
	}
	rc = pipeline_time(pipe->pipeline, costs, &times, err);
	if (rc != RC_OK)
		return rc;
	for (uint32_t r = 0; r < pipe->p; r++)
		longest = fmax(longest, times.idle[r] + pass * step_pipe_stages(pipe, r));
	*out = longest - pass * step_pipe_stages(pipe, pipe->last);
	pipeline_times_fini(&times);
	return RC_OK;
}
