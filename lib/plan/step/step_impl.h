/*
 * step_impl.h - what the files of this room share. Nobody else includes it.
 */
#ifndef STEP_IMPL_H
#define STEP_IMPL_H

#include "pipeline/pipeline.h"
#include "step/step.h"

/* The schedule of a step: 1F1B, interleaved 1F1B and GPipe by formula, all others as they are. */
struct step_pipe {
	uint32_t p, m;
	uint32_t nstages;
	uint32_t first, last;	     /* the ranks with the first and the last stage */
	bool gpipe;		     /* by formula: GPipe, else 1F1B */
	struct pipeline *pipeline;   /* NULL: by formula */
	struct pipeline_facts facts; /* of it */
};

/* Errors: RC_INVAL: not a schedule of these ranks, microbatches and layers; else those of
 * pipeline_named and pipeline_check. */
enum rc step_pipe_open(const struct step_ask *a, struct step_pipe *out, struct err *err);
void step_pipe_close(struct step_pipe *pipe);

/* Stages of a rank. */
uint32_t step_pipe_stages(const struct step_pipe *pipe, uint32_t rank);
/* Most passes forward of a rank whose passes back have not ended, each of one stage. */
uint32_t step_pipe_peak(const struct step_pipe *pipe, uint32_t rank);
/* Seconds from the first pass of a rank to its last, of the rank where these are the most, less the
 * passes of the rank with the last stage. RC_NOMEM. */
enum rc step_pipe_bubble(const struct step_pipe *pipe, const struct pipeline_costs *costs,
			 double *out, struct err *err);

/* Parameters of a layer on one GPU; of the embedding. */
double step_layer_params(const struct step_ask *a);
double step_embedding_params(const struct step_ask *a);
/* Parameters of a rank of the pipeline on one GPU, without positions. */
double step_rank_params(const struct step_ask *a, const struct step_pipe *pipe, uint32_t rank);

struct step_memory step_memory_of(const struct step_ask *a, const struct step_pipe *pipe);

/* RC_INVAL: a number that cannot be, with those that can ("tp 7 does not divide the 96 heads; tp can be 1, 2, 3"). */
enum rc step_check(const struct step_ask *a, struct err *err);
/* As these: `what`, and the divisors of `of` as what `can` be. */
enum rc step_refuse(struct err *err, uint32_t of, const char *what, const char *can);

#endif
