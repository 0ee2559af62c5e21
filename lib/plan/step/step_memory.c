/* step_memory.c - what one GPU holds in a step; and the numbers that a step may have. */
#include <math.h>

#include "base/buf.h"
#include "step/step.h"

#define MOST_ELEMENTS 1e15 /* of an activation */

double
step_layer_params(const struct step_ask *a)
{
	double h = a->hidden, t = a->tp;

	/* 12 h^2 in matrices, biases of 3h and 4h in t parts; two biases and two norms whole */
	return (12 * h * h + 7 * h) / t + 6 * h;
}

double
step_embedding_params(const struct step_ask *a)
{
	return ceil((double)a->vocab / a->tp) * a->hidden;
}

double
step_in_flight(const struct step_ask *a, uint32_t rank)
{
	double m = (double)a->batch / a->dp / a->micro, v = a->interleave, after = a->pp - 1 - rank;

	if (a->schedule == STEP_GPIPE)
		return m;
	return v > 1 ? fmin(2 * after + (v - 1) * a->pp + 1, m * v) : fmin(after + 1, m);
}

/* Bytes of a layer's activations for one microbatch, 2205.05198, table 2. */
static double
activations(const struct step_ask *a, enum step_recompute r)
{
	double h = a->hidden, t = a->tp, sbh = (double)a->seq * a->micro * h,
	       scores = 5.0 * a->heads * a->seq / h;

	if (r == STEP_RECOMPUTE_FULL)
		return 2 * sbh;
	if (r == STEP_RECOMPUTE_SELECTIVE)
		scores = 0;
	return a->sequence_parallel ? sbh / t * (34 + scores) : sbh * (10 + 24 / t + scores / t);
}

static struct step_memory
of_rank(const struct step_ask *a, uint32_t rank)
{
	double d = a->dp, sbh = (double)a->seq * a->micro * a->hidden, layer = step_layer_params(a);
	double params = layer * a->layers / a->pp;
	struct step_memory got = {.stage = rank};
	bool last = rank + 1 == a->pp;

	if (rank == 0 || last)
		params += step_embedding_params(a);
	if (rank == 0)
		params += (double)a->seq * a->hidden;
	got.parameters = 2 * params / (a->zero >= 3 ? d : 1);
	got.gradients = 2 * params / (a->zero >= 2 ? d : 1);
	got.optimizer = 12 * params / (a->zero >= 1 ? d : 1);
	got.activations = activations(a, a->recompute) * step_in_flight(a, rank) * a->layers /
			  a->pp / a->interleave;
	if (last) /* the last norm's and the head's input, the logits in f32; one microbatch at a time */
		got.activations += 4 * sbh / a->tp * (1 + (double)a->vocab / a->hidden);
	if (a->recompute == STEP_RECOMPUTE_FULL)
		got.buffers = activations(a, STEP_RECOMPUTE_NONE);
	if (a->zero >= 3 &&
	    a->dp > 1) /* the largest of what is gathered at once, and its gradient */
		got.buffers += 2 * 2 *
			       fmax(a->flat ? layer : 4.0 * a->hidden * a->hidden / a->tp,
				    step_embedding_params(a));
	got.total = got.parameters + got.gradients + got.optimizer + got.activations + got.buffers;
	return got;
}

struct step_memory
step_memory_of(const struct step_ask *a)
{
	struct step_memory most = of_rank(a, 0), last = of_rank(a, a->pp - 1);

	return last.total > most.total ? last : most; /* those between have neither end's extra */
}

/* ---- numbers that can be */

/* "1, 2, 3, 4, 6, ..." */
static enum rc
refuse(struct err *err, uint32_t of, const char *what, const char *can)
{
	struct buf list = {0};
	unsigned n = 0;

	for (uint32_t i = 1; i <= of && n < 16; i++)
		if (of % i == 0)
			(void)buf_addf(&list, "%s%u", n++ ? ", " : "", i);
	err_set(err, RC_INVAL, "%s; %s can be %s%s", what, can, list.data ? list.data : "1",
		n == 16 ? ", ..." : "");
	buf_fini(&list);
	return RC_INVAL;
}

static enum rc
check_batch(const struct step_ask *a, struct err *err)
{
	char what[200], can[64];
	uint32_t m;

	snprintf(what, sizeof what, "batch %u is not a multiple of dp %u x micro-batch %u",
		 a->batch, a->dp, a->micro);
	if (a->batch % a->dp)
		return refuse(err, a->batch, what, "dp");
	snprintf(can, sizeof can, "with dp %u micro-batch", a->dp);
	if (a->batch / a->dp % a->micro)
		return refuse(err, a->batch / a->dp, what, can);
	m = a->batch / a->dp / a->micro;
	snprintf(what, sizeof what,
		 "interleave %u needs microbatches in groups of pp %u, and there are %u",
		 a->interleave, a->pp, m);
	if (a->interleave > 1 && m % a->pp)
		return refuse(err, m, what, "pp");
	return RC_OK;
}

enum rc
step_check(const struct step_ask *a, struct err *err)
{
	const uint32_t all[] = {a->layers, a->hidden, a->heads, a->seq, a->vocab,     a->batch,
				a->micro,  a->tp,     a->pp,	a->dp,	a->interleave};
	char what[200];

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!all[i])
			return err_set(err, RC_INVAL,
				       "a size of the model, of the batch or of a group is 0");
	if ((double)a->tp * a->pp * a->dp > CLUSTER_MAX_GPUS)
		return err_set(err, RC_INVAL, "tp %u x pp %u x dp %u are more than %d GPUs", a->tp,
			       a->pp, a->dp, CLUSTER_MAX_GPUS);
	if (a->interleave > 1 && a->pp == 1)
		return err_set(err, RC_INVAL,
			       "interleave %u needs a pipeline, and pp is 1; interleave can be 1",
			       a->interleave);
	if (a->interleave > 1 && a->schedule != STEP_1F1B)
		return err_set(err, RC_INVAL,
			       "interleave %u is a schedule of its own, and another one is given",
			       a->interleave);
	snprintf(what, sizeof what, "%u layers are not a multiple of pp %u x interleave %u",
		 a->layers, a->pp, a->interleave);
	if (a->layers % ((uint64_t)a->pp * a->interleave))
		return refuse(err, a->layers, what, "pp x interleave");
	snprintf(what, sizeof what, "heads %u do not divide hidden %u", a->heads, a->hidden);
	if (a->hidden % a->heads)
		return refuse(err, a->hidden, what, "heads");
	snprintf(what, sizeof what, "tp %u does not divide the %u heads", a->tp, a->heads);
	if (a->heads % a->tp)
		return refuse(err, a->heads, what, "tp");
	snprintf(what, sizeof what,
		 "tp %u does not divide the sequence of %u, which sequence parallelism splits",
		 a->tp, a->seq);
	if (a->sequence_parallel && a->seq % a->tp)
		return refuse(err, a->seq, what, "tp");
	if ((double)a->seq * a->micro * a->hidden > MOST_ELEMENTS ||
	    (double)a->hidden * a->vocab > MOST_ELEMENTS)
		return err_set(
		    err, RC_INVAL,
		    "micro-batch x seq x hidden, or vocab x hidden, are more than 10^15");
	return check_batch(a, err);
}
