/*
 * tune_costs.h - measure the cost of messages between these devices.
 */
#ifndef GPUCTL_TUNE_COSTS_H
#define GPUCTL_TUNE_COSTS_H

#include "cli.h"

/* Measure barriers and broadcasts, and print the costs line of a tuner file (coll/tune.h). RC_FAILED: the
 * times are inconsistent, because the machine is busy. */
enum rc tune_costs(struct cli *cli, const struct args *a, struct err *err);

#endif
