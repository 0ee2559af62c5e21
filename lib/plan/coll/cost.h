/*
 * cost.h - closed forms: an algorithm's time in the model of simulate.h, without its plan.
 */
#ifndef COLL_COST_H
#define COLL_COST_H

#include "coll/simulate.h"

/* An operation; sizes in bytes, of elements. If the plan has partial results, all messages are cut as
 * if they carried them. */
struct cost_args {
	uint32_t nranks;    /* > 1 */
	double nbytes;	    /* of the whole vector */
	double chunk_bytes; /* largest message, > 0 */
	double widening;    /* bytes of a partial result per byte of an element; 0 is 1 */
};

/* One algorithm; by name, because some builds' tables lack some algorithms. */
struct cost_algo {
	enum gpusim_coll coll;
	const char *name;
	bool shared;	/* needs all ranks to have mapped each other's memory */
	bool pipelined; /* smaller messages may be faster */
	bool slow;	/* for comparison: chosen only by name */
	bool inputs;	/* no partial result is sent, with any number of ranks */
	double (*us)(const struct cost_args *a, const struct cost_model *m);
};

/* NULL-name terminated; in the order of preference where costs are equal. */
extern const struct cost_algo cost_algos[];

/*
 * cost_widening - the largest factor by which the algorithm's messages are longer than their elements.
 *
 *	widening	bytes of a partial result per byte of an element
 *
 * Returns widening if the algorithm sends partial results, else 1.
 */
unsigned cost_widening(enum gpusim_coll coll, const char *algo, uint32_t nranks, unsigned widening);

/* The algorithm's row; NULL: not found. */
const struct cost_algo *cost_find(enum gpusim_coll coll, const char *name);

#endif
