/*
 * task.h - what is trained, on what, and how: a configuration, its data set, its net.
 */
#ifndef TRAIN_TASK_H
#define TRAIN_TASK_H

#include "nn/checkpoint.h"
#include "train/config.h"

struct task {
	const struct train_config *config; /* the caller's */
	struct dataset data;
	struct net net;
};

/*
 * task_open - read the data set at config->data and build the net for it.
 *
 * task [out] is released with task_fini; untouched on error. Errors: those of dataset_open;
 * RC_BADDATA data that are none for this model.
 */
enum rc task_open(const struct train_config *config, struct task *task, struct err *err);
void task_fini(struct task *t);

/* A result of libgpusim, with its sentence, as ours. */
static inline enum rc
check(enum gpusim_rc rc, struct err *err)
{
	return rc == GPUSIM_OK ? RC_OK : err_set(err, (enum rc)rc, "%s", gpusim_error());
}

/* The timeout of calls that give something back at the end. A device that stands still is not waited for: its
 * leases end by themselves. */
#define TASK_GIVE_BACK_MS 2000

/* How long a training waits for a coordinator that is away; fixed: it starts again within seconds. */
#define TASK_AWAY_MS 15000

/* The terms that a checkpoint must agree with. */
struct checkpoint_terms task_terms(const struct task *t);

/* Images of a step that no two ranks share, and whose gradient is computed at once: of a deterministic training;
 * 1 in any other. */
uint32_t task_leaf(const struct task *t);

/* Images of a step, when it is so many ranks that begin. */
uint64_t task_global(const struct task *t, uint32_t nranks);

/* How a part is shared out that is tested: the number of samples that one rank tests at once, if the result must not
 * depend on who tests what; else 1. */
uint32_t task_tested_whole(const struct task *t);

/* Ranks that train of so many. Rank 0 of SYNC_SENDRECV, when it is not alone, holds the weights and
 * does not. */
uint32_t task_workers(const struct task *t, uint32_t nranks);

/* All values of the net: parameters, then running statistics. */
uint64_t task_values(const struct task *t);

/* The factor that makes a net's input of a sample's values, when it is the same for all of them and
 * nothing is added; false: each channel has its own. */
bool task_scale(const struct task *t, double *scale);

/* Rows of a test batch. */
uint64_t task_test_rows(const struct task *t);

#endif
