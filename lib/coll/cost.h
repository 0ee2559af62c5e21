/*
 * cost.h - closed forms: what an algorithm takes in the model of simulate.h, without its plan.
 */
#ifndef COLL_COST_H
#define COLL_COST_H

#include "coll/simulate.h"

/* An operation; sizes in bytes, of elements. Messages are cut as if all were of partial
 * results, where there are such. */
struct cost_args {
	uint32_t nranks;    /* > 1 */
	double nbytes;	    /* of the whole vector */
	double chunk_bytes; /* largest message, > 0 */
	double widening;    /* bytes of a partial result for one of an element; 0 is 1 */
};

/* One algorithm; by name, because some are there only in some builds' tables. */
struct cost_algo {
	enum gpusim_coll coll;
	const char *name;
	bool shared;	/* only where all ranks have mapped each other's memory */
	bool pipelined; /* smaller messages may be faster */
	bool slow;	/* for comparison: never chosen by itself */
	bool inputs;	/* no partial result is sent, with any number of ranks */
	double (*us)(const struct cost_args *a, const struct cost_model *m);
};

/* NULL-name terminated; in the order of preference where costs are equal. */
extern const struct cost_algo cost_algos[];

/*
 * cost_widening - by how much the algorithm's messages are longer than their elements at most.
 *
 *	widening	bytes of a partial result for one of an element
 *
 * As much where it sends partial results, else 1.
 */
unsigned cost_widening(enum gpusim_coll coll, const char *algo, uint32_t nranks, unsigned widening);

/* The row; NULL: none. */
const struct cost_algo *cost_find(enum gpusim_coll coll, const char *name);

#endif
