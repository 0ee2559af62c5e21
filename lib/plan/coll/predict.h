/*
 * predict.h - predict an algorithm's time, even if all ranks' plans are too many to build. Pure.
 */
#ifndef COLL_PREDICT_H
#define COLL_PREDICT_H

#include "coll/simulate.h"

#define PREDICT_MAX_STEPS (1u << 22) /* built at a time, of all ranks */

enum predicted {
	PREDICT_WHOLE, /* every rank's plan was simulated */
	PREDICT_SHIFT, /* all ranks do the same, shifted: one was simulated */
	PREDICT_SLOPE, /* extrapolated from a shorter vector and half of it */
};

struct prediction {
	double us;
	uint32_t rounds;
	uint64_t max_messages; /* sent by one rank */
	enum predicted how;
};

/*
 * predict - simulate an algorithm.
 *
 *	a	as for plan_build_all
 *	elem	bytes of an element
 *
 * Errors: as plan_build and plan_simulate; RC_INVAL more than PREDICT_MAX_STEPS steps even for the
 * shortest vector.
 */
enum rc predict(const struct plan_args *a, const char *algo, size_t elem,
		const struct cost_model *m, struct prediction *out, struct err *err);

#endif
