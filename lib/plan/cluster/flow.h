/*
 * flow.h - plans on a cluster's links, in virtual time. Pure.
 *
 * The model. A rank does its steps in order; with `ahead` sends go before their turn, as devices post them
 * (coll/hoist.h), at most FLOW_AHEAD at a time. (All flows that share links cost time at each event, so the
 * limit is lower for many ranks.) A send occupies its rank for host_us, then its message is posted. The
 * messages from one rank to another go one after the other; all others go at the same time and share their
 * common links by max-min fairness: no message could be faster without slowing one that is not faster. The
 * last byte arrives after the route's latency; the latencies of consecutive messages overlap. A receive
 * waits for its message, and occupies its rank for host_us. Reducing and copying take reduce_byte_us per
 * byte. A finish costs nothing.
 */
#ifndef CLUSTER_FLOW_H
#define CLUSTER_FLOW_H

#include "cluster/links.h"
#include "coll/plan.h"

#define FLOW_AHEAD     64   /* sends that a rank has posted before their turn, at most */
#define FLOW_ALL_AHEAD 2048 /* of all simulated ranks together; a rank has at least one */

/*
 * The plans of ranks 0 .. nplans-1. The others' are theirs, shifted: rank r does what r % nplans does, with
 * each peer as far away, modulo nranks. So nplans is nranks, or a multiple of links_period that divides
 * nranks. Peers in the plans are real ranks. A rank may do several plans at the same time, as a GPU's thread
 * blocks do: then plan and peer r * blocks + b mean block b of rank r, and a message between blocks of one rank
 * takes no time. Chunks that differ by the remainder of a division are taken as in the first plans.
 */
struct flow_plans {
	const struct plan *plan;
	uint32_t nplans, nranks;
	size_t elem;	 /* bytes of an element; partial sums in PLAN_WIDE have 4 */
	uint32_t blocks; /* of a rank, see below; 0: one */
	bool ahead;	 /* sends are posted as soon as their data are there */
};

/* The use of time along the critical path: back from the last rank's last step, following what each step
 * waited for. */
enum flow_why {
	FLOW_BYTES, /* a message's bytes are in flight, or those of an earlier one to the same rank */
	FLOW_LATENCY, /* then its latency */
	FLOW_REDUCE,  /* reducing, copying */
	FLOW_HOST,    /* host_us */
	FLOW_NWHY,
};

struct flow_hop {
	uint32_t rank, from; /* the rank; a message's sender */
	uint32_t step;	     /* of the rank's plan */
	uint8_t why;	     /* enum flow_why */
	double begin_us, end_us;
};

struct flow_link {
	uint32_t link;	      /* by number, see links.h */
	double nbytes;	      /* through it */
	double busy_us;	      /* with at least one message on it */
	double bottleneck_us; /* while it limits its messages */
};

/* Initialise with {0}; flow_report_fini releases. */
struct flow_report {
	double us;
	double why_us[FLOW_NWHY]; /* along the critical path; they sum up to us */
	/* The critical path in order; neighbours of one kind and rank are joined */
	struct flow_hop *hop;
	size_t nhops;
	struct flow_link *link; /* used links, the longest bottleneck first */
	size_t nlinks;
};

/* "bytes", "latency" ... Static. */
const char *flow_why_name(enum flow_why why);

/*
 * flow_simulate - the time at which the last rank has done its last step.
 *
 *	us	[out] microseconds
 *	report	[out] or NULL: only the time is needed
 *
 * Exact for the model. Time grows with the messages, times those that share links with one. Same arguments,
 * same result.
 * Errors: RC_FAILED plans that do not match, or wait for each other; RC_INVAL one-sided steps, a shift that
 * does not map the links. On error outputs are unchanged.
 */
enum rc flow_simulate(const struct flow_plans *p, const struct links *links, double *us,
		      struct flow_report *report, struct err *err);

void flow_report_fini(struct flow_report *r);

#endif
