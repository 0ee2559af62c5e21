/* step_memory.c - what one GPU holds in a step. */
#include <math.h>

#include "step/step_impl.h"

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
step_rank_params(const struct step_ask *a, const struct step_pipe *pipe, uint32_t rank)
{
	double layers = (double)a->layers / pipe->nstages * step_pipe_stages(pipe, rank);
	bool end = rank == pipe->first || rank == pipe->last;

	return step_layer_params(a) * layers + (end ? step_embedding_params(a) : 0);
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
of_rank(const struct step_ask *a, const struct step_pipe *pipe, uint32_t rank)
{
	double d = a->dp, sbh = (double)a->seq * a->micro * a->hidden, layer = step_layer_params(a);
	double params = step_rank_params(a, pipe, rank);
	struct step_memory got = {.rank = rank};

	if (rank == pipe->first)
		params += (double)a->seq * a->hidden;
	got.parameters = 2 * params / (a->zero >= 3 ? d : 1);
	got.gradients = 2 * params / (a->zero >= 2 ? d : 1);
	got.optimizer = 12 * params / (a->zero >= 1 ? d : 1);
	got.activations =
	    activations(a, a->recompute) * step_pipe_peak(pipe, rank) * a->layers / pipe->nstages;
	/* The last norm's and the head's input, the logits in f32; one microbatch at a time. */
	if (rank == pipe->last)
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
step_memory_of(const struct step_ask *a, const struct step_pipe *pipe)
{
	struct step_memory most = of_rank(a, pipe, 0);

	for (uint32_t r = 1; r < pipe->p; r++) {
		struct step_memory got = of_rank(a, pipe, r);

		most = got.total > most.total ? got : most;
	}
	return most;
}
