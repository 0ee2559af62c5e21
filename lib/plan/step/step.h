/*
 * step.h - the time and the memory of one training step of a GPT on a cluster, spread by tensor,
 * pipeline and data parallelism. Pure.
 *
 * Letters as in the papers: L layers, h hidden, a heads, s sequence, V vocabulary, b microbatch, B
 * global batch; t, p, d the tensor-, pipeline- and data-parallel ranks, m = B / (d b) microbatches,
 * v stages of a rank. Ranks are laid out t fastest, then d, then p. Elements of parameters,
 * gradients and activations have two bytes.
 *
 * One number is fitted: the share of a GPU's sold rate that products of matrices reach (cluster.h,
 * matrix_share). All else follows from data sheets and from predict.h. gpusim-step(7) has the
 * formulas, and published steps beside those predicted here.
 *
 * Sources: Megatron-LM, arXiv 1909.08053, 2104.04473, 2205.05198; ZeRO, 1910.02054; ZeRO-Infinity,
 * 2104.07857. Checked by: tests/unit/step
 */
#ifndef STEP_STEP_H
#define STEP_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"
#include "cluster/cluster.h"

enum step_recompute { STEP_RECOMPUTE_NONE, STEP_RECOMPUTE_SELECTIVE, STEP_RECOMPUTE_FULL };

struct step_ask {
	uint32_t layers, hidden, heads, seq,
	    vocab;	       /* the vocabulary is padded to a multiple of tp */
	uint32_t batch, micro; /* sequences: of a step; of a microbatch */
	uint32_t tp, pp, dp;
	uint32_t interleave;  /* stages of a rank; more than 1: 1F1B, interleaved */
	const char *schedule; /* "1f1b", "gpipe", or any of pipeline_named */
	uint32_t zero;	      /* 0 to 3: what is sharded over dp */
	enum step_recompute recompute;
	bool sequence_parallel;
	bool flat; /* ZeRO 3: one flat collective a layer, not one a matrix with a list of parts */
	double overlap; /* the part of dp's messages that computing hides, 0..1 */
};

/* Bytes of the GPU that needs the most. */
struct step_memory {
	uint32_t rank; /* of the pipeline */
	double parameters, gradients, optimizer, activations;
	double buffers; /* of the layer in work: recomputed activations; gathered parameters */
	double total;
};

/* Seconds of the rank that has the last stage; they sum to s. */
struct step_answer {
	double s;
	double matrix_s;      /* products of matrices, also recomputed */
	double elementwise_s; /* all else in a GPU's memory, between the products */
	double optimizer_s;
	double tp_s, pp_s, dp_s;
	double bubble_s;
	double hidden_s; /* dp's messages that computing hides; not part of s */
	uint64_t ngpus, nmicro;
	uint32_t nstages;
	double params;
	/* of all GPUs, with what is recomputed: 96 B s L h^2 (1 + s/6h + V/16Lh) if all is */
	double flops;
	double model_flops; /* without */
	struct step_memory memory;
	bool fits;
};

/*
 * step_predict - one step.
 *
 * Errors: RC_INVAL: a number that cannot be, with those that can ("tp 7 does not divide the 96
 * heads; tp can be 1, 2, 3"); the cluster has fewer GPUs, or tp does not fit its hosts. Of a
 * schedule in a file also those of pipeline_named and pipeline_check.
 */
enum rc step_predict(const struct cluster *c, const struct step_ask *ask, struct step_answer *out,
		     struct err *err);

#endif
