/*
 * simulate.h - how long plans would take, in virtual time. Pure.
 */
#ifndef COLL_SIMULATE_H
#define COLL_SIMULATE_H

#include "coll/plan.h"

/* Costs in microseconds. */
struct cost_model {
	double alpha_us; /* a message */
	double beta_us;	 /* a byte of a message */
	double gamma_us; /* a byte reduced, or copied from buffer to buffer */
	double host_us;	 /* a message holds its sender, and its receiver, for so long */
};

/*
 * plan_simulate - run every rank's plan against a clock of its own.
 *
 *	plans		nranks of them; they stay the caller's
 *	elem		bytes of an element; partial sums in PLAN_WIDE have 4
 *	us		[out] when the last rank has done its last step
 *
 * The model: a rank does its steps in order. A send posts its message and costs the rank nothing;
 * a message takes alpha + beta bytes. It has the sender's way out for itself for so long, and the
 * receiver's way in, from when it leaves or when that is free: messages of a rank leave in order of
 * posting, those for a rank come in in order of posting, and many senders to one rank wait for its
 * way in. A receive waits for its message; reducing and copying cost the rank gamma a byte. A
 * finish costs nothing. So the figures are those of the literature's
 * single-port, full-duplex model.
 * Errors: RC_FAILED plans that do not fit each other, or wait for each other; RC_NOMEM.
 */
enum rc plan_simulate(const struct plan *plans, uint32_t nranks, size_t elem,
		      const struct cost_model *m, double *us, struct err *err);

#endif
