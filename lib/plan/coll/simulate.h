/*
 * simulate.h - the time that plans would take, in virtual time. Pure.
 */
#ifndef COLL_SIMULATE_H
#define COLL_SIMULATE_H

#include "coll/plan.h"

#define SIMULATE_WINDOW \
	8 /* messages between two ranks that are not yet taken, as in lib/transport/xport */
#define SIMULATE_WORK (1u << 28) /* steps examined to hoist sends, see hoist.h */

/* Costs in microseconds. */
struct cost_model {
	double alpha_us; /* latency of a message, besides its bytes; latencies overlap */
	double beta_us;	 /* per byte of a message */
	double gamma_us; /* per byte reduced, or copied from buffer to buffer */
	double host_us;	 /* a message occupies its sender, and its receiver, for this long */
};

/* The time of a message to a waiting rank, without its bytes: alpha and both hosts. */
static inline double
cost_message_us(const struct cost_model *m)
{
	return m->alpha_us + 2 * m->host_us;
}

/* Links that gpudev shapes, the slowest of several. {0}: none. */
struct link_shape {
	double latency_us, bits_per_s; /* of --latency and --bandwidth; 0: none, no limit */
};

/* The costs of messages on such links; base: the costs on links that are not shaped. */
struct cost_model cost_shaped(const struct cost_model *base, const struct link_shape *links);

/*
 * plan_simulate - run every rank's plan against a clock of its own.
 *
 *	plans		nranks plans; they stay the caller's
 *	elem		bytes of an element; partial sums in PLAN_WIDE have 4
 *	us		[out] the end of the last rank's last step
 *
 * The model is a device's (lib/device/dev) on shaped links (lib/transport/xport/shaper.h). A rank does its steps in
 * order, but posts a send as soon as its data are ready (hoist.h) and fewer than SIMULATE_WINDOW
 * messages to that peer are not yet taken; a receive whose message has arrived goes first. A send
 * occupies the rank for host_us, and beta per byte. Its bytes have then arrived at the receiver, unless
 * other ranks' messages occupy its inbound link: messages arrive in the order in which they left, each
 * for beta per byte. The receiver sees the message alpha later, and it occupies the receiver for
 * host_us. Reducing and copying cost the rank gamma per byte. A finish costs nothing.
 * Errors: RC_FAILED plans that do not match, or wait for each other; RC_INVAL one-sided steps; RC_NOMEM.
 */
enum rc plan_simulate(const struct plan *plans, uint32_t nranks, size_t elem,
		      const struct cost_model *m, double *us, struct err *err);

/* As plan_simulate, with the plans of ranks 0 .. nplans-1: rank r of nranks does what r % nplans does,
 * with peers as far away. RC_INVAL if nplans does not divide nranks. */
enum rc plan_simulate_shifted(const struct plan *plans, uint32_t nplans, uint32_t nranks,
			      size_t elem, const struct cost_model *m, double *us, struct err *err);

/* ---- predict an algorithm's time, even if all ranks' plans are too many to build */

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
