/*
 * task.h - a training task: a configuration, its data set, its net.
 */
#ifndef TRAIN_TASK_H
#define TRAIN_TASK_H

#include "base/api.h"
#include "nn/checkpoint.h"
#include "pipeline/pipeline.h"
#include "train/config.h"

struct task {
	const struct train_config *config; /* the caller's */
	struct dataset data;
	struct net net;
	struct pipeline *schedule; /* of a file, which is read once; NULL: none */
};

/*
 * task_open - read the data set at config->data and build the net for it.
 *
 * task [out] is released with task_fini; untouched on error. Errors: those of dataset_open;
 * RC_BADDATA data that do not fit this model; RC_INVAL no right schedule.
 */
enum rc task_open(const struct train_config *config, struct task *task, struct err *err);
void task_fini(struct task *t);

/* The timeout of calls that free something at the end. Do not wait for a stalled device: its leases
 * expire by themselves. */
#define TASK_GIVE_BACK_MS 2000

/* The time that a training waits for an unreachable coordinator; fixed: it is restarted within seconds. */
#define TASK_AWAY_MS 15000

/* The terms that a checkpoint must agree with. */
struct checkpoint_terms task_terms(const struct task *t);

/* The number of images whose gradient one rank computes at once, in a deterministic training; 1 in
 * any other. */
uint32_t task_leaf(const struct task *t);

/* Images of a step, if training begins with nranks ranks. */
uint64_t task_global(const struct task *t, uint32_t nranks);

/* How a tested part is divided: the number of samples that one rank tests at once, if the result
 * must not depend on the division; else 1. */
uint32_t task_tested_whole(const struct task *t);

/* The number of nranks ranks that train. Rank 0 of SYNC_SENDRECV, if not alone, holds the weights
 * and does not train. */
uint32_t task_workers(const struct task *t, uint32_t nranks);

/* All values of the net: parameters, then running statistics. */
uint64_t task_values(const struct task *t);

/* The factor from a sample's values to the net's input, if it is the same for all values and
 * nothing is added; false: each channel has its own. */
bool task_scale(const struct task *t, double *scale);

/* Rows of a test batch. */
uint64_t task_test_rows(const struct task *t);

#endif
