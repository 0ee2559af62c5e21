/*
 * tracing.h - the process that drains the recorders for `gpuctl run --trace`.
 *
 * It is forked before the cluster starts, outlives it, and ends when no process of `gpuctl run` is left. So
 * it reads what devices wrote up to their end, and completes its file even if gpuctl was killed.
 */
#ifndef GPUCTL_TRACING_H
#define GPUCTL_TRACING_H

#include <sys/types.h>

#include "base/rc.h"

struct tracing {
	pid_t pid;  /* 0: none */
	int to;	    /* the coordinator's address is written here; closing it ends the process */
	int answer; /* a byte arrives when all is being recorded */
};

/* Open the file and fork. path NULL: do nothing. Call it before any function of gpusim.h. RC_INVAL,
 * RC_FAILED. */
enum rc tracing_begin(const char *path, struct tracing *t, struct err *err);

/* All daemons are ready: return when their steps are being recorded. */
void tracing_ready(const struct tracing *t, const char *coordinator);

/* The cluster has ended: return EXIT_OK if the trace is complete; else the process has printed why not. */
int tracing_end(struct tracing *t);

#endif
