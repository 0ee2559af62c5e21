/*
 * trial.h - run an algorithm's file in simulation: read, proven, lowered, timed. Pure.
 */
#ifndef SYNTH_TRIAL_H
#define SYNTH_TRIAL_H

#include "cluster/links.h"
#include "synth/synth.h"

/* Larger files are not lowered, because that takes seconds. */
#define TRIAL_MAX_STEPS	 (1u << 14)
#define TRIAL_MAX_CHUNKS (1u << 12)

#define SYNTH_ELEM 4u /* bytes of an element, by which candidates are timed */

struct trial {
	double us; /* INFINITY: too many steps or chunks */
	struct proof proof;
};

/*
 * trial_run - try a file.
 *
 *	nelem	f32 elements of the vector
 *
 * Errors: RC_INTERNAL the file is rejected.
 */
enum rc trial_run(const struct synth_ask *ask, const struct links *links, const struct buf *text,
		  uint64_t nelem, struct trial *out, struct err *err);

/* The time of plans of f32 on these links; RC_FAILED, RC_NOMEM as flow_simulate. */
enum rc trial_time(const struct synth_ask *ask, const struct links *links, const struct plan *plans,
		   double *us, struct err *err);

#endif
