/*
 * replay.h - what the two kinds of gpuctl replay share.
 */
#ifndef GPUCTL_REPLAY_H
#define GPUCTL_REPLAY_H

#include "base/log.h"
#include "base/rc.h"

/* Warnings and errors of the launcher. */
void replay_say(enum log_level level, const char *sentence);

/* The n devices of a cluster, by ordinal. *out is the caller's to free. RC_FAILED: there are not so many. */
enum rc replay_devices(struct gpusim *g, size_t n, struct gpusim_device **out, struct err *err);

/* gpuctl replay of execution traces; prints the result. */
struct args;
enum rc replay_traces(const struct args *a, struct err *err);

#endif
