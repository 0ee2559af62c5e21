#include "step/step_impl.h"

#include <math.h>

#include "cluster/predict.h"

#define WORD 2.0 /* bytes of an element */

/*
 * Bytes that kernels between the products read and write, as Megatron-LM fuses them: for each
 * element of an activation (s b h), or of the scores (a s^2 b). Two bytes an element, one of a
 * dropout's mask.
 *
 * Forward, on each tensor-parallel rank: two norms 2 x (2 + 2); two dropouts with bias and residual
 * 2 x (2 + 2, 2 + 1).
 */
#define FORWARD_ALL (8.0 + 14.0)
/* Of a rank's t-th part: the bias of 3h, GELU with bias of 4h, attention's transpose. */
#define FORWARD_PART (12.0 + 16.0 + 4.0)
/* Scale, mask and softmax 2 + 2; dropout 2, 2 + 1. */
#define FORWARD_SCORES (4.0 + 5.0)
/* Norms 2 x (4 + 2) and their parameters' gradients 2 x 4; dropouts 2 x (3 + 2); sums of residuals
 * 2 x (4 + 2); biases' gradients 2 x 2. */
#define BACKWARD_ALL (20.0 + 10.0 + 12.0 + 4.0)
/* GELU of 4h 4 x (4 + 2); gradients of the biases of 3h and 4h 7 x 2; attention's transpose. */
#define BACKWARD_PART (24.0 + 14.0 + 4.0)
/* Softmax 4 + 2; dropout 3 + 2. */
#define BACKWARD_SCORES (6.0 + 5.0)
/* Of the logits (s b V / t), in f32: from 16 bits 6; maximum 4; difference 8; exponential and sum
 * 12; quotient 8; back, difference 8, scale 8, to 16 bits 6. */
#define LOGITS 60.0
/* The embedding's lookup and dropout, and the last norm, forward and back. */
#define EMBEDDING_ALL 20.0
/* Of a parameter: its gradient to f32 6; unscaled and checked 8; norm 4; clipped 8; Adam reads 16
 * and writes 12; the parameter from its master 6. */
#define OPTIMIZER 60.0

/*
 * ZeRO 3 as DeepSpeed v0.3.13 (March 2021) had it, runtime/zero/partition_parameters.py
 * (_allgather_param, _reduce_scatter_gradient) and stage3.py (overlap_comm = False;
 * _synchronize_communication): a collective for each matrix of a layer, and the GPU waits for it.
 * Its list names each rank's part by a view in Python, and PyTorch copies each part by a call of
 * its own. 15 us of the host's time for a part are assumed: 5 us of it, the view and the call, are
 * measured (PyTorch 1.13 without a GPU, a 2.5 GHz Xeon); the rest is a launch and what PyTorch
 * notes of streams. In the GPU's memory the list costs, for each byte, a fill and a copy of what is
 * gathered, a copy of what is reduced.
 *
 * Flat collectives, as of PyTorch's FSDP, are one a layer and have none of that.
 */
#define PART_US	       15.0
#define GATHERED_BYTES 3.0
#define REDUCED_BYTES  2.0
static const double matrices[] = {3, 1, 4, 4}; /* of a layer, h^2 elements each */

/* One prediction's numbers. */
struct frame {
	const struct cluster *c;
	const struct step_ask *a;
	double act, scores; /* elements of an activation, of a GPU's scores, for a microbatch */
	const struct step_pipe *pipe;
	double stages, layers; /* of the rank with the last stage; of a stage */
	/* seconds of a layer and microbatch */
	double linear, attention;    /* products forward */
	double forward, backward;    /* between them */
	double again, again_between; /* recomputed products; what is between */
	double reduce; /* the collectives of one of the places where tensor-parallel ranks meet */
	double send;   /* to the next stage */
};

/* ---- computing */

/*
 * A product of an m x k with a k x n matrix, `count` times: its operations, or reading its inputs,
 * whichever is longer; then writing its result, as a block of a kernel writes when its sums are
 * done, and an SM has one such block at a time (256 x 128 f32 sums fill its registers). So a short
 * k, of a small model or of many tensor-parallel ranks, costs more.
 */
static double
product(const struct cluster *c, double m, double n, double k, double count)
{
	double ops = 2 * m * n * k * count / (c->tflops * 1e12 * c->matrix_share);
	double gbs = c->memory_gbs * 1e9, read = WORD * (m * k + k * n) * count / gbs;

	return fmax(ops, read) + WORD * m * n * count / gbs;
}

static double
moved(const struct cluster *c, double bytes)
{
	return bytes / (c->memory_gbs * 1e9);
}

static void
layer_time(struct frame *f)
{
	const struct step_ask *a = f->a;
	double rows = (double)a->micro * a->seq, h = a->hidden, t = a->tp, s = a->seq;
	double head = h / a->heads, heads = (double)a->heads * a->micro / t;
	double all = f->act / (a->sequence_parallel ? t : 1), part = f->act / t;

	f->linear = product(f->c, rows, 3 * h / t, h, 1) + product(f->c, rows, h, h / t, 1) +
		    product(f->c, rows, 4 * h / t, h, 1) + product(f->c, rows, h, 4 * h / t, 1);
	f->attention = product(f->c, s, s, head, heads) + product(f->c, s, head, s, heads);
	f->forward =
	    moved(f->c, FORWARD_ALL * all + FORWARD_PART * part + FORWARD_SCORES * f->scores);
	f->backward =
	    moved(f->c, BACKWARD_ALL * all + BACKWARD_PART * part + BACKWARD_SCORES * f->scores);
	if (a->recompute == STEP_RECOMPUTE_FULL) {
		f->again = f->linear + f->attention;
		f->again_between = f->forward;
	} else if (a->recompute == STEP_RECOMPUTE_SELECTIVE) {
		f->again = f->attention;
		f->again_between = moved(f->c, FORWARD_SCORES * f->scores);
	}
}

/* The head and the loss, of a microbatch, forward and back; where they are one rank's, also the embedding. */
static void
head_time(const struct frame *f, double *matrix, double *between)
{
	const struct step_ask *a = f->a;
	double rows = (double)a->micro * a->seq, words = ceil((double)a->vocab / a->tp);

	*matrix = 3 * product(f->c, rows, words, a->hidden, 1);
	*between = moved(f->c, LOGITS * rows * words +
				   (f->pipe->first == f->pipe->last ? EMBEDDING_ALL * f->act : 0));
}

/* ---- communication */

/* Seconds of a collective of nbytes over the first n GPUs of a cluster, added to *s. */
static enum rc
add(const struct cluster *c, enum gpusim_coll coll, uint32_t n, double nbytes, double times,
    double *s, struct err *err)
{
	struct cluster_ask ask = {
	    .coll = coll, .ngpus = n, .nbytes = (uint64_t)ceil(nbytes), .algo = -1, .proto = -1};
	struct cluster_answer got;
	enum rc rc;

	if (n < 2 || times <= 0)
		return RC_OK;
	rc = cluster_predict(c, &ask, &got, err);
	if (rc == RC_OK)
		*s += times * got.us / 1e6;
	return rc;
}

/* A place where tensor-parallel ranks meet: an all-reduce, or as many bytes by all-gather and reduce-scatter. */
static enum rc
tensor_time(struct frame *f, struct err *err)
{
	const struct step_ask *a = f->a;
	double bytes = WORD * f->act;
	enum rc rc;

	if (!a->sequence_parallel)
		return add(f->c, GPUSIM_ALLREDUCE, a->tp, bytes, 1, &f->reduce, err);
	rc = add(f->c, GPUSIM_ALLGATHER, a->tp, bytes, 1, &f->reduce, err);
	return rc == RC_OK ? add(f->c, GPUSIM_REDUCESCATTER, a->tp, bytes, 1, &f->reduce, err) : rc;
}

/*
 * A send to the next stage: each tensor-parallel rank sends its part, and the receivers gather them
 * (2104.04473, section 4.1), which sequence parallelism does not need. Both ranks wait for it, as
 * those of the paper's program did.
 */
static enum rc
send_time(struct frame *f, struct err *err)
{
	const struct step_ask *a = f->a;
	struct cluster c = cluster_strided(f->c, a->tp * a->dp);
	double bytes = WORD * f->act;
	enum rc rc = add(&c, GPUSIM_SEND, a->pp, bytes / a->tp, 1, &f->send, err);

	if (rc == RC_OK && a->pp > 1 && !a->sequence_parallel)
		rc = add(f->c, GPUSIM_ALLGATHER, a->tp, bytes, 1, &f->send, err);
	return rc;
}

/* A matrix of ZeRO 3, `passes` gathers and one reduction for each of `times`. */
static enum rc
sharded_matrix(const struct frame *f, const struct cluster *c, double nbytes, double passes,
	       double times, double *s, struct err *err)
{
	uint32_t d = f->a->dp;
	enum rc rc = add(c, GPUSIM_ALLGATHER, d, nbytes, passes * times, s, err);

	if (rc == RC_OK)
		rc = add(c, GPUSIM_REDUCESCATTER, d, nbytes, times, s, err);
	if (f->a->flat)
		return rc;
	*s += times * ((passes + 1) * PART_US * d / 1e6 +
		       moved(f->c, (GATHERED_BYTES * passes + REDUCED_BYTES) * nbytes));
	return rc;
}

/* ZeRO 3: parameters are gathered for each pass of each microbatch, gradients are reduced after it.
 * What is recomputed needs them once more (2104.07857, section 4.1). */
static enum rc
sharded_time(const struct frame *f, const struct cluster *c, double *s, struct err *err)
{
	const struct step_ask *a = f->a;
	double passes = a->recompute == STEP_RECOMPUTE_FULL ? 3 : 2,
	       hh = (double)a->hidden * a->hidden / a->tp;
	double nmicro = (double)a->batch / a->dp / a->micro,
	       layers = nmicro * f->layers * f->stages;
	enum rc rc = sharded_matrix(f, c, WORD * step_embedding_params(a), 2, nmicro, s, err);

	if (a->flat && rc == RC_OK)
		return sharded_matrix(f, c, WORD * step_layer_params(a), passes, layers, s, err);
	for (int i = 0; i < 4 && rc == RC_OK; i++)
		rc = sharded_matrix(f, c, WORD * matrices[i] * hh, passes, layers, s, err);
	return rc;
}

static enum rc
data_time(const struct frame *f, double *s, struct err *err)
{
	const struct step_ask *a = f->a;
	struct cluster c = cluster_strided(f->c, a->tp);
	double params = step_rank_params(a, f->pipe, f->pipe->last);
	enum rc rc;

	if (a->dp < 2)
		return RC_OK;
	if (a->zero == 3)
		return sharded_time(f, &c, s, err);
	if (a->zero == 0)
		return add(&c, GPUSIM_ALLREDUCE, a->dp, WORD * params, 1, s, err);
	/* Sharded gradients are reduced after each microbatch. */
	rc = add(&c, GPUSIM_REDUCESCATTER, a->dp, WORD * params,
		 a->zero == 2 ? (double)a->batch / a->dp / a->micro : 1, s, err);
	return rc == RC_OK ? add(&c, GPUSIM_ALLGATHER, a->dp, WORD * params, 1, s, err) : rc;
}

/* ---- the step */

static void
count(const struct step_ask *a, struct step_answer *out)
{
	double B = a->batch, s = a->seq, L = a->layers, h = a->hidden, V = a->vocab;
	double layers = 24 * B * s * L * h * h * (1 + s / (6 * h)); /* forward */

	out->params = L * (12 * h * h + 13 * h) + (V + s) * h;
	out->model_flops = 3 * layers + 6 * B * s * h * V;
	out->flops =
	    out->model_flops + (a->recompute == STEP_RECOMPUTE_FULL	   ? layers
				: a->recompute == STEP_RECOMPUTE_SELECTIVE ? 4 * B * s * s * L * h
									   : 0);
	out->ngpus = (uint64_t)a->tp * a->pp * a->dp;
	out->nmicro = a->batch / a->dp / a->micro;
}

static enum rc
sum(const struct frame *f, double data, struct step_answer *out, struct err *err)
{
	const struct step_ask *a = f->a;
	double meets = a->recompute == STEP_RECOMPUTE_FULL ? 6 : 4, head, between;
	double m = (double)out->nmicro, layers = f->layers * f->stages * m;
	double products = 3 * (f->linear + f->attention) + f->again;
	double others = f->forward + f->backward + f->again_between;
	double params = step_rank_params(a, f->pipe, f->pipe->last);
	struct pipeline_costs pass;

	head_time(f, &head, &between);
	out->matrix_s = layers * products + m * head;
	out->elementwise_s = layers * others + m * between;
	/* The embedding's sum forward, the head's back. */
	out->tp_s = (layers * meets + m * (f->pipe->first == f->pipe->last ? 2 : 1)) * f->reduce;
	out->pp_s += 2 * m * f->stages * f->send;
	pass.f = f->layers * (f->linear + f->attention + f->forward + 2 * f->reduce) + f->send;
	pass.w = f->layers * f->linear; /* of the weights; attention's products have none */
	pass.b =
	    f->layers * (products + others + meets * f->reduce) + 2 * f->send - pass.f - pass.w;
	pass.comm = 0; /* it is in the passes, as both ranks wait */
	out->optimizer_s = moved(f->c, OPTIMIZER * params / (a->zero ? a->dp : 1));
	out->hidden_s = fmin(a->overlap * data, out->matrix_s + out->elementwise_s);
	out->dp_s = data - out->hidden_s;
	return step_pipe_bubble(f->pipe, &pass, &out->bubble_s, err);
}

/* All of it, for a schedule that is open. */
static enum rc
predict(struct frame *f, struct step_answer *out, struct err *err)
{
	const struct step_ask *a = f->a;
	uint32_t apart = f->pipe->last > f->pipe->first ? f->pipe->last - f->pipe->first
							: f->pipe->first - f->pipe->last;
	double data = 0;
	enum rc rc;

	f->stages = step_pipe_stages(f->pipe, f->pipe->last);
	f->layers = (double)a->layers / f->pipe->nstages;
	layer_time(f);
	rc = tensor_time(f, err);
	if (rc == RC_OK)
		rc = send_time(f, err);
	if (rc == RC_OK)
		rc = data_time(f, &data, err);
	if (rc == RC_OK && apart) { /* the first stage's embedding and the last one's are one */
		struct cluster ends = cluster_strided(f->c, a->tp * a->dp * apart);

		rc = add(&ends, GPUSIM_ALLREDUCE, 2, WORD * step_embedding_params(a), 1, &out->pp_s,
			 err);
	}
	if (rc == RC_OK)
		rc = sum(f, data, out, err);
	if (rc != RC_OK)
		return rc;
	out->s = out->matrix_s + out->elementwise_s + out->optimizer_s + out->tp_s + out->pp_s +
		 out->dp_s + out->bubble_s;
	out->nstages = f->pipe->nstages;
	out->memory = step_memory_of(a, f->pipe);
	out->fits = out->memory.total <= f->c->memory_gb * 1e9;
	return RC_OK;
}

enum rc
step_predict(const struct cluster *c, const struct step_ask *a, struct step_answer *out,
	     struct err *err)
{
	struct step_pipe pipe;
	struct frame f = {.c = c, .a = a, .pipe = &pipe};
	struct step_answer got = {0};
	enum rc rc = step_check(a, err);

	if (rc != RC_OK)
		return rc;
	if (a->tp > 1 && c->gpus_per_host % a->tp != 0 && a->tp % c->gpus_per_host != 0)
		return err_set(err, RC_INVAL,
			       "tp %u must divide a host's %u GPUs, or be a multiple of them",
			       a->tp, c->gpus_per_host);
	count(a, &got);
	if (got.ngpus > cluster_gpus(c))
		return err_set(err, RC_INVAL,
			       "tp %u x pp %u x dp %u needs %llu GPUs; the cluster has %u", a->tp,
			       a->pp, a->dp, (unsigned long long)got.ngpus, cluster_gpus(c));
	rc = step_pipe_open(a, &pipe, err);
	if (rc != RC_OK)
		return rc;
	f.act = (double)a->seq * a->micro * a->hidden;
	f.scores = (double)a->heads * a->seq * a->seq * a->micro / a->tp;
	rc = predict(&f, &got, err);
	step_pipe_close(&pipe);
	if (rc == RC_OK)
		*out = got;
	return rc;
}
