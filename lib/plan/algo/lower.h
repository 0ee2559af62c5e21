/*
 * lower.h - lower an algorithm to one order of steps per rank, which cannot block. Pure.
 */
#ifndef ALGO_LOWER_H
#define ALGO_LOWER_H

#include "algo/algo.h"
#include "coll/schedule.h"
#include "coll/simulate.h"

/*
 * algo_lower - every rank's schedule.
 *
 *	a	proven (prove.h), not custom
 *	model	costs by which the variants are compared; NULL: the tuner's defaults for sockets
 *	out	[out] nranks schedules, to release with schedule_free_all
 *
 * The result has been run on the checker of coll/check.h, in and out of place.
 * Errors: RC_INTERNAL the checker rejected the result (a defect of this room); RC_INVAL more than
 * PLAN_MAX_STEPS; RC_NOMEM.
 */
enum rc algo_lower(const struct algo *a, const struct cost_model *model, struct schedule **out,
		   struct err *err);

#endif
