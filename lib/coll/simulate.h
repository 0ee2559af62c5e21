/*
 * simulate.h - how long plans would take, in virtual time. Pure.
 */
#ifndef COLL_SIMULATE_H
#define COLL_SIMULATE_H

#include "coll/plan.h"

#define SIMULATE_WINDOW \
	8 /* messages from a rank to another that are not yet taken: the transport's */
#define SIMULATE_WORK (1u << 28) /* steps looked at to see which sends may go early, see hoist.h */

/* Costs in microseconds. */
struct cost_model {
	double
	    alpha_us; /* a message is under way for so long, besides its bytes; others are meanwhile, too */
	double beta_us;	 /* a byte of a message */
	double gamma_us; /* a byte reduced, or copied from buffer to buffer */
	double host_us;	 /* a message holds its sender, and its receiver, for so long */
};

/* A message to a rank that waits for it, without its bytes: alpha and both hosts. */
static inline double
cost_message_us(const struct cost_model *m)
{
	return m->alpha_us + 2 * m->host_us;
}

/* Links that gpudev shapes, the slowest of several. {0}: none. */
struct link_shape {
	double latency_us, bits_per_s; /* of --latency and --bandwidth; 0: none, no limit */
};

/* What messages cost on such links; base: on links that are not shaped. */
struct cost_model cost_shaped(const struct cost_model *base, const struct link_shape *links);

/*
 * plan_simulate - run every rank's plan against a clock of its own.
 *
 *	plans		nranks of them; they stay the caller's
 *	elem		bytes of an element; partial sums in PLAN_WIDE have 4
 *	us		[out] when the last rank has done its last step
 *
 * The model is a device's (lib/dev) on shaped links (lib/xport/shaper.h). A rank does its steps in order, but posts a send as
 * soon as its data are there (hoist.h) and fewer than SIMULATE_WINDOW messages to that peer are not yet taken; a receive whose
 * message has come goes first. A send holds the rank for host_us and beta a byte. Its bytes then have come in at the receiver, unless other ranks' messages hold its
 * way in: those that left first come first, each for beta a byte. The receiver sees the message alpha later, and it holds the
 * receiver for host_us. Reducing and copying cost the rank gamma a byte. A finish costs nothing.
 * Errors: RC_FAILED plans that do not fit each other, or wait for each other; RC_INVAL one-sided steps; RC_NOMEM.
 */
enum rc plan_simulate(const struct plan *plans, uint32_t nranks, size_t elem,
		      const struct cost_model *m, double *us, struct err *err);

/* The same where rank r of nranks does what r % nplans does, with peers as far away: plans of 0 .. nplans-1. RC_INVAL where
 * nplans does not divide nranks. */
enum rc plan_simulate_shifted(const struct plan *plans, uint32_t nplans, uint32_t nranks,
			      size_t elem, const struct cost_model *m, double *us, struct err *err);

#endif
