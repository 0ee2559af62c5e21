/*
 * foretell.h - predict an algorithm's time, even if all ranks' plans are too many to build. Pure.
 */
#ifndef COLL_FORETELL_H
#define COLL_FORETELL_H

#include "coll/simulate.h"

#define FORETELL_MAX_STEPS (1u << 22) /* built at a time, of all ranks */

enum foretold {
	FORETOLD_WHOLE, /* every rank's plan was simulated */
	FORETOLD_SHIFT, /* all ranks do the same, shifted: one was simulated */
	FORETOLD_SLOPE, /* extrapolated from a shorter vector and half of it */
};

struct foretelling {
	double us;
	uint32_t rounds;
	uint64_t max_messages; /* sent by one rank */
	enum foretold how;
};

/*
 * foretell - simulate an algorithm.
 *
 *	a	as for plan_build_all
 *	elem	bytes of an element
 *
 * Errors: as plan_build and plan_simulate; RC_INVAL more than FORETELL_MAX_STEPS steps even for the
 * shortest vector.
 */
enum rc foretell(const struct plan_args *a, const char *algo, size_t elem,
		 const struct cost_model *m, struct foretelling *out, struct err *err);

#endif
