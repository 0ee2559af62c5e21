/*
 * tune_cluster.h - make a cluster file for this machine.
 */
#ifndef GPUCTL_TUNE_CLUSTER_H
#define GPUCTL_TUNE_CLUSTER_H

#include "cli.h"

/* Measure an all-reduce of a word and one of 8 MiB, and print a cluster file; see gpusim-cluster(5). */
enum rc tune_cluster(struct cli *cli, const struct args *a, struct err *err);

#endif
