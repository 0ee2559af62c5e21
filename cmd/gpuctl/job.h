/*
 * job.h - gpuctl run's command: the processes of its ranks, and what happens before it starts.
 */
#ifndef GPUCTL_JOB_H
#define GPUCTL_JOB_H

#include "args.h"
#include "launch/launch.h"
#include "tracing.h"

struct job {
	struct tracing tracing;
	char *inject;	     /* the words of --inject, cut apart; NULL: none */
	const char **faults; /* arguments of gpuctl inject */
};

/* Check --each, --torch, --label, --max-restarts and their like, and set them in *cfg; name the package for Python in
 * PYTHONPATH. RC_INVAL, RC_FAILED. */
enum rc job_ranks(const struct args *a, struct launch_config *cfg, struct err *err);

/* Set cfg->ready to what comes before the command: the trace begins, faults are injected. */
enum rc job_begin(const struct args *a, struct job *j, struct launch_config *cfg, struct err *err);

/* After the launch. Returns the exit status of --trace. */
int job_end(struct job *j);

#endif
