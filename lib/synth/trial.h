/*
 * trial.h - an algorithm's file as it would run: read, proven, made one order of steps a rank, timed. Pure.
 */
#ifndef SYNTH_TRIAL_H
#define SYNTH_TRIAL_H

#include "cluster/links.h"
#include "synth/synth.h"

#define TRIAL_MAX_STEPS (1u << 11) /* more are not lowered, because that takes seconds */

struct trial {
	double us; /* INFINITY: it has too many steps for that */
	struct proof proof;
};

/*
 * trial_run - try a file.
 *
 *	nelem	f32 elements of the vector
 *	any	messages may also be whole; else they are as gpuctl cuts them by default
 *
 * Errors: RC_INTERNAL the file is refused; RC_NOMEM.
 */
enum rc trial_run(const struct buf *text, const struct links *links, uint64_t nelem, bool any,
		  struct trial *out, struct err *err);

#endif
