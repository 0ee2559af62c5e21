#include "synth/trial.h"

#include <math.h>
#include <stdlib.h>

#include "algo/lower.h"
#include "cluster/flow.h"
#include "coll/tune.h"

/* What one message costs on the slowest of the links: by it the lowering chooses. */
static struct cost_model
model_of(const struct links *l)
{
	double nic = l->nics ? l->nic_byte_us * l->domain / l->nics : 0;

	return (struct cost_model){.alpha_us =
				       fmax(l->port_latency_us, l->nics ? l->nic_latency_us : 0),
				   .beta_us = fmax(l->port_byte_us, nic),
				   .gamma_us = l->reduce_byte_us,
				   .host_us = l->host_us};
}

/* As gpuctl runs a file: messages are no longer than this. */
static uint64_t
chunk_of(uint64_t nbytes)
{
	return nbytes > TUNE_LARGE_BYTES ? TUNE_LARGE_CHUNK_BYTES : TUNE_CHUNK_BYTES;
}

static enum rc
time_schedules(const struct algo *a, const struct schedule *s, const struct links *links,
	       uint64_t nelem, uint64_t chunk, double *us, struct err *err)
{
	struct plan_args args = {.coll = a->coll,
				 .nranks = a->nranks,
				 .root = a->root,
				 .nelem = nelem,
				 .chunk = chunk / sizeof(float),
				 .schedule = s};
	struct flow_plans p = {NULL, a->nranks, a->nranks, sizeof(float), 1};
	struct plan *plans;
	double took = INFINITY;
	enum rc rc = plan_build_all(&args, NULL, &plans, err);

	if (rc)
		return rc == RC_INVAL ? RC_OK : rc;
	p.plan = plans;
	rc = flow_simulate(&p, links, &took, NULL, err);
	plan_free_all(plans, a->nranks);
	*us = fmin(*us, took);
	return rc;
}

static enum rc
time_file(const struct algo *a, const struct links *links, uint64_t nelem, bool any,
	  struct trial *out, struct err *err)
{
	struct cost_model model = model_of(links);
	struct schedule *s = NULL;
	enum rc rc;

	out->us = INFINITY;
	if (out->proof.nsteps > TRIAL_MAX_STEPS)
		return RC_OK;
	rc = algo_lower(a, &model, &s, err);
	if (rc == RC_INVAL)
		return RC_OK;
	if (!rc)
		rc = time_schedules(a, s, links, nelem, chunk_of(nelem * sizeof(float)), &out->us,
				    err);
	if (!rc && any)
		rc = time_schedules(a, s, links, nelem, 0, &out->us, err);
	schedule_free_all(s, a->nranks);
	return rc;
}

enum rc
trial_run(const struct buf *text, const struct links *links, uint64_t nelem, bool any,
	  struct trial *out, struct err *err)
{
	struct algo *a = NULL;
	struct trial t = {.us = INFINITY};
	enum rc rc = algo_parse(text->data, text->len, "synth", &a, err);

	if (!rc)
		rc = algo_prove(a, &t.proof, err);
	if (!rc)
		rc = time_file(a, links, nelem, any, &t, err);
	if (!rc)
		*out = t;
	algo_free(a);
	return rc == RC_BADDATA ? RC_INTERNAL : rc;
}
