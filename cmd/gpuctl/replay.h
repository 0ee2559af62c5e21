/*
 * replay.h - shared by the two kinds of gpuctl replay.
 */
#ifndef GPUCTL_REPLAY_H
#define GPUCTL_REPLAY_H

#include "base/log.h"
#include "base/rc.h"

/* Print the launcher's warnings and errors. */
void replay_say(enum log_level level, const char *sentence);

/* List the n devices of a cluster, by ordinal. The caller frees *out. RC_FAILED: the cluster has not n. */
enum rc replay_devices(struct gpusim *g, size_t n, struct gpusim_device **out, struct err *err);

/* gpuctl replay of execution traces; prints the result. */
struct args;
enum rc replay_traces(const struct args *a, struct err *err);

#endif
