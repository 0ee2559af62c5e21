/*
 * trial.h - an algorithm's file as it would run: read, proven, made one order of steps a rank, timed. Pure.
 */
#ifndef SYNTH_TRIAL_H
#define SYNTH_TRIAL_H

#include "cluster/links.h"
#include "synth/synth.h"

/* More are not lowered, because that takes seconds. */
#define TRIAL_MAX_STEPS	 (1u << 14)
#define TRIAL_MAX_CHUNKS (1u << 12)

struct trial {
	double us; /* INFINITY: it has too many steps, or chunks, for that */
	struct proof proof;
};

/*
 * trial_run - try a file.
 *
 *	nelem	f32 elements of the vector
 *
 * Errors: RC_INTERNAL the file is refused; RC_NOMEM.
 */
enum rc trial_run(const struct synth_ask *ask, const struct links *links, const struct buf *text,
		  uint64_t nelem, struct trial *out, struct err *err);

/* How long plans of f32 take on these links; RC_FAILED, RC_NOMEM as flow_simulate. */
enum rc trial_time(const struct synth_ask *ask, const struct links *links, const struct plan *plans,
		   double *us, struct err *err);

#endif
