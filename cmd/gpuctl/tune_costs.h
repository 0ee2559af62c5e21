/*
 * tune_costs.h - what messages between these devices cost.
 */
#ifndef GPUCTL_TUNE_COSTS_H
#define GPUCTL_TUNE_COSTS_H

#include "cli.h"

/* Measure barriers and broadcasts, and print the line of costs of a tuner file (coll/tune.h). RC_FAILED: the times make no
 * sense, because the machine does something else. */
enum rc tune_costs(struct cli *cli, const struct args *a, struct err *err);

#endif
