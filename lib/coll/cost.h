/*
 * cost.h - closed forms: what an algorithm takes in the model of simulate.h, without its plan.
 */
#ifndef COLL_COST_H
#define COLL_COST_H

#include "coll/simulate.h"

/* An operation; sizes in bytes. */
struct cost_args {
	uint32_t nranks;    /* > 1 */
	double nbytes;	    /* of the whole vector */
	double chunk_bytes; /* largest message, > 0 */
};

/* One algorithm; by name, because some are there only in some builds' tables. */
struct cost_algo {
	enum gpusim_coll coll;
	const char *name;
	bool shared;	/* only where all ranks have mapped each other's memory */
	bool pipelined; /* smaller messages may be faster */
	bool slow;	/* for comparison: never chosen by itself */
	double (*us)(const struct cost_args *a, const struct cost_model *m);
};

/* NULL-name terminated; in the order of preference where costs are equal. */
extern const struct cost_algo cost_algos[];

/* The row; NULL: none. */
const struct cost_algo *cost_find(enum gpusim_coll coll, const char *name);

#endif
