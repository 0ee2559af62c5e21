/*
 * tune_cluster.h - a cluster file of this machine.
 */
#ifndef GPUCTL_TUNE_CLUSTER_H
#define GPUCTL_TUNE_CLUSTER_H

#include "cli.h"

/* Measure an all-reduce of a word and one of 8 MiB, and print the cluster's file; gpusim-cluster(5) has the format. */
enum rc tune_cluster(struct cli *cli, const struct args *a, struct err *err);

#endif
