#include "synth/trial.h"

#include <math.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "cluster/flow.h"
#include "coll/tune.h"

/* As gpuctl runs a file: messages are no longer than this. */
static uint64_t
chunk_of(uint64_t nbytes)
{
	return nbytes > TUNE_LARGE_BYTES ? TUNE_LARGE_CHUNK_BYTES : TUNE_CHUNK_BYTES;
}

enum rc
trial_time(const struct synth_ask *ask, const struct links *links, const struct plan *plans,
	   double *us, struct err *err)
{
	struct flow_plans p = {plans, ask->nranks, ask->nranks, SYNTH_ELEM, 1, true};

	if (ask->device)
		return plan_simulate(plans, ask->nranks, SYNTH_ELEM, ask->device, us, err);
	return flow_simulate(&p, links, us, NULL, err);
}

static enum rc
time_schedules(const struct synth_ask *ask, const struct links *links, const struct algo *a,
	       const struct schedule *s, uint64_t nelem, uint64_t chunk, double *us,
	       struct err *err)
{
	struct plan_args args = {.coll = a->coll,
				 .nranks = a->nranks,
				 .root = a->root,
				 .nelem = nelem,
				 .chunk = chunk / sizeof(float),
				 .schedule = s};
	struct plan *plans;
	double took = INFINITY;
	enum rc rc = plan_build_all(&args, NULL, &plans, err);

	if (rc)
		return rc == RC_INVAL ? RC_OK : rc;
	rc = trial_time(ask, links, plans, &took, err);
	plan_free_all(plans, a->nranks);
	*us = fmin(*us, took);
	return rc;
}

/* Lowered as the coordinator does, which knows no links. */
static enum rc
time_file(const struct synth_ask *ask, const struct links *links, const struct algo *a,
	  uint64_t nelem, struct trial *out, struct err *err)
{
	struct schedule *s = NULL;
	enum rc rc;

	out->us = INFINITY;
	if (out->proof.nsteps > TRIAL_MAX_STEPS || a->nchunks > TRIAL_MAX_CHUNKS)
		return RC_OK;
	rc = algo_lower(a, NULL, &s, err);
	if (rc == RC_INVAL)
		return RC_OK;
	if (!rc)
		rc = time_schedules(ask, links, a, s, nelem, chunk_of(nelem * sizeof(float)),
				    &out->us, err);
	if (!rc && ask->any_chunk)
		rc = time_schedules(ask, links, a, s, nelem, 0, &out->us, err);
	schedule_free_all(s, a->nranks);
	return rc;
}

enum rc
trial_run(const struct synth_ask *ask, const struct links *links, const struct buf *text,
	  uint64_t nelem, struct trial *out, struct err *err)
{
	struct algo *a = NULL;
	struct trial t = {.us = INFINITY};
	enum rc rc = algo_parse(text->data, text->len, "synth", NULL, &a, err);

	if (!rc)
		rc = algo_prove(a, &t.proof, err);
	if (!rc)
		rc = time_file(ask, links, a, nelem, &t, err);
	if (!rc)
		*out = t;
	algo_free(a);
	return rc == RC_BADDATA ? RC_INTERNAL : rc;
}
