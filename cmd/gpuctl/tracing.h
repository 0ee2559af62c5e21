/*
 * tracing.h - the process that drains the recorders for `gpuctl run --trace`.
 *
 * It is forked before the cluster, outlives it, and ends when nobody of `gpuctl run` is left. So it reads what devices
 * wrote up to their end, and finishes its file also when gpuctl was killed.
 */
#ifndef GPUCTL_TRACING_H
#define GPUCTL_TRACING_H

#include <sys/types.h>

#include "base/rc.h"

struct tracing {
	pid_t pid;  /* 0: none */
	int to;	    /* the coordinator's address goes there; its end is the end */
	int answer; /* a byte comes when all is recorded */
};

/* Open the file and fork. path NULL: nothing. Before the first call of gpusim.h. RC_INVAL, RC_FAILED. */
enum rc tracing_begin(const char *path, struct tracing *t, struct err *err);

/* All daemons are ready: returns when their steps are recorded. arg: the struct tracing. */
void tracing_ready(void *arg, const char *coordinator);

/* The cluster has ended. Whether the trace is whole; the process has said why not. */
int tracing_end(struct tracing *t);

#endif
