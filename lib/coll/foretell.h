/*
 * foretell.h - how long an algorithm would take, also where all ranks' plans are too many to build. Pure.
 */
#ifndef COLL_FORETELL_H
#define COLL_FORETELL_H

#include "coll/simulate.h"

#define FORETELL_MAX_STEPS (1u << 22) /* built at a time, of all ranks */

enum foretold {
	FORETOLD_WHOLE, /* every rank's plan was simulated */
	FORETOLD_SHIFT, /* all ranks do the same, a rank further: one stands for all; parts are as long as the longest */
	FORETOLD_SLOPE, /* a shorter vector was simulated, and its half; what is missing takes as long as that difference says */
};

struct foretelling {
	double us;
	uint32_t rounds;
	uint64_t max_messages; /* that one rank sends */
	enum foretold how;
};

/*
 * foretell - simulate an algorithm.
 *
 *	a	as for plan_build_all
 *	elem	bytes of an element
 *
 * Errors: as plan_build and plan_simulate; RC_INVAL more than FORETELL_MAX_STEPS steps, however short the vector.
 */
enum rc foretell(const struct plan_args *a, const char *algo, size_t elem,
		 const struct cost_model *m, struct foretelling *out, struct err *err);

#endif
