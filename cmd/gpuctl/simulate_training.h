/* simulate_training.h - gpuctl simulate training, and simulate step. */
#ifndef GPUCTL_SIMULATE_TRAINING_H
#define GPUCTL_SIMULATE_TRAINING_H

#include "args.h"
#include "cluster/cluster.h"

/* gpuctl simulate --fit TABLE... */
enum rc simulate_fit(const struct args *a, struct err *err);

enum rc simulate_training(const struct args *a, struct err *err);
enum rc simulate_step(const struct args *a, struct err *err);

/*
 * simulate_parallel - parse --parallel: "tp=8,pp=16,dp=128", in any order.
 *
 *	out	[out] tp, pp and dp, of which tp and pp default to 1, dp to the remaining GPUs
 *
 * RC_INVAL: not such a text; the product is not --gpus, or more than the cluster has.
 */
enum rc simulate_parallel(const struct args *a, const struct cluster *c, struct step_ask *out,
			  struct err *err);

/* Predict a step from the options. RC_INVAL: a size is missing or impossible. */
enum rc simulate_step_of(const struct args *a, const struct cluster *c, struct step_ask *ask,
			 struct step_answer *out, struct err *err);

#endif
