/* simulate_step.c - gpuctl simulate step: the time, the rate and the memory of one training step. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "coll/grid.h"
#include "simulate_training.h"

enum rc
simulate_parallel(const struct args *a, const struct cluster *c, struct step_ask *out,
		  struct err *err)
{
	uint32_t ngpus = a->nranks ? a->nranks : cluster_gpus(c), tp, pp, dp;
	struct grid g = {.tp = 1, .pp = 1};
	uint64_t all;

	if (a->parallel && grid_parse(a->parallel, CLUSTER_MAX_GPUS, &g, err) != RC_OK)
		return err_prefix(err, "--parallel");
	tp = g.tp;
	pp = g.pp;
	dp = g.dp;
	all = (uint64_t)tp * pp;
	if (all > ngpus)
		return err_set(err, RC_INVAL,
			       "--parallel: tp %" PRIu32 " x pp %" PRIu32 " is more than %" PRIu32
			       " GPUs",
			       tp, pp, ngpus);
	if (!dp)
		dp = (uint32_t)(ngpus / all);
	else if (!a->nranks && all * dp <= ngpus)
		ngpus = (uint32_t)(all * dp);
	if (all * dp != ngpus && a->nranks && ngpus % all)
		return err_set(err, RC_INVAL,
			       "--parallel: tp %" PRIu32 " x pp %" PRIu32
			       " does not divide %" PRIu32 " GPUs",
			       tp, pp, ngpus);
	if (all * dp != ngpus)
		return err_set(err, RC_INVAL,
			       "--parallel: tp %" PRIu32 " x pp %" PRIu32 " x dp %" PRIu32
			       " is not %" PRIu32 " GPUs; dp can be %s%" PRIu64,
			       tp, pp, dp, ngpus, a->nranks ? "" : "1 to ", ngpus / all);
	out->tp = tp;
	out->pp = pp;
	out->dp = dp;
	return RC_OK;
}

enum rc
simulate_step_of(const struct args *a, const struct cluster *c, struct step_ask *ask,
		 struct step_answer *out, struct err *err)
{
	struct step_ask parallel = *ask;

	if (!a->step.layers || !a->step.hidden || !a->step.heads || !a->step.batch)
		return err_set(err, RC_INVAL,
			       "a model's step needs --layers, --hidden, --heads and --batch");
	*ask = a->step;
	ask->tp = parallel.tp;
	ask->pp = parallel.pp;
	ask->dp = parallel.dp;
	ask->overlap = args_given(a, overlap) ? a->overlap : 0;
	ask->schedule = a->schedule;
	return step_predict(c, ask, out, err);
}

/* ---- as text */

static void
part(const struct step_answer *s, double seconds, const char *what)
{
	printf("%10.4g  %6.2f  %s\n", seconds, 100 * seconds / s->s, what);
}

static void
print_text(const struct args *a, const struct cluster *c, const struct step_ask *k,
	   const struct step_answer *s)
{
	const struct step_memory *m = &s->memory;
	double gpus = (double)s->ngpus;

	printf("# a step of a GPT with %.4g parameters on %" PRIu64 " GPUs (%s) of %s: tp %" PRIu32
	       ", pp %" PRIu32 ", dp %" PRIu32 "\n",
	       s->params, s->ngpus, cluster_gpu_name(c), c->name, k->tp, k->pp, k->dp);
	printf("# %" PRIu32 " sequences in %" PRIu64 " microbatches of %" PRIu32 "; %" PRIu32
	       " layers a stage, %" PRIu32
	       " stages a rank; products of matrices reach %.3g of %.4g TFLOP/s\n#\n",
	       k->batch, s->nmicro, k->micro, k->layers / s->nstages, s->nstages / k->pp,
	       c->matrix_share, c->tflops);
	printf("# step time          %.4g s\n", s->s);
	printf("# TFLOP/s a GPU      %.4g, %.3g %% of the GPU's; without what is recomputed %.4g\n",
	       s->flops / gpus / s->s / 1e12, s->flops / gpus / s->s / 1e10 / c->tflops,
	       s->model_flops / gpus / s->s / 1e12);
	printf("# tokens a second    %.4g\n#\n", (double)k->batch * k->seq / s->s);
	printf("# %8s  %6s  part\n", "s", "%");
	part(s, s->matrix_s, "compute: products of matrices");
	part(s, s->elementwise_s, "compute: what is between them");
	part(s, s->optimizer_s, "compute: optimizer");
	part(s, s->tp_s, "tensor-parallel messages");
	part(s, s->pp_s, "pipeline messages");
	part(s, s->dp_s, "data-parallel messages");
	part(s, s->bubble_s, "bubble");
	if (a->step.zero || s->hidden_s > 0)
		printf("# ZeRO %" PRIu32
		       "; %.4g s of data-parallel messages are hidden behind computing\n",
		       k->zero, s->hidden_s);
	printf("#\n# %8s  memory of a GPU of pipeline rank %" PRIu32 "\n", "GB", m->rank);
	printf("%10.4g  parameters\n%10.4g  gradients\n%10.4g  optimizer\n%10.4g  "
	       "activations\n%10.4g  buffers\n",
	       m->parameters / 1e9, m->gradients / 1e9, m->optimizer / 1e9, m->activations / 1e9,
	       m->buffers / 1e9);
	printf("%10.4g  in all, which %s into %.4g GB\n", m->total / 1e9,
	       s->fits ? "fits" : "does not fit", c->memory_gb);
}

static void
print_json(const struct cluster *c, const struct step_ask *k, const struct step_answer *s)
{
	const struct step_memory *m = &s->memory;
	double gpus = (double)s->ngpus;
	struct json j = {stdout, false};

	json_put(&j,
		 "{cluster:%s gpu:%s nranks:%" PRIu64 " tp:%" PRIu32 " pp:%" PRIu32 " dp:%" PRIu32
		 " stages:%" PRIu32 " microbatches:%" PRIu64
		 " params:%.9g step_s:%.9g tflops:%.9g model_tflops:%.9g "
		 "flops:%.9g tokens_per_s:%.9g matrix_share:%.9g",
		 c->name, cluster_gpu_name(c), s->ngpus, k->tp, k->pp, k->dp, s->nstages, s->nmicro,
		 s->params, s->s, s->flops / gpus / s->s / 1e12,
		 s->model_flops / gpus / s->s / 1e12, s->flops, (double)k->batch * k->seq / s->s,
		 c->matrix_share);
	json_put(&j,
		 "matrix_s:%.9g elementwise_s:%.9g optimizer_s:%.9g tp_s:%.9g pp_s:%.9g dp_s:%.9g "
		 "bubble_s:%.9g "
		 "hidden_s:%.9g",
		 s->matrix_s, s->elementwise_s, s->optimizer_s, s->tp_s, s->pp_s, s->dp_s,
		 s->bubble_s, s->hidden_s);
	json_put(&j, "share:{compute:%.9g tp:%.9g pp:%.9g dp:%.9g bubble:%.9g}",
		 (s->matrix_s + s->elementwise_s + s->optimizer_s) / s->s, s->tp_s / s->s,
		 s->pp_s / s->s, s->dp_s / s->s, s->bubble_s / s->s);
	json_put(&j,
		 "memory:{rank:%" PRIu32 " parameters:%.9g gradients:%.9g optimizer:%.9g "
		 "activations:%.9g buffers:%.9g total:%.9g} "
		 "memory_gb:%.9g fits:%hhu}\n",
		 m->rank, m->parameters, m->gradients, m->optimizer, m->activations, m->buffers,
		 m->total, c->memory_gb, s->fits);
}

enum rc
simulate_step(const struct args *a, struct err *err)
{
	struct cluster c;
	struct step_ask ask = {0};
	struct step_answer got;
	enum rc rc;

	if (!a->cluster)
		return err_set(err, RC_INVAL, "step: needs --cluster");
	rc = cluster_load(a->cluster, &c, err);
	if (rc == RC_OK)
		rc = simulate_parallel(a, &c, &ask, err);
	if (rc == RC_OK)
		rc = simulate_step_of(a, &c, &ask, &got, err);
	if (rc != RC_OK)
		return rc;
	if (a->json)
		print_json(&c, &ask, &got);
	else
		print_text(a, &c, &ask, &got);
	return RC_OK;
}
