/*
 * flow.h - plans on a cluster's links, in virtual time. Pure.
 *
 * The model. A rank does its steps in order; with `ahead` sends go before their turn, as devices post them (coll/hoist.h), at
 * most FLOW_AHEAD at a time. (All flows that share links cost time at each event; so there are fewer of many ranks.) A send holds its rank for host_us, then its message is posted. The messages
 * from one rank to another go one behind the other; all others go at the same time and share the links that they have in
 * common by max-min: no message could be faster without slowing one that is not faster than it. The last byte is there after
 * the route's latency, which the next message's overlaps. A receive waits for its message, and holds its rank for host_us.
 * Reducing and copying take reduce_byte_us a byte. A finish costs nothing.
 */
#ifndef CLUSTER_FLOW_H
#define CLUSTER_FLOW_H

#include "cluster/links.h"
#include "coll/plan.h"

#define FLOW_AHEAD     64   /* sends that a rank has posted before their turn, at most */
#define FLOW_ALL_AHEAD 2048 /* the same of all ranks that are simulated; a rank has at least one */

/*
 * The plans of ranks 0 .. nplans-1. The others' are theirs, shifted: rank r does what r % nplans does, with each peer as
 * far away, modulo nranks. So nplans is nranks, or a multiple of links_period that divides nranks. Peers in the plans
 * are real ranks. A rank may do several plans at the same time, as a GPU's thread blocks do: then plan and peer r * blocks + b
mean block b of rank r, and a message between blocks of one rank takes no time. Chunks that differ by the remainder of a division are taken as they stand in the first plans.
 */
struct flow_plans {
	const struct plan *plan;
	uint32_t nplans, nranks;
	size_t elem;	 /* bytes of an element; partial sums in PLAN_WIDE have 4 */
	uint32_t blocks; /* of a rank, see below; 0: one */
	bool ahead;	 /* sends are posted as soon as their data are there */
};

/* Where time goes along the critical path: back from the last rank's last step, always along that which was waited for. */
enum flow_why {
	FLOW_BYTES, /* a message's bytes are on their way, or those of an earlier one to the same rank */
	FLOW_LATENCY, /* and then its latency */
	FLOW_REDUCE,  /* reducing, copying */
	FLOW_HOST,    /* host_us */
	FLOW_NWHY,
};

struct flow_hop {
	uint32_t rank, from; /* what the rank did; of a message, from whom it came */
	uint32_t step;	     /* of the rank's plan */
	uint8_t why;	     /* enum flow_why */
	double begin_us, end_us;
};

struct flow_link {
	uint32_t link;	      /* by number, see links.h */
	double nbytes;	      /* through it */
	double busy_us;	      /* at least one message is on it */
	double bottleneck_us; /* its messages go as slowly as they do because of it */
};

/* Initialise with {0}; flow_report_fini releases. */
struct flow_report {
	double us;
	double why_us[FLOW_NWHY]; /* along the critical path; they sum up to us */
	struct flow_hop
	    *hop; /* the critical path, first to last; neighbours of one kind and rank are joined */
	size_t nhops;
	struct flow_link *link; /* those that carried something, the longest bottleneck first */
	size_t nlinks;
};

/* "bytes", "latency" ... Static. */
const char *flow_why_name(enum flow_why why);

/*
 * flow_simulate - when the last rank has done its last step.
 *
 *	us	[out] microseconds
 *	report	[out] or NULL: nothing but the time is asked for
 *
 * Exact for the model. Time grows with the messages, times those that share links with one. Same arguments, same result.
 * Errors: RC_FAILED plans that do not fit each other, or wait for each other; RC_INVAL one-sided steps, a shift that does not fit;
 * RC_NOMEM. Outputs are unchanged then.
 */
enum rc flow_simulate(const struct flow_plans *p, const struct links *links, double *us,
		      struct flow_report *report, struct err *err);

void flow_report_fini(struct flow_report *r);

#endif
